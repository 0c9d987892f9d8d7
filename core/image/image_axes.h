/* Axes of a region of rvit_images_write (core/contract/image_descriptor.h), and those that a session has written before: pictures of sizes
   that it has seen lately need no weights computed. */
#ifndef RVIT_CORE_IMAGE_IMAGE_AXES_H
#define RVIT_CORE_IMAGE_IMAGE_AXES_H

#include "core/image/resize_axis.h"

/* Outputs start .. start + n_outputs - 1 of an axis, as they are written. */
typedef struct rvit_image_window {
    rvit_resize_axis axis;
    int64_t start;
    int32_t n_outputs;
} rvit_image_window;

int rvit_image_same_window(const rvit_image_window *a, const rvit_image_window *b);
/* Words of it in a region. */
int64_t rvit_image_axis_words(const rvit_image_window *window);

#define RVIT_IMAGE_AXES_KEPT 8
#define RVIT_IMAGE_AXIS_KEPT_WORDS (16 << 10) /* of the longest that is kept: 224 outputs of up to 71 inputs */

/* All zero: none. For one thread at a time. */
typedef struct rvit_image_axes {
    int64_t clock; /* counts uses */
    struct rvit_image_kept_axis {
        rvit_image_window window;
        int32_t torch, bits;
        int64_t used; /* when last; 0: never */
        int32_t words[RVIT_IMAGE_AXIS_KEPT_WORDS];
    } kept[RVIT_IMAGE_AXES_KEPT];
} rvit_image_axes;

/* Writes rvit_image_axis_words words and returns the bits of their fractions. torch: as PyTorch rounds them, else as Pillow does; with
   torch, the axis is at most RVIT_RESIZE_LONGEST_TORCH_AXIS long. axes, or NULL: what it has is copied; else it takes the axis in place of
   the one that has not been used for longest. */
int32_t rvit_image_axis_write(rvit_image_axes *axes, const rvit_image_window *window, int torch, int32_t *out);

#endif

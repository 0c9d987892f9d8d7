/* Axes of a staging buffer (core/contract/image_descriptor.h), and a session's cache of recent axes, so that images of recently seen sizes
   need no new weights. */
#ifndef RVIT_CORE_IMAGE_IMAGE_AXES_H
#define RVIT_CORE_IMAGE_IMAGE_AXES_H

#include "core/image/resize_axis.h"

/* Outputs start .. start + n_outputs - 1 of an axis. */
typedef struct rvit_image_window {
    rvit_resize_axis axis;
    int64_t start;
    int32_t n_outputs;
} rvit_image_window;

int rvit_image_same_window(const rvit_image_window *a, const rvit_image_window *b);
/* Its size in a staging buffer, in words. */
int64_t rvit_image_axis_words(const rvit_image_window *window);

#define RVIT_IMAGE_AXES_KEPT 8
#define RVIT_IMAGE_AXIS_KEPT_WORDS (16 << 10) /* the longest axis in the cache: 224 outputs of up to 71 inputs */

/* A cache of axes; all zero: empty. For one thread at a time. */
typedef struct rvit_image_axes {
    int64_t clock; /* counts uses */
    struct rvit_image_kept_axis {
        rvit_image_window window;
        int32_t torch, bits;
        int64_t used; /* the clock of the last use; 0: never */
        int32_t words[RVIT_IMAGE_AXIS_KEPT_WORDS];
    } kept[RVIT_IMAGE_AXES_KEPT];
} rvit_image_axes;

/* Writes rvit_image_axis_words words and returns their number of fraction bits. torch: 1 rounds as PyTorch does, and the axis is then at
   most RVIT_RESIZE_LONGEST_TORCH_AXIS long; 0 rounds as Pillow does. axes: a cache, which replaces its least recently used axis; may be
   NULL. */
int32_t rvit_image_axis_write(rvit_image_axes *axes, const rvit_image_window *window, int torch, int32_t *out);

#endif

/* Shared by the files that implement rvit_images_write. */
#ifndef RVIT_CORE_IMAGE_IMAGE_WRITER_H
#define RVIT_CORE_IMAGE_IMAGE_WRITER_H

#include "core/base/status.h"
#include "core/contract/image_descriptor.h"
#include "core/image/image_axes.h"
#include "core/image/image_recipe.h"

#define RVIT_IMAGE_REMEMBERED 8

typedef struct rvit_image_axis {
    rvit_image_window window;
    int32_t at, bits;
} rvit_image_axis;

/* The state of one rvit_images_write. */
typedef struct rvit_image_writer {
    rvit_images_args args;
    rvit_image_recipe recipe;
    uint8_t *staging; /* NULL: nothing is written */
    int64_t size, at;
    int64_t rows;
    rvit_image_axis axes[RVIT_IMAGE_REMEMBERED]; /* the last ones written */
    int32_t n_axes;                              /* the total written */
    rvit_image_axes *kept_axes;                  /* may be NULL */
} rvit_image_writer;

/* An image, which is resized to width x height. The target begins at (left, top) of the result; these may be negative. */
typedef struct rvit_staged_image {
    rvit_image image;
    int32_t index;
    int32_t in_place;                      /* 1: its data is in the staging buffer already */
    int64_t line_size, plane_offset, size; /* bytes; size: from the first to the last */
    int32_t target_width, target_height;
    int64_t width, height, left, top;
    rvit_image_entry entry;
} rvit_staged_image;

#define rvit_image_refuse(status, p, format, ...) rvit_fail((status), "image %d: " format, (int)(p)->index, __VA_ARGS__)

static inline int rvit_image_is_planar(rvit_image_format format)
{
    return format == RVIT_IMAGE_PLANAR_F32 || format == RVIT_IMAGE_PLANAR_F16;
}

/* Bytes of a pixel; for NV12, of its luma. */
int32_t rvit_image_pixel_size(rvit_image_format format);

/* Checks the stride, planes and memory of an image, and fills in its sizes and in_place. */
rvit_status rvit_image_check_memory(const rvit_image_writer *writer, rvit_staged_image *image);
/* Fills in the entry's offsets, and copies host pixels that are not in the staging buffer to it. */
void rvit_image_place(rvit_image_writer *writer, rvit_staged_image *image);

/* n words at byte `at` of the staging buffer; NULL past its end, or without one. */
static inline int32_t *rvit_image_words(const rvit_image_writer *w, int64_t at, int64_t n)
{
    return w->staging == NULL || at + 4 * n > w->size ? NULL : (int32_t *)(void *)(w->staging + at);
}

#endif

/* What the parts of rvit_images_write share. */
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

/* What writes a region. */
typedef struct rvit_image_writer {
    rvit_images_args args;
    rvit_image_recipe recipe;
    uint8_t *region; /* NULL: nothing is written */
    int64_t size, at;
    int64_t rows;
    rvit_image_axis axes[RVIT_IMAGE_REMEMBERED]; /* the last ones */
    int32_t n_axes;                              /* in all */
    rvit_image_axes *kept_axes;                  /* or NULL */
} rvit_image_writer;

/* A picture, and what becomes of it: it is resized to width x height, of which the target begins at (left, top), which may be negative. */
typedef struct rvit_picture {
    rvit_image image;
    int32_t index;
    int32_t in_place;                      /* 1: its data lies in the region already */
    int64_t line_size, plane_offset, size; /* bytes, from its first to its last */
    int32_t target_width, target_height;
    int64_t width, height, left, top;
    rvit_image_entry entry;
} rvit_picture;

#define rvit_image_refuse(status, p, format, ...) rvit_fail((status), "image %d: " format, (int)(p)->index, __VA_ARGS__)

static inline int rvit_image_is_planar(rvit_image_format format)
{
    return format == RVIT_IMAGE_PLANAR_F32 || format == RVIT_IMAGE_PLANAR_F16;
}

/* Bytes of a pixel, of NV12 those of its luma. */
int32_t rvit_image_pixel_size(rvit_image_format format);

/* Where a picture's bytes are: checks stride, planes and place, and fills in sizes and in_place. */
rvit_status rvit_image_check_memory(const rvit_image_writer *writer, rvit_picture *picture);
/* The place in the entry; pixels of the host that are not in the region are copied there. */
void rvit_image_place(rvit_image_writer *writer, rvit_picture *picture);

/* Words from the region's begin, as they are written; NULL past its end, or without one. */
static inline int32_t *rvit_image_words(const rvit_image_writer *w, int64_t at, int64_t n)
{
    return w->region == NULL || at + 4 * n > w->size ? NULL : (int32_t *)(void *)(w->region + at);
}

#endif

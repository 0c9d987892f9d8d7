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
    rvit_image_axis axes[RVIT_IMAGE_REMEMBERED]; /* the most recent ones */
    int32_t n_axes;                              /* the total written */
    rvit_image_axes *kept_axes;                  /* may be NULL */
} rvit_image_writer;

typedef struct rvit_staged_image {
    char name[24]; /* in messages: "image 3" */
    rvit_image image;
    int32_t in_place;                      /* 1: its data is in the staging buffer already */
    int64_t line_size, plane_offset, size; /* bytes; size: from the first to the last */
    rvit_image_geometry geometry;
    rvit_image_entry entry;
} rvit_staged_image;

#define rvit_image_refuse(status, p, format, ...) rvit_fail((status), "%s: " format, (p)->name, __VA_ARGS__)

static inline int rvit_image_is_planar(rvit_image_format format)
{
    return format == RVIT_IMAGE_PLANAR_F32 || format == RVIT_IMAGE_PLANAR_F16;
}

/* Bytes of a pixel; for NV12, of its luma. */
int32_t rvit_image_pixel_size(rvit_image_format format);

/* Checks the fields that do not describe memory. */
rvit_status rvit_image_check(const rvit_staged_image *image, int32_t max_side);
/* Fills in the geometry. patch: sides of targets are multiples of it. */
rvit_status rvit_image_find_geometry(const rvit_image_recipe *recipe, int32_t patch, rvit_staged_image *image);
/* Fills in the entry's left, right, top and bottom for a target of width x height. */
void rvit_image_cover(rvit_staged_image *image, int32_t width, int32_t height);
/* Fills in how the entry's pixels are read. */
void rvit_image_set_reading(rvit_staged_image *image);
/* Whether the vertical pass comes first, as in Pillow 13. In Pillow 12 and earlier, and in PyTorch, the horizontal pass always does, so
   tall images get other values. */
int rvit_image_down_first(const rvit_image_recipe *recipe, const rvit_staged_image *image);
rvit_resize_kernel rvit_image_filter(rvit_filter filter);
/* The normalised value of an 8-bit value. */
float rvit_image_level(const rvit_image_recipe *recipe, float value, int channel);

/* Checks the stride and planes of an image, and fills in its sizes. */
rvit_status rvit_image_check_planes(rvit_staged_image *image);
/* The same, and checks its memory and fills in in_place. */
rvit_status rvit_image_check_memory(const rvit_image_writer *writer, rvit_staged_image *image);
/* Fills in the entry's offsets, and copies host pixels that are not in the staging buffer to it. */
void rvit_image_place(rvit_image_writer *writer, rvit_staged_image *image);

/* n words at byte `at` of the staging buffer; NULL past its end, or without one. */
static inline int32_t *rvit_image_words(const rvit_image_writer *w, int64_t at, int64_t n)
{
    return w->staging == NULL || at + 4 * n > w->size ? NULL : (int32_t *)(void *)(w->staging + at);
}

#endif

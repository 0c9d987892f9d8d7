/* Writes the staging buffer that preprocess reads: the geometry, weights and pixels of a batch of images. */
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "core/image/images.h"

#include "core/base/args.h"
#include "core/base/entry.h"
#include "core/image/image_writer.h"

_Static_assert(sizeof(rvit_image_entry) == RVIT_IMAGE_ENTRY_WORDS * 4, "the readers of an entry expect another size");
_Static_assert(RVIT_IMAGE_ENTRY_SIDE == RVIT_IMAGE_MAX_SIDE, "the readers of an entry expect another limit");

#define refuse rvit_image_refuse
#define words rvit_image_words

enum { REMEMBERED = RVIT_IMAGE_REMEMBERED };

typedef rvit_image_writer writer;
typedef rvit_image_window window;
typedef rvit_staged_image staged_image;

/* Writes an axis, unless one of the most recent ones is the same. */
static rvit_status write_axis(writer *w, const staged_image *p, const window *wanted, int32_t *out_at, int32_t *out_bits)
{
    const int torch = w->recipe.processor == RVIT_PROCESSOR_HF;
    for (int32_t i = 0; i < w->n_axes && i < REMEMBERED; i++)
        if (rvit_image_same_window(&w->axes[i].window, wanted)) {
            *out_at = w->axes[i].at;
            *out_bits = w->axes[i].bits;
            return RVIT_OK;
        }
    const int64_t n = rvit_image_axis_words(wanted);
    int32_t *out = words(w, w->at, n);
    *out_at = (int32_t)(w->at / 4);
    *out_bits = out != NULL ? rvit_image_axis_write(w->kept_axes, wanted, torch, out) : 0;
    w->axes[w->n_axes % REMEMBERED] = (rvit_image_axis){*wanted, *out_at, *out_bits};
    w->n_axes++;
    w->at += (n + 3) / 4 * 16;
    return w->at <= RVIT_IMAGE_MAX_STAGING
               ? RVIT_OK
               : refuse(RVIT_INVALID_ARGUMENT, p, "%s", "the resize weights of the images take too much memory");
}

static rvit_status write_axes(writer *w, staged_image *p)
{
    const rvit_resize_kernel filter = rvit_image_filter(w->recipe.filter);
    rvit_image_entry *e = &p->entry;
    const window x = {{filter, p->image.width, p->geometry.width}, p->geometry.left + e->left, e->right - e->left};
    const window y = {{filter, p->image.height, p->geometry.height}, p->geometry.top + e->top, e->bottom - e->top};
    RVIT_TRY(write_axis(w, p, &x, &e->x_axis, &e->x_bits));
    RVIT_TRY(write_axis(w, p, &y, &e->y_axis, &e->y_bits));
    e->down_first = rvit_image_down_first(&w->recipe, p);
    return RVIT_OK;
}

static rvit_status read_image(const writer *w, int32_t index, staged_image *p)
{
    const size_t step = w->args.images->struct_size;
    const char *given = (const char *)w->args.images + step * (size_t)index;
    size_t own;
    memcpy(&own, given, sizeof own);
    if (own != step)
        return rvit_fail(RVIT_INVALID_ARGUMENT, "image %d: struct_size is %zu, but that of image 0 is %zu", (int)index, own, step);
    *p = (staged_image){.name = {0}};
    snprintf(p->name, sizeof p->name, "image %d", (int)index);
    RVIT_TRY(rvit_args_copy(&p->image, sizeof p->image, given, p->name));
    RVIT_TRY(rvit_image_check(p, RVIT_IMAGE_MAX_SIDE));
    return rvit_image_check_memory(w, p);
}

/* Weights and copied pixels go after the last image that is in the staging buffer already. */
static rvit_status skip_data_in_place(writer *w)
{
    staged_image p;
    for (int32_t i = 0; i < w->args.n_images && w->staging != NULL; i++) {
        RVIT_TRY(read_image(w, i, &p));
        const int64_t end = p.in_place ? (const uint8_t *)p.image.data - w->staging + p.size : 0;
        w->at = end > w->at ? (end + 15) / 16 * 16 : w->at;
    }
    return RVIT_OK;
}

static rvit_status write_image(writer *w, int32_t index)
{
    staged_image p;
    RVIT_TRY(read_image(w, index, &p));
    if (w->args.one_target && (p.image.target_width != 0 || p.image.target_height != 0))
        return refuse(RVIT_INVALID_ARGUMENT, &p, "its target is %d x %d, but here every image has the recipe's target",
                      (int)p.image.target_width, (int)p.image.target_height);
    RVIT_TRY(rvit_image_find_geometry(&w->recipe, w->args.patch_size, &p));
    const int32_t patch = w->args.patch_size;
    rvit_image_entry *e = &p.entry;
    e->width = p.image.width;
    e->height = p.image.height;
    e->grid_width = p.geometry.target_width / patch;
    e->grid_height = p.geometry.target_height / patch;
    rvit_image_cover(&p, e->grid_width * patch, e->grid_height * patch);
    e->fill = (uint32_t)w->recipe.fill[0] | (uint32_t)w->recipe.fill[1] << 8 | (uint32_t)w->recipe.fill[2] << 16;
    rvit_image_set_reading(&p);
    if (!rvit_image_is_planar(p.image.format) && w->recipe.processor == RVIT_PROCESSOR_HF_FLOAT)
        return refuse(RVIT_UNSUPPORTED, &p, "%s",
                      "the processor HF_FLOAT resizes in float32, which only rvit_image_prepare does; pass its result as PLANAR_F32");
    if (!rvit_image_is_planar(p.image.format))
        RVIT_TRY(write_axes(w, &p));
    rvit_image_place(w, &p);
    int32_t *row_start = words(w, 4 * (RVIT_IMAGE_ROW_STARTS + (int64_t)index), 1);
    int32_t *entry =
        words(w, 4 * (RVIT_IMAGE_ENTRIES(w->args.max_images) + (int64_t)index * RVIT_IMAGE_ENTRY_WORDS), RVIT_IMAGE_ENTRY_WORDS);
    if (row_start != NULL)
        *row_start = (int32_t)w->rows;
    if (entry != NULL)
        memcpy(entry, e, sizeof *e);
    w->rows += w->args.n_prefix + (int64_t)e->grid_width * e->grid_height;
    if (w->rows > w->args.max_rows)
        return refuse(RVIT_INVALID_ARGUMENT, &p, "the batch has %lld rows up to this image, but the capacity is %lld", (long long)w->rows,
                      (long long)w->args.max_rows);
    if (w->at > RVIT_IMAGE_MAX_STAGING)
        return refuse(RVIT_INVALID_ARGUMENT, &p, "the images up to this one take %lld bytes, expected at most %lld", (long long)w->at,
                      (long long)RVIT_IMAGE_MAX_STAGING);
    if (w->staging != NULL && w->at > w->size)
        return refuse(RVIT_INVALID_ARGUMENT, &p, "the images up to this one take %lld bytes, but the capacity is %lld", (long long)w->at,
                      (long long)w->size);
    return RVIT_OK;
}

static rvit_status write_descriptor(writer *w)
{
    w->at = 4 * (RVIT_IMAGE_ENTRIES(w->args.max_images) + (int64_t)w->args.max_images * RVIT_IMAGE_ENTRY_WORDS);
    if (w->staging == NULL)
        return RVIT_OK;
    if (w->at > w->size)
        return rvit_fail(RVIT_INVALID_ARGUMENT,
                         "images args: the staging buffer has %lld bytes, but the descriptor of %d images takes %lld", (long long)w->size,
                         (int)w->args.max_images, (long long)w->at);
    memset(w->staging, 0, (size_t)w->at);
    for (int c = 0; c < 3; c++)
        for (int v = 0; v < 256; v++) {
            const float x = rvit_image_level(&w->recipe, (float)v, c);
            memcpy(w->staging + 4 * (RVIT_IMAGE_LEVELS + 256 * c + v), &x, sizeof x);
        }
    return RVIT_OK;
}

static void end_descriptor(const writer *w)
{
    int32_t *descriptor = (int32_t *)(void *)w->staging;
    if (descriptor == NULL)
        return;
    descriptor[RVIT_IMAGE_LIVE_IMAGES] = w->args.n_images;
    descriptor[RVIT_IMAGE_LIVE_UNITS] = (int32_t)(w->at / 16);
    for (int32_t i = w->args.n_images; i <= w->args.max_images; i++)
        descriptor[RVIT_IMAGE_ROW_STARTS + i] = (int32_t)w->rows;
}

static rvit_status check_args(const writer *w)
{
    const rvit_images_args *a = &w->args;
    if (a->max_images < 0 || a->max_images > 1 << 20)
        return rvit_fail(RVIT_INVALID_ARGUMENT, "images args: max_images is %d, expected 0..%d", (int)a->max_images, 1 << 20);
    if (a->n_images < 0 || a->n_images > a->max_images)
        return rvit_fail(RVIT_INVALID_ARGUMENT, "images args: n_images is %d, but the capacity is %d", (int)a->n_images,
                         (int)a->max_images);
    if (a->n_images > 0 && a->images == NULL)
        return rvit_fail(RVIT_INVALID_ARGUMENT, "images args: images is NULL");
    if (a->max_rows < 0 || a->max_rows > INT32_MAX - 1)
        return rvit_fail(RVIT_INVALID_ARGUMENT, "images args: max_rows is %lld, expected 0..%d", (long long)a->max_rows, INT32_MAX - 1);
    if (a->patch_size < 2 || a->patch_size > 256 || a->patch_size % 2 != 0)
        return rvit_fail(RVIT_INVALID_ARGUMENT, "images args: patch_size is %d, expected an even number, 2..256", (int)a->patch_size);
    if (a->n_prefix < 0 || a->n_prefix > 1024)
        return rvit_fail(RVIT_INVALID_ARGUMENT, "images args: n_prefix is %d, expected 0..1024", (int)a->n_prefix);
    if (a->patch_size > w->recipe.height || a->patch_size > w->recipe.width)
        return rvit_fail(RVIT_INVALID_ARGUMENT, "images args: patch_size is %d, but the recipe's target is %d x %d", (int)a->patch_size,
                         (int)w->recipe.width, (int)w->recipe.height);
    if (w->staging != NULL && ((uintptr_t)w->staging % 16 != 0 || w->size < 0))
        return rvit_fail(RVIT_INVALID_ARGUMENT, "rvit_images_write: the staging buffer is not 16-byte aligned, or size is negative");
    return RVIT_OK;
}

rvit_status rvit_images_write(const rvit_images_args *args, void *staging, int64_t size, int64_t *out_size)
{
    RVIT_ENTRY;
    return rvit_images_write_with(args, NULL, staging, size, out_size);
}

rvit_status rvit_images_write_with(const rvit_images_args *args, rvit_image_axes *axes, void *staging, int64_t size, int64_t *out_size)
{
    writer w = {.staging = staging, .size = staging == NULL ? 0 : size, .kept_axes = axes};
    if (out_size == NULL)
        return rvit_fail(RVIT_INVALID_ARGUMENT, "rvit_images_write: out_size is NULL");
    RVIT_TRY(rvit_args_copy(&w.args, sizeof w.args, args, "images args"));
    RVIT_TRY(rvit_args_copy(&w.recipe, sizeof w.recipe, w.args.recipe, "image recipe"));
    RVIT_TRY(rvit_image_recipe_check(&w.recipe));
    RVIT_TRY(check_args(&w));
    RVIT_TRY(write_descriptor(&w));
    RVIT_TRY(skip_data_in_place(&w));
    for (int32_t i = 0; i < w.args.n_images; i++)
        RVIT_TRY(write_image(&w, i));
    end_descriptor(&w);
    *out_size = w.at;
    return RVIT_OK;
}

/* Writes the staging buffer that preprocess reads: the geometry, weights and pixels of a batch of images. */
#include <math.h>
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

enum { MAX_TARGET = RVIT_IMAGE_MAX_TARGET, REMEMBERED = RVIT_IMAGE_REMEMBERED };

typedef rvit_image_writer writer;
typedef rvit_image_window window;
typedef rvit_staged_image staged_image;

static rvit_status check_image(const writer *w, staged_image *p)
{
    const rvit_image *image = &p->image;
    if (image->width < 1 || image->width > RVIT_IMAGE_MAX_SIDE || image->height < 1 || image->height > RVIT_IMAGE_MAX_SIDE)
        return refuse(RVIT_INVALID_ARGUMENT, p, "it has %d x %d pixels, expected sides of 1..%d", (int)image->width, (int)image->height,
                      RVIT_IMAGE_MAX_SIDE);
    if ((int)image->format < 0 || image->format > RVIT_IMAGE_PLANAR_F16)
        return refuse(RVIT_INVALID_ARGUMENT, p, "format: %d is not a valid format", (int)image->format);
    if ((int)image->matrix < 0 || image->matrix > RVIT_IMAGE_BT709 || image->full_range < 0 || image->full_range > 1)
        return refuse(RVIT_INVALID_ARGUMENT, p, "matrix is %d and full_range %d, expected 0 or 1", (int)image->matrix,
                      (int)image->full_range);
    return rvit_image_check_memory(w, p);
}

/* Where a crop begins. timm rounds odd margins half to even, as Python does; transformers rounds down. */
static int64_t margin(rvit_processor processor, int64_t full, int64_t crop)
{
    if (crop > full)
        return -((crop - full) / 2);
    const int64_t half = (full - crop) / 2, is_odd = (full - crop) % 2;
    return half + (processor == RVIT_PROCESSOR_TIMM && is_odd && half % 2 ? 1 : 0);
}

/* Scales both sides by the same factor. longest: 1 fits the image into the size, 0 covers the size. */
static void keep_ratio(const rvit_image_recipe *recipe, int longest, staged_image *p)
{
    const double down = (double)p->image.height / recipe->resize_height, across = (double)p->image.width / recipe->resize_width;
    const double ratio = longest ? fmax(down, across) : fmin(down, across);
    p->width = (int64_t)rint(p->image.width / ratio);
    p->height = (int64_t)rint(p->image.height / ratio);
}

static rvit_status find_geometry(const writer *w, staged_image *p)
{
    const rvit_image *image = &p->image;
    const rvit_image_recipe *recipe = &w->recipe;
    const int own = image->target_width != 0 || image->target_height != 0, patch = w->args.patch_size;
    if (own && w->args.one_target)
        return refuse(RVIT_INVALID_ARGUMENT, p, "its target is %d x %d, but here every image has the recipe's target",
                      (int)image->target_width, (int)image->target_height);
    p->target_width = own ? image->target_width : recipe->width;
    p->target_height = own ? image->target_height : recipe->height;
    if (own && (p->target_width < patch || p->target_width > MAX_TARGET || p->target_width % patch != 0 || p->target_height < patch ||
                p->target_height > MAX_TARGET || p->target_height % patch != 0))
        return refuse(RVIT_INVALID_ARGUMENT, p, "its target is %d x %d, expected multiples of the patch size %d up to %d",
                      (int)image->target_width, (int)image->target_height, patch, (int)MAX_TARGET);
    p->width = own ? p->target_width : recipe->resize_width;
    p->height = own ? p->target_height : recipe->resize_height;
    if (rvit_image_is_planar(image->format)) {
        if (image->width != p->target_width || image->height != p->target_height)
            return refuse(RVIT_INVALID_ARGUMENT, p, "it has %d x %d pixels, expected %d x %d: planar images are not resized",
                          (int)image->width, (int)image->height, (int)p->target_width, (int)p->target_height);
        p->width = p->target_width;
        p->height = p->target_height;
    } else if (!own && recipe->fit == RVIT_FIT_BORDER) {
        keep_ratio(recipe, 1, p);
    } else if (!own && recipe->fit == RVIT_FIT_CROP && recipe->resize_width != recipe->resize_height) {
        keep_ratio(recipe, 0, p);
    } else if (!own && recipe->fit == RVIT_FIT_CROP) {
        const int64_t edge = recipe->resize_height;
        if (image->width <= image->height)
            p->height = edge * image->height / image->width;
        else
            p->width = edge * image->width / image->height;
    }
    if (p->width < 1 || p->height < 1)
        return refuse(RVIT_UNSUPPORTED, p, "%d x %d pixels are too thin to resize to %d x %d", (int)image->width, (int)image->height,
                      (int)recipe->resize_width, (int)recipe->resize_height);
    p->left = margin(recipe->processor, p->width, p->target_width);
    p->top = margin(recipe->processor, p->height, p->target_height);
    return RVIT_OK;
}

static int32_t clamp(int64_t value, int32_t most)
{
    return (int32_t)(value < 0 ? 0 : value > most ? most : value);
}

/* Writes an axis, unless one of the last ones is the same. */
static rvit_status write_axis(writer *w, const staged_image *p, const window *wanted, int32_t *out_at, int32_t *out_bits)
{
    const int torch = w->recipe.processor == RVIT_PROCESSOR_HF;
    for (int32_t i = 0; i < w->n_axes && i < REMEMBERED; i++)
        if (rvit_image_same_window(&w->axes[i].window, wanted)) {
            *out_at = w->axes[i].at;
            *out_bits = w->axes[i].bits;
            return RVIT_OK;
        }
    if (torch && wanted->axis.full_size > RVIT_RESIZE_LONGEST_TORCH_AXIS)
        return refuse(RVIT_UNSUPPORTED, p, "the image is too thin: a side would have %lld pixels after resizing",
                      (long long)wanted->axis.full_size);
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

static rvit_resize_kernel filter_of(rvit_filter filter)
{
    static const rvit_resize_kernel filters[] = {
        [RVIT_FILTER_BILINEAR] = RVIT_RESIZE_BILINEAR, [RVIT_FILTER_BICUBIC] = RVIT_RESIZE_BICUBIC,
        [RVIT_FILTER_LANCZOS] = RVIT_RESIZE_LANCZOS,   [RVIT_FILTER_BOX] = RVIT_RESIZE_BOX,
        [RVIT_FILTER_HAMMING] = RVIT_RESIZE_HAMMING,   [RVIT_FILTER_NEAREST] = RVIT_RESIZE_NEAREST};
    return filters[filter];
}

static rvit_status write_axes(writer *w, staged_image *p)
{
    const rvit_resize_kernel filter = filter_of(w->recipe.filter);
    rvit_image_entry *e = &p->entry;
    const window x = {{filter, p->image.width, p->width}, p->left + e->left, e->right - e->left};
    const window y = {{filter, p->image.height, p->height}, p->top + e->top, e->bottom - e->top};
    RVIT_TRY(write_axis(w, p, &x, &e->x_axis, &e->x_bits));
    RVIT_TRY(write_axis(w, p, &y, &e->y_axis, &e->y_bits));
    /* As Pillow 13. In Pillow 12 and earlier, and in PyTorch, the horizontal pass always comes first, so tall images get other values. */
    e->down_first = w->recipe.processor == RVIT_PROCESSOR_TIMM && p->height < p->image.height &&
                    p->image.height - p->height > 2 * (p->image.width - p->width);
    return RVIT_OK;
}

/* With 16 fraction bits. The luma weights of red, green and blue: BT.601 0.299, 0.587, 0.114; BT.709 0.2126, 0.7152, 0.0722. */
static void set_colours(const rvit_image *image, rvit_image_entry *e)
{
    const double red = image->matrix == RVIT_IMAGE_BT709 ? 0.2126 : 0.299, blue = image->matrix == RVIT_IMAGE_BT709 ? 0.0722 : 0.114;
    const double green = 1 - red - blue, luma = image->full_range ? 1 : 255.0 / 219, chroma = image->full_range ? 1 : 255.0 / 224;
    const double one = 65536, cr = 2 * (1 - red) * chroma, cb = 2 * (1 - blue) * chroma;
    e->luma_zero = image->full_range ? 0 : 16;
    e->luma_gain = (int32_t)lrint(luma * one);
    e->red_cr = (int32_t)lrint(cr * one);
    e->blue_cb = (int32_t)lrint(cb * one);
    e->green_cr = (int32_t)lrint(-cr * red / green * one);
    e->green_cb = (int32_t)lrint(-cb * blue / green * one);
}

static void set_reading(staged_image *p)
{
    rvit_image_entry *e = &p->entry;
    const rvit_image_format format = p->image.format;
    e->read = format == RVIT_IMAGE_NV12         ? RVIT_IMAGE_READ_NV12
              : format == RVIT_IMAGE_PLANAR_F32 ? RVIT_IMAGE_READ_F32
              : format == RVIT_IMAGE_PLANAR_F16 ? RVIT_IMAGE_READ_F16
                                                : RVIT_IMAGE_READ_PACKED;
    e->pixel_size = rvit_image_pixel_size(format);
    e->green = format == RVIT_IMAGE_GRAY8 ? 0 : 1;
    e->red = format == RVIT_IMAGE_BGR8 ? 2 : 0;
    e->blue = format == RVIT_IMAGE_BGR8 || format == RVIT_IMAGE_GRAY8 ? 0 : 2;
    if (format == RVIT_IMAGE_NV12)
        set_colours(&p->image, e);
}

static rvit_status read_image(const writer *w, int32_t index, staged_image *p)
{
    const size_t step = w->args.images->struct_size;
    const char *given = (const char *)w->args.images + step * (size_t)index;
    char name[32];
    size_t own;
    memcpy(&own, given, sizeof own);
    if (own != step)
        return rvit_fail(RVIT_INVALID_ARGUMENT, "image %d: struct_size is %zu, but that of image 0 is %zu", (int)index, own, step);
    snprintf(name, sizeof name, "image %d", (int)index);
    *p = (staged_image){.index = index};
    RVIT_TRY(rvit_args_copy(&p->image, sizeof p->image, given, name));
    return check_image(w, p);
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
    RVIT_TRY(find_geometry(w, &p));
    const int32_t patch = w->args.patch_size;
    rvit_image_entry *e = &p.entry;
    e->width = p.image.width;
    e->height = p.image.height;
    e->grid_width = p.target_width / patch;
    e->grid_height = p.target_height / patch;
    e->left = clamp(-p.left, e->grid_width * patch);
    e->top = clamp(-p.top, e->grid_height * patch);
    e->right = clamp(p.width - p.left, e->grid_width * patch);
    e->bottom = clamp(p.height - p.top, e->grid_height * patch);
    e->fill = (uint32_t)w->recipe.fill[0] | (uint32_t)w->recipe.fill[1] << 8 | (uint32_t)w->recipe.fill[2] << 16;
    set_reading(&p);
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

static float level(const rvit_image_recipe *recipe, float value, int channel)
{
    const float mean = recipe->mean[channel], std = recipe->std[channel];
    if (recipe->processor == RVIT_PROCESSOR_TIMM)
        return (value / 255.0f - mean) / std;
    return mean == 0 && std == 1 ? value * (1.0f / 255) : (value - mean * 255.0f) / (std * 255.0f);
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
            const float x = level(&w->recipe, (float)v, c);
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

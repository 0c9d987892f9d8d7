/* Applies a recipe to an image: the size after the resize, the crop, the filter, and how its pixels are read. */
#include <math.h>

#include "core/image/image_writer.h"

#define refuse rvit_image_refuse

rvit_status rvit_image_check(const rvit_staged_image *p, int32_t max_side)
{
    const rvit_image *image = &p->image;
    if (image->width < 1 || image->width > max_side || image->height < 1 || image->height > max_side)
        return refuse(RVIT_INVALID_ARGUMENT, p, "it has %d x %d pixels, expected sides of 1..%d", (int)image->width, (int)image->height,
                      (int)max_side);
    if ((int)image->format < 0 || image->format > RVIT_IMAGE_PLANAR_F16)
        return refuse(RVIT_INVALID_ARGUMENT, p, "format: %d is not a valid format", (int)image->format);
    if ((int)image->matrix < 0 || image->matrix > RVIT_IMAGE_BT709 || image->full_range < 0 || image->full_range > 1)
        return refuse(RVIT_INVALID_ARGUMENT, p, "matrix is %d and full_range %d, expected 0 or 1", (int)image->matrix,
                      (int)image->full_range);
    if ((image->original_width != 0 || image->original_height != 0) &&
        (image->original_width < image->width || image->original_width > max_side || image->original_height < image->height ||
         image->original_height > max_side))
        return refuse(RVIT_INVALID_ARGUMENT, p, "it is a copy of %d x %d pixels, expected sides of at least its own %d x %d and at most %d",
                      (int)image->original_width, (int)image->original_height, (int)image->width, (int)image->height, (int)max_side);
    return RVIT_OK;
}

/* The start of a crop. timm rounds odd margins half to even, as Python does; transformers rounds down. */
static int64_t margin(rvit_processor processor, int64_t full, int64_t crop)
{
    if (crop > full)
        return -((crop - full) / 2);
    const int64_t half = (full - crop) / 2, is_odd = (full - crop) % 2;
    return half + (processor == RVIT_PROCESSOR_TIMM && is_odd && half % 2 ? 1 : 0);
}

/* Scales both sides by the same factor. longest: 1 fits the image into the size, 0 covers the size. */
static void keep_ratio(const rvit_image_recipe *recipe, int longest, int32_t width, int32_t height, rvit_image_geometry *out)
{
    const double down = (double)height / recipe->resize_height, across = (double)width / recipe->resize_width;
    const double ratio = longest ? fmax(down, across) : fmin(down, across);
    out->width = (int64_t)rint(width / ratio);
    out->height = (int64_t)rint(height / ratio);
}

/* The size after the resize, by the fit of the recipe. */
static void fit_image(const rvit_image_recipe *recipe, int32_t width, int32_t height, rvit_image_geometry *out)
{
    const int64_t edge = recipe->resize_height;
    out->width = recipe->resize_width;
    out->height = recipe->resize_height;
    if (recipe->fit == RVIT_FIT_BORDER || (recipe->fit == RVIT_FIT_CROP && recipe->resize_width != recipe->resize_height))
        keep_ratio(recipe, recipe->fit == RVIT_FIT_BORDER, width, height, out);
    else if (recipe->fit == RVIT_FIT_CROP && width <= height)
        out->height = edge * height / width;
    else if (recipe->fit == RVIT_FIT_CROP)
        out->width = edge * width / height;
}

rvit_status rvit_image_find_geometry(const rvit_image_recipe *recipe, int32_t patch, rvit_staged_image *p)
{
    const rvit_image *image = &p->image;
    const int own = image->target_width != 0 || image->target_height != 0, planar = rvit_image_is_planar(image->format);
    const int32_t width = image->original_width != 0 ? image->original_width : image->width,
                  height = image->original_height != 0 ? image->original_height : image->height;
    rvit_image_geometry *g = &p->geometry;
    g->target_width = own ? image->target_width : recipe->width;
    g->target_height = own ? image->target_height : recipe->height;
    if (own && (g->target_width < patch || g->target_width > RVIT_IMAGE_MAX_TARGET || g->target_width % patch != 0 ||
                g->target_height < patch || g->target_height > RVIT_IMAGE_MAX_TARGET || g->target_height % patch != 0))
        return refuse(RVIT_INVALID_ARGUMENT, p, "its target is %d x %d, expected multiples of the patch size %d up to %d",
                      (int)image->target_width, (int)image->target_height, (int)patch, RVIT_IMAGE_MAX_TARGET);
    if (planar && (image->width != g->target_width || image->height != g->target_height))
        return refuse(RVIT_INVALID_ARGUMENT, p, "it has %d x %d pixels, expected %d x %d: planar images are not resized", (int)image->width,
                      (int)image->height, (int)g->target_width, (int)g->target_height);
    g->width = g->target_width;
    g->height = g->target_height;
    if (!planar && !own)
        fit_image(recipe, width, height, g);
    if (g->width < 1 || g->height < 1)
        return refuse(RVIT_UNSUPPORTED, p, "%d x %d pixels are too thin to resize to %d x %d", (int)width, (int)height,
                      (int)recipe->resize_width, (int)recipe->resize_height);
    const int64_t longest = g->width > g->height ? g->width : g->height;
    if (recipe->processor == RVIT_PROCESSOR_HF && longest > RVIT_RESIZE_LONGEST_TORCH_AXIS)
        return refuse(RVIT_UNSUPPORTED, p, "%d x %d pixels are too thin: a side would have %lld pixels after resizing", (int)width,
                      (int)height, (long long)longest);
    g->left = margin(recipe->processor, g->width, g->target_width);
    g->top = margin(recipe->processor, g->height, g->target_height);
    return RVIT_OK;
}

static int32_t clamp(int64_t value, int32_t max)
{
    return (int32_t)(value < 0 ? 0 : value > max ? max : value);
}

void rvit_image_cover(rvit_staged_image *p, int32_t width, int32_t height)
{
    const rvit_image_geometry *g = &p->geometry;
    p->entry.left = clamp(-g->left, width);
    p->entry.top = clamp(-g->top, height);
    p->entry.right = clamp(g->width - g->left, width);
    p->entry.bottom = clamp(g->height - g->top, height);
}

int rvit_image_down_first(const rvit_image_recipe *recipe, const rvit_staged_image *p)
{
    const int64_t fewer_lines = p->image.height - p->geometry.height;
    return recipe->processor == RVIT_PROCESSOR_TIMM && fewer_lines > 0 && fewer_lines > 2 * (p->image.width - p->geometry.width);
}

rvit_resize_kernel rvit_image_filter(rvit_filter filter)
{
    static const rvit_resize_kernel filters[] = {
        [RVIT_FILTER_BILINEAR] = RVIT_RESIZE_BILINEAR, [RVIT_FILTER_BICUBIC] = RVIT_RESIZE_BICUBIC,
        [RVIT_FILTER_LANCZOS] = RVIT_RESIZE_LANCZOS,   [RVIT_FILTER_BOX] = RVIT_RESIZE_BOX,
        [RVIT_FILTER_HAMMING] = RVIT_RESIZE_HAMMING,   [RVIT_FILTER_NEAREST] = RVIT_RESIZE_NEAREST};
    return filters[filter];
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

void rvit_image_set_reading(rvit_staged_image *p)
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

float rvit_image_level(const rvit_image_recipe *recipe, float value, int channel)
{
    const float mean = recipe->mean[channel], std = recipe->std[channel];
    if (recipe->processor == RVIT_PROCESSOR_TIMM)
        return (value / 255.0f - mean) / std;
    return mean == 0 && std == 1 ? value * (1.0f / 255) : (value - mean * 255.0f) / (std * 255.0f);
}

#include "preprocess.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct preprocess preprocess_deit(int32_t size)
{
    const int32_t edge = size < 384 ? (int32_t)floor(size / 0.9) : size;
    return (struct preprocess){.fit = PREPROCESS_CROP,
                               .like = PREPROCESS_TIMM,
                               .filter = RESIZE_BICUBIC,
                               .width = size,
                               .height = size,
                               .resize_width = edge,
                               .resize_height = edge,
                               .mean = {0.485f, 0.456f, 0.406f},
                               .deviation = {0.229f, 0.224f, 0.225f}};
}

static int64_t offset_of(enum preprocess_like like, int64_t full, int64_t crop)
{
    if (crop > full)
        return -((crop - full) / 2);
    const int64_t half = (full - crop) / 2, is_odd = (full - crop) % 2;
    return half + (like == PREPROCESS_TIMM && is_odd && half % 2 ? 1 : 0);
}

/* Scales both edges by the same ratio. longest: the image fits into the size, else it covers it. */
static void keep_ratio(const struct preprocess *recipe, int32_t width, int32_t height, bool longest, struct preprocess_geometry *out)
{
    const double down = (double)height / recipe->resize_height, across = (double)width / recipe->resize_width;
    const double ratio = longest ? fmax(down, across) : fmin(down, across);
    out->width = (int64_t)rint(width / ratio);
    out->height = (int64_t)rint(height / ratio);
}

struct preprocess_geometry preprocess_plan(const struct preprocess *recipe, int32_t width, int32_t height)
{
    const int64_t edge = recipe->resize_height;
    struct preprocess_geometry plan = {recipe->resize_width, recipe->resize_height, 0, 0};
    if (recipe->fit == PREPROCESS_BORDER || (recipe->fit == PREPROCESS_CROP && recipe->resize_width != recipe->resize_height)) {
        keep_ratio(recipe, width, height, recipe->fit == PREPROCESS_BORDER, &plan);
    } else if (recipe->fit == PREPROCESS_CROP && width <= height) {
        plan.height = edge * height / width;
    } else if (recipe->fit == PREPROCESS_CROP) {
        plan.width = edge * width / height;
    }
    plan.left = offset_of(recipe->like, plan.width, recipe->width);
    plan.top = offset_of(recipe->like, plan.height, recipe->height);
    return plan;
}

struct preprocess_geometry preprocess_geometry_of(const struct preprocess *recipe, int32_t width, int32_t height, bool whole)
{
    return whole ? (struct preprocess_geometry){recipe->width, recipe->height, 0, 0} : preprocess_plan(recipe, width, height);
}

static void paint(const uint8_t colour[3], const struct image *out)
{
    const size_t n = (size_t)out->width * (size_t)out->height;
    for (size_t i = 0; i < n; i++)
        memcpy(out->pixels + 3 * i, colour, 3);
}

static int32_t clamp(int64_t value, int32_t most)
{
    return (int32_t)(value < 0 ? 0 : value > most ? most : value);
}

/* Draws the resized image at its position in out. */
static bool draw(struct image_view source, const struct preprocess *recipe, struct preprocess_geometry plan, const struct image *out,
                 struct image_error *error)
{
    const int32_t x0 = clamp(-plan.left, out->width), x1 = clamp(plan.width - plan.left, out->width);
    const int32_t y0 = clamp(-plan.top, out->height), y1 = clamp(plan.height - plan.top, out->height);
    const struct resize how = {recipe->filter, recipe->like == PREPROCESS_TIMM ? RESIZE_PILLOW : RESIZE_TORCH,
                               plan.width,     plan.height,
                               plan.left + x0, plan.top + y0};
    if (x1 - x0 == out->width && y1 - y0 == out->height)
        return resize_window(source, &how, out, error);
    struct image part;
    if (!image_create(x1 - x0, y1 - y0, &part, error))
        return false;
    const bool ok = resize_window(source, &how, &part, error);
    paint(recipe->fill, out);
    for (int32_t y = y0; ok && y < y1; y++)
        memcpy(out->pixels + 3 * ((size_t)y * (size_t)out->width + (size_t)x0), part.pixels + 3 * (size_t)(y - y0) * (size_t)part.width,
               3 * (size_t)part.width);
    image_free(&part);
    return ok;
}

static bool make_view(struct image_view source, const struct preprocess *recipe, struct preprocess_geometry plan, struct image *out,
                      struct image_error *error)
{
    if (!image_create(recipe->width, recipe->height, out, error))
        return false;
    if (draw(source, recipe, plan, out, error))
        return true;
    image_free(out);
    return false;
}

/* Prepares in float32, without intermediate 8-bit values. */
static bool prepare_float(struct image_view source, const struct preprocess *recipe, float *out, struct image_error *error)
{
    const size_t n_pixels = (size_t)recipe->width * (size_t)recipe->height;
    const struct resize how = {.filter = recipe->filter, .width = recipe->width, .height = recipe->height};
    float *values = malloc(n_pixels * 3 * sizeof *values);
    bool ok = values != NULL;
    if (!ok)
        snprintf(error->text, sizeof error->text, "out of memory");
    ok = ok && resize_window_float(source, &how, recipe->width, recipe->height, values, error);
    for (size_t i = 0; ok && i < n_pixels * 3; i++)
        out[i % 3 * n_pixels + i / 3] = (values[i] - recipe->mean[i % 3]) / recipe->deviation[i % 3];
    free(values);
    return ok;
}

bool preprocess_image(struct image_view source, const struct preprocess *recipe, bool whole, float *out, struct image *view,
                      struct image_error *error)
{
    return preprocess_planned(source, recipe, preprocess_geometry_of(recipe, source.width, source.height, whole), out, view, error);
}

bool preprocess_planned(struct image_view source, const struct preprocess *recipe, struct preprocess_geometry plan, float *out,
                        struct image *view, struct image_error *error)
{
    struct image own;
    const bool in_float = recipe->like == PREPROCESS_HF_FLOAT;
    if (plan.width < 1 || plan.height < 1)
        return image_fail(error, "%d x %d pixels are too thin to be resized to %d x %d", source.width, source.height, recipe->resize_width,
                          recipe->resize_height);
    if (in_float && !prepare_float(source, recipe, out, error))
        return false;
    if (in_float && !view)
        return true;
    if (!make_view(source, recipe, plan, &own, error))
        return false;
    if (!in_float)
        preprocess_normalize(&own, recipe, out);
    if (view)
        *view = own;
    else
        image_free(&own);
    return true;
}

/* transformers scales and normalises in one step, unless there is nothing to normalise. */
static float normalized(const struct preprocess *recipe, float value, size_t c)
{
    const float mean = recipe->mean[c], deviation = recipe->deviation[c];
    if (recipe->like == PREPROCESS_TIMM)
        return (value / 255.0f - mean) / deviation;
    return mean == 0 && deviation == 1 ? value * (1.0f / 255) : (value - mean * 255.0f) / (deviation * 255.0f);
}

void preprocess_normalize(const struct image *view, const struct preprocess *recipe, float *out)
{
    const size_t n_pixels = (size_t)view->width * (size_t)view->height;
    for (size_t c = 0; c < 3; c++) {
        float table[256];
        for (int v = 0; v < 256; v++)
            table[v] = normalized(recipe, (float)v, c);
        for (size_t i = 0; i < n_pixels; i++)
            out[c * n_pixels + i] = table[view->pixels[3 * i + c]];
    }
}

#include "preprocess.h"

#include <math.h>

#include "resize.h"

const struct preprocess preprocess_imagenet = {0, {0.485f, 0.456f, 0.406f}, {0.229f, 0.224f, 0.225f}};

static int64_t centre_offset(int64_t full, int64_t crop)
{
    const int64_t half = (full - crop) / 2;
    const int64_t is_odd = (full - crop) % 2;
    return half + (is_odd && half % 2 ? 1 : 0);
}

struct preprocess_geometry preprocess_plan(int32_t width, int32_t height, int32_t edge, int32_t crop)
{
    struct preprocess_geometry plan;
    if (width <= height) {
        plan.width = edge;
        plan.height = (int64_t)edge * height / width;
    } else {
        plan.height = edge;
        plan.width = (int64_t)edge * width / height;
    }
    plan.left = centre_offset(plan.width, crop);
    plan.top = centre_offset(plan.height, crop);
    return plan;
}

int32_t preprocess_edge(int32_t size, double crop)
{
    if (crop == 0)
        crop = size < 384 ? 0.9 : 1;
    return (int32_t)floor(size / crop);
}

static bool resize_window(struct image_view source, struct preprocess_geometry plan, int32_t size, struct image *out,
                          struct image_error *error)
{
    if (!image_create(size, size, out, error))
        return false;
    if (resize_bicubic(source, plan.width, plan.height, plan.left, plan.top, out, error))
        return true;
    image_free(out);
    return false;
}

bool preprocess_picture(struct image_view source, int32_t size, double crop, struct image *out, struct image_error *error)
{
    return resize_window(source, preprocess_plan(source.width, source.height, preprocess_edge(size, crop), size), size, out, error);
}

bool preprocess_tile(struct image_view source, int32_t size, struct image *out, struct image_error *error)
{
    return resize_window(source, (struct preprocess_geometry){size, size, 0, 0}, size, out, error);
}

void preprocess_normalize(const struct image *view, const struct preprocess *recipe, float *out)
{
    const size_t n_pixels = (size_t)view->width * (size_t)view->height;
    for (size_t c = 0; c < 3; c++) {
        float table[256];
        for (int v = 0; v < 256; v++)
            table[v] = ((float)v / 255.0f - recipe->mean[c]) / recipe->deviation[c];
        for (size_t i = 0; i < n_pixels; i++)
            out[c * n_pixels + i] = table[view->pixels[3 * i + c]];
    }
}

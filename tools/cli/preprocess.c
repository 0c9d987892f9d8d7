#include "preprocess.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

rvit_image preprocess_source(struct image_view view)
{
    rvit_image out = RVIT_IMAGE_INIT;
    out.data = view.pixels;
    out.width = view.width;
    out.height = view.height;
    out.stride = view.stride;
    return out;
}

bool preprocess_image(const rvit_image_recipe *recipe, const rvit_image *image, float *out, rvit_image_geometry *out_geometry,
                      struct image_error *error)
{
    static const char prefix[] = "image: ";
    if (rvit_image_prepare(recipe, image, NULL, out, out_geometry) == RVIT_OK)
        return true;
    const char *text = rvit_status_detail();
    return image_fail(error, "%s", text + (strncmp(text, prefix, strlen(prefix)) == 0 ? strlen(prefix) : 0));
}

bool preprocess_resize(struct image_view source, int32_t width, int32_t height, struct image *out, struct image_error *error)
{
    const size_t n_pixels = (size_t)width * (size_t)height;
    const rvit_image image = preprocess_source(source);
    rvit_image_recipe recipe = RVIT_IMAGE_RECIPE_INIT;
    recipe.fit = RVIT_FIT_SQUASH;
    recipe.height = height;
    recipe.width = width;
    recipe.std[0] = recipe.std[1] = recipe.std[2] = 1;
    if (!image_create(width, height, out, error))
        return false;
    float *values = malloc(n_pixels * 3 * sizeof *values);
    const bool ok = values ? preprocess_image(&recipe, &image, values, NULL, error) : image_fail(error, "out of memory");
    for (size_t i = 0; ok && i < n_pixels * 3; i++)
        out->pixels[i] = (uint8_t)lrintf(values[i % 3 * n_pixels + i / 3] * 255);
    free(values);
    if (!ok)
        image_free(out);
    return ok;
}

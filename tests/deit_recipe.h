/* How DeiT's images are prepared, for an input of size x size. */
#ifndef RVIT_TESTS_DEIT_RECIPE_H
#define RVIT_TESTS_DEIT_RECIPE_H

#include <raggedvit/image.h>

static inline rvit_image_recipe deit_recipe(int32_t size)
{
    static const float mean[3] = {0.485f, 0.456f, 0.406f}, std[3] = {0.229f, 0.224f, 0.225f};
    rvit_image_recipe out = RVIT_IMAGE_RECIPE_INIT;
    out.fit = RVIT_FIT_CROP;
    out.height = out.width = size;
    out.resize_height = out.resize_width = size < 384 ? (int32_t)(size / 0.9) : size;
    for (int c = 0; c < 3; c++) {
        out.mean[c] = mean[c];
        out.std[c] = std[c];
    }
    return out;
}

#endif

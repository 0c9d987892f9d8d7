/* The patch grids that models of variable resolution choose for an image. */
#include <math.h>

#include <raggedvit/image.h>

#include "core/base/args.h"
#include "core/base/entry.h"
#include "core/base/status.h"

static double patches_at(double scale, int32_t side, int32_t patch_size)
{
    return fmax(ceil(side * scale / patch_size), 1);
}

enum { MAX_PIXELS = 1 << 20, MAX_PATCH = 256 };

static void naflex_grid(const rvit_image_recipe *recipe, int32_t height, int32_t width, int32_t *out_grid)
{
    double min = 1e-5 / 10, max = 100;
    while (max - min >= 1e-5) {
        const double scale = (min + max) / 2;
        if (patches_at(scale, height, recipe->patch_size) * patches_at(scale, width, recipe->patch_size) <= recipe->max_patches)
            min = scale;
        else
            max = scale;
    }
    out_grid[0] = (int32_t)patches_at(min, height, recipe->patch_size);
    out_grid[1] = (int32_t)patches_at(min, width, recipe->patch_size);
}

/* The number of merge groups, of `size` pixels each, along a side. */
static double groups_at(double side, double (*rounded)(double), int32_t size)
{
    return fmax(rounded(side / size), 1);
}

static rvit_status qwen_grid(const rvit_image_recipe *recipe, int32_t height, int32_t width, int32_t *out_grid)
{
    enum { MAX_MERGE = 16, MAX_RATIO = 200 };
    const int64_t min_pixels = recipe->min_pixels, max_pixels = recipe->max_pixels;
    if ((int64_t)height > (int64_t)MAX_RATIO * width || (int64_t)width > (int64_t)MAX_RATIO * height)
        return rvit_fail(RVIT_INVALID_ARGUMENT,
                         "rvit_image_recipe_grid: the image has %d x %d pixels, expected an aspect ratio of at most %d", (int)height,
                         (int)width, MAX_RATIO);
    if (recipe->merge > MAX_MERGE)
        return rvit_fail(RVIT_INVALID_ARGUMENT, "image recipe: merge is %d, expected 1..%d", (int)recipe->merge, MAX_MERGE);
    if (min_pixels < 1 || max_pixels < min_pixels || max_pixels > (int64_t)1 << 40)
        return rvit_fail(RVIT_INVALID_ARGUMENT,
                         "image recipe: min_pixels is %lld and max_pixels is %lld, expected 1 <= min_pixels <= max_pixels",
                         (long long)min_pixels, (long long)max_pixels);
    const int32_t group = recipe->patch_size * recipe->merge;
    const double pixels = (double)height * width, area = (double)group * group;
    double lines = rint((double)height / group), columns = rint((double)width / group);
    if (lines * columns * area > (double)max_pixels) {
        const double scale = sqrt(pixels / (double)max_pixels);
        lines = groups_at(height / scale, floor, group);
        columns = groups_at(width / scale, floor, group);
    } else if (lines * columns * area < (double)min_pixels) {
        const double scale = sqrt((double)min_pixels / pixels);
        lines = groups_at(height * scale, ceil, group);
        columns = groups_at(width * scale, ceil, group);
    }
    out_grid[0] = (int32_t)lines * recipe->merge;
    out_grid[1] = (int32_t)columns * recipe->merge;
    return RVIT_OK;
}

rvit_status rvit_image_recipe_grid(const rvit_image_recipe *given, int32_t height, int32_t width, int32_t *out_grid)
{
    RVIT_ENTRY;
    rvit_image_recipe recipe;
    if (out_grid == NULL)
        return rvit_fail(RVIT_INVALID_ARGUMENT, "rvit_image_recipe_grid: out_grid is NULL");
    RVIT_TRY(rvit_args_copy(&recipe, sizeof recipe, given, "image recipe"));
    if (height < 1 || width < 1 || height > MAX_PIXELS || width > MAX_PIXELS)
        return rvit_fail(RVIT_INVALID_ARGUMENT, "rvit_image_recipe_grid: the image has %d x %d pixels, expected sides of 1..%d",
                         (int)height, (int)width, MAX_PIXELS);
    if (recipe.merge < 1 && recipe.max_patches < 1)
        return rvit_fail(RVIT_UNSUPPORTED, "image recipe: merge and max_patches are 0: all images have the size of the recipe");
    if (recipe.patch_size < 1 || recipe.patch_size > MAX_PATCH)
        return rvit_fail(RVIT_INVALID_ARGUMENT, "image recipe: patch_size is %d, expected 1..%d", (int)recipe.patch_size, MAX_PATCH);
    if (recipe.merge > 0)
        return qwen_grid(&recipe, height, width, out_grid);
    naflex_grid(&recipe, height, width, out_grid);
    return RVIT_OK;
}

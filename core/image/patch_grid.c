/* Grids of patches that models of images of any size cut a picture into. */
#include <math.h>

#include <raggedvit/session.h>

#include "core/base/entry.h"
#include "core/base/status.h"

/* Patches that a side takes at a scale. */
static double patches_at(double scale, int32_t side, int32_t patch_size)
{
    return fmax(ceil(side * scale / patch_size), 1);
}

rvit_status rvit_naflex_grid(int32_t height, int32_t width, int32_t patch_size, int32_t max_patches, int32_t *out_grid)
{
    RVIT_ENTRY;
    enum { MAX_PIXELS = 1 << 20, MAX_PATCH = 256 };
    if (out_grid == NULL)
        return rvit_fail(RVIT_INVALID_ARGUMENT, "rvit_naflex_grid: out_grid is NULL");
    if (height < 1 || width < 1 || height > MAX_PIXELS || width > MAX_PIXELS)
        return rvit_fail(RVIT_INVALID_ARGUMENT, "rvit_naflex_grid: a picture of %d x %d pixels, expected 1 to %d a side", (int)height,
                         (int)width, MAX_PIXELS);
    if (patch_size < 1 || patch_size > MAX_PATCH || max_patches < 1)
        return rvit_fail(RVIT_INVALID_ARGUMENT,
                         "rvit_naflex_grid: patch_size is %d, expected 1 to %d, and max_patches %d, expected 1 or more", (int)patch_size,
                         MAX_PATCH, (int)max_patches);
    double least = 1e-5 / 10, most = 100;
    while (most - least >= 1e-5) {
        const double scale = (least + most) / 2;
        if (patches_at(scale, height, patch_size) * patches_at(scale, width, patch_size) <= max_patches)
            least = scale;
        else
            most = scale;
    }
    out_grid[0] = (int32_t)patches_at(least, height, patch_size);
    out_grid[1] = (int32_t)patches_at(least, width, patch_size);
    return RVIT_OK;
}

/* Units that a side takes at a scale, as Python's round, floor or ceil counts them. */
static double groups_at(double side, double (*rounded)(double), int32_t unit)
{
    return fmax(rounded(side / unit), 1);
}

rvit_status rvit_qwen_grid(int32_t height, int32_t width, int32_t patch_size, int32_t merge, int64_t min_pixels, int64_t max_pixels,
                           int32_t *out_grid)
{
    RVIT_ENTRY;
    enum { MAX_PIXELS = 1 << 20, MAX_PATCH = 256, MAX_MERGE = 16, MAX_RATIO = 200 };
    if (out_grid == NULL)
        return rvit_fail(RVIT_INVALID_ARGUMENT, "rvit_qwen_grid: out_grid is NULL");
    if (height < 1 || width < 1 || height > MAX_PIXELS || width > MAX_PIXELS)
        return rvit_fail(RVIT_INVALID_ARGUMENT, "rvit_qwen_grid: a picture of %d x %d pixels, expected 1 to %d a side", (int)height,
                         (int)width, MAX_PIXELS);
    if ((int64_t)height > (int64_t)MAX_RATIO * width || (int64_t)width > (int64_t)MAX_RATIO * height)
        return rvit_fail(RVIT_INVALID_ARGUMENT,
                         "rvit_qwen_grid: a picture of %d x %d pixels, a side of which is more than %d times the other", (int)height,
                         (int)width, MAX_RATIO);
    if (patch_size < 1 || patch_size > MAX_PATCH || merge < 1 || merge > MAX_MERGE)
        return rvit_fail(RVIT_INVALID_ARGUMENT, "rvit_qwen_grid: patch_size is %d, expected 1 to %d, and merge %d, expected 1 to %d",
                         (int)patch_size, MAX_PATCH, (int)merge, MAX_MERGE);
    if (min_pixels < 1 || max_pixels < min_pixels || max_pixels > (int64_t)1 << 40)
        return rvit_fail(RVIT_INVALID_ARGUMENT, "rvit_qwen_grid: min_pixels is %lld and max_pixels %lld, expected 1 or more, in this order",
                         (long long)min_pixels, (long long)max_pixels);
    const int32_t unit = patch_size * merge;
    const double pixels = (double)height * width, area = (double)unit * unit;
    double lines = rint((double)height / unit), columns = rint((double)width / unit);
    if (lines * columns * area > (double)max_pixels) {
        const double scale = sqrt(pixels / (double)max_pixels);
        lines = groups_at(height / scale, floor, unit);
        columns = groups_at(width / scale, floor, unit);
    } else if (lines * columns * area < (double)min_pixels) {
        const double scale = sqrt((double)min_pixels / pixels);
        lines = groups_at(height * scale, ceil, unit);
        columns = groups_at(width * scale, ceil, unit);
    }
    out_grid[0] = (int32_t)lines * merge;
    out_grid[1] = (int32_t)columns * merge;
    return RVIT_OK;
}

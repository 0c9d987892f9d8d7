/* The patch grids that models of variable resolution choose for an image. */
#include <math.h>

#include <raggedvit/session.h>

#include "core/base/entry.h"
#include "core/base/status.h"

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
        return rvit_fail(RVIT_INVALID_ARGUMENT, "rvit_naflex_grid: the image has %d x %d pixels, expected sides of 1..%d", (int)height,
                         (int)width, MAX_PIXELS);
    if (patch_size < 1 || patch_size > MAX_PATCH || max_patches < 1)
        return rvit_fail(RVIT_INVALID_ARGUMENT,
                         "rvit_naflex_grid: patch_size is %d, expected 1..%d, and max_patches is %d, expected at least 1", (int)patch_size,
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

/* The merge groups along a side, of `size` pixels each. */
static double groups_at(double side, double (*rounded)(double), int32_t size)
{
    return fmax(rounded(side / size), 1);
}

rvit_status rvit_qwen_grid(int32_t height, int32_t width, int32_t patch_size, int32_t merge, int64_t min_pixels, int64_t max_pixels,
                           int32_t *out_grid)
{
    RVIT_ENTRY;
    enum { MAX_PIXELS = 1 << 20, MAX_PATCH = 256, MAX_MERGE = 16, MAX_RATIO = 200 };
    if (out_grid == NULL)
        return rvit_fail(RVIT_INVALID_ARGUMENT, "rvit_qwen_grid: out_grid is NULL");
    if (height < 1 || width < 1 || height > MAX_PIXELS || width > MAX_PIXELS)
        return rvit_fail(RVIT_INVALID_ARGUMENT, "rvit_qwen_grid: the image has %d x %d pixels, expected sides of 1..%d", (int)height,
                         (int)width, MAX_PIXELS);
    if ((int64_t)height > (int64_t)MAX_RATIO * width || (int64_t)width > (int64_t)MAX_RATIO * height)
        return rvit_fail(RVIT_INVALID_ARGUMENT, "rvit_qwen_grid: the image has %d x %d pixels, expected an aspect ratio of at most %d",
                         (int)height, (int)width, MAX_RATIO);
    if (patch_size < 1 || patch_size > MAX_PATCH || merge < 1 || merge > MAX_MERGE)
        return rvit_fail(RVIT_INVALID_ARGUMENT, "rvit_qwen_grid: patch_size is %d, expected 1..%d, and merge is %d, expected 1..%d",
                         (int)patch_size, MAX_PATCH, (int)merge, MAX_MERGE);
    if (min_pixels < 1 || max_pixels < min_pixels || max_pixels > (int64_t)1 << 40)
        return rvit_fail(RVIT_INVALID_ARGUMENT,
                         "rvit_qwen_grid: min_pixels is %lld and max_pixels is %lld, expected 1 <= min_pixels <= max_pixels",
                         (long long)min_pixels, (long long)max_pixels);
    const int32_t group = patch_size * merge;
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
    out_grid[0] = (int32_t)lines * merge;
    out_grid[1] = (int32_t)columns * merge;
    return RVIT_OK;
}

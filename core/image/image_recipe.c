/* The rules of image recipes. */
#include <math.h>

#include "core/base/status.h"
#include "core/image/image_recipe.h"

rvit_status rvit_image_recipe_check(rvit_image_recipe *recipe)
{
    if (recipe->fit == RVIT_FIT_UNKNOWN)
        recipe->fit = RVIT_FIT_CROP;
    if (recipe->filter == RVIT_FILTER_UNKNOWN)
        recipe->filter = RVIT_FILTER_BICUBIC;
    if (recipe->processor == RVIT_PROCESSOR_UNKNOWN)
        recipe->processor = RVIT_PROCESSOR_TIMM;
    if (recipe->fit == RVIT_FIT_OTHER || recipe->filter == RVIT_FILTER_OTHER)
        return rvit_fail(RVIT_UNSUPPORTED,
                         "image recipe: %s is OTHER: the files beside the model require image preparation that is not supported",
                         recipe->fit == RVIT_FIT_OTHER ? "fit" : "filter");
    if ((int)recipe->fit < 0 || recipe->fit > RVIT_FIT_OTHER)
        return rvit_fail(RVIT_INVALID_ARGUMENT, "image recipe: fit: %d is not a valid fit", (int)recipe->fit);
    if ((int)recipe->filter < 0 || recipe->filter > RVIT_FILTER_NEAREST)
        return rvit_fail(RVIT_INVALID_ARGUMENT, "image recipe: filter: %d is not a valid filter", (int)recipe->filter);
    if ((int)recipe->processor < 0 || recipe->processor > RVIT_PROCESSOR_HF_FLOAT)
        return rvit_fail(RVIT_INVALID_ARGUMENT, "image recipe: processor: %d is not a valid processor", (int)recipe->processor);
    if (recipe->processor != RVIT_PROCESSOR_TIMM && recipe->filter != RVIT_FILTER_BILINEAR && recipe->filter != RVIT_FILTER_BICUBIC)
        return rvit_fail(RVIT_UNSUPPORTED,
                         "image recipe: filter is %d, but the processors HF and HF_FLOAT support only BILINEAR and BICUBIC",
                         (int)recipe->filter);
    if (recipe->height < 1 || recipe->height > RVIT_IMAGE_MAX_TARGET || recipe->width < 1 || recipe->width > RVIT_IMAGE_MAX_TARGET)
        return rvit_fail(RVIT_INVALID_ARGUMENT, "image recipe: height and width are %d and %d, expected 1..%d", (int)recipe->height,
                         (int)recipe->width, RVIT_IMAGE_MAX_TARGET);
    if (recipe->resize_height == 0 && recipe->resize_width == 0) {
        recipe->resize_height = recipe->height;
        recipe->resize_width = recipe->width;
    }
    if (recipe->resize_height < 1 || recipe->resize_height > RVIT_IMAGE_MAX_TARGET || recipe->resize_width < 1 ||
        recipe->resize_width > RVIT_IMAGE_MAX_TARGET)
        return rvit_fail(RVIT_INVALID_ARGUMENT, "image recipe: resize_height and resize_width are %d and %d, expected 1..%d",
                         (int)recipe->resize_height, (int)recipe->resize_width, RVIT_IMAGE_MAX_TARGET);
    if (recipe->processor == RVIT_PROCESSOR_HF_FLOAT &&
        (recipe->fit != RVIT_FIT_SQUASH || recipe->resize_height != recipe->height || recipe->resize_width != recipe->width))
        return rvit_fail(RVIT_UNSUPPORTED, "image recipe: the processor HF_FLOAT supports only the fit SQUASH, without a crop");
    if (recipe->std[0] == 0 && recipe->std[1] == 0 && recipe->std[2] == 0)
        return rvit_fail(RVIT_UNSUPPORTED, "image recipe: std is 0: no file beside the model has the mean and std of its images");
    for (int c = 0; c < 3; c++) {
        if (!isfinite(recipe->mean[c]) || !isfinite(recipe->std[c]) || !(recipe->std[c] > 0))
            return rvit_fail(RVIT_INVALID_ARGUMENT,
                             "image recipe: mean and std of channel %d are %g and %g, expected finite values and std > 0", c,
                             (double)recipe->mean[c], (double)recipe->std[c]);
        if (recipe->fill[c] < 0 || recipe->fill[c] > 255)
            return rvit_fail(RVIT_INVALID_ARGUMENT, "image recipe: fill is %d, expected 0..255", (int)recipe->fill[c]);
    }
    return RVIT_OK;
}

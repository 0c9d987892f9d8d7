/* Image recipes: their rules, and the recipe of a model. */
#include <math.h>

#include "core/base/args.h"
#include "core/base/entry.h"
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
    if ((int)recipe->fit < 0 || recipe->fit >= RVIT_FIT_OTHER)
        return rvit_fail(RVIT_INVALID_ARGUMENT, "image recipe: fit: %d is not a valid fit", (int)recipe->fit);
    if ((int)recipe->filter < 0 || recipe->filter == RVIT_FILTER_OTHER || recipe->filter > RVIT_FILTER_NEAREST)
        return rvit_fail(RVIT_INVALID_ARGUMENT, "image recipe: filter: %d is not a valid filter", (int)recipe->filter);
    if (recipe->processor == RVIT_PROCESSOR_HF_FLOAT)
        return rvit_fail(RVIT_UNSUPPORTED,
                         "image recipe: processor is HF_FLOAT, which resizes in float32, but only 8-bit resizing is supported");
    if ((int)recipe->processor < 0 || recipe->processor > RVIT_PROCESSOR_HF_FLOAT)
        return rvit_fail(RVIT_INVALID_ARGUMENT, "image recipe: processor: %d is not a valid processor", (int)recipe->processor);
    if (recipe->processor == RVIT_PROCESSOR_HF && recipe->filter != RVIT_FILTER_BILINEAR && recipe->filter != RVIT_FILTER_BICUBIC)
        return rvit_fail(RVIT_UNSUPPORTED, "image recipe: filter is %d, but processor HF supports only BILINEAR and BICUBIC",
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

/* timm's rule for its models without a crop_pct. */
static double default_crop(const rvit_model_info *info)
{
    return info->image_height < 384 || info->image_width < 384 ? 0.9 : 1;
}

rvit_status rvit_image_recipe_of_model(const rvit_model_info *given, rvit_image_recipe *out_recipe)
{
    RVIT_ENTRY;
    rvit_model_info info;
    RVIT_TRY(rvit_args_copy(&info, sizeof info, given, "model info"));
    rvit_image_recipe recipe = RVIT_IMAGE_RECIPE_INIT;
    recipe.fit = info.fit == RVIT_FIT_UNKNOWN ? RVIT_FIT_CROP : info.fit;
    recipe.filter = info.filter;
    recipe.processor = info.processor;
    recipe.height = info.image_height;
    recipe.width = info.image_width;
    recipe.resize_height = info.resize_height;
    recipe.resize_width = info.resize_width;
    recipe.max_patches = info.max_patches;
    if (recipe.resize_height == 0 || info.fit == RVIT_FIT_UNKNOWN) {
        const double crop = recipe.fit == RVIT_FIT_CROP ? default_crop(&info) : 1;
        recipe.resize_height = (int32_t)floor(info.image_height / crop);
        recipe.resize_width = (int32_t)floor(info.image_width / crop);
    }
    for (int c = 0; c < 3; c++) {
        recipe.mean[c] = info.mean[c];
        recipe.std[c] = info.std[c];
        recipe.fill[c] = info.fill[c];
    }
    if (info.channels != 3)
        return rvit_fail(RVIT_UNSUPPORTED, "the model takes images of %d channels, but a recipe makes images of 3", (int)info.channels);
    if (info.fit == RVIT_FIT_OTHER || info.filter == RVIT_FILTER_OTHER)
        return rvit_fail(RVIT_UNSUPPORTED, "the model's config files ask for an unsupported way to prepare images: their %s",
                         info.fit == RVIT_FIT_OTHER ? "fit" : "filter");
    if (!(recipe.std[0] > 0))
        return rvit_fail(RVIT_UNSUPPORTED, "no file beside the model has the mean and std of its images");
    RVIT_TRY(rvit_image_recipe_check(&recipe));
    return rvit_args_return(out_recipe, &recipe, sizeof recipe, "image recipe");
}

#include "recipe.h"

static int check_fit(int given, const rvit_model_info *info, const char *model)
{
    const bool squashes = info->fit == RVIT_FIT_SQUASH,
               bicubic = info->filter <= RVIT_FILTER_UNKNOWN || info->filter == RVIT_FILTER_BICUBIC;
    if ((!squashes && bicubic) || (given & RECIPE_CROP))
        return EXIT_OK;
    complain(model,
             "its files say that pictures are resized %s%s%s, which this tool does not do; with --crop P it resizes the shorter edge "
             "bicubically and crops the centre all the same",
             bicubic                                ? ""
             : info->filter == RVIT_FILTER_BILINEAR ? "by a bilinear filter"
                                                    : "by another filter",
             !bicubic && squashes ? " and " : "", squashes ? "without regard to their shape" : "");
    return EXIT_FILE;
}

int recipe_settle(struct preprocess *recipe, int given, const rvit_model_info *info, const char *model)
{
    const bool needs_mean = !(given & RECIPE_MEAN), needs_deviation = !(given & RECIPE_DEVIATION);
    if ((needs_mean || needs_deviation) && !(info->std[0] > 0)) {
        complain(model, "no file beside it tells the mean and the standard deviation of its pictures: give --mean and --std (DeiT: "
                        "0.485,0.456,0.406 and 0.229,0.224,0.225; timm's own ViT: 0.5 and 0.5)");
        return EXIT_FILE;
    }
    for (int c = 0; c < 3; c++) {
        if (needs_mean)
            recipe->mean[c] = info->mean[c];
        if (needs_deviation)
            recipe->deviation[c] = info->std[c];
    }
    if (!(given & RECIPE_CROP) && info->crop > 0)
        recipe->crop = (double)info->crop;
    return check_fit(given, info, model);
}

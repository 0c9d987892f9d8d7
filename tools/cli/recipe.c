#include "recipe.h"

#include <math.h>
#include <string.h>

static const char *find(const rvit_checkpoint *checkpoint, const char *fact, bool origin)
{
    const char *name, *value, *from;
    for (int32_t i = 0; rvit_checkpoint_fact(checkpoint, i, &name, &value, &from) == RVIT_OK; i++)
        if (strcmp(name, fact) == 0)
            return origin ? from : value;
    return "";
}

const char *recipe_origin(const rvit_checkpoint *checkpoint, const char *fact)
{
    return find(checkpoint, fact, true);
}

const char *recipe_value(const rvit_checkpoint *checkpoint, const char *fact)
{
    return find(checkpoint, fact, false);
}

/* timm's rule for its own models if the files have no crop. */
static double usual_crop(const rvit_image_recipe *known)
{
    return known->height < 384 || known->width < 384 ? 0.9 : 1;
}

static void set_sizes(const struct recipe_options *given, const rvit_image_recipe *known, rvit_fit fit, struct preprocess *out)
{
    out->height = known->height;
    out->width = known->width;
    out->resize_height = known->resize_height;
    out->resize_width = known->resize_width;
    if (given->crop == 0 && fit == known->fit)
        return;
    const double crop = given->crop > 0 ? given->crop : fit == RVIT_FIT_CROP ? usual_crop(known) : 1;
    out->resize_height = (int32_t)floor(known->height / crop);
    out->resize_width = (int32_t)floor(known->width / crop);
}

bool recipe_geometry(const struct recipe_options *given, const rvit_image_recipe *known, struct preprocess *out)
{
    static const enum preprocess_like likes[] = {[RVIT_PROCESSOR_UNKNOWN] = PREPROCESS_TIMM,
                                                 [RVIT_PROCESSOR_TIMM] = PREPROCESS_TIMM,
                                                 [RVIT_PROCESSOR_HF] = PREPROCESS_HF,
                                                 [RVIT_PROCESSOR_HF_FLOAT] = PREPROCESS_HF_FLOAT};
    const int filter = given->filter ? given->filter : (int)known->filter;
    const int fit = given->fit ? given->fit : (int)known->fit;
    if (fit == RVIT_FIT_OTHER || filter > RVIT_FILTER_BICUBIC)
        return false;
    out->fit = fit == RVIT_FIT_CROP ? PREPROCESS_CROP : fit == RVIT_FIT_SQUASH ? PREPROCESS_SQUASH : PREPROCESS_BORDER;
    out->filter = filter == RVIT_FILTER_BILINEAR ? RESIZE_BILINEAR : RESIZE_BICUBIC;
    out->like = likes[known->processor];
    if (out->like == PREPROCESS_HF_FLOAT && (given->fit || given->crop > 0))
        out->like = PREPROCESS_HF; /* which supports them */
    set_sizes(given, known, (rvit_fit)fit, out);
    for (int c = 0; c < 3; c++)
        out->fill[c] = (uint8_t)known->fill[c];
    return out->like != PREPROCESS_HF_FLOAT ||
           (fit == RVIT_FIT_SQUASH && out->resize_height == out->height && out->resize_width == out->width);
}

static int refuse(const rvit_checkpoint *checkpoint, const rvit_image_recipe *known, const char *model)
{
    const bool filter = known->filter == RVIT_FILTER_OTHER && known->fit != RVIT_FIT_OTHER;
    const char *fact = filter ? "filter" : "fit";
    return fail_with(EXIT_FILE, model,
                     "this tool does not support the model's image preparation (%s: %s, from %s); choose another with --fit and --filter",
                     fact, recipe_value(checkpoint, fact), recipe_origin(checkpoint, fact));
}

int recipe_resolve(const struct recipe_options *given, int which, const rvit_checkpoint *checkpoint, const char *model,
                   struct preprocess *out)
{
    rvit_image_recipe known = RVIT_IMAGE_RECIPE_INIT;
    const bool needs_mean = !(which & RECIPE_MEAN), needs_deviation = !(which & RECIPE_DEVIATION);
    *out = (struct preprocess){0};
    if (rvit_checkpoint_get_recipe(checkpoint, &known) != RVIT_OK)
        return fail_with(EXIT_FAULT, model, "%s", rvit_status_detail());
    if (!recipe_geometry(given, &known, out))
        return refuse(checkpoint, &known, model);
    if ((needs_mean || needs_deviation) && !(known.std[0] > 0))
        return fail_with(EXIT_FILE, model,
                         "the model's files do not give the mean and standard deviation of images; set --mean and --std (DeiT: "
                         "0.485,0.456,0.406 and 0.229,0.224,0.225; timm's own ViT: 0.5 and 0.5)");
    for (int c = 0; c < 3; c++) {
        out->mean[c] = needs_mean ? known.mean[c] : given->mean[c];
        out->deviation[c] = needs_deviation ? known.std[c] : given->deviation[c];
    }
    return EXIT_OK;
}

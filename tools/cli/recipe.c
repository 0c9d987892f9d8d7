#include "recipe.h"

#include <math.h>
#include <string.h>

static const char *find(const rvit_checkpoint *checkpoint, const char *fact, bool origin)
{
    rvit_checkpoint_info info = RVIT_CHECKPOINT_INFO_INIT;
    const bool is_known = rvit_checkpoint_get_info(checkpoint, &info) == RVIT_OK;
    for (int32_t i = 0; is_known && i < info.n_facts; i++)
        if (strcmp(info.facts[i].name, fact) == 0)
            return origin ? info.facts[i].origin : info.facts[i].value;
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
static double default_crop(const rvit_image_recipe *known)
{
    return known->height < 384 || known->width < 384 ? 0.9 : 1;
}

bool recipe_geometry(const struct recipe_options *given, const rvit_image_recipe *known, rvit_image_recipe *out)
{
    *out = *known;
    if (given->filter)
        out->filter = (rvit_filter)given->filter;
    if (given->fit)
        out->fit = (rvit_fit)given->fit;
    if (out->fit == RVIT_FIT_OTHER || (int)out->filter > RVIT_FILTER_BICUBIC)
        return false;
    if (out->processor == RVIT_PROCESSOR_HF_FLOAT && (given->fit || given->crop > 0))
        out->processor = RVIT_PROCESSOR_HF; /* it supports them */
    if (given->crop > 0 || out->fit != known->fit) {
        const double crop = given->crop > 0 ? given->crop : out->fit == RVIT_FIT_CROP ? default_crop(known) : 1;
        out->resize_height = (int32_t)floor(known->height / crop);
        out->resize_width = (int32_t)floor(known->width / crop);
    }
    return out->processor != RVIT_PROCESSOR_HF_FLOAT ||
           (out->fit == RVIT_FIT_SQUASH && out->resize_height == out->height && out->resize_width == out->width);
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
                   rvit_image_recipe *out)
{
    rvit_image_recipe known = RVIT_IMAGE_RECIPE_INIT;
    const bool needs_mean = !(which & RECIPE_MEAN), needs_deviation = !(which & RECIPE_DEVIATION);
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
        out->std[c] = needs_deviation ? known.std[c] : given->deviation[c];
    }
    return EXIT_OK;
}

#include "image_plan.h"

#include <stdio.h>

#define MEMORY_EACH ((int64_t)2 << 20) /* average bytes per image, such as 900 x 776 pixels */
#define LEAST_MEMORY ((int64_t)24 << 20)
#define MOST_MEMORY ((int64_t)256 << 20)

static rvit_image_recipe recipe_for_library(const struct preprocess *recipe, int32_t patch_size, int32_t max_patches)
{
    static const rvit_fit fits[] = {
        [PREPROCESS_CROP] = RVIT_FIT_CROP, [PREPROCESS_SQUASH] = RVIT_FIT_SQUASH, [PREPROCESS_BORDER] = RVIT_FIT_BORDER};
    rvit_image_recipe out = RVIT_IMAGE_RECIPE_INIT;
    out.fit = fits[recipe->fit];
    out.filter = recipe->filter == RESIZE_BILINEAR ? RVIT_FILTER_BILINEAR : RVIT_FILTER_BICUBIC;
    /* Float32 resizing is done on the host, so the session does not use the recipe. */
    out.processor = recipe->like == PREPROCESS_TIMM ? RVIT_PROCESSOR_TIMM : RVIT_PROCESSOR_HF;
    out.height = recipe->height;
    out.width = recipe->width;
    out.resize_height = recipe->resize_height;
    out.resize_width = recipe->resize_width;
    out.patch_size = patch_size;
    out.max_patches = max_patches;
    for (int c = 0; c < 3; c++) {
        out.mean[c] = recipe->mean[c];
        out.std[c] = recipe->deviation[c];
        out.fill[c] = recipe->fill[c];
    }
    return out;
}

void image_plan_make(const struct preprocess *recipe, const rvit_model_info *info, int32_t max_images, int32_t max_tokens,
                     int32_t max_patches, struct image_plan *out)
{
    const bool variable_resolution = max_tokens > 0;
    *out = (struct image_plan){.recipe = recipe,
                               .device = recipe_for_library(recipe, info->patch_size, max_patches),
                               .on_host = recipe->like == PREPROCESS_HF_FLOAT,
                               .variable_resolution = variable_resolution,
                               .patch_size = info->patch_size,
                               .n_prefix = info->n_prefix,
                               .max_patches = max_patches,
                               .max_images = max_images,
                               .max_tokens = variable_resolution ? max_tokens : max_images * info->tokens,
                               .model_tokens = info->tokens};
    /* Room for two of the largest inputs as float32 planes, because larger images are passed as planes. */
    const int64_t patches =
        variable_resolution ? max_tokens : (int64_t)recipe->height * recipe->width / info->patch_size / info->patch_size + 1;
    const int64_t planes = 2 * (patches * info->patch_size * info->patch_size * 12 + (1 << 16));
    out->memory = max_images * MEMORY_EACH;
    out->memory = out->memory < LEAST_MEMORY ? LEAST_MEMORY : out->memory > MOST_MEMORY ? MOST_MEMORY : out->memory;
    out->memory = out->memory < planes ? planes : out->memory;
}

int64_t image_plan_bytes(const struct image_plan *self)
{
    return rvit_images_table_size(self->max_images) + self->memory;
}

bool image_target_of(const struct image_plan *self, int32_t width, int32_t height, struct image_target *out, struct image_error *error)
{
    const int32_t patch = self->patch_size;
    int32_t grid[2] = {self->recipe->height / patch, self->recipe->width / patch};
    if (!self->variable_resolution) {
        *out = (struct image_target){grid[0], grid[1], self->model_tokens};
        return true;
    }
    if (self->max_patches > 0 && rvit_image_recipe_grid(&self->device, height, width, grid) != RVIT_OK)
        return image_fail(error, "%s", rvit_status_detail());
    if (self->max_patches == 0) {
        grid[0] = (height - 1) / patch + 1;
        grid[1] = (width - 1) / patch + 1;
    }
    const int64_t tokens = self->n_prefix + (int64_t)grid[0] * grid[1];
    if (tokens > self->max_tokens)
        return image_fail(error, "%d x %d pixels are %d x %d patches and %lld tokens, more than --max-tokens %d; --max-patches resizes it",
                          width, height, grid[0], grid[1], (long long)tokens, self->max_tokens);
    *out = (struct image_target){grid[0], grid[1], (int32_t)tokens};
    return true;
}

rvit_image image_for_run(const struct image_plan *self, int32_t width, int32_t height, rvit_image_format format, struct image_target target)
{
    rvit_image out = RVIT_IMAGE_INIT;
    out.width = width;
    out.height = height;
    out.format = format;
    if (self->variable_resolution) {
        out.target_width = target.columns * self->patch_size;
        out.target_height = target.lines * self->patch_size;
    }
    return out;
}

int64_t image_bytes(const rvit_image *image)
{
    const int64_t width = image->width, height = image->height, n = width * height;
    switch (image->format) {
    case RVIT_IMAGE_GRAY8:
        return n;
    case RVIT_IMAGE_NV12:
        return n + 2 * ((width + 1) / 2) * ((height + 1) / 2);
    case RVIT_IMAGE_PLANAR_F32:
        return 12 * n;
    default:
        return 3 * n;
    }
}

int64_t image_weight_bytes(const struct image_plan *self, const rvit_image *image)
{
    rvit_images_args args = RVIT_IMAGES_ARGS_INIT;
    int64_t empty = 0, whole = 0;
    args.recipe = &self->device;
    args.images = image;
    args.max_images = 1;
    args.max_rows = INT32_MAX / 2;
    args.patch_size = self->patch_size;
    if (rvit_images_write(&args, NULL, 0, &empty) != RVIT_OK)
        return -1;
    args.n_images = 1;
    if (rvit_images_write(&args, NULL, 0, &whole) != RVIT_OK)
        return -1;
    return whole - empty - image_bytes(image);
}

bool image_prepare(const struct image_plan *self, struct image_view source, bool whole, struct image_target target, float *out,
                   struct image_error *error)
{
    struct preprocess recipe = *self->recipe;
    if (self->variable_resolution) {
        recipe.fit = PREPROCESS_SQUASH;
        recipe.height = recipe.resize_height = target.lines * self->patch_size;
        recipe.width = recipe.resize_width = target.columns * self->patch_size;
    }
    return preprocess_image(source, &recipe, whole, out, NULL, error);
}

struct preprocess_geometry image_geometry(const struct image_plan *self, int32_t width, int32_t height, bool whole,
                                          struct image_target target)
{
    if (self->variable_resolution)
        return (struct preprocess_geometry){.width = (int64_t)target.columns * self->patch_size,
                                            .height = (int64_t)target.lines * self->patch_size};
    return preprocess_geometry_of(self->recipe, width, height, whole);
}

#include "image_plan.h"

#include <stdio.h>

#define MEMORY_EACH ((int64_t)2 << 20) /* average bytes per image, such as 900 x 776 pixels */
#define MIN_MEMORY ((int64_t)24 << 20)
#define MAX_MEMORY ((int64_t)256 << 20)

void image_plan_make(const rvit_image_recipe *recipe, const rvit_model_info *info, int32_t max_images, int32_t max_tokens,
                     int32_t max_patches, struct image_plan *out)
{
    const bool variable_resolution = max_tokens > 0;
    *out = (struct image_plan){.recipe = *recipe,
                               .on_host = recipe->processor == RVIT_PROCESSOR_HF_FLOAT,
                               .variable_resolution = variable_resolution,
                               .patch_size = info->patch_size,
                               .n_prefix = info->n_prefix,
                               .max_patches = max_patches,
                               .max_images = max_images,
                               .max_tokens = variable_resolution ? max_tokens : max_images * info->tokens,
                               .model_tokens = info->tokens};
    out->recipe.patch_size = info->patch_size;
    out->recipe.max_patches = max_patches;
    /* Room for two of the largest inputs as float32 planes, because larger images are passed as planes. */
    const int64_t patches =
        variable_resolution ? max_tokens : (int64_t)recipe->height * recipe->width / info->patch_size / info->patch_size + 1;
    const int64_t planes = 2 * (patches * info->patch_size * info->patch_size * 12 + (1 << 16));
    out->memory = max_images * MEMORY_EACH;
    out->memory = out->memory < MIN_MEMORY ? MIN_MEMORY : out->memory > MAX_MEMORY ? MAX_MEMORY : out->memory;
    out->memory = out->memory < planes ? planes : out->memory;
}

int64_t image_plan_bytes(const struct image_plan *self)
{
    return rvit_images_table_size(self->max_images) + self->memory;
}

bool image_target_of(const struct image_plan *self, int32_t width, int32_t height, struct image_target *out, struct image_error *error)
{
    const int32_t patch = self->patch_size;
    int32_t grid[2] = {self->recipe.height / patch, self->recipe.width / patch};
    if (!self->variable_resolution) {
        *out = (struct image_target){grid[0], grid[1], self->model_tokens};
        return true;
    }
    if (self->max_patches > 0 && rvit_image_recipe_grid(&self->recipe, height, width, grid) != RVIT_OK)
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

int32_t image_target_width(const struct image_plan *self, struct image_target target)
{
    return self->variable_resolution ? target.columns * self->patch_size : self->recipe.width;
}

int32_t image_target_height(const struct image_plan *self, struct image_target target)
{
    return self->variable_resolution ? target.lines * self->patch_size : self->recipe.height;
}

rvit_image image_for_run(const struct image_plan *self, int32_t width, int32_t height, rvit_image_format format, struct image_target target)
{
    rvit_image out = RVIT_IMAGE_INIT;
    out.width = width;
    out.height = height;
    out.format = format;
    if (self->variable_resolution) {
        out.target_width = image_target_width(self, target);
        out.target_height = image_target_height(self, target);
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
    args.recipe = &self->recipe;
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

rvit_image image_source(const struct image_plan *self, struct image_view source, bool whole, struct image_target target)
{
    rvit_image out = preprocess_source(source);
    if (self->variable_resolution || whole) {
        out.target_width = image_target_width(self, target);
        out.target_height = image_target_height(self, target);
    }
    return out;
}

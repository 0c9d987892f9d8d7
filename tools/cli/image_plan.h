/* Plans how images get into sessions that resize them on the device: target size and memory. */
#ifndef RVIT_CLI_IMAGE_PLAN_H
#define RVIT_CLI_IMAGE_PLAN_H

#include "cli.h"
#include "preprocess.h"

struct image_plan {
    rvit_image_recipe recipe;
    bool on_host;             /* host threads resize, because devices do not support the recipe, and pass float32 planes */
    bool variable_resolution; /* each image has its own patch grid, else the model's */
    int32_t patch_size, n_prefix;
    int32_t max_patches; /* with variable_resolution: limit of the NaFlex rule; 0: own size */
    int32_t max_images, max_tokens;
    int32_t model_tokens; /* per image, without variable_resolution */
    int64_t memory;       /* bytes for a session's images and their resize weights */
};

/* max_tokens 0: without variable_resolution. */
void image_plan_make(const rvit_image_recipe *recipe, const rvit_model_info *info, int32_t max_images, int32_t max_tokens,
                     int32_t max_patches, struct image_plan *out);
/* rvit_session_desc.input_bytes */
int64_t image_plan_bytes(const struct image_plan *self);

struct image_target {
    int32_t lines, columns; /* of patches */
    int32_t tokens;
};
/* Returns false if the image has more tokens than a batch may have. */
bool image_target_of(const struct image_plan *self, int32_t width, int32_t height, struct image_target *out, struct image_error *error);

/* Pixels. */
int32_t image_target_width(const struct image_plan *self, struct image_target target);
int32_t image_target_height(const struct image_plan *self, struct image_target target);

/* An image for a run, without data. */
rvit_image image_for_run(const struct image_plan *self, int32_t width, int32_t height, rvit_image_format format,
                         struct image_target target);
/* Bytes of the pixels. */
int64_t image_bytes(const rvit_image *image);
/* Bytes of the resize weights; negative if the library does not support the resize. */
int64_t image_weight_bytes(const struct image_plan *self, const rvit_image *image);

/* An image for preprocess_image, with this target. whole: squashed regardless of the recipe's fit, for a tile of a sheet. */
rvit_image image_source(const struct image_plan *self, struct image_view source, bool whole, struct image_target target);

#endif

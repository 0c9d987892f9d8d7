/* Images on their way to sessions that resize them on the device: what becomes of one, and what it takes. */
#ifndef RVIT_CLI_IMAGE_PLAN_H
#define RVIT_CLI_IMAGE_PLAN_H

#include "cli.h"
#include "preprocess.h"

struct image_plan {
    const struct preprocess *recipe;
    rvit_image_recipe device; /* the same, for the library */
    bool on_host;             /* the library does not resize like this: threads do, and hand over float32 planes */
    bool variable_resolution; /* each image at a grid of its own; else all at the model's */
    int32_t patch_size, n_prefix;
    int32_t max_patches; /* native: by the rule of NaFlex, to at most so many; 0: at its own size */
    int32_t max_images, max_tokens;
    int32_t model_tokens; /* of an image, not native */
    int64_t memory;       /* bytes of a session's images, with the weights of their resize */
};

/* recipe: borrowed. max_tokens 0: not native. */
void image_plan_make(const struct preprocess *recipe, const rvit_model_info *info, int32_t max_images, int32_t max_tokens,
                     int32_t max_patches, struct image_plan *out);
/* rvit_session_desc.max_picture_bytes */
int64_t image_plan_bytes(const struct image_plan *self);

struct image_target {
    int32_t lines, columns; /* of patches */
    int32_t tokens;
};
/* False: the image has more patches than a batch may have, and nothing says that it is to be made smaller. */
bool image_target_of(const struct image_plan *self, int32_t width, int32_t height, struct image_target *out, struct image_error *error);

/* An image for a run, still without data. */
rvit_image image_for_run(const struct image_plan *self, int32_t width, int32_t height, rvit_image_format format,
                         struct image_target target);
/* Bytes of its pixels. */
int64_t image_bytes(const rvit_image *image);
/* Bytes that the weights of its resize take; below 0: the library does not resize it. */
int64_t image_weight_bytes(const struct image_plan *self, const rvit_image *image);

/* Resizes and normalises here, as the recipe says: out f32 [3, height, width] of the target. whole: squashed, whatever the recipe's fit. */
bool image_prepare(const struct image_plan *self, struct image_view source, bool whole, struct image_target target, float *out,
                   struct image_error *error);
/* Where a target lies in the resized image, for an overlay. */
struct preprocess_geometry image_geometry(const struct image_plan *self, int32_t width, int32_t height, bool whole,
                                          struct image_target target);

#endif

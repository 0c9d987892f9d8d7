/* Prepares images by the recipes of the library. */
#ifndef RVIT_CLI_PREPROCESS_H
#define RVIT_CLI_PREPROCESS_H

#include <raggedvit/image.h>

#include "image.h"

/* A view as an rvit_image. */
rvit_image preprocess_source(struct image_view view);
/* rvit_image_prepare with the message in error. */
bool preprocess_image(const rvit_image_recipe *recipe, const rvit_image *image, float *out, rvit_image_geometry *out_geometry,
                      struct image_error *error);
/* Resizes to width x height with the bicubic filter. */
bool preprocess_resize(struct image_view source, int32_t width, int32_t height, struct image *out, struct image_error *error);

#endif

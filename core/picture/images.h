/* Recipes of pictures, and how a session writes them. */
#ifndef RVIT_CORE_PICTURE_IMAGES_H
#define RVIT_CORE_PICTURE_IMAGES_H

#include <raggedvit/vit.h>

#include "core/picture/image_axes.h"

#define RVIT_IMAGE_MAX_TARGET (1 << 14) /* pixels each way */

/* Fills in defaults and checks a recipe. */
rvit_status rvit_image_recipe_check(rvit_image_recipe *recipe);

/* rvit_images_write, with the same bytes, and axes, or NULL, that earlier ones have left. */
rvit_status rvit_images_write_with(const rvit_images_args *args, rvit_image_axes *axes, void *region, int64_t size, int64_t *out_size);

#endif

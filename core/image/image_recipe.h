/* Image recipes. */
#ifndef RVIT_CORE_IMAGE_IMAGE_RECIPE_H
#define RVIT_CORE_IMAGE_IMAGE_RECIPE_H

#include <raggedvit/image.h>

#define RVIT_IMAGE_MAX_TARGET (1 << 14) /* pixels per side */

/* Fills in defaults and checks a recipe. */
rvit_status rvit_image_recipe_check(rvit_image_recipe *recipe);

#endif

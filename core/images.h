/* Recipes of pictures. */
#ifndef RVIT_CORE_IMAGES_H
#define RVIT_CORE_IMAGES_H

#include <raggedvit/images.h>

/* Fills in defaults and checks a recipe. */
rvit_status rvit_image_recipe_check(rvit_image_recipe *recipe);

#endif

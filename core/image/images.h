/* How a session writes its pictures. */
#ifndef RVIT_CORE_IMAGE_IMAGES_H
#define RVIT_CORE_IMAGE_IMAGES_H

#include <raggedvit/image.h>

#include "core/image/image_axes.h"

/* rvit_images_write, with the same bytes, and axes, or NULL, that earlier ones have left. */
rvit_status rvit_images_write_with(const rvit_images_args *args, rvit_image_axes *axes, void *region, int64_t size, int64_t *out_size);

#endif

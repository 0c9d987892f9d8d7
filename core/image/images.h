/* How a session stages its images. */
#ifndef RVIT_CORE_IMAGE_IMAGES_H
#define RVIT_CORE_IMAGE_IMAGES_H

#include <raggedvit/image.h>

#include "core/image/image_axes.h"

/* rvit_images_write with a cache of axes, or NULL. The cache does not change the result. */
rvit_status rvit_images_write_with(const rvit_images_args *args, rvit_image_axes *axes, void *staging, int64_t size, int64_t *out_size);

#endif

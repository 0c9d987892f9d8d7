/* A picture of the patches that a pruned run kept. */
#ifndef RVIT_CLI_OVERLAY_H
#define RVIT_CLI_OVERLAY_H

#include "image.h"

/* Writes an enlarged PNG. view: the model's input. dropped_at [patches]: 0 for a kept patch, s for one dropped by stage s of n_stages;
   earlier ones are darker. */
bool overlay_write(const char *path, const struct image *view, int32_t patch_size, const uint8_t *dropped_at, int32_t n_stages,
                   struct image_error *error);

#endif

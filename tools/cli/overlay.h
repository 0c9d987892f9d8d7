/* The picture of what a pruned run looked at. */
#ifndef RVIT_CLI_OVERLAY_H
#define RVIT_CLI_OVERLAY_H

#include "image.h"

/* view: what the model sees. dropped_at [patches]: 0 for a kept patch, s for one dropped by the s-th of n_stages prune stages; the
   earlier, the darker. Writes a PNG, enlarged. */
bool overlay_write(const char *path, const struct image *view, int32_t patch_size, const uint8_t *dropped_at, int32_t n_stages,
                   struct image_error *error);

#endif

/* Draws the patches that a pruned run kept. */
#ifndef RVIT_CLI_OVERLAY_H
#define RVIT_CLI_OVERLAY_H

#include "preprocess.h"

struct overlay {
    const struct image *image;
    rvit_image_geometry geometry;      /* size of the resized image, and the model's view in it */
    int32_t columns, rows, patch_size; /* patches of the view */
    const uint8_t *dropped_at;         /* [rows, columns]: 0 for kept patches, s for those dropped by stage s of n_stages */
    int32_t n_stages;
};

/* Writes a PNG of the image in its own aspect ratio; enlarges small images and reduces large ones. Dropped patches are dimmed, earlier ones
   more; what the model does not see is grey. */
bool overlay_write(const char *path, const struct overlay *self, struct image_error *error);

#endif

/* An image of the patches that a pruned run kept. */
#ifndef RVIT_CLI_OVERLAY_H
#define RVIT_CLI_OVERLAY_H

#include "preprocess.h"

struct overlay {
    const struct image *image;
    struct preprocess_geometry geometry; /* of the image as it is resized, and where the model's view lies in it */
    int32_t columns, rows, patch_size;   /* of the view's patches */
    const uint8_t *dropped_at;           /* [rows, columns]: 0 for a kept patch, s for one dropped by stage s of n_stages */
    int32_t n_stages;
};

/* Writes a PNG of the image in its own shape, small ones enlarged and large ones reduced. Dropped patches are dimmed, earlier ones more;
   what the model does not see is grey. */
bool overlay_write(const char *path, const struct overlay *self, struct image_error *error);

#endif

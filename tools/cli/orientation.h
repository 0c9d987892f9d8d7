/* How a camera was held: EXIF's orientation, 1 to 8. */
#ifndef RVIT_CLI_ORIENTATION_H
#define RVIT_CLI_ORIENTATION_H

#include "image.h"

/* Of a whole file; 1, as the pixels lie, where nothing tells it, or the EXIF data is damaged. */
int orientation_of_jpeg(const uint8_t *data, size_t size);
int orientation_of_png(const uint8_t *data, size_t size);

/* Whether lines become columns. */
bool orientation_swaps(int orientation);
/* Turns the picture upright. It is unchanged on failure: out of memory. */
bool orientation_apply(int orientation, struct image *picture, struct image_error *error);

#endif

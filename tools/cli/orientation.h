/* How a camera was held: the orientation of EXIF and XMP, 1 to 8. */
#ifndef RVIT_CLI_ORIENTATION_H
#define RVIT_CLI_ORIENTATION_H

#include "image.h"

/* Of a whole file; 1: as the pixels lie, also where nothing tells it or the EXIF data is damaged; 0: out of memory. The rule is that of
   ImageOps.exif_transpose in Pillow 13: of EXIF's first directory the first readable tag counts, if its value is a number and whatever its
   type; XMP counts where that tag is missing. */
int orientation_of_jpeg(const uint8_t *data, size_t size);
int orientation_of_png(const uint8_t *data, size_t size);
/* The same of what a container holds: EXIF with at most two "Exif\0\0" before it. Size 0: there is none. */
int orientation_of_metadata(const uint8_t *exif, size_t exif_size, const uint8_t *xmp, size_t xmp_size);

/* Whether lines become columns. */
bool orientation_swaps(int orientation);
/* Turns the image upright. It is unchanged on failure: out of memory. */
bool orientation_apply(int orientation, struct image *image, struct image_error *error);

#endif

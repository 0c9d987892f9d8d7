/* The orientation of an image in EXIF and XMP, 1 to 8. */
#ifndef RVIT_CLI_ORIENTATION_H
#define RVIT_CLI_ORIENTATION_H

#include "image.h"

/* The orientation of a file: 1 if upright, unknown or damaged, 0 if out of memory. Same rule as ImageOps.exif_transpose in Pillow 13: the
   first readable tag in EXIF's first directory counts if its value is a number of any type, and XMP counts if that tag is missing. */
int orientation_of_jpeg(const uint8_t *data, size_t size);
int orientation_of_png(const uint8_t *data, size_t size);
/* The same for the metadata of a container: EXIF after at most two "Exif\0\0". Size 0: no such metadata. */
int orientation_of_metadata(const uint8_t *exif, size_t exif_size, const uint8_t *xmp, size_t xmp_size);

/* Whether rows become columns. */
bool orientation_swaps(int orientation);
/* Turns the image upright. If out of memory, the image does not change. */
bool orientation_apply(int orientation, struct image *image, struct image_error *error);

#endif

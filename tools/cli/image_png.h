#ifndef RVIT_CLI_IMAGE_PNG_H
#define RVIT_CLI_IMAGE_PNG_H

#include "image.h"

/* Writes a PNG file by output_file.h. */
bool image_write_png(const char *path, const struct image *image, struct image_error *error);

#endif

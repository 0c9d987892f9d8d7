/* Reads PNG, JPEG, WebP and BMP files as 8-bit RGB. */
#ifndef RVIT_CLI_IMAGE_FILE_H
#define RVIT_CLI_IMAGE_FILE_H

#include "image.h"

/* Decodes a file by its first bytes and turns the image upright by its EXIF or XMP orientation (orientation.h). Converts grey, palettes,
   CMYK and YCCK (inverted, as Adobe writes them) to RGB, keeps the upper 8 of 16 bits, drops alpha, and takes the first frame of an
   animation. The result equals Pillow's ImageOps.exif_transpose(...).convert("RGB"), except for 16-bit grey, which Pillow clips. Damaged
   pixels are an error, and so are JPEGs with far more scans than encoders write, and WebP in a build without libwebp. Damaged EXIF data is
   ignored. */
bool image_decode(const void *data, size_t size, struct image *out, struct image_error *error);
bool image_load(const char *path, struct image *out, struct image_error *error);
/* Reads the file that image_load decodes. Free the data with free(). */
bool image_read_file(const char *path, char **out_data, size_t *out_size, struct image_error *error);
/* Like image_decode and image_load, into the caller's memory, whose contents are undefined after a failure. */
bool image_load_to(const char *path, const struct image_taker *taker, struct image_error *error);
bool image_decode_to(const void *data, size_t size, const struct image_taker *taker, struct image_error *error);
/* Like image_load, but faster and with different values: a JPEG may be decoded at 1/2, 1/4 or 1/8 of its size if that divides its width and
   height, at the smallest scale that is not below the given size. */
bool image_load_reduced(const char *path, int32_t min_width, int32_t min_height, struct image *out, struct image_error *error);
/* Reads only the size of the upright image from the header. Rejects what image_load would reject. */
bool image_load_size(const char *path, int32_t *out_width, int32_t *out_height, struct image_error *error);
bool image_decode_size(const void *data, size_t size, int32_t *out_width, int32_t *out_height, struct image_error *error);

#endif

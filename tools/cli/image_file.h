/* Reads images: PNG, JPEG, WebP and BMP, as 8-bit RGB whatever the file holds. */
#ifndef RVIT_CLI_IMAGE_FILE_H
#define RVIT_CLI_IMAGE_FILE_H

#include "image.h"

/* Decodes PNG, JPEG, WebP and BMP, recognised by their first bytes, and turns them upright as their EXIF data or XMP says (orientation.h).
   Grey becomes RGB, palettes are looked up, of 16 bits the upper 8 are used, alpha is dropped, CMYK and YCCK are converted, both inverted
   as Adobe writes them; of an animation it is the first image. The result equals Pillow's ImageOps.exif_transpose(...).convert("RGB"),
   except for 16-bit grey, which Pillow clips. Damage that reaches pixels is an error, and so is a JPEG with far more scans than encoders
   write. Damaged EXIF data is passed over. Without libwebp a WebP is an error. */
bool image_decode(const void *data, size_t size, struct image *out, struct image_error *error);
bool image_load(const char *path, struct image *out, struct image_error *error);
/* The file that image_load decodes; free the data with free(). */
bool image_read_file(const char *path, char **out_data, size_t *out_size, struct image_error *error);
/* As image_decode and image_load, into the caller's memory, which has no meaning after a failure. */
bool image_load_to(const char *path, const struct image_taker *taker, struct image_error *error);
bool image_decode_to(const void *data, size_t size, const struct image_taker *taker, struct image_error *error);
/* As image_load, but a JPEG may be decoded at a half, a quarter or an eighth of its width and height, if these divide it without a rest: at
   the smallest that is at least as large as given. Faster, with other values. */
bool image_load_reduced(const char *path, int32_t least_width, int32_t least_height, struct image *out, struct image_error *error);
/* Reads only the size of the upright image, from the header; rejects what image_load would reject. */
bool image_load_size(const char *path, int32_t *out_width, int32_t *out_height, struct image_error *error);
bool image_decode_size(const void *data, size_t size, int32_t *out_width, int32_t *out_height, struct image_error *error);

#endif

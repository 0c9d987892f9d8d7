/* Images in memory: 8-bit RGB, whatever the file held. Reads PNG, JPEG, WebP and BMP, writes PNG. */
#ifndef RVIT_CLI_IMAGE_H
#define RVIT_CLI_IMAGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct image {
    int32_t width, height;
    uint8_t *pixels; /* [height, width, 3], without padding; free with free() */
};

/* A rectangle of pixels owned elsewhere. */
struct image_view {
    const uint8_t *pixels; /* its top left corner */
    int64_t stride;        /* bytes between lines */
    int32_t width, height;
};

/* One sentence without a full stop and without the file's name. */
struct image_error {
    char text[256];
};

/* Larger pictures are rejected before memory is allocated for them. */
#define IMAGE_MAX_PIXELS ((int64_t)200 * 1000 * 1000)

/* Whether the size is within the limit. */
bool image_check_size(int32_t width, int32_t height, struct image_error *error);
/* Allocates the pixels; their values are undefined. */
bool image_create(int32_t width, int32_t height, struct image *out, struct image_error *error);
void image_free(struct image *picture);
struct image_view image_whole(const struct image *picture);

/* Decodes PNG, JPEG, WebP and BMP, recognised by their first bytes, and turns them upright as their EXIF data or XMP says (orientation.h).
   Grey becomes RGB, palettes are looked up, of 16 bits the upper 8 are used, alpha is dropped, CMYK and YCCK are converted, both inverted
   as Adobe writes them; of an animation it is the first picture. The result equals Pillow's ImageOps.exif_transpose(...).convert("RGB"),
   except for 16-bit grey, which Pillow clips. Damage that reaches pixels is an error, and so is a JPEG with far more scans than encoders
   write. Damaged EXIF data is passed over. Without libwebp a WebP is an error. */
bool image_decode(const void *data, size_t size, struct image *out, struct image_error *error);
bool image_load(const char *path, struct image *out, struct image_error *error);
/* The file that image_load decodes; free the data with free(). */
bool image_read_file(const char *path, char **out_data, size_t *out_size, struct image_error *error);
/* Where the pixels of a picture go: called once, with the size of the upright picture. Returns memory of [height, width, 3] bytes, which
   stays the caller's; NULL: the error says why the picture is not wanted. */
struct image_taker {
    uint8_t *(*take)(void *user, int32_t width, int32_t height, struct image_error *error);
    void *user;
};
/* The same into the caller's memory, which has no meaning after a failure. */
bool image_load_to(const char *path, const struct image_taker *taker, struct image_error *error);
bool image_decode_to(const void *data, size_t size, const struct image_taker *taker, struct image_error *error);
/* As image_load, but a JPEG may be decoded at a half, a quarter or an eighth of its width and height, if these divide it without a rest: at
   the smallest that is at least as large as given. Faster, with other values. */
bool image_load_reduced(const char *path, int32_t least_width, int32_t least_height, struct image *out, struct image_error *error);
/* Reads only the size of the upright picture, from the header; rejects what image_load would reject. */
bool image_load_size(const char *path, int32_t *out_width, int32_t *out_height, struct image_error *error);
bool image_decode_size(const void *data, size_t size, int32_t *out_width, int32_t *out_height, struct image_error *error);

/* As output_file.h does it. */
bool image_write_png(const char *path, const struct image *picture, struct image_error *error);

#endif

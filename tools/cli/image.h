/* Images in memory: 8-bit RGB, whatever the file held. Reads PNG and JPEG, writes PNG. */
#ifndef RVIT_CLI_IMAGE_H
#define RVIT_CLI_IMAGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct image {
    int32_t width, height;
    uint8_t *pixels; /* [height, width, 3], no padding; free() ends it */
};

/* A rectangle of somebody's pixels. */
struct image_view {
    const uint8_t *pixels; /* its top left corner */
    int64_t stride;        /* bytes between lines */
    int32_t width, height;
};

/* One sentence without a full stop and without the file's name. */
struct image_error {
    char text[256];
};

/* Larger pictures are refused before memory is taken for them. */
#define IMAGE_MAX_PIXELS ((int64_t)200 * 1000 * 1000)

/* Allocates the pixels, undefined. */
bool image_create(int32_t width, int32_t height, struct image *out, struct image_error *error);
void image_free(struct image *picture);
struct image_view image_whole(const struct image *picture);

/* The kind is told by the first bytes, not by a name. Grey becomes RGB, palettes are looked up, of 16 bits the upper 8 are taken, alpha is
   dropped, CMYK is converted, an orientation tag is not applied: what Pillow's convert("RGB") gives (16-bit grey, which it clips,
   excepted). Damage that reaches pixels is an error, and so is a JPEG of far more scans than encoders make. */
bool image_decode(const void *data, size_t size, struct image *out, struct image_error *error);
bool image_load(const char *path, struct image *out, struct image_error *error);
/* The size alone, from the header; refused where image_load would refuse it. */
bool image_load_size(const char *path, int32_t *out_width, int32_t *out_height, struct image_error *error);

bool image_write_png(const char *path, const struct image *picture, struct image_error *error);

#endif

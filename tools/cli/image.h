/* Images in memory, 8-bit RGB. image_file.h reads files, image_png.h writes PNG files. */
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
    const uint8_t *pixels; /* top left corner */
    int64_t stride;        /* bytes between lines */
    int32_t width, height;
};

/* One sentence without a full stop and without the file's name. */
struct image_error {
    char text[256];
};

/* Larger images are rejected before memory is allocated. */
#define IMAGE_MAX_PIXELS ((int64_t)200 * 1000 * 1000)

/* Whether the size is within the limit. */
bool image_check_size(int32_t width, int32_t height, struct image_error *error);
/* Allocates the pixels; their values are undefined. */
bool image_create(int32_t width, int32_t height, struct image *out, struct image_error *error);
void image_free(struct image *image);
struct image_view image_whole(const struct image *image);
/* Copies a view. */
bool image_copy(struct image_view view, struct image *out, struct image_error *error);

/* Provides memory for the pixels of an image. take is called once with the size of the upright image and returns memory of [height, width,
   3] bytes, which the caller owns, or NULL with the reason in error. */
struct image_taker {
    uint8_t *(*take)(void *user, int32_t width, int32_t height, struct image_error *error);
    void *user;
};

/* Sets the text; returns false. */
__attribute__((format(printf, 2, 3))) bool image_fail(struct image_error *error, const char *format, ...);

#endif

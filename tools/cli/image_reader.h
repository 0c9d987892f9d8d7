/* What the readers of the kinds of files share. */
#ifndef RVIT_CLI_IMAGE_READER_H
#define RVIT_CLI_IMAGE_READER_H

#include "image.h"

/* Functions that call setjmp keep everything they change in this struct, so that longjmp leaves no local indeterminate. */
struct image_reader {
    const uint8_t *data;
    size_t size, offset;
    bool size_only;
    int32_t least_width, least_height; /* of the upright image, of which smaller ones will do; 0: the whole size */
    const struct image_taker *taker;   /* of the pixels; NULL: they get memory of their own */
    int orientation;                   /* set before image_reader_create */
    bool is_taken;                     /* result is the taker's */
    struct image result;               /* as it lies in the file; owned until the reader returns it, unless it is the taker's */
    struct image_error *error;
};

/* Each fills in the result: only the size with size_only. */
bool image_read_png(struct image_reader *input);
bool image_read_jpeg(struct image_reader *input);
bool image_read_webp(struct image_reader *input);
bool image_read_bmp(struct image_reader *input);

/* For readers: the memory of the result, or with size_only the check of its size. */
bool image_reader_create(struct image_reader *input, int32_t width, int32_t height);

#endif

/* Shared by the readers of the image formats. */
#ifndef RVIT_CLI_IMAGE_READER_H
#define RVIT_CLI_IMAGE_READER_H

#include "image.h"

/* Functions that call setjmp keep all changing state in this struct, so that longjmp leaves no local variable indeterminate. */
struct image_reader {
    const uint8_t *data;
    size_t size, offset;
    bool size_only;
    int32_t min_width, min_height;   /* smallest acceptable size of the upright image; 0: full size */
    const struct image_taker *taker; /* receives the pixels; NULL: memory is allocated */
    int orientation;                 /* set before image_reader_create */
    bool is_taken;                   /* the taker owns the pixels of result */
    struct image result;             /* not yet turned upright; owned unless is_taken */
    struct image_error *error;
};

/* Each sets the result; with size_only only its size. */
bool image_read_png(struct image_reader *input);
bool image_read_jpeg(struct image_reader *input);
bool image_read_webp(struct image_reader *input);
bool image_read_bmp(struct image_reader *input);

/* For readers: provides the memory of the result, or with size_only checks its size. */
bool image_reader_create(struct image_reader *input, int32_t width, int32_t height);

#endif

/* Recognises, by the markers only, JPEG files that every decoder decodes equally. */
#ifndef RVIT_CLI_PLAIN_JPEG_H
#define RVIT_CLI_PLAIN_JPEG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct plain_jpeg {
    int32_t width, height; /* not turned upright */
    bool is_grey;          /* else three components */
    size_t size;           /* bytes including the end marker; cameras append other images */
};

/* Whether the file is complete, with 8-bit samples, Huffman coding, baseline or progressive, grey or YCbCr with common subsampling, ordered
   restart markers, and no more scans than encoders write. Does not read the compressed data. */
bool plain_jpeg_read(const uint8_t *data, size_t size, struct plain_jpeg *out);

#endif

/* JPEG files that every decoder reads alike, told by their markers alone. */
#ifndef RVIT_CLI_PLAIN_JPEG_H
#define RVIT_CLI_PLAIN_JPEG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct plain_jpeg {
    int32_t width, height; /* of the pixels as they lie in the file */
    bool is_grey;          /* else three colours */
    size_t size;           /* bytes up to and with the end marker; cameras let other images follow */
};

/* Whether the file is whole, of 8-bit samples, Huffman coded, baseline or progressive, grey or YCbCr in a usual subsampling, its restart
   markers in order, with no more scans than encoders write. Its compressed data is not read. */
bool plain_jpeg_read(const uint8_t *data, size_t size, struct plain_jpeg *out);

#endif

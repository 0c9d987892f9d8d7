/* Bicubic resizing, bit-equal to Pillow on 8-bit images (up to version 12; from 13 on Pillow may do the vertical pass first, which moves
   some values by one). */
#ifndef RVIT_CLI_RESIZE_H
#define RVIT_CLI_RESIZE_H

#include "image.h"

/* Resizes source to full_width x full_height and writes the window at (left, top) that has out's size. Computes nothing outside the window,
   so a thin picture that would become huge costs nothing. The caller creates out. */
bool resize_bicubic(struct image_view source, int64_t full_width, int64_t full_height, int64_t left, int64_t top, const struct image *out,
                    struct image_error *error);

#endif

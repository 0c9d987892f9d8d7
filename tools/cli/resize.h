/* Bicubic resizing, bit for bit as Pillow does it on 8-bit images (up to its version 12; from 13 on it may do the vertical pass first,
   which moves some values by one). */
#ifndef RVIT_CLI_RESIZE_H
#define RVIT_CLI_RESIZE_H

#include "image.h"

/* Of the source resized to full_width x full_height, writes the window whose top left corner is (left, top) and whose size is out's.
   Nothing outside of the window is computed, so a thin picture that would become huge costs nothing. out is created by the caller. */
bool resize_bicubic(struct image_view source, int64_t full_width, int64_t full_height, int64_t left, int64_t top, const struct image *out,
                    struct image_error *error);

#endif

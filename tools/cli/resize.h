/* Resizing with antialiasing, bit-equal to the libraries that models were trained with. */
#ifndef RVIT_CLI_RESIZE_H
#define RVIT_CLI_RESIZE_H

#include "image.h"

enum resize_filter { RESIZE_BILINEAR, RESIZE_BICUBIC };

/* Whose sums. Both keep 8 bits between the two passes. */
enum resize_sums {
    RESIZE_PILLOW, /* Pillow 13: weights of 22 fraction bits; the vertical pass comes first where it shrinks by far more lines. Up to
                      version 12 the horizontal one always came first, which changes values of tall images. */
    RESIZE_TORCH /* PyTorch's for 8-bit tensors on the CPU: weights of 16 bits in all, the horizontal pass first. Bilinear ones differ on a
                    processor without AVX2 and on a GPU. */
};

/* An image is resized to width x height, of which the window at (left, top) is wanted. Nothing outside the window is computed, so a thin
   image that would become huge costs nothing. */
struct resize {
    enum resize_filter filter;
    enum resize_sums sums;
    int64_t width, height, left, top;
};

/* out: the window; the caller creates it. */
bool resize_window(struct image_view source, const struct resize *how, const struct image *out, struct image_error *error);
/* The same in float32, as PyTorch resizes tensors of that type: from values 0..1, without rounding or clamping. `sums` is not used. out
   [height, width, 3]. */
bool resize_window_float(struct image_view source, const struct resize *how, int32_t width, int32_t height, float *out,
                         struct image_error *error);

#endif

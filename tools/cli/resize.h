/* Antialiased resizing, bit-equal to the libraries that models were trained with. */
#ifndef RVIT_CLI_RESIZE_H
#define RVIT_CLI_RESIZE_H

#include "image.h"

enum resize_filter { RESIZE_BILINEAR, RESIZE_BICUBIC };

/* Which library to match. Both keep 8-bit values between the two passes. */
enum resize_sums {
    RESIZE_PILLOW, /* Pillow 13: weights with 22 fraction bits; the vertical pass comes first if it removes far more rows. Up to version 12
                      the horizontal pass always came first, which gives other values for tall images. */
    RESIZE_TORCH   /* PyTorch for 8-bit tensors on the CPU: 16-bit weights, horizontal pass first. Bilinear results differ on CPUs without
                      AVX2 and on GPUs. */
};

/* Resizes to width x height and computes only the window at (left, top), so a thin image that would become huge costs nothing. */
struct resize {
    enum resize_filter filter;
    enum resize_sums sums;
    int64_t width, height, left, top;
};

/* out: the window, created by the caller. */
bool resize_window(struct image_view source, const struct resize *how, const struct image *out, struct image_error *error);
/* The same in float32 like PyTorch: values 0..1 without rounding or clamping. Does not use `sums`. out [height, width, 3]. */
bool resize_window_float(struct image_view source, const struct resize *how, int32_t width, int32_t height, float *out,
                         struct image_error *error);

#endif

/* The weights that resize one axis of an image with antialiasing, as Pillow and PyTorch compute them: in float64, then rounded to fixed
   point. */
#ifndef RVIT_CORE_IMAGE_RESIZE_AXIS_H
#define RVIT_CORE_IMAGE_RESIZE_AXIS_H

#include <stdint.h>

typedef enum rvit_resize_kernel {
    RVIT_RESIZE_BILINEAR,
    RVIT_RESIZE_BICUBIC, /* Keys' cubic with a = -0.5 */
    RVIT_RESIZE_LANCZOS, /* three lobes */
    RVIT_RESIZE_BOX,
    RVIT_RESIZE_HAMMING,
    RVIT_RESIZE_NEAREST
} rvit_resize_kernel;

#define RVIT_RESIZE_PILLOW_BITS 22

/* in_size inputs become full_size outputs. */
typedef struct rvit_resize_axis {
    rvit_resize_kernel filter;
    int32_t in_size;
    int64_t full_size;
} rvit_resize_axis;

/* The inputs of one output. */
typedef struct rvit_resize_taps {
    int32_t first, count;
    double centre, inverse, sum;
} rvit_resize_taps;

/* An upper bound on any output's count. */
int32_t rvit_resize_capacity(const rvit_resize_axis *axis);
/* Not for NEAREST, where each output follows from the one before it: see rvit_resize_next. */
rvit_resize_taps rvit_resize_taps_of(const rvit_resize_axis *axis, int64_t output);
/* The weight of input first + j. The weights of an output sum to 1. */
double rvit_resize_weight(const rvit_resize_axis *axis, const rvit_resize_taps *taps, int32_t j);

/* For NEAREST: the position of output 0, and of the next output. The position rounded down is the input. */
double rvit_resize_begin(const rvit_resize_axis *axis);
double rvit_resize_next(const rvit_resize_axis *axis, double position);

/* The fraction bits of an axis in PyTorch: as many as keep its largest weight within 16 bits. Computes every weight, so the caller must
   bound full_size. */
#define RVIT_RESIZE_LONGEST_TORCH_AXIS ((int64_t)1 << 22)
int rvit_resize_torch_bits(const rvit_resize_axis *axis);

/* Rounds half away from zero. */
int32_t rvit_resize_fixed(double weight, int bits);

#endif

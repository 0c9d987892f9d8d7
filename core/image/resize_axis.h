/* The weights by which an axis of a picture is resized with antialiasing, as Pillow and PyTorch compute them: in float64, then rounded to
   fixed point. Needs nothing of the library, so that the command line tool compiles it, too. */
#ifndef RVIT_CORE_IMAGE_RESIZE_AXIS_H
#define RVIT_CORE_IMAGE_RESIZE_AXIS_H

#include <stdint.h>

typedef enum rvit_resize_kernel {
    RVIT_RESIZE_BILINEAR,
    RVIT_RESIZE_BICUBIC, /* Keys' cubic with a = -0.5 */
    RVIT_RESIZE_LANCZOS, /* of three lobes */
    RVIT_RESIZE_BOX,
    RVIT_RESIZE_HAMMING,
    RVIT_RESIZE_NEAREST /* one input, of weight 1 */
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

/* More than any output's count. */
int32_t rvit_resize_capacity(const rvit_resize_axis *axis);
/* Not of NEAREST, whose outputs follow from one another: see rvit_resize_next. */
rvit_resize_taps rvit_resize_taps_of(const rvit_resize_axis *axis, int64_t output);
/* The weight of input first + j. Those of an output sum to 1. */
double rvit_resize_weight(const rvit_resize_axis *axis, const rvit_resize_taps *taps, int32_t j);

/* Of NEAREST: the place of output 0, and of the next output. An output takes the input that its place, rounded down, is the number of. */
double rvit_resize_begin(const rvit_resize_axis *axis);
double rvit_resize_next(const rvit_resize_axis *axis, double place);

/* PyTorch gives an axis as many fraction bits as keep its largest weight within 16 bits. Looks at every weight: the caller bounds
   full_size. */
#define RVIT_RESIZE_LONGEST_TORCH_AXIS ((int64_t)1 << 22)
int rvit_resize_torch_bits(const rvit_resize_axis *axis);

/* Rounded half away from zero. */
int32_t rvit_resize_fixed(double weight, int bits);

#endif

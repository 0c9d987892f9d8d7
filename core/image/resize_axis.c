#include "core/image/resize_axis.h"

#include <math.h>

#define PI 3.14159265358979323846

static double bilinear(double x)
{
    x = fabs(x);
    return x < 1.0 ? 1.0 - x : 0.0;
}

static double cubic(double x)
{
    const double a = -0.5;
    x = fabs(x);
    if (x < 1.0)
        return ((a + 2.0) * x - (a + 3.0)) * x * x + 1.0;
    if (x < 2.0)
        return (((x - 5.0) * x + 8.0) * x - 4.0) * a;
    return 0.0;
}

static double sinc(double x)
{
    return x == 0.0 ? 1.0 : sin(x * PI) / (x * PI);
}

static double hamming(double x)
{
    x = fabs(x);
    return x >= 1.0 ? 0.0 : x == 0.0 ? 1.0 : sinc(x) * (0.54 + 0.46 * cos(x * PI));
}

static double value(rvit_resize_kernel filter, double x)
{
    switch (filter) {
    case RVIT_RESIZE_BILINEAR:
        return bilinear(x);
    case RVIT_RESIZE_BICUBIC:
        return cubic(x);
    case RVIT_RESIZE_LANCZOS:
        return x >= -3.0 && x < 3.0 ? sinc(x) * sinc(x / 3) : 0.0;
    case RVIT_RESIZE_BOX:
        return x > -0.5 && x <= 0.5 ? 1.0 : 0.0;
    case RVIT_RESIZE_HAMMING:
        return hamming(x);
    case RVIT_RESIZE_NEAREST:
        break;
    }
    return 1.0;
}

/* The support of a filter at scale 1. */
static double support_of(rvit_resize_kernel filter)
{
    static const double reaches[] = {[RVIT_RESIZE_BILINEAR] = 1.0, [RVIT_RESIZE_BICUBIC] = 2.0, [RVIT_RESIZE_LANCZOS] = 3.0,
                                     [RVIT_RESIZE_BOX] = 0.5,      [RVIT_RESIZE_HAMMING] = 1.0, [RVIT_RESIZE_NEAREST] = 0.0};
    return reaches[filter];
}

static double scale_of(const rvit_resize_axis *axis)
{
    return (double)axis->in_size / (double)axis->full_size;
}

/* Downscaling widens the filter by the scale. */
static double width_of(double scale)
{
    return scale < 1.0 ? 1.0 : scale;
}

int32_t rvit_resize_capacity(const rvit_resize_axis *axis)
{
    return (int32_t)ceil(support_of(axis->filter) * width_of(scale_of(axis))) * 2 + 1;
}

rvit_resize_taps rvit_resize_taps_of(const rvit_resize_axis *axis, int64_t output)
{
    const double scale = scale_of(axis), support = support_of(axis->filter) * width_of(scale);
    rvit_resize_taps taps = {.centre = ((double)output + 0.5) * scale, .inverse = 1.0 / width_of(scale)};
    const double low = taps.centre - support + 0.5, high = taps.centre + support + 0.5;
    taps.first = low < 0 ? 0 : (int32_t)low;
    taps.count = (high > axis->in_size ? axis->in_size : (int32_t)high) - taps.first;
    for (int32_t j = 0; j < taps.count; j++)
        taps.sum += value(axis->filter, (taps.first + j - taps.centre + 0.5) * taps.inverse);
    return taps;
}

double rvit_resize_weight(const rvit_resize_axis *axis, const rvit_resize_taps *taps, int32_t j)
{
    const double x = value(axis->filter, (taps->first + j - taps->centre + 0.5) * taps->inverse);
    return taps->sum != 0 ? x / taps->sum : x;
}

double rvit_resize_begin(const rvit_resize_axis *axis)
{
    return scale_of(axis) * 0.5;
}

double rvit_resize_next(const rvit_resize_axis *axis, double position)
{
    return position + scale_of(axis);
}

int rvit_resize_torch_bits(const rvit_resize_axis *axis)
{
    double largest = 0;
    for (int64_t i = 0; i < axis->full_size; i++) {
        const rvit_resize_taps taps = rvit_resize_taps_of(axis, i);
        for (int32_t j = 0; j < taps.count; j++) {
            const double weight = rvit_resize_weight(axis, &taps, j);
            largest = weight > largest ? weight : largest;
        }
    }
    int bits = 0;
    while (bits < RVIT_RESIZE_PILLOW_BITS && (int64_t)(0.5 + largest * (double)(1 << (bits + 1))) < 1 << 15)
        bits++;
    return bits;
}

int32_t rvit_resize_fixed(double weight, int bits)
{
    const double scaled = weight * (1 << bits);
    return (int32_t)(scaled < 0 ? scaled - 0.5 : scaled + 0.5);
}

/* Quantized e4m3 rows with one scale each: their conversion (rvit_quantize in ops.h), and the element type for linear. */
#ifndef RVIT_E4M3_CUH
#define RVIT_E4M3_CUH

#include "elements.cuh"

/* Two adjacent values of a row. Copies and fragments of linear treat them as one 16-bit element. */
struct e4m3x2 {
    uint16_t bits;
};

template <> struct element<e4m3x2> {
    static __device__ __forceinline__ void mma(float (&d)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1)
    {
        mma_e4m3(d, a, b0, b1);
    }
};

struct e4m3_row {
    float scale, factor;
    uint32_t mask, fill; /* masks for four values: to keep, to set. Non-finite rows become NaN, rows near zero become 0 */
};

/* 2^-100 and 2^100. */
#define RVIT_E4M3_SMALLEST 7.88860905e-31f
#define RVIT_E4M3_LARGEST_SCALE 1.26765060e30f
#define RVIT_E4M3_LARGEST 448.0f
#define RVIT_F16_LARGEST 65504.0f

RVIT_DEVICE float magnitude_of(float4 x, float largest)
{
    return max_or_nan(max_or_nan(max_or_nan(fabsf(x.x), fabsf(x.y)), max_or_nan(fabsf(x.z), fabsf(x.w))), largest);
}

/* For a row with this largest magnitude, NaN if a value is NaN. fixed: the static scale, or NULL. */
RVIT_DEVICE e4m3_row e4m3_row_of(float largest, const float *fixed)
{
    e4m3_row row = {0.0f, 0.0f, 0, 0};
    const float scale = fixed != nullptr ? *fixed : largest / RVIT_E4M3_LARGEST;
    if (!(largest < INFINITY) || (fixed != nullptr && !(scale >= RVIT_E4M3_SMALLEST && scale <= RVIT_E4M3_LARGEST_SCALE))) {
        row.scale = NAN;
        row.fill = 0x7f7f7f7fu;
    } else if (fixed != nullptr || largest >= RVIT_E4M3_SMALLEST) {
        row.scale = scale;
        row.factor = fixed != nullptr ? 1.0f / scale : RVIT_E4M3_LARGEST / largest;
        row.mask = 0xffffffffu;
    }
    return row;
}

/* The factor of a static scale; NaN for an invalid scale, which makes all values NaN. */
RVIT_DEVICE float factor_of(float scale)
{
    return scale >= RVIT_E4M3_SMALLEST && scale <= RVIT_E4M3_LARGEST_SCALE ? 1.0f / scale : NAN;
}

/* e4m3_row_of for a static scale with a known factor. */
RVIT_DEVICE e4m3_row e4m3_row_by(float largest, float scale, float factor)
{
    const bool is_finite = largest < INFINITY && factor == factor;
    return {is_finite ? scale : NAN, factor, is_finite ? 0xffffffffu : 0, is_finite ? 0 : 0x7f7f7f7fu};
}

/* x * factor, rounded once. NaN if x is not finite, because 0 * x is added. */
RVIT_DEVICE float scaled(float x, float factor)
{
    return fmaf(x, factor, 0.0f * x);
}

/* The warp's largest non-negative number, NaN if one is NaN. */
RVIT_DEVICE float warp_largest(float x)
{
    return bits_float(warp_max(float_bits(x) & 0x7fffffffu));
}

/* No fused operations, as in the factor. */
RVIT_DEVICE uint32_t e4m3_of(const e4m3_row &row, float4 x)
{
    return (row.mask & pack_e4m3(mul_rn(x.x, row.factor), mul_rn(x.y, row.factor), mul_rn(x.z, row.factor), mul_rn(x.w, row.factor))) |
           row.fill;
}

/* The number of values that saturate. */
RVIT_DEVICE int saturates(const e4m3_row &row, float4 x)
{
    const float largest = row.mask != 0 ? RVIT_E4M3_LARGEST : INFINITY;
    return (fabsf(mul_rn(x.x, row.factor)) > largest) + (fabsf(mul_rn(x.y, row.factor)) > largest) +
           (fabsf(mul_rn(x.z, row.factor)) > largest) + (fabsf(mul_rn(x.w, row.factor)) > largest);
}

/* The number of halves of a pair beyond limit. */
RVIT_DEVICE int halves_beyond(uint32_t x, float limit)
{
    const uint32_t ones = beyond_halves(magnitude_of_halves(x), pair_of_halves(limit));
    return (int)((ones >> 13 & 1) + (ones >> 29));
}

/* Called by a warp; n is this lane's count. */
RVIT_DEVICE void add_saturated(int32_t *saturated, int n)
{
    for (int mask = 16; mask > 0; mask /= 2)
        n += shuffle_xor(n, mask);
    if ((threadIdx.x & 31) == 0 && n > 0)
        (void)atomic_add(saturated, n);
}

#endif

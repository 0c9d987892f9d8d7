/* Vectors of I8 and E4M3: loads as floats, and the quantization of a row. Only kernel files include this. */
#ifndef RVIT_CPU_QUANTIZED_VEC_H
#define RVIT_CPU_QUANTIZED_VEC_H

#include "backend_cpu/vector.h"
#include "core/base/quantized.h"

typedef int8_t int8_vec __attribute__((vector_size(VL)));

/* Loads VL elements as floats. */
INLINE vec quantized_load(const int8_t *p, rvit_dtype dtype)
{
    int8_vec lanes;
    memcpy(&lanes, p, sizeof lanes);
    const ivec wide = __builtin_convertvector(lanes, ivec);
    if (dtype == RVIT_I8)
        return __builtin_convertvector(wide, vec);
    /* The same as core/base/e4m3.h, on vectors. */
    const ivec magnitude = wide & 0x7f;
    const ivec finite = (ivec)((vec)(magnitude << 20) * 0x1p120f);
    const ivec is_nan = magnitude == 0x7f;
    return (vec)((wide & INT32_MIN) | (is_nan & 0x7fc00000) | (~is_nan & finite));
}

/* Rounds to the nearest integer, ties to even. */
INLINE ivec vec_round(vec v)
{
#if VL == 16
    return (ivec)_mm512_cvtps_epi32((__m512)v);
#elif VL == 8
    return (ivec)_mm256_cvtps_epi32((__m256)v);
#elif defined(__SSE2__)
    return (ivec)_mm_cvtps_epi32((__m128)v);
#elif defined(NEON)
    return (ivec)vcvtnq_s32_f32((float32x4_t)v);
#else
    ivec rounded;
    for (int i = 0; i < VL; i++)
        rounded[i] = (int32_t)__builtin_rintf(v[i]);
    return rounded;
#endif
}

/* v must not contain NaN. */
INLINE ivec vec_to_e4m3(vec v)
{
    const ivec sign = (ivec)((uvec)v >> 24) & 0x80;
    const ivec magnitude = (ivec)vec_min(vec_abs(v), vec_set(RVIT_E4M3_MAX));
    const ivec normal = (magnitude - 0x3c000000 + 0x7ffff + ((magnitude >> 20) & 1)) >> 20;
    const ivec subnormal = (ivec)((vec)magnitude + 0x1p14f) - 0x46800000;
    const ivec is_small = magnitude < 0x3c800000;
    return sign | (is_small & subnormal) | (~is_small & normal);
}

/* The larger lane as an integer: among magnitudes, NaN is the largest. */
INLINE ivec vec_larger(ivec a, ivec b)
{
#if VL == 16
    return (ivec)_mm512_max_epi32((__m512i)a, (__m512i)b);
#elif defined(__AVX2__)
    return (ivec)_mm256_max_epi32((__m256i)a, (__m256i)b);
#else
    const ivec mask = a > b;
    return (mask & a) | (~mask & b);
#endif
}

INLINE int32_t largest_lane(ivec v)
{
#if VL == 16
    v = vec_larger(v, ROTATE_8(v));
#endif
#if VL >= 8
    v = vec_larger(v, ROTATE_4(v));
#endif
    v = vec_larger(v, ROTATE_2(v));
    v = vec_larger(v, ROTATE_1(v));
    return v[0];
}

INLINE void quantized_store(int8_t *p, vec v, rvit_dtype dtype)
{
    const int8_vec lanes = __builtin_convertvector(dtype == RVIT_I8 ? vec_round(v) : vec_to_e4m3(v), int8_vec);
    memcpy(p, &lanes, sizeof lanes);
}

/* Stores n values (at most VL) times `inverse`; non-finite ones become NaN, and all if inverse is 0. *saturated -= 1 for each saturated
   one. */
INLINE void e4m3_store(int8_t *p, vec v, float inverse, int64_t n, ivec *saturated)
{
    const ivec finite = inverse != 0.0f ? (ivec)vec_abs(v) < 0x7f800000 : (ivec){0};
    const vec scaled = v * inverse, limit = vec_set(RVIT_E4M3_MAX);
    *saturated += finite & (ivec)(vec_abs(scaled) > limit);
    const ivec lanes = (finite & vec_to_e4m3(vec_max(vec_min(scaled, limit), -limit))) | (~finite & 0x7f);
    const int8_vec narrow = __builtin_convertvector(lanes, int8_vec);
    memcpy(p, &narrow, (size_t)n);
}

/* Stores 32 values of I8: v[0] holds the even and v[1] the odd ones, which takes fewer shuffles than two halves. */
#if VL == 16
INLINE void store_pairs(int8_t *p, const vec v[2])
{
    const ivec words = ((ivec)vec_round(v[0]) & 0xff) | vec_round(v[1]) << 8;
    _mm256_storeu_si256((void *)p, _mm512_cvtepi32_epi16((__m512i)words));
}
#endif

/* Quantizes n values (a multiple of 16) to a row with a scale, as core/base/quantized.h defines it. largest: magnitudes per lane, as
   integers. paired: I8 whose even values come first in each group of 32. Returns the number of values that a static scale saturates; the
   row's own scale saturates none. */
INLINE int64_t quantize_row(const float *values, int64_t n, ivec largest, const float *static_scale, rvit_dtype dtype, int paired,
                            int8_t *out, float *out_scale)
{
    const rvit_row_scale scale = rvit_row_scale_of(rvit_bits_float((uint32_t)largest_lane(largest)), static_scale, dtype);
    *out_scale = scale.scale;
    if (scale.inverse == 0.0f) {
        memset(out, scale.fill, (size_t)n);
        return 0;
    }
#if VL == 16
    if (paired) {
        for (int64_t i = 0; i < n; i += 2 * VL)
            store_pairs(out + i, (vec[2]){vec_load(values + i) * scale.inverse, vec_load(values + i + VL) * scale.inverse});
        return 0;
    }
#endif
    (void)paired;
    if (static_scale == NULL) {
        for (int64_t i = 0; i < n; i += VL)
            quantized_store(out + i, vec_load(values + i) * scale.inverse, dtype);
        return 0;
    }
    const vec limit = vec_set(rvit_quantized_max(dtype));
    ivec saturated = {0};
    for (int64_t i = 0; i < n; i += VL) {
        const vec v = vec_load(values + i) * scale.inverse;
        saturated -= vec_abs(v) > limit;
        quantized_store(out + i, vec_max(vec_min(v, limit), -limit), dtype);
    }
    int64_t n_saturated = 0;
    for (int i = 0; i < VL; i++)
        n_saturated += saturated[i];
    return n_saturated;
}

#endif

/* Vectors of floats for the kernels, written once with the compiler's vector extension. Intrinsics are used for operations that the
   extension lacks but an instruction set has (max, conversion of float16). Included only by kernel files, which are compiled once per
   instruction set. */
#ifndef RVIT_CPU_VECTOR_H
#define RVIT_CPU_VECTOR_H

#include <stdint.h>
#include <string.h>

#include "core/half.h"
#include "core/op.h"

#if defined(__AVX512F__)
#define VL 16
#elif defined(__AVX__)
#define VL 8
#else
#define VL 4
#endif

#if defined(__SSE2__)
#include <immintrin.h>
#endif

#define INLINE static inline __attribute__((always_inline))
/* Placed before a short loop of constant trip count over an array of vectors: unrolling puts the array into registers. */
#if defined(__clang__)
#define UNROLL _Pragma("clang loop unroll(full)")
#else
#define UNROLL _Pragma("GCC unroll 16")
#endif

/* Calls a function with a type, its last argument, as a constant. */
#define WITH_DTYPE(dtype, function, ...)      \
    do {                                      \
        if ((dtype) == RVIT_F32)              \
            function(__VA_ARGS__, RVIT_F32);  \
        else if ((dtype) == RVIT_F16)         \
            function(__VA_ARGS__, RVIT_F16);  \
        else                                  \
            function(__VA_ARGS__, RVIT_BF16); \
    } while (0)

typedef float vec __attribute__((vector_size(VL * 4)));
typedef int32_t ivec __attribute__((vector_size(VL * 4)));
typedef uint32_t uvec __attribute__((vector_size(VL * 4)));
typedef float vec_unaligned __attribute__((vector_size(VL * 4), aligned(4), may_alias));

INLINE vec vec_set(float value)
{
    return value - (vec){0};
}

INLINE vec vec_load(const float *p)
{
    return *(const vec_unaligned *)p;
}

INLINE void vec_store(float *p, vec v)
{
    *(vec_unaligned *)p = v;
}

/* Loads the first n lanes; the others are zero. */
INLINE vec vec_load_part(const float *p, int64_t n)
{
    float lanes[VL] = {0};
    memcpy(lanes, p, (size_t)n * sizeof *p);
    return vec_load(lanes);
}

INLINE void vec_store_part(float *p, vec v, int64_t n)
{
    float lanes[VL];
    vec_store(lanes, v);
    memcpy(p, lanes, (size_t)n * sizeof *p);
}

INLINE vec vec_select(ivec mask, vec a, vec b)
{
    return (vec)((mask & (ivec)a) | (~mask & (ivec)b));
}

typedef uint16_t half_vec __attribute__((vector_size(VL * 2)));

/* Without a conversion instruction: core/half.h, on vectors. */
INLINE vec half_load(const uint16_t *p)
{
#if VL == 16
    return (vec)_mm512_cvtph_ps(_mm256_loadu_si256((const void *)p));
#elif defined(__F16C__)
    return (vec)_mm256_cvtph_ps(_mm_loadu_si128((const void *)p));
#else
    half_vec half;
    memcpy(&half, p, sizeof half);
    const ivec bits = __builtin_convertvector(half, ivec);
    const ivec magnitude = bits & 0x7fff;
    const ivec sign = (bits ^ magnitude) << 16;
    const vec finite = (vec)(magnitude << 13) * 0x1p112f;
    const vec special = (vec)((magnitude << 13) | 0x7f800000);
    return (vec)((ivec)vec_select(magnitude >= 0x7c00, special, finite) | sign);
#endif
}

INLINE void half_store(uint16_t *p, vec v)
{
#if VL == 16
    _mm256_storeu_si256((void *)p, _mm512_cvtps_ph((__m512)v, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
#elif defined(__F16C__)
    _mm_storeu_si128((void *)p, _mm256_cvtps_ph((__m256)v, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
#else
    const ivec magnitude = (ivec)v & 0x7fffffff;
    const ivec sign = (ivec)((uvec)v >> 16) & 0x8000;
    const ivec normal = (magnitude - 0x38000000 + 0xfff + ((magnitude >> 13) & 1)) >> 13;
    const ivec subnormal = (ivec)((vec)magnitude + 0.5f) - 0x3f000000;
    const ivec nan = ((magnitude >> 13) & 0x3ff) | 0x7e00;
    const ivec is_nan = magnitude > 0x7f800000, is_large = magnitude >= 0x47800000, is_small = magnitude < 0x38800000;
    const ivec large = (is_nan & nan) | (~is_nan & 0x7c00);
    const ivec small = (is_small & subnormal) | (~is_small & normal);
    const half_vec half = __builtin_convertvector(sign | (is_large & large) | (~is_large & small), half_vec);
    memcpy(p, &half, sizeof half);
#endif
}

INLINE vec bf16_load(const uint16_t *p)
{
#if VL == 16
    return (vec)_mm512_slli_epi32(_mm512_cvtepu16_epi32(_mm256_loadu_si256((const void *)p)), 16);
#elif defined(__AVX2__)
    return (vec)_mm256_slli_epi32(_mm256_cvtepu16_epi32(_mm_loadu_si128((const void *)p)), 16);
#else
    half_vec half;
    memcpy(&half, p, sizeof half);
    return (vec)(__builtin_convertvector(half, uvec) << 16);
#endif
}

/* The nearest bf16 of each lane, as a number below 2^16. Not by the instruction of AVX512-BF16, which takes subnormal numbers as zero. */
INLINE uvec bf16_bits(vec v)
{
    const uvec bits = (uvec)v, top = bits >> 16;
    const ivec is_nan = ((ivec)v & 0x7fffffff) > 0x7f800000;
    const uvec number = (bits + 0x7fff + (top & 1)) >> 16, nan = top | 0x40;
    return ((uvec)is_nan & nan) | (~(uvec)is_nan & number);
}

INLINE void bf16_store(uint16_t *p, vec v)
{
    const half_vec half = __builtin_convertvector(bf16_bits(v), half_vec);
    memcpy(p, &half, sizeof half);
}

INLINE vec narrow_load(const uint16_t *p, rvit_dtype dtype)
{
    return dtype == RVIT_F16 ? half_load(p) : bf16_load(p);
}

INLINE void narrow_store(uint16_t *p, vec v, rvit_dtype dtype)
{
    if (dtype == RVIT_F16)
        half_store(p, v);
    else
        bf16_store(p, v);
}

/* Loads n lanes, 1..VL, from element i of an array; the other lanes are zero. */
INLINE vec any_load(const void *p, int64_t i, int64_t n, rvit_dtype dtype)
{
    if (dtype != RVIT_F32) {
        if (n == VL)
            return narrow_load((const uint16_t *)p + i, dtype);
        uint16_t lanes[VL] = {0};
        memcpy(lanes, (const uint16_t *)p + i, (size_t)n * sizeof *lanes);
        return narrow_load(lanes, dtype);
    }
    return n == VL ? vec_load((const float *)p + i) : vec_load_part((const float *)p + i, n);
}

INLINE void any_store(void *p, int64_t i, vec v, int64_t n, rvit_dtype dtype)
{
    if (dtype != RVIT_F32) {
        uint16_t lanes[VL];
        narrow_store(n == VL ? (uint16_t *)p + i : lanes, v, dtype);
        if (n < VL)
            memcpy((uint16_t *)p + i, lanes, (size_t)n * sizeof *lanes);
    } else if (n == VL) {
        vec_store((float *)p + i, v);
    } else {
        vec_store_part((float *)p + i, v, n);
    }
}

/* a > b ? a : b, and so b if either is NaN; vec_min likewise. */
INLINE vec vec_max(vec a, vec b)
{
#if VL == 16
    return (vec)_mm512_max_ps((__m512)a, (__m512)b);
#elif VL == 8
    return (vec)_mm256_max_ps((__m256)a, (__m256)b);
#elif defined(__SSE2__)
    return (vec)_mm_max_ps((__m128)a, (__m128)b);
#else
    return vec_select(a > b, a, b);
#endif
}

INLINE vec vec_min(vec a, vec b)
{
#if VL == 16
    return (vec)_mm512_min_ps((__m512)a, (__m512)b);
#elif VL == 8
    return (vec)_mm256_min_ps((__m256)a, (__m256)b);
#elif defined(__SSE2__)
    return (vec)_mm_min_ps((__m128)a, (__m128)b);
#else
    return vec_select(a < b, a, b);
#endif
}

INLINE vec vec_abs(vec v)
{
    return (vec)((ivec)v & 0x7fffffff);
}

/* Gather the even or the odd lanes of two vectors, interleave their halves, and exchange halves, quarters, ... of one vector. */
#if VL == 16
#define EVEN(a, b) __builtin_shufflevector(a, b, 0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30)
#define ODD(a, b) __builtin_shufflevector(a, b, 1, 3, 5, 7, 9, 11, 13, 15, 17, 19, 21, 23, 25, 27, 29, 31)
#define INTERLEAVE_LOW(a, b) __builtin_shufflevector(a, b, 0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23)
#define INTERLEAVE_HIGH(a, b) __builtin_shufflevector(a, b, 8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31)
#define ROTATE_8(v) __builtin_shufflevector(v, v, 8, 9, 10, 11, 12, 13, 14, 15, 0, 1, 2, 3, 4, 5, 6, 7)
#define ROTATE_4(v) __builtin_shufflevector(v, v, 4, 5, 6, 7, 0, 1, 2, 3, 12, 13, 14, 15, 8, 9, 10, 11)
#define ROTATE_2(v) __builtin_shufflevector(v, v, 2, 3, 0, 1, 6, 7, 4, 5, 10, 11, 8, 9, 14, 15, 12, 13)
#define ROTATE_1(v) __builtin_shufflevector(v, v, 1, 0, 3, 2, 5, 4, 7, 6, 9, 8, 11, 10, 13, 12, 15, 14)
#elif VL == 8
#define EVEN(a, b) __builtin_shufflevector(a, b, 0, 2, 4, 6, 8, 10, 12, 14)
#define ODD(a, b) __builtin_shufflevector(a, b, 1, 3, 5, 7, 9, 11, 13, 15)
#define INTERLEAVE_LOW(a, b) __builtin_shufflevector(a, b, 0, 8, 1, 9, 2, 10, 3, 11)
#define INTERLEAVE_HIGH(a, b) __builtin_shufflevector(a, b, 4, 12, 5, 13, 6, 14, 7, 15)
#define ROTATE_4(v) __builtin_shufflevector(v, v, 4, 5, 6, 7, 0, 1, 2, 3)
#define ROTATE_2(v) __builtin_shufflevector(v, v, 2, 3, 0, 1, 6, 7, 4, 5)
#define ROTATE_1(v) __builtin_shufflevector(v, v, 1, 0, 3, 2, 5, 4, 7, 6)
#else
#define EVEN(a, b) __builtin_shufflevector(a, b, 0, 2, 4, 6)
#define ODD(a, b) __builtin_shufflevector(a, b, 1, 3, 5, 7)
#define INTERLEAVE_LOW(a, b) __builtin_shufflevector(a, b, 0, 4, 1, 5)
#define INTERLEAVE_HIGH(a, b) __builtin_shufflevector(a, b, 2, 6, 3, 7)
#define ROTATE_2(v) __builtin_shufflevector(v, v, 2, 3, 0, 1)
#define ROTATE_1(v) __builtin_shufflevector(v, v, 1, 0, 3, 2)
#endif

INLINE float vec_sum(vec v)
{
#if VL == 16
    v += ROTATE_8(v);
#endif
#if VL >= 8
    v += ROTATE_4(v);
#endif
    v += ROTATE_2(v);
    v += ROTATE_1(v);
    return v[0];
}

INLINE float vec_largest(vec v)
{
#if VL == 16
    v = vec_max(v, ROTATE_8(v));
#endif
#if VL >= 8
    v = vec_max(v, ROTATE_4(v));
#endif
    v = vec_max(v, ROTATE_2(v));
    v = vec_max(v, ROTATE_1(v));
    return v[0];
}

/* Transposes VL x VL in place. Interleaving line i with line i + VL / 2 rotates the bits of (line, lane) by one; log2(VL) such steps
   exchange line and lane. */
INLINE void vec_transpose(vec lines[VL])
{
    vec other[VL];
    for (int step = 1; step < VL; step *= 2) {
        UNROLL
        for (int i = 0; i < VL / 2; i++) {
            other[2 * i] = INTERLEAVE_LOW(lines[i], lines[i + VL / 2]);
            other[2 * i + 1] = INTERLEAVE_HIGH(lines[i], lines[i + VL / 2]);
        }
        UNROLL
        for (int i = 0; i < VL; i++)
            lines[i] = other[i];
    }
}

/* e^x for x <= 88, within 1.1 units in the last place down to the smallest normal number, 0 far below it; NaN gives NaN. x = n ln 2 + r;
   the polynomial is the minimax one with relative error 2.7e-8 for |r| <= ln 2 / 2. Adding 1.5 * 2^23 rounds n to an integer in the low
   bits of the sum, ready to become an exponent; n = -127, to which the argument is clamped, makes the factor 0. */
INLINE vec vec_exp(vec x)
{
    x = vec_max(vec_set(-88.0f), x);
    const vec shifted = x * 1.44269504f + 12582912.0f;
    const vec n = shifted - 12582912.0f;
    vec r = x - n * 0.693359375f;
    r = r + n * 2.12194440e-4f;
    vec p = r * 1.3167760e-3f + 8.3534643e-3f;
    p = p * r + 4.1676339e-2f;
    p = p * r + 1.6666710e-1f;
    p = p * r + 4.9999991e-1f;
    p = p * (r * r) + r;
    const vec power = (vec)(((uvec)shifted + 127) << 23);
    return p * power + power;
}

/* The exact GELU, x Phi(x) = max(x, 0) - a Phi(-a) with a = |x|. Phi(-a) = exp(-a^2 / 2) P(t), t = 1 / (1 + 0.28 a), where P is the
   minimax polynomial of the error in a Phi(-a) over 0..6.5, 3.4e-9. In float32 the result is within 7e-8 beyond its own rounding. */
INLINE vec vec_gelu(vec x)
{
    const vec a = vec_min(vec_set(20.0f), vec_abs(x));
    const vec t = 1.0f / (a * 0.28f + 1.0f);
    vec p = t * -1.0755436e-1f + 3.9698800e-1f;
    p = p * t - 2.4851501e-1f;
    p = p * t + 2.7818018e-1f;
    p = p * t + 6.3792236e-2f;
    p = p * t + 1.1710889e-1f;
    return vec_max(vec_set(0.0f), x) - a * t * p * vec_exp(a * a * -0.5f);
}

/* x sigmoid(z), z = x (slope + cubic x^2); for negative z as x exp(z) sigmoid(-z), where nothing overflows. */
INLINE vec vec_sigmoid(vec x, float slope, float cubic)
{
    const vec square = vec_min(vec_set(RVIT_SIGMOID_SQUARE), x * x);
    const vec power = vec_exp(-vec_abs(x) * (square * cubic + slope));
    return vec_select(x < 0.0f, x * power, x) / (power + 1.0f);
}

#endif

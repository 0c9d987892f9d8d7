/* 16-bit and 8-bit floating-point types: conversion to float32, and back with one rounding to nearest even. */
#ifndef EMU_HALF_H
#define EMU_HALF_H

#include <stdint.h>
#include <string.h>

#if defined(__F16C__)
#include <immintrin.h>
#endif

namespace emu
{
inline float float_of_bits(uint32_t bits)
{
    float x;
    memcpy(&x, &bits, 4);
    return x;
}

inline uint32_t bits_of_float(float x)
{
    uint32_t bits;
    memcpy(&bits, &x, 4);
    return bits;
}

inline float f16_to_f32(uint16_t h)
{
#if defined(__F16C__)
    return _cvtsh_ss(h);
#else
    const uint32_t sign = (uint32_t)(h & 0x8000) << 16, magnitude = h & 0x7fff;
    if (magnitude >= 0x7c00)
        return float_of_bits(sign | 0x7f800000u | (magnitude & 0x3ff) << 13 | (magnitude > 0x7c00 ? 0x400000u : 0u));
    if (magnitude < 0x400) {
        const float value = (float)magnitude * 5.9604644775390625e-8f; /* 2^-24 */
        return sign ? -value : value;
    }
    return float_of_bits(sign | ((magnitude << 13) + 0x38000000u));
#endif
}

inline uint16_t f32_to_f16(float x)
{
    const uint32_t bits = bits_of_float(x), magnitude = bits & 0x7fffffffu;
    if (magnitude > 0x7f800000u)
        return 0x7fff; /* the device's only NaN */
#if defined(__F16C__)
    return (uint16_t)_cvtss_sh(x, _MM_FROUND_TO_NEAREST_INT);
#else
    const uint16_t sign = (uint16_t)(bits >> 16 & 0x8000);
    if (magnitude >= 0x477ff000u)
        return (uint16_t)(sign | 0x7c00);
    if (magnitude < 0x38800000u) /* a multiple of 2^-24: adding 0.5, whose ulp that is, rounds it */
        return (uint16_t)(sign | (bits_of_float(float_of_bits(magnitude) + 0.5f) - 0x3f000000u));
    return (uint16_t)(sign | ((magnitude + 0xfff + (magnitude >> 13 & 1) - 0x38000000u) >> 13));
#endif
}

inline float bf16_to_f32(uint16_t h)
{
    return float_of_bits((uint32_t)h << 16);
}

inline uint16_t f32_to_bf16(float x)
{
    const uint32_t bits = bits_of_float(x);
    if ((bits & 0x7fffffffu) > 0x7f800000u)
        return 0x7fff;
    return (uint16_t)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

/* e4m3: 4 exponent bits with bias 7, 3 mantissa bits; no infinity, one NaN per sign. */
inline float e4m3_to_f32(uint8_t x)
{
    const int exponent = x >> 3 & 15, mantissa = x & 7;
    const uint32_t sign = (uint32_t)(x & 0x80) << 24;
    if ((x & 0x7f) == 0x7f)
        return float_of_bits(sign | 0x7fc00000u);
    const float value = exponent == 0 ? (float)mantissa * 0.001953125f /* 2^-9 */
                                      : float_of_bits((uint32_t)(exponent + 120) << 23 | (uint32_t)mantissa << 20);
    return float_of_bits(sign | bits_of_float(value));
}

/* To nearest even. Like cvt.rn.satfinite, magnitudes above 448 and infinity become 448, NaN becomes 0x7f. */
inline uint8_t f32_to_e4m3(float x)
{
    const uint32_t bits = bits_of_float(x), magnitude = bits & 0x7fffffffu;
    const uint8_t sign = (uint8_t)(bits >> 24 & 0x80);
    if (magnitude > 0x7f800000u)
        return 0x7f;
    if (magnitude >= 0x43e00000u) /* 448 */
        return (uint8_t)(sign | 0x7e);
    if (magnitude < 0x3c800000u) /* below 2^-6, a multiple of 2^-9: adding 2^14, whose ulp that is, rounds it */
        return (uint8_t)(sign | (bits_of_float(float_of_bits(magnitude) + 16384.0f) - 0x46800000u));
    return (uint8_t)(sign | ((magnitude + 0x7ffff + (magnitude >> 20 & 1) - 0x3c000000u) >> 20));
}
} // namespace emu

#endif

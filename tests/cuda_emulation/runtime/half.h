/* The 16-bit floating-point types: conversions to float32, and back with one rounding to nearest even. */
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
    if (magnitude < 0x38800000u) /* a multiple of 2^-24: the addition of 0.5, whose unit in the last place that is, rounds it */
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
} // namespace emu

#endif

/* Conversion of e4m3fn, OCP's 8-bit floating point with 4 exponent and 3 mantissa bits: round to nearest even, saturating. It has no
   infinities; NaN is 0x7f and 0xff. Plain integer code that compilers vectorise. */
#ifndef RVIT_CORE_BASE_E4M3_H
#define RVIT_CORE_BASE_E4M3_H

#include "core/base/half.h"

#define RVIT_E4M3_MAX 448.0f

static inline float rvit_e4m3_to_f32(uint8_t byte)
{
    const uint32_t sign = (uint32_t)(byte & 0x80u) << 24, magnitude = byte & 0x7fu;
    /* Rebias the exponent with a multiplication, which also normalises subnormals. */
    const uint32_t finite = rvit_float_bits(rvit_bits_float(magnitude << 20) * 0x1p120f);
    return rvit_bits_float(sign | (magnitude == 0x7fu ? 0x7fc00000u : finite));
}

static inline uint8_t rvit_f32_to_e4m3(float value)
{
    const uint32_t bits = rvit_float_bits(value), sign = bits >> 24 & 0x80u, magnitude = bits & 0x7fffffffu;
    if (magnitude > 0x7f800000u)
        return (uint8_t)(sign | 0x7fu);
    if (magnitude >= 0x43e00000u) /* 448 */
        return (uint8_t)(sign | 0x7eu);
    /* Below 2^-6, subnormal: adding 2^14 aligns the significand so that the addition rounds it. Normal: rebias, then round the 20 dropped
       bits. */
    if (magnitude < 0x3c800000u)
        return (uint8_t)(sign | (rvit_float_bits(rvit_bits_float(magnitude) + 0x1p14f) - 0x46800000u));
    return (uint8_t)(sign | (magnitude - 0x3c000000u + 0x7ffffu + (magnitude >> 20 & 1u)) >> 20);
}

#endif

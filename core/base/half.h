/* float16 and bfloat16 conversion: round to nearest even, keeping subnormals, infinities and NaN. Plain integer code that compilers
   vectorise. */
#ifndef RVIT_CORE_BASE_HALF_H
#define RVIT_CORE_BASE_HALF_H

#include <stdint.h>
#include <string.h>

#include <raggedvit/ops.h>

static inline uint32_t rvit_float_bits(float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

static inline float rvit_bits_float(uint32_t bits)
{
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

static inline float rvit_f16_to_f32(uint16_t half)
{
    const uint32_t sign = (uint32_t)(half & 0x8000u) << 16;
    const uint32_t magnitude = half & 0x7fffu;
    /* Rebias the exponent with a multiplication, which also normalises subnormals. */
    const float scaled = rvit_bits_float(magnitude << 13) * 0x1p112f;
    const uint32_t finite = rvit_float_bits(scaled);
    const uint32_t special = 0x7f800000u | (magnitude & 0x3ffu) << 13;
    return rvit_bits_float(sign | (magnitude >= 0x7c00u ? special : finite));
}

static inline uint16_t rvit_f32_to_f16(float value)
{
    const uint32_t bits = rvit_float_bits(value);
    const uint32_t sign = bits >> 16 & 0x8000u;
    const uint32_t magnitude = bits & 0x7fffffffu;
    /* Normal: rebias, then round the 13 dropped bits. Subnormal: adding 0.5 aligns the significand so that the addition rounds it. */
    const uint32_t normal = (magnitude - 0x38000000u + 0xfffu + (magnitude >> 13 & 1u)) >> 13;
    const uint32_t subnormal = rvit_float_bits(rvit_bits_float(magnitude) + 0.5f) - 0x3f000000u;
    const uint32_t infinity_or_nan = magnitude > 0x7f800000u ? 0x7e00u | (magnitude >> 13 & 0x3ffu) : 0x7c00u;
    const uint32_t half = magnitude >= 0x47800000u ? infinity_or_nan : magnitude < 0x38800000u ? subnormal : normal;
    return (uint16_t)(sign | half);
}

static inline float rvit_bf16_to_f32(uint16_t value)
{
    return rvit_bits_float((uint32_t)value << 16);
}

static inline uint16_t rvit_f32_to_bf16(float value)
{
    const uint32_t bits = rvit_float_bits(value);
    if ((bits & 0x7fffffffu) > 0x7f800000u)
        return (uint16_t)(bits >> 16 | 0x40u);
    return (uint16_t)((bits + 0x7fffu + (bits >> 16 & 1u)) >> 16);
}

/* dtype: F16 or BF16. */
static inline void rvit_narrow(const float *values, int64_t n, rvit_dtype dtype, uint16_t *out)
{
    if (dtype == RVIT_F16)
        for (int64_t i = 0; i < n; i++)
            out[i] = rvit_f32_to_f16(values[i]);
    else
        for (int64_t i = 0; i < n; i++)
            out[i] = rvit_f32_to_bf16(values[i]);
}

#endif

// Element storage. An f16 or bf16 array is read and written four elements at a time as uvec2, so that no 16-bit feature is needed.
//
// IN_F16 and OUT_F16 choose the types that a shader reads and writes: IN_VEC4 and OUT_VEC4 are the types to declare buffers with, in_vec4()
// and out_vec4() convert. With 16-bit types, BF16 selects at pipeline creation which of the two are bf16 instead.
#ifndef STORAGE_GLSL
#define STORAGE_GLSL

layout(constant_id = RVIT_SPEC_BF16) const uint BF16 = 0;
const bool IN_BF16 = (BF16 & RVIT_BF16_IN) != 0;
const bool OUT_BF16 = (BF16 & RVIT_BF16_OUT) != 0;

// float16 bits of a float, rounded to nearest even; packHalf2x16 leaves the rounding to the driver, and some truncate.
uint f16_bits(float value)
{
    const uint bits = floatBitsToUint(value);
    const uint magnitude = bits & 0x7fffffffu;
    const uint normal = (magnitude - 0x38000000u + 0xfffu + (magnitude >> 13 & 1u)) >> 13;
    // Adding 0.5 aligns a subnormal's significand, so that the addition rounds it.
    const uint subnormal = floatBitsToUint(uintBitsToFloat(magnitude) + 0.5) - 0x3f000000u;
    const uint special = magnitude > 0x7f800000u ? 0x7e00u | (magnitude >> 13 & 0x3ffu) : 0x7c00u;
    const uint half_magnitude = magnitude >= 0x47800000u ? special : magnitude < 0x38800000u ? subnormal : normal;
    return bits >> 16 & 0x8000u | half_magnitude;
}

// bfloat16 bits of a float, rounded to nearest even; NaN stays NaN.
uint bf16_bits(float value)
{
    const uint bits = floatBitsToUint(value);
    const bool is_nan = (bits & 0x7fffffffu) > 0x7f800000u;
    return (is_nan ? bits | 0x400000u : bits + 0x7fffu + (bits >> 16 & 1u)) >> 16;
}

uint half_pair(float low, float high, bool is_bf16)
{
    return is_bf16 ? bf16_bits(low) | bf16_bits(high) << 16 : f16_bits(low) | f16_bits(high) << 16;
}

vec4 half4_decode(uvec2 words, bool is_bf16)
{
    if (is_bf16)
        return uintBitsToFloat(uvec4(words.x << 16, words.x & 0xffff0000u, words.y << 16, words.y & 0xffff0000u));
    return vec4(unpackHalf2x16(words.x), unpackHalf2x16(words.y));
}

uvec2 half4_encode(vec4 value, bool is_bf16)
{
    return uvec2(half_pair(value.x, value.y, is_bf16), half_pair(value.z, value.w, is_bf16));
}

#if IN_F16
#define IN_VEC4 uvec2
#define in_vec4(words) half4_decode(words, IN_BF16)
#define in_encode(value) half4_encode(value, IN_BF16)
#else
#define IN_VEC4 vec4
#define in_vec4(words) (words)
#define in_encode(value) (value)
#endif

#if OUT_F16
#define OUT_VEC4 uvec2
#define out_vec4(value) half4_encode(value, OUT_BF16)
#define out_decode(words) half4_decode(words, OUT_BF16)
#else
#define OUT_VEC4 vec4
#define out_vec4(value) (value)
#define out_decode(words) (words)
#endif

#endif

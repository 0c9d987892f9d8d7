// Quantizes rows to int8 with a scale each, bit for bit as core/base/quantized.h does. Quotients are computed with integers, because a
// driver's division may be off by some ulps, and a scale must be the same everywhere. Needs common/row_team.glsl with TEAM_MAX, and the
// bindings OUT_SCALES, STATIC_SCALE, SATURATED.
#ifndef QUANTIZE_ROW_GLSL
#define QUANTIZE_ROW_GLSL

layout(binding = OUT_SCALES) writeonly buffer OutScales { uint out_scales[]; };
layout(binding = STATIC_SCALE) readonly buffer StaticScale { uint static_scale[]; };
layout(binding = SATURATED) buffer Saturated { uint saturated[]; };

const float MOST = 127.0;
// Scales are in 2^-100..2^100. As bits, positive floats are in order, and NaN and negative ones come last.
const uint LEAST_BITS = 0x0d800000u;
const uint MOST_BITS = 0x71800000u;
const uint INFINITY_BITS = 0x7f800000u;
const uint NAN_BITS = 0x7fc00000u;

struct row_scale {
    uint bits;     // of the scale
    float inverse; // 0: the quantized values are zeros
};

// Bits of (n + fraction) * 2^(exponent - 150), rounded to nearest even. n is at least 2^24; the fraction is below 1, and above 0 if `more`.
uint rounded(uint n, bool more, uint exponent)
{
    const uint shift = uint(findMSB(n)) - 23;
    const uint half_step = 1u << (shift - 1), rest = n & (2 * half_step - 1), whole = n >> shift;
    const bool up = rest > half_step || (rest == half_step && (more || (whole & 1u) != 0));
    return (exponent + shift << 23) + whole - 0x800000u + uint(up); // a carry increments the exponent
}

uint significand(uint bits)
{
    return bits & 0x7fffffu | 0x800000u;
}

// n / x for n in 1..127, x in 2^-100..2^128.
uint quotient_by(uint n, uint bits)
{
    const uint x = significand(bits);
    uint quotient = (n << 24) / x, rest = (n << 24) % x;
    for (uint i = 0; i < 3; i++) {
        quotient = quotient << 8 | (rest << 8) / x;
        rest = (rest << 8) % x;
    }
    return rounded(quotient, rest != 0, 252 - (bits >> 23));
}

// x / 127, x in 2^-100..2^128.
uint quotient_of(uint bits)
{
    const uint x = significand(bits) << 8;
    return rounded(x / 127, x % 127 != 0, (bits >> 23) - 8);
}

uint absolute_bits(vec4 values)
{
    const uvec4 bits = floatBitsToUint(values) & 0x7fffffffu;
    return max(max(bits.x, bits.y), max(bits.z, bits.w));
}

// largest: bits of the row's largest magnitude. static_at: of the static scale; negative: there is none.
row_scale row_scale_of(uint largest, int static_at)
{
    const uint bits = static_at >= 0 ? static_scale[static_at] : LEAST_BITS;
    if (largest >= INFINITY_BITS || bits < LEAST_BITS || bits > MOST_BITS)
        return row_scale(NAN_BITS, 0.0);
    if (static_at >= 0)
        return row_scale(bits, uintBitsToFloat(quotient_by(1, bits)));
    if (largest < LEAST_BITS)
        return row_scale(0, 0.0);
    return row_scale(quotient_of(largest), uintBitsToFloat(quotient_by(127, largest)));
}

// Quantizes and packs four values; adds the number of saturated ones to n_saturated.
uint quantized4(vec4 values, row_scale scale, inout uint n_saturated)
{
    const vec4 scaled = values * scale.inverse;
    const uvec4 clipped = uvec4(greaterThan(abs(scaled), vec4(MOST)));
    n_saturated += clipped.x + clipped.y + clipped.z + clipped.w;
    const uvec4 v = uvec4(ivec4(roundEven(clamp(scaled, -MOST, MOST)))) & 0xffu;
    return scale.inverse == 0.0 ? 0 : v.x | v.y << 8 | v.z << 16 | v.w << 24;
}

#endif

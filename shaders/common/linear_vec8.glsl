// Stores eight columns of a row at a time, in the matrix tier. Define OUT_F16 and IN_I8 as needed, and include linear.glsl.
#ifndef LINEAR_VEC8_GLSL
#define LINEAR_VEC8_GLSL

#if OUT_F16
layout(binding = 3) readonly buffer Residual { uvec4 residual_units[]; };
layout(binding = 4) buffer Out { uvec4 out_units[]; };
#else
layout(binding = 3) readonly buffer Residual { vec4 residual_words[]; };
layout(binding = 4) buffer Out { vec4 out_words[]; };
#endif
#if LINEAR_VEC4
#if OUT_F16
layout(binding = 3) readonly buffer ResidualVec4 { uvec2 residual_vec4s[]; };
layout(binding = 4) buffer OutVec4 { uvec2 out_vec4s[]; };
#define load_residual4(at) half4_decode(residual_vec4s[uint(push.residual_at) * 2 + (at)], OUT_BF16)
#define store_out4(at, value) out_vec4s[uint(push.out_at) * 2 + (at)] = out_pack(value)
#else
#define load_residual4(at) residual_words[uint(push.residual_at) + (at)]
#define store_out4(at, value) out_words[uint(push.out_at) + (at)] = value
#endif
#endif

struct vec8 {
    vec4 low, high;
};

#if OUT_F16
// Packs four elements of OUT.
uvec2 out_pack(vec4 value)
{
#if MATRIX_BF16
    return half4_encode(value, true);
#else
#if IN_I8
    if (OUT_BF16)
        return half4_encode(value, true);
#endif
    return uvec2(packFloat2x16(f16vec2(value.xy)), packFloat2x16(f16vec2(value.zw)));
#endif
}
#endif

// The residual of eight columns of a row; if gated, of the four outputs that they make. Zeros if there is none.
vec8 residual_vec8(uint row, uint column8)
{
    vec8 found = vec8(vec4(0.0), vec4(0.0));
    if ((FLAGS & RVIT_LINEAR_HAS_RESIDUAL) == 0)
        return found;
    const uint at = (push.period == 0 ? row : row % uint(push.period)) * (uint(push.out4) / 2) + column8;
#if OUT_F16
    if ((FLAGS & RVIT_LINEAR_GATED) != 0) {
        const uvec4 unit = residual_units[uint(push.residual_at) + at / 2];
        found.low = half4_decode(at % 2 == 0 ? unit.xy : unit.zw, OUT_BF16);
    } else {
        const uvec4 unit = residual_units[uint(push.residual_at) + at];
        found = vec8(half4_decode(unit.xy, OUT_BF16), half4_decode(unit.zw, OUT_BF16));
    }
#else
    if ((FLAGS & RVIT_LINEAR_GATED) != 0)
        found.low = residual_words[uint(push.residual_at) + at];
    else
        found = vec8(residual_words[uint(push.residual_at) + at * 2], residual_words[uint(push.residual_at) + at * 2 + 1]);
#endif
    return found;
}

// Stores eight columns of a row after activation, gate and residual.
void store_vec8(vec8 sums, vec8 residual, uint row, uint column8)
{
    const uint at = row * (uint(push.out4) / 2) + column8;
    if ((FLAGS & RVIT_LINEAR_GATED) != 0) {
        vec4 gated = vec4(gate(sums.low), gate(sums.high));
        if ((FLAGS & RVIT_LINEAR_HAS_RESIDUAL) != 0)
            gated += residual.low;
#if OUT_F16
        const uvec2 words = out_pack(gated);
        if (at % 2 == 0)
            out_units[uint(push.out_at) + at / 2].xy = words;
        else
            out_units[uint(push.out_at) + at / 2].zw = words;
#else
        out_words[uint(push.out_at) + at] = gated;
#endif
        return;
    }
    vec4 low = activate(sums.low), high = activate(sums.high);
    if ((FLAGS & RVIT_LINEAR_HAS_RESIDUAL) != 0) {
        low += residual.low;
        high += residual.high;
    }
#if OUT_F16
    out_units[uint(push.out_at) + at] = uvec4(out_pack(low), out_pack(high));
#else
    out_words[uint(push.out_at) + at * 2] = low;
    out_words[uint(push.out_at) + at * 2 + 1] = high;
#endif
}

#if LINEAR_VEC4
// The same for four columns that are not gated.
vec4 residual_vec4(uint row, uint column4)
{
    if ((FLAGS & RVIT_LINEAR_HAS_RESIDUAL) == 0)
        return vec4(0.0);
    return load_residual4((push.period == 0 ? row : row % uint(push.period)) * uint(push.out4) + column4);
}

void store_vec4(vec4 sums, vec4 residual, uint row, uint column4)
{
    vec4 value = activate(sums);
    if ((FLAGS & RVIT_LINEAR_HAS_RESIDUAL) != 0)
        value += residual;
    store_out4(row * uint(push.out4) + column4, value);
}
#endif

#endif

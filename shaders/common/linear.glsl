// Shared by the linear shaders: the arguments, the inner step and the epilogue.
#ifndef LINEAR_GLSL
#define LINEAR_GLSL

layout(constant_id = RVIT_LINEAR_ROWS) const uint ROWS = 8;
layout(constant_id = RVIT_LINEAR_COLUMNS) const uint COLUMNS = 1;
layout(constant_id = RVIT_LINEAR_FLAGS) const uint FLAGS = 0;
layout(constant_id = RVIT_LINEAR_ACTIVATION) const uint ACTIVATION = 0;

#include "activate.glsl"

layout(binding = 2) readonly buffer Bias { vec4 bias_values[]; };
layout(binding = 5) readonly buffer Live { int live[]; };
#if IN_I8
layout(binding = 6) readonly buffer XScales { float x_scales[]; };
layout(binding = 7) readonly buffer WeightScales { vec4 weight_scales[]; };
#endif
layout(push_constant) uniform Push { rvit_linear_push push; };

uint linear_rows()
{
    return push.live_at < 0 ? uint(push.rows) : clamp_rows(live[push.live_at], push.rows);
}

#if IN_I8
// Converts the integer sums of four columns to floats, with the same operations as on the CPU; none of them may be fused with the next.
vec4 linear_scaled(ivec4 sum, uint row, uint column4)
{
    precise const vec4 scale = x_scales[uint(push.x_scales_at) + row] * weight_scales[uint(push.weight_scales_at) + column4];
    precise const vec4 product = vec4(sum) * scale;
    return product;
}
#endif

#if !LINEAR_UNITS // a shader that works on units of eight elements has its own epilogue

layout(binding = 3) readonly buffer Residual { OUT_VEC4 residual_words[]; };
layout(binding = 4) buffer Out { OUT_VEC4 out_words[]; };

#if !IN_I8
// sum += dot products of four features with four columns, one feature after the other.
vec4 linear_step(vec4 sum, vec4 x, vec4 w[4])
{
    sum += x.x * vec4(w[0].x, w[1].x, w[2].x, w[3].x);
    sum += x.y * vec4(w[0].y, w[1].y, w[2].y, w[3].y);
    sum += x.z * vec4(w[0].z, w[1].z, w[2].z, w[3].z);
    sum += x.w * vec4(w[0].w, w[1].w, w[2].w, w[3].w);
    return sum;
}
#endif

// Stores half of four elements of out: four columns hold two gates and their values.
void linear_store_gated(vec2 sum, uint row, uint column4)
{
    const uint row4 = uint(push.out4) / 2;
    const bool is_second = column4 % 2 != 0;
    if ((FLAGS & RVIT_LINEAR_HAS_RESIDUAL) != 0) {
        const uint residual_row = push.period == 0 ? row : row % uint(push.period);
        const vec4 residual = out_decode(residual_words[uint(push.residual_at) + residual_row * row4 + column4 / 2]);
        sum += is_second ? residual.zw : residual.xy;
    }
    const OUT_VEC4 word = out_vec4(vec4(sum, sum));
    const uint at = uint(push.out_at) + row * row4 + column4 / 2;
#if OUT_F16
    if (is_second)
        out_words[at].y = word.y;
    else
        out_words[at].x = word.x;
#else
    if (is_second)
        out_words[at].zw = word.zw;
    else
        out_words[at].xy = word.xy;
#endif
}

// Stores four columns of a row, if they exist.
void linear_finish(vec4 sum, uint row, uint column4, uint n_rows)
{
    const uint out4 = uint(push.out4);
    if (row >= n_rows || column4 >= out4)
        return;
    if ((FLAGS & RVIT_LINEAR_HAS_BIAS) != 0)
        sum += bias_values[uint(push.bias_at) + column4];
    if ((FLAGS & RVIT_LINEAR_GATED) != 0) {
        linear_store_gated(gate(sum), row, column4);
        return;
    }
    sum = activate(sum);
    if ((FLAGS & RVIT_LINEAR_HAS_RESIDUAL) != 0) {
        const uint residual_row = push.period == 0 ? row : row % uint(push.period);
        sum += out_decode(residual_words[uint(push.residual_at) + residual_row * out4 + column4]);
    }
    out_words[uint(push.out_at) + row * out4 + column4] = out_vec4(sum);
}

#endif

#endif

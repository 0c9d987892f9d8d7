// What the linear shaders share: the arguments, the inner step and the epilogue.
#ifndef LINEAR_GLSL
#define LINEAR_GLSL

#include "math.glsl"

layout(constant_id = RVIT_LINEAR_ROWS) const uint ROWS = 8;
layout(constant_id = RVIT_LINEAR_COLUMNS) const uint COLUMNS = 1;
layout(constant_id = RVIT_LINEAR_FLAGS) const uint FLAGS = 0;
layout(constant_id = RVIT_LINEAR_ACTIVATION) const uint ACTIVATION = 0;

layout(binding = RVIT_LINEAR_BIAS) readonly buffer Bias { vec4 bias_values[]; };
layout(binding = RVIT_LINEAR_LIVE) readonly buffer Live { int live[]; };
layout(push_constant) uniform Push { rvit_linear_push push; };

uint linear_rows()
{
    return push.live_at < 0 ? uint(push.rows) : clamp_rows(live[push.live_at], push.rows);
}

float linear_activate(float x)
{
    switch (ACTIVATION) {
    case RVIT_LINEAR_GELU:
        return gelu(x);
    case RVIT_LINEAR_GELU_TANH: // (1 + tanh u) / 2 = sigmoid(2 u)
        return sigmoid_product(x, 1.595769122, 0.0713548163);
    case RVIT_LINEAR_QUICK_GELU:
        return sigmoid_product(x, 1.702, 0.0);
    case RVIT_LINEAR_SILU:
        return sigmoid_product(x, 1.0, 0.0);
    }
    return x;
}

vec4 linear_activate(vec4 x)
{
    return vec4(linear_activate(x.x), linear_activate(x.y), linear_activate(x.z), linear_activate(x.w));
}

// Of two gates and their values, the two outputs.
vec2 linear_gate(vec4 x)
{
    return vec2(linear_activate(x.x) * x.y, linear_activate(x.z) * x.w);
}

#if !LINEAR_UNITS // a shader that works on eights of elements has its own epilogue

layout(binding = RVIT_LINEAR_RESIDUAL) readonly buffer Residual { OUT_VEC4 residual_words[]; };
layout(binding = RVIT_LINEAR_OUT) buffer Out { OUT_VEC4 out_words[]; };

// sum += the products of four features with those of four columns, feature after feature.
vec4 linear_step(vec4 sum, vec4 x, vec4 w[4])
{
    sum += x.x * vec4(w[0].x, w[1].x, w[2].x, w[3].x);
    sum += x.y * vec4(w[0].y, w[1].y, w[2].y, w[3].y);
    sum += x.z * vec4(w[0].z, w[1].z, w[2].z, w[3].z);
    sum += x.w * vec4(w[0].w, w[1].w, w[2].w, w[3].w);
    return sum;
}

// Stores half of four elements of out: two gates and their values lie in four columns.
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
        linear_store_gated(linear_gate(sum), row, column4);
        return;
    }
    sum = linear_activate(sum);
    if ((FLAGS & RVIT_LINEAR_HAS_RESIDUAL) != 0) {
        const uint residual_row = push.period == 0 ? row : row % uint(push.period);
        sum += out_decode(residual_words[uint(push.residual_at) + residual_row * out4 + column4]);
    }
    out_words[uint(push.out_at) + row * out4 + column4] = out_vec4(sum);
}

#endif

#endif

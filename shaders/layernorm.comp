// Layernorm of rows, optionally gathered. Two passes over a row; the first subtracts the row's first element, so that a constant row gives
// exactly beta. RMS uses only the second pass, with a mean of 0.
#version 450
#extension GL_GOOGLE_include_directive : require
#if TIER_SUBGROUP
#extension GL_KHR_shader_subgroup_basic : require
#extension GL_KHR_shader_subgroup_arithmetic : require
#endif
#include "common/interface.h"
#include "common/group.glsl"
#include "common/storage.glsl"

layout(constant_id = RVIT_LAYERNORM_ROWS) const uint ROWS = 4;
layout(constant_id = RVIT_LAYERNORM_FLAGS) const uint FLAGS = 0;
layout(constant_id = RVIT_LAYERNORM_HELD) const uint HELD = 1;

layout(binding = 0) readonly buffer X { IN_VEC4 x_words[]; };
layout(binding = 1) readonly buffer SrcRows { int src_rows[]; };
layout(binding = 2) readonly buffer Gamma { vec4 gamma_values[]; };
layout(binding = 3) readonly buffer Beta { vec4 beta_values[]; };
#if OUT_I8
layout(binding = 4) writeonly buffer Out { uint out_words[]; };
#else
layout(binding = 4) writeonly buffer Out { OUT_VEC4 out_words[]; };
#endif
layout(binding = 5) writeonly buffer OutX { IN_VEC4 out_x_words[]; };
layout(binding = 6) readonly buffer Live { int live[]; };
layout(push_constant) uniform Push { rvit_layernorm_push push; };

#if OUT_I8
#define OUT_SCALES RVIT_LAYERNORM_OUT_SCALES
#define STATIC_SCALE RVIT_LAYERNORM_STATIC_SCALE
#define SATURATED RVIT_LAYERNORM_SATURATED
#define TEAM_MAX 1
#include "common/quantize_row.glsl"
#endif
#include "common/row_team.glsl"

// The row of x that row t of out is computed from.
uint source_row(uint t)
{
    if ((FLAGS & RVIT_LAYERNORM_HAS_GATHER) == 0)
        return t;
    return uint(clamp(src_rows[uint(push.src_rows_at) + t], 0, push.x_rows - 1));
}

// `value` in the columns of unit i that are features, else `other`.
vec4 mask_padding(vec4 value, vec4 other, uint i)
{
    if ((FLAGS & RVIT_LAYERNORM_PADDED) == 0)
        return value;
    return mix(other, value, lessThan(uvec4(0, 1, 2, 3) + i * 4, uvec4(push.features)));
}

vec4 load_beta(uint i)
{
    return (FLAGS & RVIT_LAYERNORM_HAS_BETA) != 0 ? beta_values[uint(push.beta_at) + i] : vec4(0.0);
}

struct row_norm {
    float mean, scale;
#if OUT_I8
    row_scale quantization;
#endif
};

vec4 normal_of(IN_VEC4 words, row_norm norm, vec4 gamma, vec4 beta, uint i)
{
    return mask_padding((in_vec4(words) - norm.mean) * norm.scale * gamma + beta, vec4(0.0), i);
}

uint n_saturated = 0;

void store_unit(uint row, uint i, IN_VEC4 words, row_norm norm, vec4 gamma, vec4 beta)
{
    const uint dim4 = uint(push.dim4);
    const vec4 normal = normal_of(words, norm, gamma, beta, i);
#if OUT_I8
    out_words[uint(push.out_at) + row * dim4 + i] = quantized4(normal, norm.quantization, n_saturated);
#else
    out_words[uint(push.out_at) + row * dim4 + i] = out_vec4(normal);
#endif
    if ((FLAGS & RVIT_LAYERNORM_HAS_OUT_X) != 0)
        out_x_words[uint(push.out_x_at) + row * dim4 + i] = words;
}

void main()
{
    const uint n_rows = push.live_at < 0 ? uint(push.rows) : clamp_rows(live[push.live_at], push.rows);
    const uint dim4 = uint(push.dim4);
    const uint first = group_index() * ROWS;
    if (first >= n_rows)
        return;
    const float inverse_dim = 1.0 / float(push.features);
    const row_team team = make_row_team(ROWS);
    // Whether a lane's part of a row, of gamma and of beta fits in registers: then all loads are in flight at once.
    const bool holds = dim4 <= HELD * team.lanes;
    for (uint r = team.first; r < ROWS; r += team.step) {
        const uint row = first + r;
        const bool live_row = row < n_rows;
        // Without subgroups every thread takes part in the sums; a team past the end repeats the last row and stores nothing.
        const uint from = uint(push.x_at) + source_row(min(row, n_rows - 1)) * dim4;
        const bool is_rms = (FLAGS & RVIT_LAYERNORM_RMS) != 0;
        const float shift = is_rms ? 0.0 : in_vec4(x_words[from]).x;
        IN_VEC4 held[HELD];
        vec4 gamma[HELD], beta[HELD]; // loaded last: they come from further away and are needed last
        vec4 sum = vec4(0.0);
        if (holds) {
            [[unroll]] for (uint u = 0; u < HELD; u++)
                held[u] = x_words[from + min(team.lane + u * team.lanes, dim4 - 1)];
            [[unroll]] for (uint u = 0; u < HELD; u++) {
                const uint i = min(team.lane + u * team.lanes, dim4 - 1);
                gamma[u] = gamma_values[uint(push.gamma_at) + i];
                beta[u] = load_beta(i);
            }
            [[unroll]] for (uint u = 0; u < HELD; u++)
                if (team.lane + u * team.lanes < dim4)
                    sum += mask_padding(in_vec4(held[u]) - shift, vec4(0.0), team.lane + u * team.lanes);
        } else if (!is_rms) {
            for (uint i = team.lane; i < dim4; i += team.lanes)
                sum += mask_padding(in_vec4(x_words[from + i]) - shift, vec4(0.0), i);
        }
        const float mean = is_rms ? 0.0 : shift + team_add(team, (sum.x + sum.y) + (sum.z + sum.w)) * inverse_dim;
        sum = vec4(0.0);
        if (holds) {
            [[unroll]] for (uint u = 0; u < HELD; u++)
                if (team.lane + u * team.lanes < dim4) {
                    const vec4 d = mask_padding(in_vec4(held[u]) - mean, vec4(0.0), team.lane + u * team.lanes);
                    sum += d * d;
                }
        } else {
            for (uint i = team.lane; i < dim4; i += team.lanes) {
                const vec4 d = mask_padding(in_vec4(x_words[from + i]) - mean, vec4(0.0), i);
                sum += d * d;
            }
        }
        const float variance = team_add(team, (sum.x + sum.y) + (sum.z + sum.w)) * inverse_dim;
        row_norm norm;
        norm.mean = mean;
        norm.scale = 1.0 / sqrt(variance + push.eps);
#if OUT_I8
        uint largest = 0;
        if (holds) {
            [[unroll]] for (uint u = 0; u < HELD; u++)
                if (team.lane + u * team.lanes < dim4)
                    largest = max(largest, absolute_bits(normal_of(held[u], norm, gamma[u], beta[u], team.lane + u * team.lanes)));
        } else {
            for (uint i = team.lane; i < dim4; i += team.lanes) {
                const vec4 normal = normal_of(x_words[from + i], norm, gamma_values[uint(push.gamma_at) + i], load_beta(i), i);
                largest = max(largest, absolute_bits(normal));
            }
        }
        norm.quantization = row_scale_of(team_max(team, largest), push.static_scale_at);
        if (live_row && team.lane == 0)
            out_scales[uint(push.out_scales_at) + row] = norm.quantization.bits;
#endif
        if (!live_row)
            continue;
        if (holds) {
            [[unroll]] for (uint u = 0; u < HELD; u++)
                if (team.lane + u * team.lanes < dim4)
                    store_unit(row, team.lane + u * team.lanes, held[u], norm, gamma[u], beta[u]);
        } else {
            for (uint i = team.lane; i < dim4; i += team.lanes)
                store_unit(row, i, x_words[from + i], norm, gamma_values[uint(push.gamma_at) + i], load_beta(i));
        }
    }
#if OUT_I8
    if (push.saturated_at >= 0 && n_saturated > 0)
        atomicAdd(saturated[push.saturated_at], n_saturated);
#endif
}

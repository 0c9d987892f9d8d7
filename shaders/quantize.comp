// Quantizes rows to int8 with a scale each, after bias, activation and gate.
#version 450
#extension GL_GOOGLE_include_directive : require
#if TIER_SUBGROUP
#extension GL_KHR_shader_subgroup_basic : require
#extension GL_KHR_shader_subgroup_arithmetic : require
#endif
#include "common/interface.h"
#include "common/group.glsl"
#include "common/storage.glsl"

layout(constant_id = RVIT_QUANTIZE_ROWS) const uint ROWS = 4;
layout(constant_id = RVIT_QUANTIZE_FLAGS) const uint FLAGS = 0;
layout(constant_id = RVIT_QUANTIZE_HELD) const uint HELD = 1;
layout(constant_id = RVIT_QUANTIZE_ACTIVATION) const uint ACTIVATION = 0;

layout(binding = 0) readonly buffer X { IN_VEC4 x_words[]; };
layout(binding = 1) readonly buffer Bias { vec4 bias_values[]; };
layout(binding = 3) writeonly buffer Out { uint out_words[]; };
layout(binding = 6) readonly buffer Live { int live[]; };
layout(push_constant) uniform Push { rvit_quantize_push push; };

#define OUT_SCALES RVIT_QUANTIZE_OUT_SCALES
#define STATIC_SCALE RVIT_QUANTIZE_STATIC_SCALE
#define SATURATED RVIT_QUANTIZE_SATURATED
#define TEAM_MAX 1
#include "common/activate.glsl"
#include "common/quantize_row.glsl"
#include "common/row_team.glsl"

vec4 load_x(uint row, uint i, uint row4)
{
    const vec4 x = in_vec4(x_words[uint(push.x_at) + row * row4 + i]);
    return (FLAGS & RVIT_QUANTIZE_HAS_BIAS) != 0 ? x + bias_values[uint(push.bias_at) + i] : x;
}

// Four values of a row to be quantized.
vec4 value_of(uint row, uint i)
{
    const uint columns4 = uint(push.columns4);
    if ((FLAGS & RVIT_QUANTIZE_GATED) != 0)
        return vec4(gate(load_x(row, 2 * i, 2 * columns4)), gate(load_x(row, 2 * i + 1, 2 * columns4)));
    return activate(load_x(row, i, columns4));
}

void main()
{
    const uint n_rows = push.live_at < 0 ? uint(push.rows) : clamp_rows(live[push.live_at], push.rows);
    const uint columns4 = uint(push.columns4);
    const uint first = group_index() * ROWS;
    if (first >= n_rows)
        return;
    const row_team team = make_row_team(ROWS);
    const bool holds = columns4 <= HELD * team.lanes;
    uint n_saturated = 0;
    for (uint r = team.first; r < ROWS; r += team.step) {
        // Without subgroups every thread takes part in the maximum; a team past the end repeats the last row and stores nothing.
        const uint row = first + r, from = min(row, n_rows - 1);
        vec4 held[HELD];
        uint largest = 0;
        if (holds) {
            [[unroll]] for (uint u = 0; u < HELD; u++) {
                held[u] = value_of(from, min(team.lane + u * team.lanes, columns4 - 1));
                largest = max(largest, absolute_bits(held[u]));
            }
        } else {
            for (uint i = team.lane; i < columns4; i += team.lanes)
                largest = max(largest, absolute_bits(value_of(from, i)));
        }
        const row_scale scale = row_scale_of(team_max(team, largest), push.static_scale_at);
        if (row >= n_rows)
            continue;
        if (team.lane == 0)
            out_scales[uint(push.out_scales_at) + row] = scale.bits;
        const uint out_at = uint(push.out_at) + row * columns4;
        if (holds) {
            [[unroll]] for (uint u = 0; u < HELD; u++)
                if (team.lane + u * team.lanes < columns4)
                    out_words[out_at + team.lane + u * team.lanes] = quantized4(held[u], scale, n_saturated);
        } else {
            for (uint i = team.lane; i < columns4; i += team.lanes)
                out_words[out_at + i] = quantized4(value_of(row, i), scale, n_saturated);
        }
    }
    if (push.saturated_at >= 0 && n_saturated > 0)
        atomicAdd(saturated[push.saturated_at], n_saturated);
}

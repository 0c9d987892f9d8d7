// Weights of f16 in the order in which linear_matrix.comp loads them when it does not stage them (common/matrix_rows.glsl), in place. A
// group takes 64 features of 16 columns; a thread makes 16 bytes, what a lane holds of a matrix, of as many bytes of two columns.
#version 450
#extension GL_GOOGLE_include_directive : require
#include "common/interface.h"
#include "common/group.glsl"

layout(binding = RVIT_ARRANGE_WEIGHT) buffer Weight { uvec4 units[]; };
layout(push_constant) uniform Push { rvit_arrange_push push; };

void main()
{
    const uint n_units = uint(push.in8), lines = n_units / 8;
    const uint at = uint(push.weight_at) + group_index() / lines * 16 * n_units + group_index() % lines * 8;
    const uint step = gl_LocalInvocationIndex / 32, lane = gl_LocalInvocationIndex % 32;
    const uint from = at + lane / 4 * n_units + step / 2 * 4 + lane % 4;
    const uvec4 first = units[from], second = units[from + 8 * n_units];
    const uvec2 low = step % 2 == 0 ? first.xy : first.zw, high = step % 2 == 0 ? second.xy : second.zw;
    memoryBarrierBuffer();
    barrier();
    units[at + (step * 4 + lane / 8) * n_units + lane % 8] = uvec4(low.x, high.x, low.y, high.y);
}

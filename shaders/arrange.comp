// Rearranges f16 weights in place, into the order in which linear_direct_matrix.comp loads them (common/matrix_rows.glsl). A workgroup
// takes 64 features of 64 columns: four matrices of 16 columns, in four steps of 16 features. Rows l and l + 8 of matrix m are columns
// 8 l + 2 m and 8 l + 2 m + 1. In one step a lane holds a unit of 16 bytes of a matrix: 8 bytes from each of these two columns.
#version 450
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_control_flow_attributes : require
#include "common/interface.h"
#include "common/group.glsl"

layout(binding = 0) buffer Weight { uvec4 units[]; };
layout(push_constant) uniform Push { rvit_arrange_push push; };

const uint MATRICES = 4;

void main()
{
    const uint n_units = uint(push.in8), lines = n_units / 8;
    const uint at = uint(push.weight_at) + group_index() / lines * 16 * MATRICES * n_units + group_index() % lines * 8;
    const uint step = gl_LocalInvocationIndex / 32, lane = gl_LocalInvocationIndex % 32;
    uvec4 arranged[MATRICES];
    [[unroll]] for (uint m = 0; m < MATRICES; m++) {
        const uint from = at + (lane / 4 * 2 * MATRICES + 2 * m) * n_units + step / 2 * 4 + lane % 4;
        const uvec4 first = units[from], second = units[from + n_units];
        const uvec2 low = step % 2 == 0 ? first.xy : first.zw, high = step % 2 == 0 ? second.xy : second.zw;
        arranged[m] = uvec4(low.x, high.x, low.y, high.y);
    }
    memoryBarrierBuffer();
    barrier();
    [[unroll]] for (uint m = 0; m < MATRICES; m++)
        units[at + (m * 16 + step * 4 + lane / 8) * n_units + lane % 8] = arranged[m];
}

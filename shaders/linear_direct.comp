// Linear for software devices. Every thread reads its operands through texel buffers, which such devices fetch as whole vectors, and keeps
// a large tile in registers; staging and barriers would cost more than they save. The order of summation is that of linear.comp.
#version 450
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_control_flow_attributes : require
#include "common/interface.h"
#include "common/group.glsl"
#include "common/storage.glsl"
#include "common/texels.glsl"
#include "common/linear.glsl"

layout(binding = 0) uniform TEXELS x_texels;
layout(binding = 1) uniform TEXELS weight_texels;

void main()
{
    const uint n_rows = linear_rows();
    const uint in4 = uint(push.in4);
    const uint out4 = uint(push.out4);
    const uint group_quads = THREADS * COLUMNS;
    const uint tiles_n = (out4 + group_quads - 1) / group_quads;
    const uint first_row = group_index() / tiles_n * ROWS;
    const uint quad = group_index() % tiles_n * group_quads + gl_LocalInvocationIndex;
    if (first_row >= n_rows)
        return;

    // Rows and columns past the end repeat the last one; their sums are not stored.
    int x_at[ROWS];
    [[unroll]] for (uint r = 0; r < ROWS; r++)
        x_at[r] = push.x_at + int(min(first_row + r, n_rows - 1) * in4);
    int w_at[COLUMNS];
    [[unroll]] for (uint c = 0; c < COLUMNS; c++)
        w_at[c] = push.weight_at + int(min(quad + c * THREADS, out4 - 1) * 4 * in4);

    vec4 sums[ROWS][COLUMNS];
    [[unroll]] for (uint r = 0; r < ROWS; r++)
        [[unroll]] for (uint c = 0; c < COLUMNS; c++)
            sums[r][c] = vec4(0.0);
    const int column_step = int(in4);
    for (int k4 = 0; k4 < column_step; k4++) {
        vec4 x[ROWS];
        [[unroll]] for (uint r = 0; r < ROWS; r++)
            x[r] = fetch(x_texels, x_at[r] + k4);
        [[unroll]] for (uint c = 0; c < COLUMNS; c++) {
            const int at = w_at[c] + k4;
            const vec4 w[4] = {fetch(weight_texels, at), fetch(weight_texels, at + column_step), fetch(weight_texels, at + 2 * column_step),
                               fetch(weight_texels, at + 3 * column_step)};
            [[unroll]] for (uint r = 0; r < ROWS; r++)
                sums[r][c] = linear_step(sums[r][c], x[r], w);
        }
    }
    [[unroll]] for (uint r = 0; r < ROWS; r++)
        [[unroll]] for (uint c = 0; c < COLUMNS; c++)
            linear_finish(sums[r][c], first_row + r, quad + c * THREADS, n_rows);
}

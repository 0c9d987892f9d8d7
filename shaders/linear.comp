// out = activation(x weight^T + bias) + residual: a GEMM tiled through shared memory.
// One thread sums each element over the features in ascending order, so its bits do not depend on the position of its row in the batch.
#version 450
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_control_flow_attributes : require
#include "common/interface.h"
#include "common/group.glsl"
#include "common/storage.glsl"
#include "common/linear.glsl"

layout(constant_id = RVIT_LINEAR_TILE_M) const uint TILE_M = 64;
layout(constant_id = RVIT_LINEAR_TILE_N) const uint TILE_N = 64;
layout(constant_id = RVIT_LINEAR_TILE_K) const uint TILE_K = 16;
const uint K4 = TILE_K / 4;
const uint QUADS = TILE_N / 4; // groups of four columns
const uint X_STEP = TILE_M + 1;
const uint W_STEP = TILE_N + 1;

layout(binding = 0) readonly buffer X { IN_VEC4 x_words[]; };
layout(binding = 1) readonly buffer Weight { IN_VEC4 weight_words[]; };

// Four features of a row at [k / 4][row], of a column at [k / 4][column % 4][column / 4]: adjacent threads read adjacent elements.
shared vec4 x_tile[K4 * X_STEP];
shared vec4 w_tile[K4 * W_STEP];

void stage(uint first_row, uint first_column, uint first_k4, uint n_rows)
{
    const uint in4 = uint(push.in4);
    const uint n_columns = uint(push.out4) * 4;
    for (uint i = gl_LocalInvocationIndex; i < TILE_M * K4; i += THREADS) {
        const uint row = i / K4;
        const uint k4 = i % K4;
        const bool inside = first_row + row < n_rows && first_k4 + k4 < in4;
        x_tile[k4 * X_STEP + row] =
            inside ? in_vec4(x_words[uint(push.x_at) + (first_row + row) * in4 + first_k4 + k4]) : vec4(0.0);
    }
    for (uint i = gl_LocalInvocationIndex; i < TILE_N * K4; i += THREADS) {
        const uint column = i / K4;
        const uint k4 = i % K4;
        const bool inside = first_column + column < n_columns && first_k4 + k4 < in4;
        w_tile[k4 * W_STEP + column % 4 * QUADS + column / 4] =
            inside ? in_vec4(weight_words[uint(push.weight_at) + (first_column + column) * in4 + first_k4 + k4]) : vec4(0.0);
    }
}

void main()
{
    const uint n_rows = linear_rows();
    const uint tiles_n = (uint(push.out4) + QUADS - 1) / QUADS;
    const uint first_row = group_index() / tiles_n * TILE_M;
    const uint first_column = group_index() % tiles_n * TILE_N;
    if (first_row >= n_rows)
        return;
    const uint threads_n = QUADS / COLUMNS;
    const uint threads_m = TILE_M / ROWS;
    const uint tx = gl_LocalInvocationIndex % threads_n;
    const uint ty = gl_LocalInvocationIndex / threads_n;

    vec4 sums[ROWS][COLUMNS];
    [[unroll]] for (uint r = 0; r < ROWS; r++)
        [[unroll]] for (uint c = 0; c < COLUMNS; c++)
            sums[r][c] = vec4(0.0);

    for (uint first_k4 = 0; first_k4 < uint(push.in4); first_k4 += K4) {
        stage(first_row, first_column, first_k4, n_rows);
        barrier();
        for (uint k4 = 0; k4 < K4; k4++) {
            vec4 x[ROWS];
            [[unroll]] for (uint r = 0; r < ROWS; r++)
                x[r] = x_tile[k4 * X_STEP + ty + r * threads_m];
            [[unroll]] for (uint c = 0; c < COLUMNS; c++) {
                const uint at = k4 * W_STEP + tx + c * threads_n;
                const vec4 w[4] = {w_tile[at], w_tile[at + QUADS], w_tile[at + 2 * QUADS], w_tile[at + 3 * QUADS]};
                [[unroll]] for (uint r = 0; r < ROWS; r++)
                    sums[r][c] = linear_step(sums[r][c], x[r], w);
            }
        }
        barrier();
    }
    [[unroll]] for (uint r = 0; r < ROWS; r++)
        [[unroll]] for (uint c = 0; c < COLUMNS; c++)
            linear_finish(sums[r][c], first_row + ty + r * threads_m, first_column / 4 + tx + c * threads_n, n_rows);
}

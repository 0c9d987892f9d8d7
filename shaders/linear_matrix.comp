// out = activation(x weight^T + bias) + residual by cooperative matrices. A group stages TILE_K features of its rows and columns in shared
// memory while it fetches the next ones into registers; sums go through shared memory to the epilogue, since which elements of a matrix an
// invocation holds is the driver's own. A row's bits depend on nothing but the row: every tile adds up its features in the same steps.
#version 450
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_control_flow_attributes : require
#include "common/interface.h"
#include "common/group.glsl"
#include "common/storage.glsl"
#include "common/linear.glsl"
#define SPEC_SUBGROUP RVIT_LINEAR_SUBGROUP
#define SPEC_MATRIX_M RVIT_LINEAR_MATRIX_M
#define SPEC_MATRIX_N RVIT_LINEAR_MATRIX_N
#define SPEC_MATRIX_K RVIT_LINEAR_MATRIX_K
#include "common/matrix.glsl"

layout(constant_id = RVIT_LINEAR_TILE_M) const uint TILE_M = 64;
layout(constant_id = RVIT_LINEAR_TILE_N) const uint TILE_N = 64;
layout(constant_id = RVIT_LINEAR_TILE_K) const uint TILE_K = 32;
const uint K8 = TILE_K / 8;
const uint STEP8 = K8 + 1;
const uint X_UNITS = TILE_M * K8;
const uint W_UNITS = TILE_N * K8;
const uint X_FETCHES = (X_UNITS + THREADS - 1) / THREADS;
const uint W_FETCHES = (W_UNITS + THREADS - 1) / THREADS;
const uint SUBGROUPS_N = TILE_N / (COLUMNS * MATRIX_N);
const uint SUM_QUADS = MATRIX_N / 4;
const uint SUM_STEP = SUM_QUADS + 1;

layout(binding = RVIT_LINEAR_X) readonly buffer X { uvec4 x_units[]; };
layout(binding = RVIT_LINEAR_WEIGHT) readonly buffer Weight { uvec4 weight_units[]; };

shared uvec4 x_tile[TILE_M * STEP8]; // [row][k / 8]
shared uvec4 w_tile[TILE_N * STEP8]; // [column][k / 8]
shared vec4 sum_tile[SUBGROUPS * MATRIX_M * SUM_STEP];

// Rows, columns and features past the end count as zeros.
uvec4 fetch_x(uint unit, uint first_row, uint first_k8, uint n_rows)
{
    const uint row = first_row + unit / K8;
    const uint k8 = first_k8 + unit % K8;
    const uint in8 = uint(push.in4) / 2;
    return row < n_rows && k8 < in8 ? x_units[uint(push.x_at) + row * in8 + k8] : uvec4(0);
}

uvec4 fetch_weight(uint unit, uint first_column, uint first_k8)
{
    const uint column = first_column + unit / K8;
    const uint k8 = first_k8 + unit % K8;
    const uint in8 = uint(push.in4) / 2;
    return column < uint(push.out4) * 4 && k8 < in8 ? weight_units[uint(push.weight_at) + column * in8 + k8] : uvec4(0);
}

void main()
{
    const uint n_rows = linear_rows();
    const uint in8 = uint(push.in4) / 2;
    const uint tiles_n = (uint(push.out4) * 4 + TILE_N - 1) / TILE_N;
    const uint first_row = group_index() / tiles_n * TILE_M;
    const uint first_column = group_index() % tiles_n * TILE_N;
    if (first_row >= n_rows)
        return;
    const uint row = gl_SubgroupID / SUBGROUPS_N * ROWS * MATRIX_M; // of the subgroup, in the tile
    const uint column = gl_SubgroupID % SUBGROUPS_N * COLUMNS * MATRIX_N;

    MATRIX_SUM sums[ROWS * COLUMNS];
    [[unroll]] for (uint i = 0; i < ROWS * COLUMNS; i++)
        sums[i] = MATRIX_SUM(0.0);
    uvec4 x_next[X_FETCHES];
    uvec4 w_next[W_FETCHES];
    [[unroll]] for (uint i = 0; i < X_FETCHES; i++)
        x_next[i] = fetch_x(i * THREADS + gl_LocalInvocationIndex, first_row, 0, n_rows);
    [[unroll]] for (uint i = 0; i < W_FETCHES; i++)
        w_next[i] = fetch_weight(i * THREADS + gl_LocalInvocationIndex, first_column, 0);

    for (uint k8 = 0; k8 < in8; k8 += K8) {
        [[unroll]] for (uint i = 0; i < X_FETCHES; i++) {
            const uint unit = i * THREADS + gl_LocalInvocationIndex;
            if (unit < X_UNITS)
                x_tile[unit / K8 * STEP8 + unit % K8] = x_next[i];
        }
        [[unroll]] for (uint i = 0; i < W_FETCHES; i++) {
            const uint unit = i * THREADS + gl_LocalInvocationIndex;
            if (unit < W_UNITS)
                w_tile[unit / K8 * STEP8 + unit % K8] = w_next[i];
        }
        barrier();
        if (k8 + K8 < in8) {
            [[unroll]] for (uint i = 0; i < X_FETCHES; i++)
                x_next[i] = fetch_x(i * THREADS + gl_LocalInvocationIndex, first_row, k8 + K8, n_rows);
            [[unroll]] for (uint i = 0; i < W_FETCHES; i++)
                w_next[i] = fetch_weight(i * THREADS + gl_LocalInvocationIndex, first_column, k8 + K8);
        }
        [[unroll]] for (uint k = 0; k < TILE_K; k += MATRIX_K) {
            MATRIX_A a[ROWS];
            [[unroll]] for (uint r = 0; r < ROWS; r++)
                coopMatLoad(a[r], x_tile, (row + r * MATRIX_M) * STEP8 + k / 8, STEP8, ROW_MAJOR);
            [[unroll]] for (uint c = 0; c < COLUMNS; c++) {
                MATRIX_B b;
                coopMatLoad(b, w_tile, (column + c * MATRIX_N) * STEP8 + k / 8, STEP8, COLUMN_MAJOR);
                [[unroll]] for (uint r = 0; r < ROWS; r++)
                    sums[r * COLUMNS + c] = coopMatMulAdd(a[r], b, sums[r * COLUMNS + c]);
            }
        }
        barrier();
    }

    // Matrices are named by constants: indexed otherwise, they would lie in memory from the first product on.
    const uint sum_at = gl_SubgroupID * MATRIX_M * SUM_STEP;
    [[dont_unroll]] for (uint part = 0; part < ROWS * COLUMNS; part++) {
        [[unroll]] for (uint i = 0; i < ROWS * COLUMNS; i++)
            if (i == part)
                coopMatStore(sums[i], sum_tile, sum_at, SUM_STEP, ROW_MAJOR);
        subgroupBarrier();
        for (uint i = gl_SubgroupInvocationID; i < MATRIX_M * SUM_QUADS; i += SUBGROUP)
            linear_finish(sum_tile[sum_at + i / SUM_QUADS * SUM_STEP + i % SUM_QUADS],
                          first_row + row + part / COLUMNS * MATRIX_M + i / SUM_QUADS,
                          (first_column + column + part % COLUMNS * MATRIX_N) / 4 + i % SUM_QUADS, n_rows);
        subgroupBarrier();
    }
}

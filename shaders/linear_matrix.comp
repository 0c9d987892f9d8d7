// out = activation(x weight^T + bias) + residual with cooperative matrices. A workgroup stages TILE_K features of its rows and columns in
// shared memory while it prefetches the next ones into registers. Accumulators start with the bias, and go through shared memory to the
// epilogue, because the driver decides which invocation holds which element of a matrix. A row's bits depend only on the row: every tile
// adds up its features in the same steps. With IN_I8, x and weight are int8 and the accumulators integers, which the epilogue converts to
// floats.
#version 450
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_control_flow_attributes : require
#define LINEAR_UNITS 1
#include "common/interface.h"
#include "common/group.glsl"
#include "common/storage.glsl"
#include "common/linear.glsl"
#define SPEC_SUBGROUP RVIT_LINEAR_SUBGROUP
#define SPEC_MATRIX_M RVIT_LINEAR_MATRIX_M
#define SPEC_MATRIX_N RVIT_LINEAR_MATRIX_N
#define SPEC_MATRIX_K RVIT_LINEAR_MATRIX_K
#include "common/matrix.glsl"
#include "common/linear_vec8.glsl"

layout(constant_id = RVIT_LINEAR_TILE_M) const uint TILE_M = 64;
layout(constant_id = RVIT_LINEAR_TILE_N) const uint TILE_N = 64;
layout(constant_id = RVIT_LINEAR_TILE_K) const uint TILE_K = 32;
#if IN_I8
const uint UNIT = 16; // features per unit
#else
const uint UNIT = 8;
#endif
const uint UNITS = TILE_K / UNIT; // units per row of a tile
const uint STEP = UNITS + 1;
const uint X_UNITS = TILE_M * UNITS;
const uint W_UNITS = TILE_N * UNITS;
const uint X_FETCHES = (X_UNITS + THREADS - 1) / THREADS;
const uint W_FETCHES = (W_UNITS + THREADS - 1) / THREADS;
const uint W_AT = TILE_M * STEP;
#if IN_I8
// A matrix must begin at a unit. If a matrix is half a unit, the second half begins at one in a copy with the halves swapped.
const bool HALVES = MATRIX_K < UNIT;
const uint SECOND_AT = (TILE_M + TILE_N) * STEP;
const uint STAGED = HALVES ? 2 * SECOND_AT : SECOND_AT;
#else
const uint STAGED = (TILE_M + TILE_N) * STEP;
#endif
const uint SUBGROUPS_N = TILE_N / (COLUMNS * MATRIX_N);
const uint LINE8 = COLUMNS * MATRIX_N / 8;
const uint SUM_STEP = COLUMNS * MATRIX_N / 4 + 1;
const uint SUMS = SUBGROUPS * MATRIX_M * SUM_STEP;
// Whether accumulators take most of the registers. Then fetches have no branch, so the compiler moves them between the preceding stores,
// and GEMM steps are sequential, so it does not load all operands first. This leaves room for another workgroup on the multiprocessor.
const bool TIGHT = (FLAGS & RVIT_LINEAR_TIGHT) != 0;
const bool WHOLE_K = (FLAGS & RVIT_LINEAR_WHOLE_K) != 0;

layout(binding = 0) readonly buffer X { uvec4 x_units[]; };
layout(binding = 1) readonly buffer Weight { uvec4 weight_units[]; };

shared uvec4 tiles[STAGED > SUMS ? STAGED : SUMS]; // [row][k / 8] and [column][k / 8]; finally accumulators
#if !IN_I8
shared float bias_tile[TILE_N];
#endif

#if IN_I8
#define SUMS4 uvec4
#define sums_of(words) (words)

vec4 number_of(uvec4 sums, uint row, uint column4)
{
    const vec4 scaled = linear_scaled(ivec4(sums), row, column4);
    return (FLAGS & RVIT_LINEAR_HAS_BIAS) != 0 ? scaled + bias_values[uint(push.bias_at) + column4] : scaled;
}
#else
#define SUMS4 vec4
#define sums_of(words) uintBitsToFloat(words)
#endif

// Stores eight columns of a row, if they exist.
void finish(SUMS4 low_sums, SUMS4 high_sums, uint row, uint column8, uint n_rows)
{
    const uint out8 = uint(push.out4) / 2;
    if (row >= n_rows || column8 >= out8)
        return;
#if IN_I8
    const vec8 sums = vec8(number_of(low_sums, row, column8 * 2), number_of(high_sums, row, column8 * 2 + 1));
#else
    const vec8 sums = vec8(low_sums, high_sums);
#endif
    store_vec8(sums, residual_vec8(row, column8), row, column8);
}

bool has_feature(uint first_unit, uint unit, uint n_units)
{
    return WHOLE_K || first_unit + unit % UNITS < n_units;
}

// Stores a unit of a tile; the offset at which the features of a row from k on begin.
#if IN_I8
void stage(uint at, uvec4 unit)
{
    tiles[at] = unit;
    if (HALVES)
        tiles[SECOND_AT + at] = unit.zwxy;
}

uint unit_of(uint k)
{
    return k / UNIT + (HALVES ? k % UNIT / MATRIX_K * SECOND_AT : 0);
}
#else
#define stage(at, unit) tiles[at] = unit
#define unit_of(k) (k / UNIT)
#endif

void main()
{
    const uint n_rows = linear_rows();
    const uint n_units = uint(push.in4) / (UNIT / 4);
    const uint n_columns = uint(push.out4) * 4;
    const uint tiles_n = (n_columns + TILE_N - 1) / TILE_N;
    const uint first_row = group_index() / tiles_n * TILE_M;
    const uint first_column = group_index() % tiles_n * TILE_N;
    if (first_row >= n_rows)
        return;
    const uint row = gl_SubgroupID / SUBGROUPS_N * ROWS * MATRIX_M; // of the subgroup, in the tile
    const uint column = gl_SubgroupID % SUBGROUPS_N * COLUMNS * MATRIX_N;

    // Rows and columns past the end repeat the last one, and their sums are not stored; features past the end count as zeros.
    uint x_from[X_FETCHES], w_from[W_FETCHES];
    uvec4 x_next[X_FETCHES], w_next[W_FETCHES];
    [[unroll]] for (uint i = 0; i < X_FETCHES; i++) {
        const uint unit = i * THREADS + gl_LocalInvocationIndex;
        x_from[i] = uint(push.x_at) + min(first_row + unit / UNITS, n_rows - 1) * n_units + unit % UNITS;
        x_next[i] = has_feature(0, unit, n_units) ? x_units[x_from[i]] : uvec4(0);
    }
    [[unroll]] for (uint i = 0; i < W_FETCHES; i++) {
        const uint unit = i * THREADS + gl_LocalInvocationIndex;
        w_from[i] = uint(push.weight_at) + min(first_column + unit / UNITS, n_columns - 1) * n_units + unit % UNITS;
        w_next[i] = has_feature(0, unit, n_units) ? weight_units[w_from[i]] : uvec4(0);
    }
    MATRIX_SUM sums[ROWS * COLUMNS];
#if IN_I8
    [[unroll]] for (uint i = 0; i < ROWS * COLUMNS; i++)
        sums[i] = MATRIX_SUM(0);
#else
    for (uint i = gl_LocalInvocationIndex; i < TILE_N; i += THREADS) {
        float bias = 0.0;
        if ((FLAGS & RVIT_LINEAR_HAS_BIAS) != 0 && first_column + i < n_columns)
            bias = bias_values[uint(push.bias_at) + (first_column + i) / 4][i % 4];
        bias_tile[i] = bias;
    }
    barrier();
    [[unroll]] for (uint c = 0; c < COLUMNS; c++) {
        MATRIX_SUM bias;
        coopMatLoad(bias, bias_tile, column + c * MATRIX_N, 0, ROW_MAJOR);
        [[unroll]] for (uint r = 0; r < ROWS; r++)
            sums[r * COLUMNS + c] = bias;
    }
#endif

    for (uint at_unit = 0; at_unit < n_units; at_unit += UNITS) {
        [[unroll]] for (uint i = 0; i < X_FETCHES; i++) {
            const uint unit = i * THREADS + gl_LocalInvocationIndex;
            if (unit < X_UNITS)
                stage(unit / UNITS * STEP + unit % UNITS, x_next[i]);
        }
        [[unroll]] for (uint i = 0; i < W_FETCHES; i++) {
            const uint unit = i * THREADS + gl_LocalInvocationIndex;
            if (unit < W_UNITS)
                stage(W_AT + unit / UNITS * STEP + unit % UNITS, w_next[i]);
        }
        barrier();
        const uint next_unit = WHOLE_K ? min(at_unit + UNITS, n_units - UNITS) : at_unit + UNITS; // at the end, the last units again
        if (WHOLE_K || next_unit < n_units) {
            [[unroll]] for (uint i = 0; i < X_FETCHES; i++)
                x_next[i] = has_feature(next_unit, i * THREADS + gl_LocalInvocationIndex, n_units) ? x_units[x_from[i] + next_unit]
                                                                                                  : uvec4(0);
            [[unroll]] for (uint i = 0; i < W_FETCHES; i++)
                w_next[i] = has_feature(next_unit, i * THREADS + gl_LocalInvocationIndex, n_units) ? weight_units[w_from[i] + next_unit]
                                                                                                  : uvec4(0);
        }
        [[unroll]] for (uint k = 0; k < TILE_K; k += MATRIX_K) {
            MATRIX_A a[ROWS];
            [[unroll]] for (uint r = 0; r < ROWS; r++)
                coopMatLoad(a[r], tiles, (row + r * MATRIX_M) * STEP + unit_of(k), STEP, ROW_MAJOR);
            [[unroll]] for (uint c = 0; c < COLUMNS; c++) {
                MATRIX_B b;
                coopMatLoad(b, tiles, W_AT + (column + c * MATRIX_N) * STEP + unit_of(k), STEP, COLUMN_MAJOR);
                [[unroll]] for (uint r = 0; r < ROWS; r++)
                    sums[r * COLUMNS + c] = coopMatMulAdd(a[r], b, sums[r * COLUMNS + c]);
            }
            if (TIGHT)
                subgroupBarrier();
        }
        barrier();
    }

    // One row of matrices at a time. Matrices are indexed by constants; otherwise they would be in memory from the first multiplication on.
    const uint sum_at = gl_SubgroupID * MATRIX_M * SUM_STEP;
    [[dont_unroll]] for (uint part = 0; part < ROWS; part++) {
        [[unroll]] for (uint r = 0; r < ROWS; r++)
            if (r == part)
                [[unroll]] for (uint c = 0; c < COLUMNS; c++)
                    coopMatStore(sums[r * COLUMNS + c], tiles, sum_at + c * MATRIX_N / 4, SUM_STEP, ROW_MAJOR);
        subgroupBarrier();
        [[unroll]] for (uint first = 0; first < MATRIX_M * LINE8; first += SUBGROUP) {
            const uint i = first + gl_SubgroupInvocationID, at = sum_at + i / LINE8 * SUM_STEP + i % LINE8 * 2;
            if (i < MATRIX_M * LINE8)
                finish(sums_of(tiles[at]), sums_of(tiles[at + 1]), first_row + row + part * MATRIX_M + i / LINE8,
                       (first_column + column) / 8 + i % LINE8, n_rows);
        }
        subgroupBarrier();
    }
}

// out = activation(x weight^T + bias) + residual by cooperative matrices. A group stages TILE_K features of its rows and columns in shared
// memory while it fetches the next ones into registers; sums, which begin with the bias, go through shared memory to the epilogue, since
// which elements of a matrix an invocation holds is the driver's own. A row's bits depend on nothing but the row: every tile adds up its
// features in the same steps. With IN_I8 x and weight are int8 and the sums integers, which become numbers in the epilogue.
// With UNSTAGED operands go from memory straight into matrices, where drivers hold them as matrix_rows.glsl says.
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
#if UNSTAGED
#include "common/matrix_rows.glsl"
#define SUM_MAJOR COLUMN_MAJOR
#else
#define SUM_MAJOR ROW_MAJOR
#endif

layout(constant_id = RVIT_LINEAR_TILE_M) const uint TILE_M = 64;
layout(constant_id = RVIT_LINEAR_TILE_N) const uint TILE_N = 64;
layout(constant_id = RVIT_LINEAR_TILE_K) const uint TILE_K = 32;
#if IN_I8
const uint UNIT = 16; // features of a unit
#else
const uint UNIT = 8;
#endif
#if !UNSTAGED
const uint UNITS = TILE_K / UNIT; // of a row of a tile
const uint STEP = UNITS + 1;
const uint X_UNITS = TILE_M * UNITS;
const uint W_UNITS = TILE_N * UNITS;
const uint X_FETCHES = (X_UNITS + THREADS - 1) / THREADS;
const uint W_FETCHES = (W_UNITS + THREADS - 1) / THREADS;
const uint W_AT = TILE_M * STEP;
#if IN_I8
// A matrix begins at a unit. One of half a unit, the second half, does so in a copy whose halves are exchanged.
const bool HALVES = MATRIX_K < UNIT;
const uint SECOND_AT = (TILE_M + TILE_N) * STEP;
const uint STAGED = HALVES ? 2 * SECOND_AT : SECOND_AT;
#else
const uint STAGED = (TILE_M + TILE_N) * STEP;
#endif
#else
const uint STAGED = 1;
#endif
const uint SUBGROUPS_N = TILE_N / (COLUMNS * MATRIX_N);
const uint LINE8 = COLUMNS * MATRIX_N / 8;
const uint SUM_STEP = COLUMNS * MATRIX_N / 4 + 1;
const uint SUMS = SUBGROUPS * MATRIX_M * SUM_STEP;
// Whether sums take most of the registers. Then fetches without a branch, which the compiler moves in between the stores before them, and
// one step of the product after the other, whose operands it would else all load first, leave room for another group on the processor.
const bool TIGHT = (FLAGS & RVIT_LINEAR_TIGHT) != 0;
const bool WHOLE_K = (FLAGS & RVIT_LINEAR_WHOLE_K) != 0;
#if UNSTAGED
const bool DEEP = TILE_K > 64; // three halves of a line are loaded ahead, not one
#endif

layout(binding = RVIT_LINEAR_X) readonly buffer X { uvec4 x_units[]; };
layout(binding = RVIT_LINEAR_WEIGHT) readonly buffer Weight { uvec4 weight_units[]; };
#if OUT_F16
layout(binding = RVIT_LINEAR_RESIDUAL) readonly buffer Residual { uvec4 residual_units[]; };
layout(binding = RVIT_LINEAR_OUT) buffer Out { uvec4 out_units[]; };
#else
layout(binding = RVIT_LINEAR_RESIDUAL) readonly buffer Residual { vec4 residual_words[]; };
layout(binding = RVIT_LINEAR_OUT) buffer Out { vec4 out_words[]; };
#endif

shared uvec4 tiles[STAGED > SUMS ? STAGED : SUMS]; // [row][k / 8] and [column][k / 8]; at last sums
#if !IN_I8
shared float bias_tile[TILE_N];
#endif

#if OUT_F16
// OUT words of four elements.
uvec2 out_pack(vec4 value)
{
#if MATRIX_BF16
    return half4_encode(value, true);
#else
#if IN_I8
    if (OUT_BF16)
        return half4_encode(value, true);
#endif
    return uvec2(packFloat2x16(f16vec2(value.xy)), packFloat2x16(f16vec2(value.zw)));
#endif
}
#endif

// Stores four elements of out, of as many gates and values; residual and out count in fours.
void store_gated(vec4 sum, uint residual4, uint out4)
{
    if ((FLAGS & RVIT_LINEAR_HAS_RESIDUAL) != 0) {
#if OUT_F16
        const uvec4 residual = residual_units[uint(push.residual_at) + residual4 / 2];
        sum += half4_decode(residual4 % 2 == 0 ? residual.xy : residual.zw, OUT_BF16);
#else
        sum += residual_words[uint(push.residual_at) + residual4];
#endif
    }
#if OUT_F16
    const uvec2 words = out_pack(sum);
    if (out4 % 2 == 0)
        out_units[uint(push.out_at) + out4 / 2].xy = words;
    else
        out_units[uint(push.out_at) + out4 / 2].zw = words;
#else
    out_words[uint(push.out_at) + out4] = sum;
#endif
}

#if IN_I8
#define SUMS4 uvec4
#define sums_of(words) (words)

vec4 number_of(uvec4 sums, uint row, uint column4)
{
    const vec4 product = linear_scaled(ivec4(sums), row, column4);
    return (FLAGS & RVIT_LINEAR_HAS_BIAS) != 0 ? product + bias_values[uint(push.bias_at) + column4] : product;
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
    vec4 low = number_of(low_sums, row, column8 * 2), high = number_of(high_sums, row, column8 * 2 + 1);
#else
#define low low_sums
#define high high_sums
#endif
    const uint at = row * out8 + column8, from = (push.period == 0 ? row : row % uint(push.period)) * out8 + column8;
    if ((FLAGS & RVIT_LINEAR_GATED) != 0) {
        store_gated(vec4(gate(low), gate(high)), from, at);
        return;
    }
    low = activate(low);
    high = activate(high);
    if ((FLAGS & RVIT_LINEAR_HAS_RESIDUAL) != 0) {
#if OUT_F16
        const uvec4 residual = residual_units[uint(push.residual_at) + from];
        low += half4_decode(residual.xy, OUT_BF16);
        high += half4_decode(residual.zw, OUT_BF16);
#else
        low += residual_words[uint(push.residual_at) + from * 2];
        high += residual_words[uint(push.residual_at) + from * 2 + 1];
#endif
    }
#if OUT_F16
    out_units[uint(push.out_at) + at] = uvec4(out_pack(low), out_pack(high));
#else
    out_words[uint(push.out_at) + at * 2] = low;
    out_words[uint(push.out_at) + at * 2 + 1] = high;
#endif
}

#if !UNSTAGED
bool has_feature(uint first_unit, uint unit, uint n_units)
{
    return WHOLE_K || first_unit + unit % UNITS < n_units;
}

// A unit of a tile, and where the features from k on of a row of one begin.
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
#if UNSTAGED
    uint x_from[2 * ROWS], w_from[COLUMNS];
    [[unroll]] for (uint i = 0; i < 2 * ROWS; i++)
        x_from[i] = uint(push.x_at) + min(first_row + row + lane_row(i), n_rows - 1) * n_units + gl_SubgroupInvocationID % 4;
    [[unroll]] for (uint c = 0; c < COLUMNS; c++)
        w_from[c] = uint(push.weight_at) +
                    (min(first_column + column + c * MATRIX_M, n_columns - MATRIX_M) + gl_SubgroupInvocationID / 8) * n_units +
                    gl_SubgroupInvocationID % 8;
    uvec4 x0[2 * ROWS], x1[2 * ROWS], x2[2 * ROWS], x3[2 * ROWS], w0[2 * COLUMNS], w1[2 * COLUMNS], w2[2 * COLUMNS], w3[2 * COLUMNS];
    LOAD_HALF(x0, w0, 0, 0)
    if (DEEP) {
        LOAD_HALF(x1, w1, 0, 1)
        LOAD_HALF(x2, w2, LINE, 0)
    }
#else
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
#endif
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
        coopMatLoad(bias, bias_tile, column + c * MATRIX_N, 0, SUM_MAJOR);
        [[unroll]] for (uint r = 0; r < ROWS; r++)
            sums[r * COLUMNS + c] = bias;
    }
#endif

#if UNSTAGED
    // At last the same features are loaded again.
    if (DEEP)
        for (uint at_unit = 0; at_unit < n_units; at_unit += 2 * LINE) {
            const uint next = min(at_unit + 2 * LINE, n_units - 2 * LINE);
            LOAD_HALF(x3, w3, at_unit + LINE, 1)
            MULTIPLY_HALF(x0, w0)
            LOAD_HALF(x0, w0, next, 0)
            MULTIPLY_HALF(x1, w1)
            LOAD_HALF(x1, w1, next, 1)
            MULTIPLY_HALF(x2, w2)
            LOAD_HALF(x2, w2, next + LINE, 0)
            MULTIPLY_HALF(x3, w3)
        }
    else
        for (uint at_unit = 0; at_unit < n_units; at_unit += LINE) {
            LOAD_HALF(x1, w1, at_unit, 1)
            MULTIPLY_HALF(x0, w0)
            LOAD_HALF(x0, w0, min(at_unit + LINE, n_units - LINE), 0)
            MULTIPLY_HALF(x1, w1)
        }
#else
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
        const uint next_unit = WHOLE_K ? min(at_unit + UNITS, n_units - UNITS) : at_unit + UNITS; // at last the same again
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
#endif

    // A line of matrices at a time. Matrices are named by constants: indexed otherwise, they would lie in memory from the first product on.
    const uint sum_at = gl_SubgroupID * MATRIX_M * SUM_STEP;
    [[dont_unroll]] for (uint part = 0; part < ROWS; part++) {
        [[unroll]] for (uint r = 0; r < ROWS; r++)
            if (r == part)
                [[unroll]] for (uint c = 0; c < COLUMNS; c++)
                    coopMatStore(sums[r * COLUMNS + c], tiles, sum_at + c * MATRIX_N / 4, SUM_STEP, SUM_MAJOR);
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

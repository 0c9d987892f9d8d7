// out = activation(x weight^T + bias) + residual with cooperative matrices of f16. Operands are loaded from global memory straight into
// matrices, and accumulators are stored straight to it: nothing goes through shared memory and no subgroup waits for another. This needs
// weights in the order of arrange.comp, and a driver that lays out matrices as common/matrix_rows.glsl describes.
// The four weight matrices of a subgroup cover 64 columns, and a lane has eight adjacent ones; two matrices cover half of them, and a lane
// has four. While a lane multiplies half a line of 64 features, it prefetches a later half: the next one, or, if few rows leave registers
// for it, the third or seventh after it. A row's bits depend only on the row.
#version 450
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_control_flow_attributes : require
#define LINEAR_UNITS 1
#define LINEAR_VEC4 1
#include "common/interface.h"
#include "common/group.glsl"
#include "common/storage.glsl"
#include "common/linear.glsl"
#define SPEC_SUBGROUP RVIT_LINEAR_SUBGROUP
#define SPEC_MATRIX_M RVIT_LINEAR_MATRIX_M
#define SPEC_MATRIX_N RVIT_LINEAR_MATRIX_N
#define SPEC_MATRIX_K RVIT_LINEAR_MATRIX_K
#include "common/matrix.glsl"
#include "common/matrix_rows.glsl"
#include "common/linear_vec8.glsl"

layout(constant_id = RVIT_LINEAR_TILE_M) const uint TILE_M = 64;
layout(constant_id = RVIT_LINEAR_TILE_N) const uint TILE_N = 64;
layout(constant_id = RVIT_LINEAR_TILE_K) const uint FEATURES = 64; // of a row: a constant, so that offsets in rows are constants too
const uint N_UNITS = FEATURES / 8;
const uint LINE = 8; // units per line
const uint PANEL = 11; // row tiles that are processed together, if there are many
const uint HIGH_AT = COLUMNS == 4 ? 2 : 0;
const uint SUBGROUPS_N = TILE_N / (COLUMNS * MATRIX_N);
const uint AHEAD = ROWS > 1 ? 1 : COLUMNS == 2 ? 7 : 3; // halves of a line that are prefetched
const bool SMALL_M = (FLAGS & RVIT_LINEAR_SMALL_M) != 0; // the capacity is less than the rows of a subgroup

layout(binding = 0) readonly buffer X { uvec4 x_units[]; };
layout(binding = 1) readonly buffer Weight { uvec4 weight_units[]; };

// Offset of the lane's unit of row i * 8 + lane / 4; for weights, of the first step of matrix c.
#define X_FROM(i) (SMALL_M ? x_of_small_m[i] : x_from + (i) * 8 * N_UNITS)
#define W_FROM(c) (w_from + (c) * 16 * N_UNITS)

#define LOAD_HALF(x_to, w_to, at, half)                                                                \
    {                                                                                                  \
        [[unroll]] for (uint i = 0; i < 2 * ROWS; i++)                                                 \
            x_to[i] = x_units[X_FROM(i) + (at) + half * (LINE / 2)];                                   \
        [[unroll]] for (uint u = 0; u < 2; u++)                                                        \
            [[unroll]] for (uint c = 0; c < COLUMNS; c++)                                              \
                w_to[u * COLUMNS + c] = weight_units[W_FROM(c) + (half * 2 + u) * 4 * N_UNITS + (at)]; \
    }

#define MULTIPLY_HALF(x_of, w_of)                                                          \
    {                                                                                      \
        [[unroll]] for (uint u = 0; u < 2; u++) {                                          \
            MATRIX_B b[ROWS];                                                              \
            [[unroll]] for (uint r = 0; r < ROWS; r++) {                                   \
                const uvec2 low = u == 0 ? x_of[2 * r].xy : x_of[2 * r].zw;                \
                const uvec2 high = u == 0 ? x_of[2 * r + 1].xy : x_of[2 * r + 1].zw;       \
                FILL(b[r], low.x, low.y, high.x, high.y)                                   \
            }                                                                              \
            [[unroll]] for (uint c = 0; c < COLUMNS; c++) {                                \
                const uvec4 words = w_of[u * COLUMNS + c];                                 \
                MATRIX_A a;                                                                \
                FILL(a, words.x, words.z, words.y, words.w)                                \
                [[unroll]] for (uint r = 0; r < ROWS; r++)                                 \
                    sums[r * COLUMNS + c] = coopMatMulAdd(a, b[r], sums[r * COLUMNS + c]); \
            }                                                                              \
        }                                                                                  \
    }

// Loads half n of the lines that start at unit `at`; past the end the last line is loaded again.
#define LOAD_INTO(x_to, w_to, n, at) LOAD_HALF(x_to, w_to, min((at) + n / 2 * LINE, N_UNITS - LINE), n % 2)
#define LOAD(n, at) LOAD_INTO(x##n, w##n, n, at)
// Prefetches half `later` into buffer `to`, then multiplies half n unless it is past the last feature.
#define TURN(n, to, later)                                                          \
    {                                                                               \
        LOAD_INTO(x##to, w##to, later, at)                                          \
        if (N_UNITS % ((AHEAD + 1) / 2 * LINE) == 0 || at + n / 2 * LINE < N_UNITS) \
            MULTIPLY_HALF(x##n, w##n)                                               \
    }

// Elements i and i + 4 of matrix c of row r, which are adjacent columns.
#define PAIR(r, c, i) vec2(sums[(r) * COLUMNS + (c)][i], sums[(r) * COLUMNS + (c)][(i) + 4])
#define ROW_OF(r, i) (begin + (r) * MATRIX_M + part * 2 + (i) % 2 + (i) / 2 * 8)
#define RESIDUAL_OF(r, i) residual_of(min(ROW_OF(r, i), n_rows - 1), column4)
#define LOW(r, i) vec4(PAIR(r, 0, i), PAIR(r, 1, i))
#define HIGH(r, i) vec4(PAIR(r, HIGH_AT, i), PAIR(r, HIGH_AT + 1, i))
#define STORE(r, i, residual)                               \
    if (ROW_OF(r, i) >= first_row && ROW_OF(r, i) < n_rows) \
        store(LOW(r, i), HIGH(r, i), residual, ROW_OF(r, i), column4);
// Not a loop: NVIDIA's compiler does not unroll one of this length, and then keeps the accumulators in memory. The residual is loaded
// before the first store, because the compiler must assume that the store changes it.
#define STORE_ROWS(n)                                                             \
    if (n < ROWS) {                                                               \
        const uint r = n < ROWS ? n : 0;                                          \
        const vec8 residual0 = RESIDUAL_OF(r, 0), residual1 = RESIDUAL_OF(r, 1); \
        const vec8 residual2 = RESIDUAL_OF(r, 2), residual3 = RESIDUAL_OF(r, 3); \
        STORE(r, 0, residual0)                                                    \
        STORE(r, 1, residual1)                                                    \
        STORE(r, 2, residual2)                                                    \
        STORE(r, 3, residual3)                                                    \
    }

// The residual of the lane's eight or four adjacent columns.
vec8 residual_of(uint row, uint column4)
{
    if (COLUMNS == 4)
        return residual_vec8(row, column4 / 2);
    return vec8(residual_vec4(row, column4), vec4(0.0));
}

void store(vec4 low, vec4 high, vec8 residual, uint row, uint column4)
{
    if (COLUMNS == 4)
        store_vec8(vec8(low, high), residual, row, column4 / 2);
    else
        store_vec4(low, residual.low, row, column4);
}

void main()
{
    const uint n_rows = linear_rows(), n_columns = uint(push.out4) * 4;
    const uint tiles_n = (n_columns + TILE_N - 1) / TILE_N;
    const uint tiles_m = (n_rows + TILE_M - 1) / TILE_M;
    // If there are many rows, tiles in the same column come first, so that concurrent tiles read the same weights and rows.
    const uint height = tiles_m > 64 ? PANEL : 1;
    const uint panel = group_index() / (height * tiles_n), rest = group_index() % (height * tiles_n);
    if (panel * height >= tiles_m)
        return;
    const uint lines = min(height, tiles_m - panel * height);
    const uint first_row = (panel * height + rest % lines) * TILE_M + gl_SubgroupID / SUBGROUPS_N * ROWS * MATRIX_M;
    const uint first_column = rest / lines * TILE_N + gl_SubgroupID % SUBGROUPS_N * COLUMNS * MATRIX_N;
    if (first_row >= n_rows || first_column >= n_columns)
        return;
    const uint line = gl_SubgroupInvocationID / 4, part = gl_SubgroupInvocationID % 4;
    // The last tile is shifted so that all its rows exist; rows that another tile stores are not stored again.
    const uint begin = SMALL_M ? first_row : min(first_row, uint(push.rows) - ROWS * MATRIX_M);
    const uint x_from = uint(push.x_at) + (begin + line) * N_UNITS + part;
    uint x_of_small_m[2 * ROWS];
    [[unroll]] for (uint i = 0; i < 2 * ROWS; i++)
        x_of_small_m[i] = uint(push.x_at) + min(begin + i * 8 + line, n_rows - 1) * N_UNITS + part;
    const uint w_from = uint(push.weight_at) + (first_column + gl_SubgroupInvocationID / 8) * N_UNITS + gl_SubgroupInvocationID % 8;

    uvec4 x0[2 * ROWS], x1[2 * ROWS], x2[2 * ROWS], x3[2 * ROWS], x4[2 * ROWS], x5[2 * ROWS], x6[2 * ROWS], x7[2 * ROWS];
    uvec4 w0[2 * COLUMNS], w1[2 * COLUMNS], w2[2 * COLUMNS], w3[2 * COLUMNS], w4[2 * COLUMNS], w5[2 * COLUMNS], w6[2 * COLUMNS],
        w7[2 * COLUMNS];
    LOAD(0, 0)
    if (AHEAD > 1) {
        LOAD(1, 0)
        LOAD(2, 0)
    }
    if (AHEAD > 3) {
        LOAD(3, 0)
        LOAD(4, 0)
        LOAD(5, 0)
        LOAD(6, 0)
    }
    const uint column4 = first_column / 64 * 16 + line * 2 + first_column % 64 / 32;
    MATRIX_SUM sums[ROWS * COLUMNS];
    [[unroll]] for (uint c = 0; c < COLUMNS; c++) {
        vec2 pair = vec2(0.0);
        if ((FLAGS & RVIT_LINEAR_HAS_BIAS) != 0) {
            const vec4 bias4 = bias_values[uint(push.bias_at) + column4 + c / 2];
            pair = c % 2 == 0 ? bias4.xy : bias4.zw;
        }
        MATRIX_SUM bias;
        [[unroll]] for (uint i = 0; i < 8; i++)
            bias[i] = i < 4 ? pair.x : pair.y;
        [[unroll]] for (uint r = 0; r < ROWS; r++)
            sums[r * COLUMNS + c] = bias;
    }

    if (AHEAD == 1)
        for (uint at = 0; at < N_UNITS; at += LINE) {
            LOAD_HALF(x1, w1, at, 1)
            MULTIPLY_HALF(x0, w0)
            LOAD_HALF(x0, w0, min(at + LINE, N_UNITS - LINE), 0)
            MULTIPLY_HALF(x1, w1)
        }
    else if (AHEAD == 3)
        [[dont_unroll]] for (uint at = 0; at < N_UNITS; at += 2 * LINE) {
            TURN(0, 3, 3)
            TURN(1, 0, 4)
            TURN(2, 1, 5)
            TURN(3, 2, 6)
        }
    else
        [[dont_unroll]] for (uint at = 0; at < N_UNITS; at += 4 * LINE) {
            TURN(0, 7, 7)
            TURN(1, 0, 8)
            TURN(2, 1, 9)
            TURN(3, 2, 10)
            TURN(4, 3, 11)
            TURN(5, 4, 12)
            TURN(6, 5, 13)
            TURN(7, 6, 14)
        }

    STORE_ROWS(0)
    STORE_ROWS(1)
    STORE_ROWS(2)
}

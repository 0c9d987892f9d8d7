// Linear on rows of int8: the tiles of linear.comp, with exact integer sums. DOT: four multiplications at a time with the dot product of
// VK_KHR_shader_integer_dot_product, which devices without such an instruction emulate; otherwise plain multiplications.
#version 450
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_control_flow_attributes : require
#define IN_I8 1
#include "common/interface.h"
#include "common/group.glsl"
#include "common/storage.glsl"
#include "common/linear.glsl"

layout(constant_id = RVIT_LINEAR_TILE_M) const uint TILE_M = 64;
layout(constant_id = RVIT_LINEAR_TILE_N) const uint TILE_N = 64;
layout(constant_id = RVIT_LINEAR_TILE_K) const uint TILE_K = 64;
const uint K16 = TILE_K / 16;
const uint QUADS = TILE_N / 4; // groups of four columns
const uint X_STEP = TILE_M + 1;
const uint W_STEP = TILE_N + 1;

layout(binding = 0) readonly buffer X { uvec4 x_units[]; };
layout(binding = 1) readonly buffer Weight { uvec4 weight_units[]; };

// Sixteen features of a row at [k / 16][row], of a column at [k / 16][column % 4][column / 4]: adjacent threads read adjacent elements.
shared uvec4 x_tile[K16 * X_STEP];
shared uvec4 w_tile[K16 * W_STEP];

#if DOT
#extension GL_EXT_spirv_intrinsics : require
// OpSDot of packed vectors (format 0), with the capabilities DotProductInput4x8BitPacked and DotProduct.
spirv_instruction(extensions = ["SPV_KHR_integer_dot_product"], capabilities = [6018, 6019], id = 4450)
int packed_dot(uint a, uint b, spirv_literal int format);

int dot4(uint a, uint b)
{
    return packed_dot(a, b, 0);
}
#else
int dot4(uint a, uint b)
{
    const ivec4 at = ivec4(24, 16, 8, 0);
    const ivec4 products = (ivec4(a) << at >> 24) * (ivec4(b) << at >> 24);
    return products.x + products.y + products.z + products.w;
}
#endif

int dot16(uvec4 a, uvec4 b)
{
    return dot4(a.x, b.x) + dot4(a.y, b.y) + dot4(a.z, b.z) + dot4(a.w, b.w);
}

void stage(uint first_row, uint first_column, uint first_k16, uint n_rows)
{
    const uint in16 = uint(push.in4) / 4;
    const uint n_columns = uint(push.out4) * 4;
    for (uint i = gl_LocalInvocationIndex; i < TILE_M * K16; i += THREADS) {
        const uint row = i / K16;
        const uint k16 = i % K16;
        const bool inside = first_row + row < n_rows && first_k16 + k16 < in16;
        x_tile[k16 * X_STEP + row] = inside ? x_units[uint(push.x_at) + (first_row + row) * in16 + first_k16 + k16] : uvec4(0);
    }
    for (uint i = gl_LocalInvocationIndex; i < TILE_N * K16; i += THREADS) {
        const uint column = i / K16;
        const uint k16 = i % K16;
        const bool inside = first_column + column < n_columns && first_k16 + k16 < in16;
        w_tile[k16 * W_STEP + column % 4 * QUADS + column / 4] =
            inside ? weight_units[uint(push.weight_at) + (first_column + column) * in16 + first_k16 + k16] : uvec4(0);
    }
}

void main()
{
    const uint n_rows = linear_rows();
    const uint out4 = uint(push.out4);
    const uint tiles_n = (out4 + QUADS - 1) / QUADS;
    const uint first_row = group_index() / tiles_n * TILE_M;
    const uint first_column = group_index() % tiles_n * TILE_N;
    if (first_row >= n_rows)
        return;
    const uint threads_n = QUADS / COLUMNS;
    const uint threads_m = TILE_M / ROWS;
    const uint tx = gl_LocalInvocationIndex % threads_n;
    const uint ty = gl_LocalInvocationIndex / threads_n;

    ivec4 sums[ROWS][COLUMNS];
    [[unroll]] for (uint r = 0; r < ROWS; r++)
        [[unroll]] for (uint c = 0; c < COLUMNS; c++)
            sums[r][c] = ivec4(0);

    for (uint first_k16 = 0; first_k16 < uint(push.in4) / 4; first_k16 += K16) {
        stage(first_row, first_column, first_k16, n_rows);
        barrier();
        for (uint k16 = 0; k16 < K16; k16++) {
            uvec4 x[ROWS];
            [[unroll]] for (uint r = 0; r < ROWS; r++)
                x[r] = x_tile[k16 * X_STEP + ty + r * threads_m];
            [[unroll]] for (uint c = 0; c < COLUMNS; c++)
                [[unroll]] for (uint column = 0; column < 4; column++) {
                    const uvec4 w = w_tile[k16 * W_STEP + column * QUADS + tx + c * threads_n];
                    [[unroll]] for (uint r = 0; r < ROWS; r++)
                        sums[r][c][column] += dot16(x[r], w);
                }
        }
        barrier();
    }
    [[unroll]] for (uint r = 0; r < ROWS; r++)
        [[unroll]] for (uint c = 0; c < COLUMNS; c++) {
            const uint row = first_row + ty + r * threads_m, column4 = first_column / 4 + tx + c * threads_n;
            if (row < n_rows && column4 < out4)
                linear_finish(linear_scaled(sums[r][c], row, column4), row, column4, n_rows);
        }
}

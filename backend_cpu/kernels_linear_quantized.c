/* Linear of I8 and E4M3 for any instruction set, computed in float32. Compiled once per instruction set. */
#include "backend_cpu/quantized_vec.h"
#include "backend_cpu/finish.h"
#include "backend_cpu/isa.h"
#include "backend_cpu/gemm.h"

#define SUMS_STRIDE (RVIT_CPU_LINEAR_COLUMNS + 16)
#define FLOATS_STRIDE (RVIT_CPU_LINEAR_DEPTH + 16)

_Static_assert(RVIT_CPU_LINEAR_DEPTH *PANEL + PANEL * FLOATS_STRIDE + TILE_ROWS * PANEL +
                       RVIT_CPU_LINEAR_ROWS * (SUMS_STRIDE + FLOATS_STRIDE) <=
                   RVIT_CPU_SCRATCH_FLOATS,
               "a tile of linear must fit the scratch memory");
_Static_assert(RVIT_CPU_LINEAR_DEPTH * 128 * 128 < 1 << 24, "sums of I8 over one depth must be exact in floats");

/* depth: a multiple of 16 */
INLINE void widen_rows(const int8_t *from, int64_t stride, int rows, int64_t depth, float *out, rvit_dtype dtype)
{
    for (int i = 0; i < rows; i++)
        for (int64_t k = 0; k < depth; k += VL)
            vec_store(out + i * FLOATS_STRIDE + k, quantized_load(from + i * stride + k, dtype));
}

/* Adds a block of dot products, which are integers stored as floats, to the int32 sums; the last call converts the sums to float. */
INLINE void add_block(const float *block, float *sums, int rows, int accumulate, int last)
{
    for (int i = 0; i < rows; i++)
        for (int j = 0; j < PANEL; j += VL) {
            float *at = sums + i * SUMS_STRIDE + j;
            ivec sum = __builtin_convertvector(vec_load(block + i * PANEL + j), ivec);
            if (accumulate)
                sum += (ivec)vec_load(at);
            vec_store(at, last ? __builtin_convertvector(sum, vec) : (vec)sum);
        }
}

/* The epilogue of linear with E4M3 output; `values` is scratch for float32 results. */
static void finish_to_e4m3(const rvit_cpu_linear_tile *t, const float *sums, int first_row, int rows, int first_column, int columns,
                           float *values)
{
    rvit_cpu_linear_tile part = *t;
    const int width = t->gated ? columns / 2 : columns, column = t->gated ? first_column / 2 : first_column;
    part.x_scales += first_row;
    part.weight_scales += first_column;
    part.bias = t->bias != NULL ? t->bias + first_column : NULL;
    part.out = values;
    part.out_dtype = RVIT_F32;
    part.out_features = PANEL;
    finish_block(&part, sums, SUMS_STRIDE, 0, rows, 0, columns);
    ivec saturated = {0};
    for (int i = 0; i < rows; i++)
        for (int j = 0; j < width; j += VL) {
            const int n = width - j < VL ? width - j : VL;
            e4m3_store((int8_t *)t->out + (first_row + i) * t->out_features + column + j, any_load(values + i * PANEL + j, 0, n, RVIT_F32),
                       t->inverse, n, &saturated);
        }
    for (int i = 0; i < VL; i++)
        *t->n_saturated -= saturated[i];
}

/* The same loops as linear of floats. The sums of I8 over one depth are exact in float32, and are added in int32. */
INLINE void linear_quantized(const rvit_cpu_linear_tile *t, float *scratch, rvit_dtype dtype)
{
    float *panel = scratch;
    float *weights = panel + RVIT_CPU_LINEAR_DEPTH * PANEL;
    float *block = weights + PANEL * FLOATS_STRIDE;
    float *sums = block + TILE_ROWS * PANEL;
    float *x = sums + RVIT_CPU_LINEAR_ROWS * SUMS_STRIDE;
    for (int64_t p = 0; p < t->in_features; p += RVIT_CPU_LINEAR_DEPTH) {
        const int64_t left = t->in_features - p;
        const int64_t depth = left < RVIT_CPU_LINEAR_DEPTH ? left : RVIT_CPU_LINEAR_DEPTH;
        widen_rows((const int8_t *)t->x + p, t->in_features, t->rows, depth, x, dtype);
        for (int column = 0; column < t->columns; column += PANEL) {
            const int columns = t->columns - column < PANEL ? t->columns - column : PANEL;
            widen_rows((const int8_t *)t->weight + column * t->in_features + p, t->in_features, columns, depth, weights, dtype);
            pack_panel(weights, FLOATS_STRIDE, columns, depth, panel, RVIT_F32);
            for (int row = 0; row < t->rows; row += TILE_ROWS) {
                const int rows = t->rows - row < TILE_ROWS ? t->rows - row : TILE_ROWS;
                float *sum = sums + row * SUMS_STRIDE + column;
                if (dtype == RVIT_I8) {
                    gemms[rows - 1][TILE_VECS - 1](x + row * FLOATS_STRIDE, FLOATS_STRIDE, panel, PANEL, depth, block, PANEL, 0);
                    add_block(block, sum, rows, p > 0, depth == left);
                } else {
                    gemms[rows - 1][TILE_VECS - 1](x + row * FLOATS_STRIDE, FLOATS_STRIDE, panel, PANEL, depth, sum, SUMS_STRIDE, p > 0);
                }
                if (depth == left && dtype == RVIT_E4M3 && t->out_dtype == RVIT_E4M3)
                    finish_to_e4m3(t, sum, row, rows, column, columns, block);
                else if (depth == left)
                    finish_block(t, sum, SUMS_STRIDE, row, rows, column, columns);
            }
        }
    }
}

void ISA_NAME(rvit_cpu_linear_i8_kernel)(const rvit_cpu_linear_tile *t, float *scratch)
{
    linear_quantized(t, scratch, RVIT_I8);
}

void ISA_NAME(rvit_cpu_linear_e4m3_kernel)(const rvit_cpu_linear_tile *t, float *scratch)
{
    linear_quantized(t, scratch, RVIT_E4M3);
}

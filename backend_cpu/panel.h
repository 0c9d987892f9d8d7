/* Weights in panels of 32 columns for instructions that multiply two bf16 or four int8 per 32-bit lane, and the epilogue of whole panels.
   Only kernel files include this.

   For every 64 bytes of a row a panel has a pair of tiles, for its left and its right 16 columns. A tile has 16 lines of 16 groups of 32
   bits: the transpose of those columns. For instructions that multiply small matrices (PANEL_GROUP 8) it has 8 lines of 16 groups of 64
   bits. An arranged panel therefore takes as many bytes as its rows. */
#ifndef RVIT_CPU_PANEL_H
#define RVIT_CPU_PANEL_H

#include "backend_cpu/finish.h"

#define COLUMNS RVIT_CPU_PANEL_COLUMNS
#if !defined(PANEL_GROUP)
#define PANEL_GROUP 4 /* bytes */
#endif
#define TILE 1024       /* bytes */
#define PAIR (2 * TILE) /* two tiles, left and right */
#define CHUNK (1 << 18) /* bytes of weights that stay in the L2 cache while all rows use them */

/* Copies 64 bytes of a row with `left` bytes left; the bytes past its end become zero. */
INLINE void copy_line(char *out, const char *row, int64_t left)
{
    if (left >= 64) {
        memcpy(out, row, 64);
    } else {
        memset(out, 0, 64);
        if (left > 0)
            memcpy(out, row, (size_t)left);
    }
}

/* Makes a panel from at most 32 rows of weight; missing columns are zero. */
static void make_panel(const char *weight, int64_t row_bytes, int columns, char *out)
{
    const int64_t steps = (row_bytes + 63) / 64;
    for (int64_t s = 0; s < steps; s++)
        for (int half = 0; half < 2; half++) {
            char *tile = out + s * PAIR + half * TILE;
            char lines[16][64] __attribute__((aligned(64)));
            for (int j = 0; j < 16; j++) {
                const int column = 16 * half + j;
                copy_line(lines[j], weight + column * row_bytes + s * 64, column < columns ? row_bytes - s * 64 : 0);
            }
#if VL == 16 && PANEL_GROUP == 4
            vec packed[16];
            UNROLL
            for (int j = 0; j < 16; j++)
                packed[j] = vec_load((const float *)(const void *)lines[j]);
            vec_transpose(packed);
            UNROLL
            for (int k = 0; k < 16; k++)
                vec_store((float *)(void *)(tile + 64 * k), packed[k]);
#else
            for (int j = 0; j < 16; j++)
                for (int k = 0; k < 64 / PANEL_GROUP; k++)
                    memcpy(tile + 16 * PANEL_GROUP * k + PANEL_GROUP * j, lines[j] + PANEL_GROUP * k, PANEL_GROUP);
#endif
        }
}

static int arrange_panels(void *weight, int64_t columns, int64_t row_bytes, float *scratch)
{
    if (columns % COLUMNS != 0 || row_bytes % 64 != 0 || COLUMNS * row_bytes > (int64_t)(RVIT_CPU_SCRATCH_FLOATS * sizeof *scratch))
        return 0;
    for (int64_t column = 0; column < columns; column += COLUMNS) {
        char *panel = (char *)weight + column * row_bytes;
        make_panel(panel, row_bytes, COLUMNS, (char *)scratch);
        memcpy(panel, scratch, (size_t)(COLUMNS * row_bytes));
    }
    return 1;
}

/* Stores 32 columns. */
INLINE void store_line(void *out, const vec v[COLUMNS / VL], rvit_dtype dtype)
{
#if defined(__AVX512BF16__) && VL == 16
    if (dtype == RVIT_BF16) {
        _mm512_storeu_si512(out, (__m512i)_mm512_cvtne2ps_pbh((__m512)v[1], (__m512)v[0]));
        return;
    }
#endif
    UNROLL
    for (int j = 0; j < COLUMNS / VL; j++)
        any_store(out, j * VL, v[j], VL, dtype);
}

/* A block of sums that still needs its epilogue: rows from first_row on, of a whole panel that is not gated. */
typedef struct panel_block {
    const float *sums; /* [rows, COLUMNS]; int32 for I8 */
    int first_row, rows, column;
} panel_block;

/* An epilogue, as compile-time constants. */
typedef struct epilogue {
    int integers; /* sums are int32 */
    rvit_cpu_activation activation;
    int adds; /* there is a residual */
    rvit_dtype dtype;
} epilogue;

/* The operands that all rows of a panel share. */
typedef struct panel_lines {
    vec bias[COLUMNS / VL], scales[COLUMNS / VL];
} panel_lines;

INLINE panel_lines load_lines(const rvit_cpu_linear_tile *t, int column, epilogue e)
{
    panel_lines lines;
    UNROLL
    for (int j = 0; j < COLUMNS / VL; j++) {
        lines.bias[j] = t->bias != NULL ? vec_load(t->bias + column + j * VL) : (vec){0};
        lines.scales[j] = e.integers ? vec_load(t->weight_scales + column + j * VL) : (vec){0};
    }
    return lines;
}

/* finish() of finish.h for row i of a block. */
INLINE void finish_row(const rvit_cpu_linear_tile *t, const panel_block *block, int i, const panel_lines *lines, epilogue e)
{
    const int64_t row = t->first_row + block->first_row + i;
    const int64_t residual_row = t->residual_period > 0 ? row % t->residual_period : row;
    vec v[COLUMNS / VL];
    UNROLL
    for (int j = 0; j < COLUMNS / VL; j++) {
        v[j] = vec_load(block->sums + i * COLUMNS + j * VL);
        if (e.integers)
            v[j] = __builtin_convertvector((ivec)v[j], vec) * (t->x_scales[block->first_row + i] * lines->scales[j]);
        v[j] = activate(e.activation, t->slope, t->cubic, v[j] + lines->bias[j]);
        if (e.adds)
            v[j] += any_load(t->residual, residual_row * t->out_features + block->column + j * VL, VL, e.dtype);
    }
    store_line((char *)t->out + ((block->first_row + i) * t->out_features + block->column) * (e.dtype == RVIT_F32 ? 4 : 2), v, e.dtype);
}

INLINE void finish_rows(const rvit_cpu_linear_tile *t, const panel_block *block, epilogue e)
{
    const panel_lines lines = load_lines(t, block->column, e);
    for (int i = 0; i < block->rows; i++)
        finish_row(t, block, i, &lines, e);
}

/* The same for any number of columns and any epilogue. */
static void finish_any(const rvit_cpu_linear_tile *t, float *sums, int first_row, int rows, int column, int columns, int integers)
{
    for (int i = 0; i < rows * COLUMNS && integers; i += VL)
        vec_store(sums + i, __builtin_convertvector((ivec)vec_load(sums + i), vec));
    finish_block(t, sums, COLUMNS, first_row, rows, column, columns);
}

/* The epilogues for whole panels: of(name, activation, adds, dtype). */
#define EPILOGUES(of)                                                                                                 \
    of(none_f32, NONE, 0, F32) of(none_bf16, NONE, 0, BF16) of(added_f32, NONE, 1, F32) of(added_bf16, NONE, 1, BF16) \
        of(gelu_f32, GELU, 0, F32) of(gelu_bf16, GELU, 0, BF16) of(sigmoid_f32, SIGMOID, 0, F32) of(sigmoid_bf16, SIGMOID, 0, BF16)

/* The index of the tile's epilogue; -1: use finish_block. */
static int epilogue_of(const rvit_cpu_linear_tile *t)
{
    if (t->gated || t->out_dtype == RVIT_F16 || (t->residual != NULL && t->activation != RVIT_CPU_NONE))
        return -1;
    const int group = t->residual != NULL ? 1 : t->activation == RVIT_CPU_GELU ? 2 : t->activation == RVIT_CPU_SIGMOID ? 3 : 0;
    return 2 * group + (t->out_dtype == RVIT_BF16);
}

#endif

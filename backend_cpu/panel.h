/* Linear by instructions that multiply words of 32 bits, each two bf16 or four int8: weights in panels of 32 columns, and the epilogue of
   whole panels. Included by kernel files only.

   A panel has a pair of tiles for each 64 bytes of a row, the left 16 columns and the right 16. A tile holds 16 lines of 16 words: it is
   the transpose of these columns' words. So an arranged panel takes the bytes of its rows. */
#ifndef RVIT_CPU_PANEL_H
#define RVIT_CPU_PANEL_H

#include "backend_cpu/finish.h"

#define COLUMNS RVIT_CPU_PANEL_COLUMNS
#define TILE 1024       /* bytes */
#define PAIR (2 * TILE) /* of tiles, side by side */

/* Copies 64 bytes of a row of which `left` are left; what is past its end is zero. */
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

/* Makes a panel of rows of weight, at most 32; columns past them are zero. */
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
#if VL == 16
            vec words[16];
            UNROLL
            for (int j = 0; j < 16; j++)
                words[j] = vec_load((const float *)(const void *)lines[j]);
            vec_transpose(words);
            UNROLL
            for (int k = 0; k < 16; k++)
                vec_store((float *)(void *)(tile + 64 * k), words[k]);
#else
            for (int j = 0; j < 16; j++)
                for (int k = 0; k < 16; k++)
                    memcpy(tile + 64 * k + 4 * j, lines[j] + 4 * k, 4);
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

/* finish of finish.h for whole panels that are not gated. */
INLINE void finish_panel(const rvit_cpu_linear_tile *t, const float *sums, int first_row, int rows, int column,
                         rvit_cpu_activation activation, int adds, rvit_dtype dtype)
{
    vec bias[COLUMNS / VL];
    UNROLL
    for (int j = 0; j < COLUMNS / VL; j++)
        bias[j] = t->bias != NULL ? vec_load(t->bias + column + j * VL) : (vec){0};
    for (int i = 0; i < rows; i++) {
        const int64_t row = t->first_row + first_row + i;
        const int64_t residual_row = t->residual_period > 0 ? row % t->residual_period : row;
        vec v[COLUMNS / VL];
        UNROLL
        for (int j = 0; j < COLUMNS / VL; j++) {
            v[j] = activate(t, vec_load(sums + i * COLUMNS + j * VL) + bias[j], activation);
            if (adds)
                v[j] += any_load(t->residual, residual_row * t->out_features + column + j * VL, VL, dtype);
        }
        store_line((char *)t->out + ((first_row + i) * t->out_features + column) * (dtype == RVIT_F32 ? 4 : 2), v, dtype);
    }
}

typedef void (*finish_fn)(const rvit_cpu_linear_tile *t, const float *sums, int first_row, int rows, int column);
#define FINISH(activation, adds, dtype)                                                                                           \
    static void finish_##activation##_##adds##_##dtype(const rvit_cpu_linear_tile *t, const float *sums, int first_row, int rows, \
                                                       int column)                                                                \
    {                                                                                                                             \
        finish_panel(t, sums, first_row, rows, column, RVIT_CPU_##activation, adds, RVIT_##dtype);                                \
    }
FINISH(NONE, 0, F32)
FINISH(NONE, 1, F32)
FINISH(NONE, 0, BF16)
FINISH(NONE, 1, BF16)
FINISH(GELU, 0, F32)
FINISH(GELU, 0, BF16)
FINISH(SIGMOID, 0, F32)
FINISH(SIGMOID, 0, BF16)

/* NULL: finish_block serves. */
static finish_fn choose_finish(const rvit_cpu_linear_tile *t)
{
    static const finish_fn with_activation[3][2] = {
        {finish_NONE_0_F32, finish_NONE_0_BF16}, {finish_GELU_0_F32, finish_GELU_0_BF16}, {finish_SIGMOID_0_F32, finish_SIGMOID_0_BF16}};
    if (t->gated || t->out_dtype == RVIT_F16 || (t->residual != NULL && t->activation != RVIT_CPU_NONE))
        return NULL;
    const int narrow = t->out_dtype == RVIT_BF16;
    if (t->residual != NULL)
        return narrow ? finish_NONE_1_BF16 : finish_NONE_1_F32;
    return with_activation[t->activation][narrow];
}

#endif

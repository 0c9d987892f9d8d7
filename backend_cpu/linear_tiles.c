/* Linear on the tiles of AMX: blocks of 32 rows and 32 columns, two tiles by two. Compiled for the table "amx", and for tests with emulated
   tiles.

   A weight is arranged in panels of 32 columns. A panel has a pair of tiles for each 64 bytes of a row, the left 16 columns and the right
   16, so that it takes the bytes of its rows. x is read as it lies, or is first copied to tiles: 16 rows of x that are a multiple of
   4 KiB apart compete for a few sets of the L1 cache, and no prefetcher follows them. */
#include "backend_cpu/finish.h"
#include "backend_cpu/isa.h"
#include "backend_cpu/tile.h"

#define ROWS 16               /* of a tile */
#define COLUMNS 32            /* of a panel */
#define PAIR (2 * TILE_BYTES) /* of a panel, side by side */
/* Pairs of a panel that are used for all rows while they are in the L1 cache: 256 channels of bf16. */
#ifndef TILE_CUT
#define TILE_CUT 8
#endif

typedef struct tile_scratch {
    float sums[RVIT_CPU_TILES_ROWS * COLUMNS];
    char panel[TILE_CUT * PAIR];
    char x[RVIT_CPU_TILES_X];
} tile_scratch;
_Static_assert(sizeof(tile_scratch) <= RVIT_CPU_SCRATCH_FLOATS * sizeof(float), "a task must fit the scratch memory");

/* Where 16 rows of x are, for tile_load. */
typedef struct row_group {
    const char *at;
    int64_t stride, step; /* bytes between rows, and between tiles */
} row_group;

/* Copies bytes first .. of up to 16 rows into `pairs` lines of tiles; what is past the rows' ends is zero. */
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

static void pack_rows(const char *x, int64_t row_bytes, int rows, char *out)
{
    const int64_t steps = (row_bytes + 63) / 64;
    /* Four tiles at a time: whole lines are read from a row, and what is written stays in the L1 cache. */
    for (int64_t first = 0; first < steps; first += 4) {
        const int64_t end = first + 4 < steps ? first + 4 : steps;
        for (int i = 0; i < ROWS; i++)
            for (int64_t s = first; s < end; s++)
                copy_line(out + s * TILE_BYTES + i * 64, x + i * row_bytes + s * 64, i < rows ? row_bytes - s * 64 : 0);
    }
}

/* Makes pairs first .. first + n - 1 of a panel of rows of weight, at most 32; columns past them are zero. A tile is the transpose of 16 x
   16 words of 32 bits. */
static void pack_panel_tiles(const char *weight, int64_t row_bytes, int columns, int64_t first, int64_t n, char *out)
{
    for (int64_t s = 0; s < n; s++)
        for (int half = 0; half < 2; half++) {
            uint32_t words[16];
            uint32_t *tile = (uint32_t *)(void *)(out + s * PAIR + half * TILE_BYTES);
            for (int j = 0; j < 16; j++) {
                const int column = 16 * half + j;
                const int64_t at = (first + s) * 64;
                copy_line((char *)words, weight + column * row_bytes + at, column < columns ? row_bytes - at : 0);
                for (int k = 0; k < 16; k++)
                    tile[16 * k + j] = words[k];
            }
        }
}

int ISA_NAME(rvit_cpu_arrange_tiles)(void *weight, int64_t columns, int64_t in_features, rvit_dtype dtype, float *scratch)
{
    const int64_t row_bytes = in_features * rvit_cpu_size(dtype);
    if (columns % COLUMNS != 0 || row_bytes % 64 != 0 || COLUMNS * row_bytes > (int64_t)(RVIT_CPU_SCRATCH_FLOATS * sizeof *scratch))
        return 0;
    for (int64_t column = 0; column < columns; column += COLUMNS) {
        char *panel = (char *)weight + column * row_bytes;
        pack_panel_tiles(panel, row_bytes, COLUMNS, 0, row_bytes / 64, (char *)scratch);
        memcpy(panel, scratch, (size_t)(COLUMNS * row_bytes));
    }
    return 1;
}

/* sums[32, 32] (+)= two groups of rows times n pairs of tiles. */
static void product_2(const row_group *g, const char *b, int64_t first, int64_t n, float *sums)
{
    const char *a0 = g[0].at + first * g[0].step, *a1 = g[1].at + first * g[1].step;
    const int64_t stride = sizeof(float) * COLUMNS;
    if (first == 0) {
        tile_zero(0);
        tile_zero(1);
        tile_zero(2);
        tile_zero(3);
    } else {
        tile_load(0, sums, stride);
        tile_load(1, sums + 16, stride);
        tile_load(2, sums + ROWS * COLUMNS, stride);
        tile_load(3, sums + ROWS * COLUMNS + 16, stride);
    }
    for (int64_t s = 0; s < n; s++) {
        tile_load(4, a0, g[0].stride);
        tile_load(6, b, 64);
        tile_load(5, a1, g[1].stride);
        tile_load(7, b + TILE_BYTES, 64);
        tile_dp_bf16(0, 4, 6);
        tile_dp_bf16(2, 5, 6);
        tile_dp_bf16(1, 4, 7);
        tile_dp_bf16(3, 5, 7);
        a0 += g[0].step;
        a1 += g[1].step;
        b += PAIR;
    }
    tile_store(0, sums, stride);
    tile_store(1, sums + 16, stride);
    tile_store(2, sums + ROWS * COLUMNS, stride);
    tile_store(3, sums + ROWS * COLUMNS + 16, stride);
}

/* The same for one group. */
static void product_1(const row_group *g, const char *b, int64_t first, int64_t n, float *sums)
{
    const char *a = g->at + first * g->step;
    const int64_t stride = sizeof(float) * COLUMNS;
    if (first == 0) {
        tile_zero(0);
        tile_zero(1);
    } else {
        tile_load(0, sums, stride);
        tile_load(1, sums + 16, stride);
    }
    for (int64_t s = 0; s < n; s++) {
        tile_load(4, a, g->stride);
        tile_load(6, b, 64);
        tile_load(7, b + TILE_BYTES, 64);
        tile_dp_bf16(0, 4, 6);
        tile_dp_bf16(1, 4, 7);
        a += g->step;
        b += PAIR;
    }
    tile_store(0, sums, stride);
    tile_store(1, sums + 16, stride);
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
            v[j] = activate(activation, t->slope, t->cubic, vec_load(sums + i * COLUMNS + j * VL) + bias[j]);
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

void ISA_NAME(rvit_cpu_linear_bf16_kernel)(const rvit_cpu_linear_tile *t, float *scratch)
{
    tile_scratch *s = (tile_scratch *)(void *)scratch;
    row_group groups[RVIT_CPU_TILES_ROWS / ROWS];
    const int64_t row_bytes = t->in_features * 2, steps = (row_bytes + 63) / 64;
    const int n_groups = (t->rows + ROWS - 1) / ROWS;
    char *packed = s->x;
    for (int g = 0; g < n_groups; g++) {
        const char *x = (const char *)t->x + g * ROWS * row_bytes;
        const int rows = t->rows - g * ROWS;
        groups[g] = (row_group){x, row_bytes, 64};
        if (rows < ROWS || t->packs || row_bytes % 64 != 0) {
            pack_rows(x, row_bytes, rows, packed);
            groups[g] = (row_group){packed, 64, TILE_BYTES};
            packed += steps * TILE_BYTES;
        }
    }
    const finish_fn finish_fast = choose_finish(t);
    tile_begin();
    for (int column = 0; column < t->columns; column += COLUMNS) {
        const int columns = t->columns - column < COLUMNS ? t->columns - column : COLUMNS;
        const char *weight = (const char *)t->weight + column * row_bytes;
        for (int64_t first = 0; first < steps; first += TILE_CUT) {
            const int64_t n = steps - first < TILE_CUT ? steps - first : TILE_CUT;
            const char *b = weight + first * PAIR;
            if (!t->arranged) {
                pack_panel_tiles(weight, row_bytes, columns, first, n, s->panel);
                b = s->panel;
            }
            for (int g = 0; g < n_groups; g += 2) {
                float *sums = s->sums + (steps > TILE_CUT ? g * ROWS * COLUMNS : 0);
                if (g + 1 < n_groups)
                    product_2(&groups[g], b, first, n, sums);
                else
                    product_1(&groups[g], b, first, n, sums);
                if (first + n < steps)
                    continue;
                const int row = g * ROWS, rows = t->rows - row < 2 * ROWS ? t->rows - row : 2 * ROWS;
                if (finish_fast != NULL && columns == COLUMNS)
                    finish_fast(t, sums, row, rows, column);
                else
                    finish_block(t, sums, COLUMNS, row, rows, column, columns);
            }
        }
    }
    tile_end();
}

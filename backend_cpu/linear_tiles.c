/* Linear on the tiles of AMX: blocks of 32 rows and 32 columns, two tiles by two. Compiled for the table "amx", and for tests with emulated
   tiles.

   A weight is arranged in panels of 32 columns. A panel has a pair of tiles for each 64 bytes of a row, the left 16 columns and the right
   16, so that it takes the bytes of its rows. x is read as it lies, but for rows that do not fill a tile, which are copied to tiles first.
 */
#include "backend_cpu/finish.h"
#include "backend_cpu/isa.h"
#include "backend_cpu/tile.h"

#define ROWS RVIT_CPU_TILE_ROWS
#define COLUMNS RVIT_CPU_TILE_COLUMNS /* of a panel */
#define PAIR (2 * TILE_BYTES)         /* of a panel, side by side */
/* Bytes of weights that stay in the L2 cache while all rows use them. */
#ifndef TILE_CHUNK
#define TILE_CHUNK (1 << 18)
#endif
#ifndef TILE_PREFETCH
#define TILE_PREFETCH 1
#endif

typedef struct tile_scratch {
    float sums[2 * ROWS * COLUMNS];
    char operands[RVIT_CPU_TILES_BYTES]; /* of a weight that is not arranged, a panel; and rows of x as tiles */
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

/* sums[32, 32] = two groups of rows times n pairs of tiles. */
static void product_2(const row_group *g, const char *b, int64_t n, float *sums)
{
    const char *a0 = g[0].at, *a1 = g[1].at;
    const int64_t stride = sizeof(float) * COLUMNS;
    tile_zero(0);
    tile_zero(1);
    tile_zero(2);
    tile_zero(3);
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

/* sums[16, 32], the same for one group. */
static void product_1(const row_group *g, const char *b, int64_t n, float *sums)
{
    const char *a = g->at;
    const int64_t stride = sizeof(float) * COLUMNS;
    tile_zero(0);
    tile_zero(1);
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

/* Has the lines fetched that the epilogue of a block will write, while its products are computed. */
INLINE void fetch_lines(const rvit_cpu_linear_tile *t, int first_row, int rows, int column, int columns)
{
    const int64_t size = rvit_cpu_size(t->out_dtype), stride = t->out_features * size;
    const char *out = (const char *)t->out + first_row * stride + (t->gated ? column / 2 : column) * size;
    for (int i = 0; i < rows; i++) {
        __builtin_prefetch(out + i * stride, 1);
        if (size * columns > 64)
            __builtin_prefetch(out + i * stride + 64, 1);
    }
}

/* The group of rows that begins at row `first` of the tile. packed: where rows that are copied go. */
static row_group group_of(const rvit_cpu_linear_tile *t, int first, int copies, char *packed)
{
    const int64_t row_bytes = t->in_features * rvit_cpu_size(t->dtype);
    const char *x = (const char *)t->x + first * row_bytes;
    if (!copies && t->rows - first >= ROWS)
        return (row_group){x, row_bytes, 64};
    pack_rows(x, row_bytes, t->rows - first, packed);
    return (row_group){packed, 64, TILE_BYTES};
}

void ISA_NAME(rvit_cpu_linear_bf16_kernel)(const rvit_cpu_linear_tile *t, float *scratch)
{
    tile_scratch *s = (tile_scratch *)(void *)scratch;
    const int64_t row_bytes = t->in_features * rvit_cpu_size(t->dtype), steps = (row_bytes + 63) / 64;
    const finish_fn finish_fast = choose_finish(t);
    /* A chunk is a panel where the panel has to be made. */
    char *panel = s->operands, *packed = t->arranged ? s->operands : s->operands + steps * PAIR;
    const int64_t fit = t->arranged ? TILE_CHUNK / (steps * PAIR) : 1;
    const int chunk = COLUMNS * (int)(fit < 1 ? 1 : fit);
    tile_begin();
    for (int first = 0; first < t->columns; first += chunk) {
        const int end = t->columns - first < chunk ? t->columns : first + chunk;
        if (!t->arranged)
            pack_panel_tiles((const char *)t->weight + first * row_bytes, row_bytes, end - first, 0, steps, panel);
        for (int row = 0; row < t->rows; row += 2 * ROWS) {
            const int rows = t->rows - row < 2 * ROWS ? t->rows - row : 2 * ROWS;
            row_group groups[2] = {{0}};
            groups[0] = group_of(t, row, row_bytes % 64 != 0, packed);
            if (rows > ROWS)
                groups[1] = group_of(t, row + ROWS, row_bytes % 64 != 0, packed + steps * TILE_BYTES);
            for (int column = first; column < end; column += COLUMNS) {
                const int columns = end - column < COLUMNS ? end - column : COLUMNS;
                const char *b = t->arranged ? (const char *)t->weight + column * row_bytes : panel;
                if (TILE_PREFETCH)
                    fetch_lines(t, row, rows, column, columns);
                if (rows > ROWS)
                    product_2(groups, b, steps, s->sums);
                else
                    product_1(groups, b, steps, s->sums);
                if (finish_fast != NULL && columns == COLUMNS)
                    finish_fast(t, s->sums, row, rows, column);
                else
                    finish_block(t, s->sums, COLUMNS, row, rows, column, columns);
            }
        }
    }
    tile_end();
}

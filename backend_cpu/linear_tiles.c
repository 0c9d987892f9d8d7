/* Linear on the tiles of AMX: blocks of 32 rows and 32 columns, two tiles by two. Compiled for the table "amx", and for tests with emulated
   tiles.

   The weight lies in panels (panel.h). x is read as it lies, but for rows that do not fill a tile, which are copied to tiles first. */
#include "backend_cpu/isa.h"
#include "backend_cpu/panel.h"
#include "backend_cpu/tile.h"

#define ROWS RVIT_CPU_TILE_ROWS
/* Bytes of weights that stay in the L2 cache while all rows use them. */
#ifndef TILE_CHUNK
#define TILE_CHUNK (1 << 18)
#endif
#ifndef TILE_PREFETCH
#define TILE_PREFETCH 1
#endif

typedef struct tile_scratch {
    float sums[2 * ROWS * COLUMNS];
    char operands[RVIT_CPU_PANEL_BYTES +
                  2 * ROWS * 2 * RVIT_CPU_PANEL_DEPTH]; /* of a weight that is not arranged, a panel; and rows of x as tiles */
} tile_scratch;
_Static_assert(sizeof(tile_scratch) <= RVIT_CPU_SCRATCH_FLOATS * sizeof(float), "a task must fit the scratch memory");

/* Where 16 rows of x are, for tile_load. */
typedef struct row_group {
    const char *at;
    int64_t stride, step; /* bytes between rows, and between tiles */
} row_group;

static void pack_rows(const char *x, int64_t row_bytes, int rows, char *out)
{
    const int64_t steps = (row_bytes + 63) / 64;
    /* Four tiles at a time: whole lines are read from a row, and what is written stays in the L1 cache. */
    for (int64_t first = 0; first < steps; first += 4) {
        const int64_t end = first + 4 < steps ? first + 4 : steps;
        for (int i = 0; i < ROWS; i++)
            for (int64_t s = first; s < end; s++)
                copy_line(out + s * TILE + i * 64, x + i * row_bytes + s * 64, i < rows ? row_bytes - s * 64 : 0);
    }
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
        tile_load(7, b + TILE, 64);
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
        tile_load(7, b + TILE, 64);
        tile_dp_bf16(0, 4, 6);
        tile_dp_bf16(1, 4, 7);
        a += g->step;
        b += PAIR;
    }
    tile_store(0, sums, stride);
    tile_store(1, sums + 16, stride);
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
    return (row_group){packed, 64, TILE};
}

int ISA_NAME(rvit_cpu_arrange_panels)(void *weight, int64_t columns, int64_t in_features, rvit_dtype dtype, float *scratch)
{
    return arrange_panels(weight, columns, in_features * rvit_cpu_size(dtype), scratch);
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
            make_panel((const char *)t->weight + first * row_bytes, row_bytes, end - first, panel);
        for (int row = 0; row < t->rows; row += 2 * ROWS) {
            const int rows = t->rows - row < 2 * ROWS ? t->rows - row : 2 * ROWS;
            row_group groups[2] = {{0}};
            groups[0] = group_of(t, row, row_bytes % 64 != 0, packed);
            if (rows > ROWS)
                groups[1] = group_of(t, row + ROWS, row_bytes % 64 != 0, packed + steps * TILE);
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

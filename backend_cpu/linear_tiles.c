/* Linear on AMX tiles: blocks of 32 rows and 32 columns, two tiles by two. Compiled for the table "amx", and for tests with emulated
   tiles. The weight is in panels (panel.h). x is read in place, except rows that do not fill a tile, which are copied first. */
#include "backend_cpu/isa.h"
#include "backend_cpu/panel.h"
#include "backend_cpu/tile.h"

#define ROWS RVIT_CPU_TILE_ROWS

typedef struct tile_scratch {
    float sums[2][2 * ROWS * COLUMNS];
    char operands[RVIT_CPU_PANEL_BYTES +
                  2 * ROWS * 2 * RVIT_CPU_PANEL_DEPTH]; /* a panel if the weight is not arranged; rows of x packed as tiles */
} tile_scratch;
_Static_assert(sizeof(tile_scratch) <= RVIT_CPU_SCRATCH_FLOATS * sizeof(float), "a task must fit the scratch memory");

/* The location of 16 rows of x, for tile_load. */
typedef struct row_group {
    const char *at;
    int64_t stride, step; /* bytes between rows, and between tiles */
} row_group;

static void pack_rows(const char *x, int64_t row_bytes, int rows, char *out)
{
    const int64_t steps = (row_bytes + 63) / 64;
    /* Four tiles at a time, so that whole cache lines are read and the output stays in the L1 cache. */
    for (int64_t first = 0; first < steps; first += 4) {
        const int64_t end = first + 4 < steps ? first + 4 : steps;
        for (int i = 0; i < ROWS; i++)
            for (int64_t s = first; s < end; s++)
                copy_line(out + s * TILE + i * 64, x + i * row_bytes + s * 64, i < rows ? row_bytes - s * 64 : 0);
    }
}

/* sums[rows, 32] = one or two groups of rows times n pairs of tiles. Meanwhile the vector units, which would be idle, finish the rows of
   the previous block, and each step prefetches `fetched` cache lines of the next chunk into the L2 cache. */
INLINE void gemm(const rvit_cpu_linear_tile *t, const row_group *g, int two, const char *b, int64_t n, float *sums,
                 const panel_block *before, const char *next, int fetched, epilogue e)
{
    const char *a0 = g[0].at, *a1 = g[1].at;
    const int64_t stride = sizeof(float) * COLUMNS;
    const panel_lines lines = load_lines(t, before->column, e);
    const int rows_per_step = (int)((before->rows + n - 1) / n);
    int row = 0;
    tile_zero(0);
    tile_zero(1);
    if (two) {
        tile_zero(2);
        tile_zero(3);
    }
    for (int64_t s = 0; s < n; s++) {
        tile_load(4, a0, g[0].stride);
        tile_load(6, b, 64);
        if (two)
            tile_load(5, a1, g[1].stride);
        tile_load(7, b + TILE, 64);
        /* The weights of the next step, in this panel or the next one, which follows it in memory. */
        UNROLL
        for (int i = 0; i < PAIR / 64; i++)
            __builtin_prefetch(b + PAIR + 64 * i, 0, 3);
        if (e.integers) {
            tile_dp_s8(0, 4, 6);
            if (two)
                tile_dp_s8(2, 5, 6);
            tile_dp_s8(1, 4, 7);
            if (two)
                tile_dp_s8(3, 5, 7);
        } else {
            tile_dp_bf16(0, 4, 6);
            if (two)
                tile_dp_bf16(2, 5, 6);
            tile_dp_bf16(1, 4, 7);
            if (two)
                tile_dp_bf16(3, 5, 7);
        }
        a0 += g[0].step;
        if (two)
            a1 += g[1].step;
        b += PAIR;
        for (int i = 0; i < rows_per_step && row < before->rows; i++)
            finish_row(t, before, row++, &lines, e);
        for (int i = 0; i < fetched; i++, next += 64)
            __builtin_prefetch(next, 0, 2);
    }
    tile_store(0, sums, stride);
    tile_store(1, sums + 16, stride);
    if (two) {
        tile_store(2, sums + ROWS * COLUMNS, stride);
        tile_store(3, sums + ROWS * COLUMNS + 16, stride);
    }
}

/* The group of rows that begins at row `first` of the tile. packed: where rows are copied to if necessary. */
static row_group group_of(const rvit_cpu_linear_tile *t, int first, int64_t row_bytes, char *packed)
{
    const char *x = (const char *)t->x + first * row_bytes;
    if (row_bytes % 64 == 0 && t->rows - first >= ROWS)
        return (row_group){x, row_bytes, 64};
    pack_rows(x, row_bytes, t->rows - first, packed);
    return (row_group){packed, 64, TILE};
}

int ISA_NAME(rvit_cpu_arrange_panels)(void *weight, int64_t columns, int64_t in_features, rvit_dtype dtype, float *scratch)
{
    return arrange_panels(weight, columns, in_features * rvit_cpu_size(dtype), scratch);
}

/* whole: whole panels use epilogue e. Otherwise finish_any is used and only e.integers matters. */
INLINE void linear_with(const rvit_cpu_linear_tile *t, float *scratch, int whole, epilogue e)
{
    tile_scratch *s = (tile_scratch *)(void *)scratch;
    const int64_t row_bytes = t->in_features * (e.integers ? 1 : 2), steps = (row_bytes + 63) / 64;
    /* A chunk is one panel if the panel has to be made here. */
    char *panel = s->operands, *packed = t->arranged ? s->operands : s->operands + steps * PAIR;
    const int64_t fit = t->arranged ? CHUNK / (steps * PAIR) : 1;
    const int chunk = COLUMNS * (int)(fit < 1 ? 1 : fit);
    const int pairs = (t->rows + 2 * ROWS - 1) / (2 * ROWS);
    panel_block before = {s->sums[0], 0, 0, 0};
    int which = 0;
    tile_begin();
    for (int first = 0; first < t->columns; first += chunk) {
        const int end = t->columns - first < chunk ? t->columns : first + chunk;
        if (!t->arranged)
            make_panel((const char *)t->weight + first * row_bytes, row_bytes, end - first, panel);
        /* Prefetches the next chunk while all rows use this one. */
        const int fetched = t->arranged && end < t->columns ? (PAIR / 64 + pairs - 1) / pairs : 0;
        const char *next = (const char *)t->weight + end * row_bytes;
        for (int row = 0; row < t->rows; row += 2 * ROWS) {
            const int rows = t->rows - row < 2 * ROWS ? t->rows - row : 2 * ROWS;
            row_group groups[2] = {{0}};
            groups[0] = group_of(t, row, row_bytes, packed);
            if (rows > ROWS)
                groups[1] = group_of(t, row + ROWS, row_bytes, packed + steps * TILE);
            for (int column = first; column < end; column += COLUMNS) {
                const int columns = end - column < COLUMNS ? end - column : COLUMNS;
                const char *b = t->arranged ? (const char *)t->weight + column * row_bytes : panel;
                float *sums = s->sums[which];
                which = !which;
                if (rows > ROWS)
                    gemm(t, groups, 1, b, steps, sums, &before, next, fetched, e);
                else
                    gemm(t, groups, 0, b, steps, sums, &before, next, fetched, e);
                before.rows = 0;
                next += fetched * steps * 64;
                if (whole && columns == COLUMNS)
                    before = (panel_block){sums, row, rows, column};
                else
                    finish_any(t, sums, row, rows, column, columns, e.integers);
            }
        }
    }
    tile_end();
    finish_rows(t, &before, e);
}

#define KERNELS(name, activation, adds, dtype)                                                \
    static void bf16_##name(const rvit_cpu_linear_tile *t, float *scratch)                    \
    {                                                                                         \
        linear_with(t, scratch, 1, (epilogue){0, RVIT_CPU_##activation, adds, RVIT_##dtype}); \
    }                                                                                         \
    static void i8_##name(const rvit_cpu_linear_tile *t, float *scratch)                      \
    {                                                                                         \
        linear_with(t, scratch, 1, (epilogue){1, RVIT_CPU_##activation, adds, RVIT_##dtype}); \
    }
EPILOGUES(KERNELS)

void ISA_NAME(rvit_cpu_linear_panels_bf16)(const rvit_cpu_linear_tile *t, float *scratch)
{
#define BF16(name, activation, adds, dtype) bf16_##name,
    static void (*const kernels[])(const rvit_cpu_linear_tile *, float *) = {EPILOGUES(BF16)};
    const int number = epilogue_of(t);
    if (number >= 0)
        kernels[number](t, scratch);
    else
        linear_with(t, scratch, 0, (epilogue){0, RVIT_CPU_NONE, 0, RVIT_F32});
}

void ISA_NAME(rvit_cpu_linear_panels_i8)(const rvit_cpu_linear_tile *t, float *scratch)
{
#define I8(name, activation, adds, dtype) i8_##name,
    static void (*const kernels[])(const rvit_cpu_linear_tile *, float *) = {EPILOGUES(I8)};
    const int number = epilogue_of(t);
    if (number >= 0)
        kernels[number](t, scratch);
    else
        linear_with(t, scratch, 0, (epilogue){1, RVIT_CPU_NONE, 0, RVIT_F32});
}

/* Linear by the dot products of words that AVX-512 has: a block of 12 rows and a panel of 32 columns, accumulated in registers. The weight
   lies in panels (panel.h). Compiled for the table "avx512_bf16". Every sum is one chain in the order of k. */
#include "backend_cpu/isa.h"
#include "backend_cpu/panel.h"

#define ROWS 12

typedef struct words_scratch {
    float sums[ROWS * COLUMNS];
    char panel[RVIT_CPU_PANEL_BYTES];
} words_scratch;
_Static_assert(sizeof(words_scratch) <= RVIT_CPU_SCRATCH_FLOATS * sizeof(float), "a task must fit the scratch memory");

/* sums[rows, 32] = rows of x times a panel. words: of a row. */
INLINE void product_rows(int rows, const char *x, int64_t row_bytes, const char *panel, int64_t words, float *sums)
{
    __m512 sum[ROWS][2];
    UNROLL
    for (int i = 0; i < rows; i++)
        sum[i][0] = sum[i][1] = _mm512_setzero_ps();
    for (int64_t w = 0; w < words; w++) {
        const char *line = panel + (w >> 4) * PAIR + (w & 15) * 64;
        const __m512bh left = (__m512bh)_mm512_loadu_si512(line), right = (__m512bh)_mm512_loadu_si512(line + TILE);
        UNROLL
        for (int i = 0; i < rows; i++) {
            int32_t pair;
            memcpy(&pair, x + i * row_bytes + 4 * w, sizeof pair);
            const __m512bh factor = (__m512bh)_mm512_set1_epi32(pair);
            sum[i][0] = _mm512_dpbf16_ps(sum[i][0], factor, left);
            sum[i][1] = _mm512_dpbf16_ps(sum[i][1], factor, right);
        }
    }
    UNROLL
    for (int i = 0; i < rows; i++) {
        _mm512_storeu_ps(sums + i * COLUMNS, sum[i][0]);
        _mm512_storeu_ps(sums + i * COLUMNS + 16, sum[i][1]);
    }
}

typedef void (*product_fn)(const char *x, int64_t row_bytes, const char *panel, int64_t words, float *sums);
#define PRODUCT(rows)                                                                                           \
    static void product_##rows(const char *x, int64_t row_bytes, const char *panel, int64_t words, float *sums) \
    {                                                                                                           \
        product_rows(rows, x, row_bytes, panel, words, sums);                                                   \
    }
PRODUCT(1)
PRODUCT(2)
PRODUCT(3)
PRODUCT(4)
PRODUCT(5)
PRODUCT(6)
PRODUCT(7)
PRODUCT(8)
PRODUCT(9)
PRODUCT(10)
PRODUCT(11)
PRODUCT(12)
static const product_fn products[ROWS] = {product_1, product_2, product_3, product_4,  product_5,  product_6,
                                          product_7, product_8, product_9, product_10, product_11, product_12};

int ISA_NAME(rvit_cpu_arrange_panels)(void *weight, int64_t columns, int64_t in_features, rvit_dtype dtype, float *scratch)
{
    return arrange_panels(weight, columns, in_features * rvit_cpu_size(dtype), scratch);
}

#define FINISH(name, activation, adds, dtype)                                          \
    static void finish_##name(const rvit_cpu_linear_tile *t, const panel_block *block) \
    {                                                                                  \
        finish_rows(t, block, RVIT_CPU_##activation, adds, RVIT_##dtype);              \
    }
EPILOGUES(FINISH)

void ISA_NAME(rvit_cpu_linear_bf16_kernel)(const rvit_cpu_linear_tile *t, float *scratch)
{
#define NAME(name, activation, adds, dtype) finish_##name,
    static void (*const finishes[])(const rvit_cpu_linear_tile *, const panel_block *) = {EPILOGUES(NAME)};
    words_scratch *s = (words_scratch *)(void *)scratch;
    const int64_t row_bytes = t->in_features * rvit_cpu_size(t->dtype);
    const int epilogue = epilogue_of(t);
    for (int column = 0; column < t->columns; column += COLUMNS) {
        const int columns = t->columns - column < COLUMNS ? t->columns - column : COLUMNS;
        const char *panel = (const char *)t->weight + column * row_bytes;
        if (!t->arranged) {
            make_panel(panel, row_bytes, columns, s->panel);
            panel = s->panel;
        }
        for (int row = 0; row < t->rows; row += ROWS) {
            const int rows = t->rows - row < ROWS ? t->rows - row : ROWS;
            products[rows - 1]((const char *)t->x + row * row_bytes, row_bytes, panel, row_bytes / 4, s->sums);
            if (epilogue >= 0 && columns == COLUMNS)
                finishes[epilogue](t, &(panel_block){s->sums, row, rows, column});
            else
                finish_block(t, s->sums, COLUMNS, row, rows, column, columns);
        }
    }
}

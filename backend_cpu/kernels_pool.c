/* The kernels of pool and attention_pool. Compiled once per instruction set. */
#include "backend_cpu/isa.h"
#include "backend_cpu/norm.h"

_Static_assert(RVIT_CPU_POOL_COLUMNS <= RVIT_CPU_SCRATCH_FLOATS, "sums of pool must fit the scratch memory");
_Static_assert(RVIT_CPU_ATTENTION_POOL_ROWS + RVIT_CPU_ATTENTION_POOL_COLUMNS <= RVIT_CPU_SCRATCH_FLOATS,
               "sums of attention_pool must fit the scratch memory");
_Static_assert(RVIT_CPU_ATTENTION_POOL_ROWS % VL == 0, "a block of rows is made of full vectors");

/* Each row adds its deviations times its scale. gamma and beta are the same for all rows, so they are applied last. */
void ISA_NAME(rvit_cpu_pool_kernel)(const rvit_cpu_pool_tile *t, float *scratch)
{
    const row_norm norm = {t->gamma, t->beta, t->dim, t->eps, t->rms};
    float total = 0.0f;
    memset(scratch, 0, (size_t)t->n_columns * sizeof *scratch);
    for (int64_t row = 0; row < t->n_rows; row++) {
        const int64_t first = row * t->dim + t->first_column;
        const row_moments m = moments_of(&norm, t->x, row * t->dim, t->dtype);
        const float size = t->sizes != NULL ? t->sizes[row] : 1.0f, factor = m.scale * size;
        total += size;
        for (int64_t i = 0; i < t->n_columns; i += VL) {
            const int64_t width = t->n_columns - i < VL ? t->n_columns - i : VL;
            const vec sum = any_load(scratch, i, width, RVIT_F32) + (any_load(t->x, first + i, width, t->dtype) - m.mean) * factor;
            any_store(scratch, i, sum, width, RVIT_F32);
        }
    }
    for (int64_t i = 0; i < t->n_columns; i += VL) {
        const int64_t column = t->first_column + i, width = t->n_columns - i < VL ? t->n_columns - i : VL;
        vec mean = any_load(scratch, i, width, RVIT_F32) / total;
        if (t->gamma != NULL)
            mean *= any_load(t->gamma, column, width, RVIT_F32);
        if (t->beta != NULL)
            mean += any_load(t->beta, column, width, RVIT_F32);
        any_store(t->out, column, mean, width, t->out_dtype);
    }
}

static float attention_pool_logit(const rvit_cpu_attention_pool_tile *t, int64_t row)
{
    const float logit = t->logits[row * t->logits_stride];
    return t->sizes != NULL ? logit + logf(t->sizes[row]) : logit;
}

/* Computes the unnormalised weights of n rows starting at `first`, with 0 up to the end of the last vector. Returns their sum. */
static float attention_pool_weights(const rvit_cpu_attention_pool_tile *t, float largest, int64_t first, int64_t n, float *weights)
{
    vec sum = {0};
    for (int64_t i = 0; i < n; i += VL) {
        for (int64_t j = i; j < i + VL; j++)
            weights[j] = j < n ? attention_pool_logit(t, first + j) - largest : -INFINITY;
        const vec weight = vec_exp(vec_load(weights + i));
        vec_store(weights + i, weight);
        sum += weight;
    }
    return vec_sum(sum);
}

/* Columns first_column .. first_column + n - 1 of the weighted sum of the rows. `weights` holds those of the last block. */
static void attention_pool_sums(const rvit_cpu_attention_pool_tile *t, float largest, int64_t first_column, int64_t n, float *weights,
                                float *sums)
{
    memset(sums, 0, (size_t)n * sizeof *sums);
    for (int64_t first = 0; first < t->len; first += RVIT_CPU_ATTENTION_POOL_ROWS) {
        const int64_t rows = t->len - first < RVIT_CPU_ATTENTION_POOL_ROWS ? t->len - first : RVIT_CPU_ATTENTION_POOL_ROWS;
        if (t->len > RVIT_CPU_ATTENTION_POOL_ROWS)
            (void)attention_pool_weights(t, largest, first, rows, weights);
        for (int64_t row = 0; row < rows; row++)
            for (int64_t i = 0; i < n; i += VL) {
                const int64_t width = n - i < VL ? n - i : VL;
                const vec x = any_load(t->x, (first + row) * t->dim + first_column + i, width, t->dtype);
                any_store(sums, i, any_load(sums, i, width, RVIT_F32) + x * weights[row], width, RVIT_F32);
            }
    }
}

static float attention_pool_dot(const rvit_cpu_attention_pool_tile *t, int64_t at, const float *sums, int64_t n)
{
    vec dot = {0};
    for (int64_t i = 0; i < n; i += VL) {
        const int64_t width = n - i < VL ? n - i : VL;
        dot += any_load(t->weight, at + i, width, t->dtype) * any_load(sums, i, width, RVIT_F32);
    }
    return vec_sum(dot);
}

void ISA_NAME(rvit_cpu_attention_pool_kernel)(const rvit_cpu_attention_pool_tile *t, float *scratch)
{
    float *weights = scratch, *sums = scratch + RVIT_CPU_ATTENTION_POOL_ROWS, values[RVIT_CPU_MAX_PROBE_DIM] = {0};
    float largest = -INFINITY, total = 0.0f;
    for (int64_t row = 0; row < t->len; row++) {
        const float logit = attention_pool_logit(t, row);
        largest = logit > largest ? logit : largest;
    }
    if (largest == -INFINITY)
        largest = 0.0f;
    for (int64_t first = 0; first < t->len; first += RVIT_CPU_ATTENTION_POOL_ROWS)
        total += attention_pool_weights(
            t, largest, first, t->len - first < RVIT_CPU_ATTENTION_POOL_ROWS ? t->len - first : RVIT_CPU_ATTENTION_POOL_ROWS, weights);
    const float inverse = total > 0.0f ? 1.0f / total : 0.0f;
    for (int64_t first = 0; t->probs != NULL && first < t->len; first += RVIT_CPU_ATTENTION_POOL_ROWS) {
        const int64_t rows = t->len - first < RVIT_CPU_ATTENTION_POOL_ROWS ? t->len - first : RVIT_CPU_ATTENTION_POOL_ROWS;
        if (t->len > RVIT_CPU_ATTENTION_POOL_ROWS)
            (void)attention_pool_weights(t, largest, first, rows, weights);
        for (int64_t row = 0; row < rows; row++)
            t->probs[(first + row) * t->n_heads] = weights[row] * inverse;
    }
    for (int64_t column = 0; column < t->dim; column += RVIT_CPU_ATTENTION_POOL_COLUMNS) {
        const int64_t n = t->dim - column < RVIT_CPU_ATTENTION_POOL_COLUMNS ? t->dim - column : RVIT_CPU_ATTENTION_POOL_COLUMNS;
        attention_pool_sums(t, largest, column, n, weights, sums);
        for (int64_t j = 0; j < t->head_dim; j++)
            values[j] += attention_pool_dot(t, j * t->dim + column, sums, n);
    }
    for (int64_t j = 0; j < t->head_dim; j += VL) {
        const int64_t width = t->head_dim - j < VL ? t->head_dim - j : VL;
        vec out = any_load(values, j, width, RVIT_F32) * inverse;
        if (t->bias != NULL)
            out += any_load(t->bias, j, width, RVIT_F32);
        any_store(t->out, j, out, width, t->out_dtype);
    }
}

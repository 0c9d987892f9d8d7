/* The oracle of pool and attention_pool. */
#include "backend_cpu/oracle.h"

static void pool_image(const rvit_pool_args *a, int64_t image)
{
    const void *x = rvit_cpu_at(a->x);
    const float *sizes = a->mode == RVIT_POOL_MEAN ? rvit_cpu_at(a->sizes) : NULL;
    const oracle_norm norm = {rvit_cpu_at(a->gamma), rvit_cpu_at(a->beta), a->norm, a->dim, a->eps};
    const rvit_cpu_range rows = rvit_cpu_pool_rows(a, image);
    double total = 0.0;
    for (int64_t row = rows.begin; row < rows.begin + rows.len; row++)
        total += sizes != NULL ? sizes[row] : 1.0;
    /* Processes several columns at a time, so that a row's moments are not computed once per column. */
    enum { COLUMNS = 256 };
    for (int64_t first = 0; first < a->dim; first += COLUMNS) {
        double sums[COLUMNS] = {0};
        const int64_t n = a->dim - first < COLUMNS ? a->dim - first : COLUMNS;
        for (int64_t row = rows.begin; row < rows.begin + rows.len; row++) {
            const oracle_moments m = moments(&norm, x, row * a->dim, a->dtype);
            for (int64_t i = 0; i < n; i++)
                sums[i] += normal(&norm, &m, x, row * a->dim, first + i, a->dtype) * (sizes != NULL ? sizes[row] : 1.0);
        }
        for (int64_t i = 0; i < n; i++)
            store(rvit_cpu_at(a->out), image * a->out_stride + first + i, a->out_dtype, rows.len > 0 ? sums[i] / total : 0.0);
    }
}

static void pool_images(void *context, int64_t begin, int64_t end, int thread)
{
    (void)thread;
    for (int64_t image = begin; image < end; image++)
        pool_image(((const oracle_job *)context)->args, image);
}

void rvit_cpu_oracle_pool(rvit_cpu_device *device, const rvit_pool_args *a)
{
    oracle_job job = {a, a->n_images};
    rvit_cpu_pool_run(device->pool, job.rows, 1, pool_images, &job);
}

static double attention_pool_logit(const rvit_attention_pool_args *a, int64_t row, int64_t head)
{
    const float *logits = rvit_cpu_at(a->logits), *sizes = rvit_cpu_at(a->sizes);
    return logits[row * a->logits_stride + head] + (sizes != NULL ? log(sizes[row]) : 0.0);
}

static void attention_pool_head(const rvit_attention_pool_args *a, int64_t image, int64_t head)
{
    enum { COLUMNS = 256 };
    const void *x = rvit_cpu_at(a->x), *weight = rvit_cpu_at(a->weight);
    const float *bias = rvit_cpu_at(a->bias);
    float *probs = rvit_cpu_at(a->probs);
    const rvit_cpu_range rows = rvit_cpu_image(rvit_cpu_at(a->cu_seqlens), image, a->rows, a->max_len);
    const int64_t end = rows.begin + rows.len, column = head * a->head_dim;
    double largest = -INFINITY, total = 0.0, out[RVIT_CPU_MAX_PROBE_DIM] = {0};
    for (int64_t row = rows.begin; row < end; row++)
        largest = fmax(largest, attention_pool_logit(a, row, head));
    const double base = largest == -INFINITY ? 0.0 : largest;
    for (int64_t row = rows.begin; row < end; row++)
        total += exp(attention_pool_logit(a, row, head) - base);
    for (int64_t row = rows.begin; probs != NULL && row < end; row++)
        probs[row * a->n_heads + head] = total > 0.0 ? (float)(exp(attention_pool_logit(a, row, head) - base) / total) : 0.0f;
    for (int64_t first = 0; total > 0.0 && first < a->dim; first += COLUMNS) {
        double sums[COLUMNS] = {0};
        const int64_t n = a->dim - first < COLUMNS ? a->dim - first : COLUMNS;
        for (int64_t row = rows.begin; row < end; row++) {
            const double p = exp(attention_pool_logit(a, row, head) - base) / total;
            for (int64_t i = 0; i < n; i++)
                sums[i] += p * load(x, row * a->dim + first + i, a->dtype);
        }
        for (int64_t j = 0; j < a->head_dim; j++)
            for (int64_t i = 0; i < n; i++)
                out[j] += sums[i] * load(weight, (column + j) * a->dim + first + i, a->dtype);
    }
    for (int64_t j = 0; j < a->head_dim; j++) {
        const double value = rows.len > 0 && bias != NULL ? out[j] + bias[column + j] : out[j];
        store(rvit_cpu_at(a->out), (image * a->n_heads + head) * a->head_dim + j, a->out_dtype, value);
    }
}

static void attention_pool_heads(void *context, int64_t begin, int64_t end, int thread)
{
    (void)thread;
    const rvit_attention_pool_args *a = ((const oracle_job *)context)->args;
    for (int64_t i = begin; i < end; i++)
        attention_pool_head(a, i / a->n_heads, i % a->n_heads);
}

void rvit_cpu_oracle_attention_pool(rvit_cpu_device *device, const rvit_attention_pool_args *a)
{
    oracle_job job = {a, (int64_t)a->n_images * a->n_heads};
    rvit_cpu_pool_run(device->pool, job.rows, 1, attention_pool_heads, &job);
}

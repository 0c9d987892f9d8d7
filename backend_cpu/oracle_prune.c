/* The oracle of mean, bipartite_match and merge, and of select's inexact scores and fused tokens. bipartite_match sums float32 metrics in
   float64, rounded once. */
#include <string.h>

#include "backend_cpu/oracle.h"

static double squared_norm(const rvit_select_args *a, int64_t row)
{
    double sum = 0.0;
    for (int64_t i = 0; i < a->dim; i++) {
        const double value = load(rvit_cpu_at(a->x), row * a->x_stride + i, a->dtype);
        sum += value * value;
    }
    return sum;
}

static double cls_norm(const rvit_select_args *a, int64_t row)
{
    const float *probs = rvit_cpu_at(a->cls_probs);
    double sum = 0.0;
    for (int64_t head = 0; head < a->n_heads; head++)
        sum += probs[row * a->n_heads + head];
    return sum / a->n_heads * sqrt(squared_norm(a, row));
}

static double predictor(const rvit_select_args *a, int64_t row)
{
    const float *bias = rvit_cpu_at(a->bias);
    double o[2];
    for (int64_t output = 0; output < 2; output++) {
        o[output] = bias[output];
        for (int64_t i = 0; i < a->dim; i++)
            o[output] +=
                load(rvit_cpu_at(a->x), row * a->x_stride + i, a->dtype) * load(rvit_cpu_at(a->weight), output * a->dim + i, a->dtype);
    }
    const double d = o[1] - o[0];
    return d <= 0.0 ? -log1p(exp(d)) : -(d + log1p(exp(-d)));
}

static void score_rows(void *context, int64_t begin, int64_t end, int thread)
{
    (void)thread;
    const rvit_select_args *a = ((const oracle_job *)context)->args;
    float *scores = rvit_cpu_at(a->scores);
    for (int64_t row = begin; row < end; row++)
        scores[row] = (float)(a->score == RVIT_SCORE_CLS_NORM ? cls_norm(a, row) : predictor(a, row));
}

void rvit_cpu_oracle_score(rvit_cpu_device *device, const rvit_select_args *a)
{
    const int32_t *cu_seqlens = rvit_cpu_at(a->cu_seqlens);
    oracle_job job = {a, rvit_cpu_clamp(cu_seqlens[a->n_images], 0, a->rows)};
    rvit_cpu_pool_run(device->pool, job.rows, 64, score_rows, &job);
}

static void fuse_images(void *context, int64_t begin, int64_t end, int thread)
{
    (void)thread;
    const rvit_select_args *a = ((const oracle_job *)context)->args;
    const uint8_t *keep = rvit_cpu_at(a->keep);
    const float *scores = rvit_cpu_at(a->scores);
    void *x = rvit_cpu_at(a->fuse_x);
    for (int64_t image = begin; image < end; image++) {
        const rvit_cpu_range rows = rvit_cpu_image(rvit_cpu_at(a->cu_seqlens), image, a->rows, a->max_len);
        const int64_t row_end = rows.begin + rows.len;
        int64_t first = rows.begin;
        while (first < row_end && keep[first])
            first++;
        for (int64_t i = 0; first < row_end && i < a->fuse_dim; i++) {
            double sum = 0.0;
            for (int64_t row = first; row < row_end; row++)
                if (!keep[row])
                    sum += scores[row] * load(x, row * a->fuse_dim + i, a->fuse_dtype);
            store(x, first * a->fuse_dim + i, a->fuse_dtype, sum);
        }
    }
}

void rvit_cpu_oracle_fuse(rvit_cpu_device *device, const rvit_select_args *a)
{
    oracle_job job = {a, a->n_images};
    rvit_cpu_pool_run(device->pool, job.rows, 1, fuse_images, &job);
}

static void mean_images(void *context, int64_t begin, int64_t end, int thread)
{
    (void)thread;
    const rvit_mean_args *a = ((const oracle_job *)context)->args;
    void *x = rvit_cpu_at(a->x);
    for (int64_t image = begin; image < end; image++) {
        const rvit_cpu_range rows = rvit_cpu_image(rvit_cpu_at(a->cu_seqlens), image, a->rows, a->max_len);
        const int64_t row_end = rows.begin + rows.len, n = rows.len - a->n_prefix;
        for (int64_t i = a->first_column; i < a->dim; i++) {
            double sum = 0.0;
            for (int64_t row = rows.begin + a->n_prefix; row < row_end; row++)
                sum += load(x, row * a->dim + i, a->dtype);
            for (int64_t row = rows.begin; row < row_end; row++)
                store(x, row * a->dim + i, a->dtype, n > 0 ? sum / (double)n : 0.0);
        }
    }
}

void rvit_cpu_oracle_mean(rvit_cpu_device *device, const rvit_mean_args *a)
{
    oracle_job job = {a, a->n_images};
    rvit_cpu_pool_run(device->pool, job.rows, 1, mean_images, &job);
}

void rvit_cpu_oracle_metric(const rvit_cpu_metric_rows *r)
{
    for (int64_t row = r->first; row < r->end; row++) {
        double sums[RVIT_CPU_MAX_HEAD_DIM], square = 0.0;
        for (int64_t i = 0; i < r->head_dim; i++) {
            sums[i] = 0.0;
            for (int64_t head = 0; head < r->n_heads; head++)
                sums[i] += load(r->k, row * r->k_stride + head * r->head_dim + i, r->dtype);
            square += sums[i] * sums[i];
        }
        for (int64_t i = 0; i < r->head_dim; i++)
            r->metric[row * r->head_dim + i] = square == 0.0 ? 0.0f : (float)(sums[i] / sqrt(square));
    }
}

void rvit_cpu_oracle_bipartite_match(const rvit_cpu_bipartite_match_tile *t)
{
    for (int64_t a = 0; a < t->n_a; a++) {
        double best = -INFINITY;
        int64_t index = 0;
        for (int64_t b = 0; b < t->n_b; b++) {
            double dot = 0.0;
            for (int64_t i = 0; i < t->dim; i++)
                dot += (double)t->a[a * t->stride + i] * (double)t->b[b * t->stride + i];
            if (dot > best) {
                best = dot;
                index = b;
            }
        }
        t->best[t->step * a] = (int32_t)index;
        t->value[t->step * a] = (float)best;
    }
}

static void merge_rows(void *context, int64_t begin, int64_t end, int thread)
{
    (void)thread;
    const rvit_merge_args *a = ((const oracle_job *)context)->args;
    const int32_t *src_rows = rvit_cpu_at(a->src_rows), *next_rows = rvit_cpu_at(a->next_rows);
    const float *sizes = rvit_cpu_at(a->sizes);
    float *out_sizes = rvit_cpu_at(a->out_sizes), *out_key_bias = rvit_cpu_at(a->out_key_bias);
    const char *x = rvit_cpu_at(a->x);
    char *out_x = rvit_cpu_at(a->out_x);
    const int64_t row_size = a->dim * rvit_dtype_size(a->dtype);
    for (int64_t out = begin; out < end; out++) {
        const int64_t first = rvit_cpu_clamp(src_rows[out], 0, a->x_rows - 1);
        double total = 0.0;
        for (int64_t row = first; row >= 0; row = rvit_cpu_next_row(next_rows, first, row, a->x_rows))
            total += sizes != NULL ? sizes[row] : 1.0;
        out_sizes[out] = (float)total;
        out_key_bias[out] = (float)log(total);
        if (rvit_cpu_next_row(next_rows, first, first, a->x_rows) < 0) {
            memcpy(out_x + out * row_size, x + first * row_size, (size_t)row_size);
            continue;
        }
        for (int64_t i = 0; i < a->dim; i++) {
            double sum = 0.0;
            for (int64_t row = first; row >= 0; row = rvit_cpu_next_row(next_rows, first, row, a->x_rows))
                sum += (sizes != NULL ? sizes[row] : 1.0) * load(x, row * a->dim + i, a->dtype);
            store(out_x, out * a->dim + i, a->dtype, sum / total);
        }
    }
}

void rvit_cpu_oracle_merge(rvit_cpu_device *device, const rvit_merge_args *a)
{
    oracle_job job = {a, a->x_rows > 0 ? rvit_cpu_live_rows(&a->rows) : 0};
    rvit_cpu_pool_run(device->pool, job.rows, 16, merge_rows, &job);
}

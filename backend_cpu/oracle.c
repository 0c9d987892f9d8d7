/* The oracle: straightforward reference implementations of linear, attention, attention_received, rope, embed and head, in float64 and
   rounded once at the end. Layernorm and quantize are in oracle_rows.c, the prune ops in oracle_prune.c, pool and attention_pool in
   oracle_pool.c, the gradient of attention in oracle_backward.c. All other ops are exact and need no reference. */
#include <string.h>

#include "backend_cpu/oracle.h"

/* The dot product of a row of x and a row of weight, plus the bias. */
static double dot(const rvit_linear_args *a, int64_t row, int64_t column)
{
    const void *x = rvit_cpu_at(a->x), *weight = rvit_cpu_at(a->weight);
    const float *bias = rvit_cpu_at(a->bias);
    const float *x_scales = rvit_cpu_at(a->x_scales), *weight_scales = rvit_cpu_at(a->weight_scales);
    double sum = 0.0;
    for (int64_t k = 0; k < a->in_features; k++)
        sum += load(x, row * a->in_features + k, a->dtype) * load(weight, column * a->in_features + k, a->dtype);
    if (weight_scales != NULL)
        sum *= (double)x_scales[row] * weight_scales[column];
    return bias != NULL ? sum + bias[column] : sum;
}

/* Stores a value as E4M3 with a static scale. Returns whether it saturated. */
static int store_e4m3(const rvit_row_scale *scale, double value, uint8_t *out)
{
    const float v = (float)value, scaled = v * scale->inverse;
    *out = scale->inverse == 0.0f || !isfinite(v) ? 0x7f : rvit_f32_to_e4m3(scaled);
    return *out != 0x7f && fabsf(scaled) > RVIT_E4M3_MAX;
}

static void linear_rows(void *context, int64_t begin, int64_t end, int thread)
{
    (void)thread;
    const rvit_linear_args *a = ((const oracle_job *)context)->args;
    const void *residual = rvit_cpu_at(a->residual);
    const int64_t out = a->out_features;
    const int is_e4m3 = a->out_dtype == RVIT_E4M3;
    const rvit_row_scale scale = is_e4m3 ? rvit_row_scale_of(0.0f, rvit_cpu_at(a->static_scale), RVIT_E4M3) : (rvit_row_scale){0};
    int64_t n_saturated = 0;
    for (int64_t row = begin; row < end; row++) {
        if (is_e4m3)
            ((float *)rvit_cpu_at(a->out_scales))[row] = scale.scale;
        for (int64_t column = 0; column < out; column++) {
            double sum = oracle_activate(a->activation, dot(a, row, a->gated ? 2 * column : column));
            if (a->gated)
                sum *= dot(a, row, 2 * column + 1);
            const int64_t residual_row = a->residual_period > 0 ? row % a->residual_period : row;
            if (residual != NULL)
                sum += load(residual, residual_row * out + column, a->out_dtype);
            if (is_e4m3)
                n_saturated += store_e4m3(&scale, sum, (uint8_t *)rvit_cpu_at(a->out) + row * out + column);
            else
                store(rvit_cpu_at(a->out), row * out + column, a->out_dtype, sum);
        }
    }
    rvit_cpu_add_saturated(a->saturated, n_saturated);
}

void rvit_cpu_oracle_linear(rvit_cpu_device *device, const rvit_linear_args *a)
{
    oracle_job job = {a, rvit_cpu_live_rows(&a->rows)};
    rvit_cpu_pool_run(device->pool, job.rows, 4, linear_rows, &job);
}

static double logit(const rvit_attention_args *a, int64_t query, int64_t key, int64_t head)
{
    const void *q = rvit_cpu_at(a->q), *k = rvit_cpu_at(a->k);
    const float *key_bias = rvit_cpu_at(a->key_bias);
    const int64_t column = head * a->head_dim;
    double sum = 0.0;
    for (int64_t i = 0; i < a->head_dim; i++)
        sum += load(q, query * a->q_stride + column + i, a->dtype) * load(k, key * a->k_stride + column + i, a->dtype);
    return a->scale * sum + (key_bias != NULL ? key_bias[key] : 0.0);
}

/* One query of one head: the largest logit, then the sums, then the results. */
static void attend(const rvit_attention_args *a, rvit_cpu_range image, int64_t query, int64_t head)
{
    const void *v = rvit_cpu_at(a->v);
    float *cls_probs = rvit_cpu_at(a->cls_probs), *lse = rvit_cpu_at(a->lse);
    const int64_t column = head * a->head_dim, end = image.begin + image.len;
    double largest = -INFINITY, sum = 0.0, out[RVIT_CPU_MAX_HEAD_DIM] = {0};
    for (int64_t key = image.begin; key < end; key++)
        largest = fmax(largest, logit(a, query, key, head));
    const double base = largest == -INFINITY ? 0.0 : largest;
    for (int64_t key = image.begin; key < end; key++) {
        const double weight = exp(logit(a, query, key, head) - base);
        sum += weight;
        for (int64_t i = 0; i < a->head_dim; i++)
            out[i] += weight * load(v, key * a->v_stride + column + i, a->dtype);
    }
    for (int64_t i = 0; i < a->head_dim; i++) {
        const int64_t first_v = image.begin * a->v_stride + column + i;
        const double value = image.len == 1 && sum == 1.0 ? load(v, first_v, a->dtype) : sum == 0.0 ? 0.0 : out[i] / sum;
        store(rvit_cpu_at(a->out), query * a->out_stride + column + i, a->dtype, value);
    }
    if (lse != NULL)
        lse[query * a->n_heads + head] = (float)(largest + log(sum));
    if (cls_probs != NULL && query == image.begin)
        for (int64_t key = image.begin; key < end; key++)
            cls_probs[key * a->n_heads + head] = sum == 0.0 ? 0.0f : (float)(exp(logit(a, query, key, head) - base) / sum);
}

static void attention_heads(void *context, int64_t begin, int64_t end, int thread)
{
    (void)thread;
    const rvit_attention_args *a = ((const oracle_job *)context)->args;
    for (int64_t task = begin; task < end; task++) {
        const int64_t head = task % a->n_heads;
        const rvit_cpu_range image = rvit_cpu_image(rvit_cpu_at(a->cu_seqlens), task / a->n_heads, a->rows, a->max_len);
        for (int64_t query = image.begin; query < image.begin + image.len; query++)
            attend(a, image, query, head);
    }
}

void rvit_cpu_oracle_attention(rvit_cpu_device *device, const rvit_attention_args *a)
{
    oracle_job job = {a, (int64_t)a->n_images * a->n_heads};
    rvit_cpu_pool_run(device->pool, job.rows, rvit_cpu_grain(device->pool, job.rows, 1), attention_heads, &job);
}

static void received_heads(void *context, int64_t begin, int64_t end, int thread)
{
    (void)thread;
    const rvit_attention_received_args *a = ((const oracle_job *)context)->args;
    const rvit_attention_args forward = {.dtype = a->dtype,
                                         .head_dim = a->head_dim,
                                         .scale = a->scale,
                                         .q = a->q,
                                         .k = a->k,
                                         .q_stride = a->q_stride,
                                         .k_stride = a->k_stride,
                                         .key_bias = a->key_bias};
    const float *lse = rvit_cpu_at(a->lse);
    float *out = rvit_cpu_at(a->out);
    for (int64_t task = begin; task < end; task++) {
        const int64_t head = task % a->n_heads;
        const rvit_cpu_range image = rvit_cpu_image(rvit_cpu_at(a->cu_seqlens), task / a->n_heads, a->rows, a->max_len);
        for (int64_t key = image.begin; key < image.begin + image.len; key++) {
            double sum = 0.0;
            for (int64_t query = image.begin; query < image.begin + image.len; query++)
                if (lse[query * a->n_heads + head] != -INFINITY)
                    sum += exp(logit(&forward, query, key, head) - lse[query * a->n_heads + head]);
            out[key * a->n_heads + head] = (float)(sum / (double)image.len);
        }
    }
}

void rvit_cpu_oracle_attention_received(rvit_cpu_device *device, const rvit_attention_received_args *a)
{
    oracle_job job = {a, (int64_t)a->n_images * a->n_heads};
    rvit_cpu_pool_run(device->pool, job.rows, rvit_cpu_grain(device->pool, job.rows, 1), received_heads, &job);
}

void rvit_cpu_oracle_rope(void *heads, int64_t first, int64_t pairs, const float *cosines, rvit_dtype dtype)
{
    const float *sines = cosines + pairs;
    for (int64_t j = 0; j < pairs; j++) {
        const double x = load(heads, first + j, dtype), y = load(heads, first + j + pairs, dtype);
        store(heads, first + j, dtype, x * cosines[j] - y * sines[j]);
        store(heads, first + j + pairs, dtype, y * cosines[j] + x * sines[j]);
    }
}

void rvit_cpu_oracle_embed(const float *table, int64_t table_width, int64_t dim, const rvit_taps *y, const rvit_taps *x,
                           const float *patches, int64_t n, float *out)
{
    for (int64_t c = 0; c < n; c++) {
        double sum = 0;
        for (int32_t i = 0; i < y->n; i++) {
            const float *entries = table + rvit_taps_entry(y, i) * table_width * dim + c;
            double line = 0;
            for (int32_t j = 0; j < x->n; j++)
                line += rvit_taps_weight(x, j) * entries[rvit_taps_entry(x, j) * dim];
            sum += rvit_taps_weight(y, i) * line;
        }
        out[c] = (float)(patches[c] + sum);
    }
}

static void head_images(void *context, int64_t begin, int64_t end, int thread)
{
    (void)thread;
    const rvit_head_args *a = ((const oracle_job *)context)->args;
    const void *x = rvit_cpu_at(a->x), *weight = rvit_cpu_at(a->weight);
    const oracle_norm norm = {rvit_cpu_at(a->gamma), rvit_cpu_at(a->beta), a->norm, a->dim, a->eps};
    const float *bias = rvit_cpu_at(a->bias);
    float *logits = rvit_cpu_at(a->logits);
    for (int64_t image = begin; image < end; image++) {
        const rvit_cpu_range rows = rvit_cpu_head_rows(a, image);
        for (int64_t class = 0; class < a->n_classes; class ++) {
            double sum = 0.0;
            if (rows.len >= a->n_tokens) {
                sum = bias != NULL ? bias[class] : 0.0;
                for (int64_t token = 0; token < a->n_tokens; token++) {
                    const int64_t first = (rows.begin + token) * a->dim;
                    const oracle_moments m = moments(&norm, x, first, a->dtype);
                    for (int64_t i = 0; i < a->dim; i++)
                        sum += normal(&norm, &m, x, first, i, a->dtype) *
                               load(weight, (class * a->n_tokens + token) * a->dim + i, a->weight_dtype);
                }
            }
            logits[image * a->n_classes + class] = (float)sum;
        }
    }
}

void rvit_cpu_oracle_head(rvit_cpu_device *device, const rvit_head_args *a)
{
    oracle_job job = {a, a->n_images};
    rvit_cpu_pool_run(device->pool, job.rows, 1, head_images, &job);
}

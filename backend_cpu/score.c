/* The scores of select. Scores with a fixed order of addition are bit-equal on every backend, so this file is compiled without
   contraction of multiplications and additions, and for the baseline instruction set only. */
#include <math.h>
#include <string.h>

#include "backend_cpu/cpu.h"
#include "core/base/half.h"

#define SCORE_LANES 32

typedef struct score_job {
    const rvit_select_args *args;
    const void *x, *weight;
    const float *cls_probs, *bias, *position_scores;
    const uint8_t *anchors;
    const int32_t *cu_seqlens;
    float *scores;
} score_job;

#define ANCHOR_BONUS 2.0f /* more than the largest score */

static inline float element(const void *p, int64_t i, rvit_dtype dtype)
{
    if (dtype == RVIT_F32)
        return ((const float *)p)[i];
    return dtype == RVIT_F16 ? rvit_f16_to_f32(((const uint16_t *)p)[i]) : rvit_bf16_to_f32(((const uint16_t *)p)[i]);
}

/* The sum of x[i] y[i], in the order that prune.h documents. */
static inline __attribute__((always_inline)) float ordered_dot_of(const void *x, int64_t first, const void *y, int64_t y_first, int64_t dim,
                                                                  rvit_dtype dtype)
{
    float lanes[SCORE_LANES] = {0};
    int64_t i = 0;
    for (; i + SCORE_LANES <= dim; i += SCORE_LANES)
        for (int64_t lane = 0; lane < SCORE_LANES; lane++) {
            const float product = element(x, first + i + lane, dtype) * element(y, y_first + i + lane, dtype);
            lanes[lane] = lanes[lane] + product;
        }
    for (int64_t lane = 0; lane < dim - i; lane++) {
        const float product = element(x, first + i + lane, dtype) * element(y, y_first + i + lane, dtype);
        lanes[lane] = lanes[lane] + product;
    }
    for (int width = SCORE_LANES / 2; width > 0; width /= 2)
        for (int lane = 0; lane < width; lane++)
            lanes[lane] = lanes[lane] + lanes[lane + width];
    return lanes[0];
}

static float ordered_dot(const void *x, int64_t first, const void *y, int64_t y_first, int64_t dim, rvit_dtype dtype)
{
    return dtype == RVIT_F32   ? ordered_dot_of(x, first, y, y_first, dim, RVIT_F32)
           : dtype == RVIT_F16 ? ordered_dot_of(x, first, y, y_first, dim, RVIT_F16)
                               : ordered_dot_of(x, first, y, y_first, dim, RVIT_BF16);
}

static float squared_norm(const score_job *job, int64_t row)
{
    const rvit_select_args *a = job->args;
    const int64_t first = row * a->x_stride;
    return ordered_dot(job->x, first, job->x, first, a->dim, a->dtype);
}

static float cls_attention(const score_job *job, int64_t row)
{
    const int64_t n_heads = job->args->n_heads;
    const float *probs = job->cls_probs + row * n_heads;
    float sum = probs[0];
    for (int64_t head = 1; head < n_heads; head++)
        sum = sum + probs[head];
    return sum * (1.0f / (float)n_heads);
}

static float predictor(const score_job *job, int64_t row)
{
    const rvit_select_args *a = job->args;
    float o[2];
    for (int64_t i = 0; i < 2; i++)
        o[i] = ordered_dot(job->x, row * a->x_stride, job->weight, i * a->dim, a->dim, a->dtype) + job->bias[i];
    /* log(e^o0 / (e^o0 + e^o1)) = -log(1 + e^d), d = o1 - o0, without overflow. */
    const float d = o[1] - o[0];
    return d <= 0.0f ? -log1pf(expf(d)) : -(d + log1pf(expf(-d)));
}

static void score_rows(void *context, int64_t begin, int64_t end, int thread)
{
    (void)thread;
    const score_job *job = context;
    for (int64_t row = begin; row < end; row++)
        switch (job->args->score) {
        case RVIT_SCORE_L2:
            job->scores[row] = squared_norm(job, row);
            break;
        case RVIT_SCORE_CLS_ATTENTION:
            job->scores[row] = cls_attention(job, row);
            break;
        case RVIT_SCORE_CLS_NORM:
            job->scores[row] = cls_attention(job, row) * sqrtf(squared_norm(job, row));
            break;
        case RVIT_SCORE_PREDICTOR:
            job->scores[row] = predictor(job, row);
            break;
        case RVIT_SCORE_GIVEN:
        case RVIT_SCORE_POSITION:
            break;
        }
}

static void score_images(void *context, int64_t begin, int64_t end, int thread)
{
    (void)thread;
    const score_job *job = context;
    for (int64_t image = begin; image < end; image++) {
        const rvit_cpu_range rows = rvit_cpu_image(job->cu_seqlens, image, job->args->rows, job->args->max_len);
        memcpy(job->scores + rows.begin, job->position_scores, (size_t)rows.len * sizeof *job->scores);
    }
}

/* Gives each row of a group the mean of the group's scores. */
static void share_scores(void *context, int64_t begin, int64_t end, int thread)
{
    (void)thread;
    const score_job *job = context;
    const rvit_select_args *a = job->args;
    for (int64_t image = begin; image < end; image++) {
        const rvit_cpu_range rows = rvit_cpu_image(job->cu_seqlens, image, a->rows, a->max_len);
        for (int64_t group = 0; group < rows.len; group += a->group_size) {
            const int64_t n = rows.len - group < a->group_size ? rows.len - group : a->group_size;
            float *scores = job->scores + rows.begin + group, sum = scores[0];
            for (int64_t i = 1; i < n; i++)
                sum = sum + scores[i];
            const float mean = sum * (1.0f / (float)a->group_size);
            for (int64_t i = 0; i < n; i++)
                scores[i] = mean;
        }
    }
}

static int any_anchor(const uint8_t *anchors, int64_t begin, int64_t end)
{
    for (int64_t i = begin; i < end; i++)
        if (anchors[i])
            return 1;
    return 0;
}

/* Whether patch i of n is an anchor or next to one, as prune.h defines it. */
static int near_anchor(const uint8_t *anchors, int64_t n, int64_t columns, int64_t i)
{
    if (anchors[i] || (i > 0 && anchors[i - 1]) || (i + 1 < n && anchors[i + 1]) || (i >= columns && anchors[i - columns]) ||
        (i + columns < n && anchors[i + columns]))
        return 1;
    const int64_t line = columns < n ? columns : n;
    return (i == 0 && any_anchor(anchors, 0, line)) || (i == n - 1 && any_anchor(anchors, n - line, n));
}

static void prefer_near_anchors(void *context, int64_t begin, int64_t end, int thread)
{
    (void)thread;
    const score_job *job = context;
    const rvit_select_args *a = job->args;
    for (int64_t image = begin; image < end; image++) {
        const rvit_cpu_range rows = rvit_cpu_image(job->cu_seqlens, image, a->rows, a->max_len);
        const int64_t prefix = rows.len < a->n_prefix ? rows.len : a->n_prefix, first = rows.begin + prefix, n = rows.len - prefix;
        for (int64_t i = 0; i < n; i++)
            if (near_anchor(job->anchors + first, n, a->anchor_columns, i))
                job->scores[first + i] = job->scores[first + i] + ANCHOR_BONUS;
    }
}

void rvit_cpu_score(rvit_cpu_device *device, const rvit_select_args *a)
{
    if (device->oracle && (a->score == RVIT_SCORE_CLS_NORM || a->score == RVIT_SCORE_PREDICTOR)) {
        rvit_cpu_oracle_score(device, a);
        return;
    }
    score_job job = {
        .args = a,
        .x = rvit_cpu_at(a->x),
        .weight = rvit_cpu_at(a->weight),
        .cls_probs = rvit_cpu_at(a->cls_probs),
        .bias = rvit_cpu_at(a->bias),
        .position_scores = rvit_cpu_at(a->position_scores),
        .anchors = rvit_cpu_at(a->anchors),
        .cu_seqlens = rvit_cpu_at(a->cu_seqlens),
        .scores = rvit_cpu_at(a->scores),
    };
    const int64_t grain = rvit_cpu_grain(device->pool, a->n_images, 65536 / ((int64_t)a->max_len + 1) + 1);
    if (a->score == RVIT_SCORE_POSITION) {
        rvit_cpu_pool_run(device->pool, a->n_images, grain, score_images, &job);
    } else if (a->score != RVIT_SCORE_GIVEN) {
        /* NOLINTNEXTLINE(clang-analyzer-core.NullDereference): core refuses the op without */
        const int64_t rows = rvit_cpu_clamp(job.cu_seqlens[a->n_images], 0, a->rows);
        const int64_t width = a->score == RVIT_SCORE_CLS_ATTENTION ? a->n_heads : a->dim;
        rvit_cpu_pool_run(device->pool, rows, rvit_cpu_grain(device->pool, rows, 65536 / width + 1), score_rows, &job);
    }
    if (a->group_size > 1)
        rvit_cpu_pool_run(device->pool, a->n_images, grain, share_scores, &job);
    if (job.anchors != NULL)
        rvit_cpu_pool_run(device->pool, a->n_images, grain, prefer_near_anchors, &job);
}

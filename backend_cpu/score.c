/* Score: the same bits on every backend, so this file is compiled without contraction of multiplications and additions, and for the
   baseline instruction set only. */
#include "backend_cpu/cpu.h"
#include "core/half.h"

#define SCORE_LANES 32

typedef struct score_job {
    const void *x;
    const float *cls_probs;
    float *scores;
    int64_t dim, n_heads;
    int half;
} score_job;

/* Adds the squares of up to 32 elements to their lanes. */
static inline void add_squares(const score_job *job, int64_t first, int64_t n, float lanes[SCORE_LANES])
{
    if (job->half) {
        const uint16_t *x = (const uint16_t *)job->x + first;
        for (int64_t i = 0; i < n; i++) {
            const float value = rvit_f16_to_f32(x[i]);
            const float square = value * value;
            lanes[i] = lanes[i] + square;
        }
    } else {
        const float *x = (const float *)job->x + first;
        for (int64_t i = 0; i < n; i++) {
            const float square = x[i] * x[i];
            lanes[i] = lanes[i] + square;
        }
    }
}

static void score_l2(void *context, int64_t begin, int64_t end, int thread)
{
    (void)thread;
    const score_job *job = context;
    for (int64_t row = begin; row < end; row++) {
        float lanes[SCORE_LANES] = {0};
        int64_t i = 0;
        for (; i + SCORE_LANES <= job->dim; i += SCORE_LANES)
            add_squares(job, row * job->dim + i, SCORE_LANES, lanes);
        add_squares(job, row * job->dim + i, job->dim - i, lanes);
        for (int half = SCORE_LANES / 2; half > 0; half /= 2)
            for (int lane = 0; lane < half; lane++)
                lanes[lane] = lanes[lane] + lanes[lane + half];
        job->scores[row] = lanes[0];
    }
}

static void score_cls_attention(void *context, int64_t begin, int64_t end, int thread)
{
    (void)thread;
    const score_job *job = context;
    const float factor = 1.0f / (float)job->n_heads;
    for (int64_t row = begin; row < end; row++) {
        const float *probs = job->cls_probs + row * job->n_heads;
        float sum = probs[0];
        for (int64_t head = 1; head < job->n_heads; head++)
            sum = sum + probs[head];
        job->scores[row] = sum * factor;
    }
}

void rvit_cpu_score(rvit_cpu_device *device, const rvit_score_args *a)
{
    score_job job = {
        .x = rvit_cpu_at(a->x),
        .cls_probs = rvit_cpu_at(a->cls_probs),
        .scores = rvit_cpu_at(a->scores),
        .dim = a->dim,
        .n_heads = a->n_heads,
        .half = a->dtype == RVIT_F16,
    };
    const int64_t rows = rvit_cpu_live_rows(&a->rows);
    if (a->type == RVIT_SCORE_L2)
        rvit_cpu_pool_run(device->pool, rows, rvit_cpu_grain(device->pool, rows, 65536 / job.dim + 1), score_l2, &job);
    else
        rvit_cpu_pool_run(device->pool, rows, rvit_cpu_grain(device->pool, rows, 8192), score_cls_attention, &job);
}

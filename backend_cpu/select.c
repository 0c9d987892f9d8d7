/* The select op: scores rows, marks the rows that each image keeps, sums the counts, then lists the kept rows. Only integers are
   compared, so every backend makes the same choice from the same scores. */
#include <stdatomic.h>
#include <string.h>

#include "backend_cpu/cpu.h"
#include "backend_cpu/rank.h"

typedef struct select_job {
    const rvit_cpu_device *device;
    const rvit_select_args *args;
    const float *scores;
    const uint8_t *keep_in;
    const int32_t *counts, *cu_seqlens;
    uint8_t *keep;
    int32_t *out_cu_seqlens, *src_rows;
    int32_t *image_errors; /* or NULL */
    atomic_llong error;    /* smallest error so far; LLONG_MAX: none */
} select_job;

static void report(select_job *job, int64_t image, int kind)
{
    const long long error = 1 + kind + 3 * image;
    long long before = atomic_load(&job->error);
    while (error < before && !atomic_compare_exchange_weak(&job->error, &before, error))
        ;
}

static void mark_best(const float *scores, int64_t n, int64_t k, uint8_t *keep)
{
    if (k == 0 || k == n) {
        memset(keep, k > 0, (size_t)n);
        return;
    }
    int64_t ties;
    const uint32_t last = rvit_cpu_kth_rank(scores, n, 1, k, &ties);
    for (int64_t i = 0; i < n; i++) {
        const uint32_t rank = rvit_cpu_rank(scores[i]);
        keep[i] = rank > last || (rank == last && ties > 0);
        ties -= rank == last;
    }
}

static void mark_threshold(const rvit_select_args *a, const float *scores, int64_t n, uint8_t *keep)
{
    const int64_t min = a->k_min < n ? a->k_min : n;
    int64_t kept = 0;
    for (int64_t i = 0; i < n; i++) {
        keep[i] = scores[i] >= a->threshold;
        kept += keep[i];
    }
    if (kept < min)
        mark_best(scores, n, min, keep);
}

/* Marks the competing rows by their scores; returns the kind of error. */
static int mark_competing(const select_job *job, rvit_cpu_range competing, int thread)
{
    const rvit_select_args *a = job->args;
    const float *scores = job->scores + competing.begin;
    uint8_t *keep = job->keep + competing.begin;
    const int64_t n = competing.len;
    if (a->mode == RVIT_SELECT_SAMPLE || a->mode == RVIT_SELECT_MASS)
        return rvit_cpu_mark_sums(a, scores, n, keep, rvit_cpu_scratch(job->device, thread));
    int has_nan = 0;
    for (int64_t i = 0; i < n; i++)
        has_nan |= rvit_cpu_is_nan(scores[i]);
    if (a->mode == RVIT_SELECT_TOP_K)
        mark_best(scores, n, rvit_cpu_clamp(job->counts[n], 0, n), keep);
    else
        mark_threshold(a, scores, n, keep);
    return has_nan ? RVIT_CPU_SELECT_NAN : RVIT_CPU_SELECT_FINE;
}

/* Marks rows by the caller's mask; returns the kind of error. */
static int mark_by_mask(const select_job *job, rvit_cpu_range rows, int64_t prefix)
{
    int dropped_prefix = 0;
    for (int64_t row = rows.begin; row < rows.begin + rows.len; row++)
        job->keep[row] = job->keep_in[row] != 0;
    for (int64_t row = rows.begin; row < rows.begin + prefix; row++)
        dropped_prefix |= job->keep_in[row] == 0;
    return dropped_prefix ? RVIT_CPU_SELECT_PREFIX : RVIT_CPU_SELECT_FINE;
}

static void mark_image(select_job *job, int64_t image, int thread)
{
    const rvit_select_args *a = job->args;
    const rvit_cpu_range rows = rvit_cpu_image(job->cu_seqlens, image, a->rows, a->max_len);
    const int64_t prefix = rows.len < a->n_prefix ? rows.len : a->n_prefix;
    const int64_t skipped = a->mode == RVIT_SELECT_TOP_K && a->prefix_competes ? 0 : prefix;
    const rvit_cpu_range competing = {rows.begin + skipped, rows.len - skipped};
    const int error = a->mode == RVIT_SELECT_MASK ? mark_by_mask(job, rows, prefix) : mark_competing(job, competing, thread);
    memset(job->keep + rows.begin, 1, (size_t)prefix);
    int64_t kept = 0;
    for (int64_t row = rows.begin; row < rows.begin + rows.len; row++)
        kept += job->keep[row];
    const int is_fused = a->fuse_x.buffer != NULL && kept < rows.len;
    job->out_cu_seqlens[image + 1] = (int32_t)(kept + is_fused);
    if (job->image_errors != NULL && (error != RVIT_CPU_SELECT_FINE || !a->error_stays))
        job->image_errors[image] = error == RVIT_CPU_SELECT_FINE ? 0 : 1 + error;
    if (error != RVIT_CPU_SELECT_FINE)
        report(job, image, error);
}

static void mark_images(void *context, int64_t begin, int64_t end, int thread)
{
    for (int64_t image = begin; image < end; image++)
        mark_image(context, image, thread);
}

static void list_images(void *context, int64_t begin, int64_t end, int thread)
{
    (void)thread;
    const select_job *job = context;
    const rvit_select_args *a = job->args;
    for (int64_t image = begin; image < end; image++) {
        const rvit_cpu_range rows = rvit_cpu_image(job->cu_seqlens, image, a->rows, a->max_len);
        int64_t out = job->out_cu_seqlens[image];
        const int64_t out_end = job->out_cu_seqlens[image + 1];
        int64_t first_dropped = -1;
        for (int64_t row = rows.begin; row < rows.begin + rows.len && out < out_end; row++) {
            if (job->keep[row])
                job->src_rows[out++] = (int32_t)row;
            else if (first_dropped < 0)
                first_dropped = row;
        }
        if (a->fuse_x.buffer != NULL && first_dropped >= 0 && out < out_end)
            job->src_rows[out] = (int32_t)first_dropped;
    }
}

void rvit_cpu_select(rvit_cpu_device *device, const rvit_select_args *a)
{
    if (a->mode != RVIT_SELECT_MASK)
        rvit_cpu_score(device, a);
    select_job job = {
        .device = device,
        .args = a,
        .scores = rvit_cpu_at(a->scores),
        .keep_in = rvit_cpu_at(a->keep_in),
        .counts = rvit_cpu_at(a->counts),
        .cu_seqlens = rvit_cpu_at(a->cu_seqlens),
        .keep = rvit_cpu_at(a->keep),
        .out_cu_seqlens = rvit_cpu_at(a->out_cu_seqlens),
        .src_rows = rvit_cpu_at(a->src_rows),
    };
    int32_t *error = rvit_cpu_at(a->error);
    if (error != NULL && a->image_errors)
        job.image_errors = error + 1;
    atomic_init(&job.error, INT64_MAX);
    const int64_t grain = rvit_cpu_grain(device->pool, a->n_images, 2048 / ((int64_t)a->max_len + 1) + 1);
    rvit_cpu_pool_run(device->pool, a->n_images, grain, mark_images, &job);
    rvit_cpu_sum_counts(job.out_cu_seqlens, a->n_images, a->rows);
    rvit_cpu_pool_run(device->pool, a->n_images, grain, list_images, &job);
    if (a->fuse_x.buffer != NULL)
        rvit_cpu_fuse(device, a);
    const long long first = atomic_load(&job.error);
    if (error != NULL && (first != INT64_MAX || !a->error_stays))
        *error = first == INT64_MAX ? 0 : (int32_t)rvit_cpu_clamp(first, 0, INT32_MAX);
}

/* Select: marks what each image keeps, adds up the counts, then lists the kept rows. Integer logic throughout, so that every backend
   makes the same choice from the same scores. */
#include <stdatomic.h>
#include <string.h>

#include "backend_cpu/cpu.h"
#include "core/half.h"

typedef struct select_job {
    const rvit_select_args *args;
    const float *scores;
    const uint8_t *keep_in;
    const int32_t *counts, *cu_seqlens;
    uint8_t *keep;
    int32_t *out_cu_seqlens, *src_rows;
    atomic_llong error; /* the smallest value so far; LLONG_MAX: none */
} select_job;

static void report(select_job *job, int64_t error)
{
    long long before = atomic_load(&job->error);
    while (error < before && !atomic_compare_exchange_weak(&job->error, &before, error))
        ;
}

static int is_nan(uint32_t bits)
{
    return (bits & 0x7fffffffu) > 0x7f800000u;
}

/* Orders scores as unsigned integers: NaN is 0, -infinity above it, and the two zeros are equal. */
static uint32_t rank_of(float score)
{
    const uint32_t bits = rvit_float_bits(score);
    if (is_nan(bits))
        return 0;
    if ((bits & 0x7fffffffu) == 0)
        return 0x80000000u;
    return bits & 0x80000000u ? ~bits : bits | 0x80000000u;
}

/* The k-th largest rank of n scores, 1 <= k <= n, and how many of that rank belong to the k. Finds it digit by digit: of the scores that
   share the digits found so far, counts how many have each next digit. */
static uint32_t kth_rank(const float *scores, int64_t n, int64_t k, int64_t *out_ties)
{
    uint32_t rank = 0, found = 0;
    for (int shift = 24; shift >= 0; shift -= 8) {
        int32_t histogram[256] = {0};
        for (int64_t i = 0; i < n; i++) {
            const uint32_t r = rank_of(scores[i]);
            if ((r & found) == rank)
                histogram[r >> shift & 255u]++;
        }
        uint32_t digit = 255;
        while (k > histogram[digit])
            k -= histogram[digit--];
        rank |= digit << shift;
        found |= 255u << shift;
    }
    *out_ties = k;
    return rank;
}

static void mark_top_k(const select_job *job, rvit_cpu_range competing)
{
    const float *scores = job->scores + competing.begin;
    uint8_t *keep = job->keep + competing.begin;
    const int64_t n = competing.len;
    const int64_t k = rvit_cpu_clamp(job->counts[n], 0, n);
    if (k == 0 || k == n) {
        memset(keep, k > 0, (size_t)n);
        return;
    }
    int64_t ties;
    const uint32_t last = kth_rank(scores, n, k, &ties);
    for (int64_t i = 0; i < n; i++) {
        const uint32_t rank = rank_of(scores[i]);
        keep[i] = rank > last || (rank == last && ties > 0);
        ties -= rank == last;
    }
}

static void mark_image(select_job *job, int64_t image)
{
    const rvit_select_args *a = job->args;
    const rvit_cpu_range rows = rvit_cpu_image(job->cu_seqlens, image, a->rows, a->max_len);
    const int64_t prefix = rows.len < a->n_prefix ? rows.len : a->n_prefix;
    const int64_t skipped = a->mode == RVIT_SELECT_TOP_K && a->prefix_competes ? 0 : prefix;
    const rvit_cpu_range competing = {rows.begin + skipped, rows.len - skipped};
    const int64_t end = rows.begin + rows.len;
    int has_nan = 0, dropped_prefix = 0;
    if (a->mode == RVIT_SELECT_MASK) {
        for (int64_t row = rows.begin; row < end; row++)
            job->keep[row] = job->keep_in[row] != 0;
        for (int64_t row = rows.begin; row < rows.begin + prefix; row++)
            dropped_prefix |= job->keep_in[row] == 0;
    } else {
        for (int64_t row = competing.begin; row < end; row++)
            has_nan |= is_nan(rvit_float_bits(job->scores[row]));
        if (a->mode == RVIT_SELECT_TOP_K)
            mark_top_k(job, competing);
        else
            for (int64_t row = competing.begin; row < end; row++)
                job->keep[row] = job->scores[row] >= a->threshold;
    }
    memset(job->keep + rows.begin, 1, (size_t)prefix);
    int64_t kept = 0;
    for (int64_t row = rows.begin; row < end; row++)
        kept += job->keep[row];
    job->out_cu_seqlens[image + 1] = (int32_t)kept;
    if (has_nan)
        report(job, 1 + 2 * image);
    if (dropped_prefix)
        report(job, 2 + 2 * image);
}

static void mark_images(void *context, int64_t begin, int64_t end, int thread)
{
    (void)thread;
    for (int64_t image = begin; image < end; image++)
        mark_image(context, image);
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
        for (int64_t row = rows.begin; row < rows.begin + rows.len && out < out_end; row++)
            if (job->keep[row])
                job->src_rows[out++] = (int32_t)row;
    }
}

void rvit_cpu_select(rvit_cpu_device *device, const rvit_select_args *a)
{
    select_job job = {
        .args = a,
        .scores = rvit_cpu_at(a->scores),
        .keep_in = rvit_cpu_at(a->keep_in),
        .counts = rvit_cpu_at(a->counts),
        .cu_seqlens = rvit_cpu_at(a->cu_seqlens),
        .keep = rvit_cpu_at(a->keep),
        .out_cu_seqlens = rvit_cpu_at(a->out_cu_seqlens),
        .src_rows = rvit_cpu_at(a->src_rows),
    };
    atomic_init(&job.error, INT64_MAX);
    const int64_t grain = rvit_cpu_grain(device->pool, a->n_images, 8192 / ((int64_t)a->max_len + 1) + 1);
    rvit_cpu_pool_run(device->pool, a->n_images, grain, mark_images, &job);
    /* Rows that several images claim are counted more than once where cu_seqlens is not a layout; the lists stay inside src_rows. */
    int64_t total = 0;
    job.out_cu_seqlens[0] = 0;
    for (int64_t image = 0; image < a->n_images; image++) {
        total = rvit_cpu_clamp(total + job.out_cu_seqlens[image + 1], 0, a->rows);
        job.out_cu_seqlens[image + 1] = (int32_t)total;
    }
    rvit_cpu_pool_run(device->pool, a->n_images, grain, list_images, &job);
    int32_t *error = rvit_cpu_at(a->error);
    if (error != NULL) {
        const long long first = atomic_load(&job.error);
        *error = first == INT64_MAX ? 0 : (int32_t)rvit_cpu_clamp(first, 0, INT32_MAX);
    }
}

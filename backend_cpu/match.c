/* Match: computes the metric of every row and the best partner of every row of A; then, for each image, which rows merge, and the list of
   the remaining rows. While partners are being found, src_rows and next_rows hold the best partner of each row of A and its product. */
#include <string.h>

#include "backend_cpu/cpu.h"
#include "backend_cpu/rank.h"

/* Minimum rows of A of a separate part. */
#define PART_ROWS 48

typedef struct match_job {
    const rvit_cpu_device *device;
    const rvit_match_args *args;
    const int32_t *cu_seqlens;
    rvit_cpu_metric_rows metric;
    uint8_t *keep;
    int32_t *out_cu_seqlens, *src_rows, *next_rows;
    int64_t n_parts;
} match_job;

/* The rows of an image that may merge: every second row from a on and from b on, all past the prefix. */
typedef struct match_image {
    rvit_cpu_range rows;
    int64_t prefix;
    int64_t a, n_a;
    int64_t b, n_b;
    int64_t merges;
} match_image;

static int64_t every_second(int64_t from, int64_t end)
{
    return from < end ? (end - from + 1) / 2 : 0;
}

static match_image image_of(const match_job *job, int64_t image)
{
    const rvit_match_args *a = job->args;
    match_image m = {.rows = rvit_cpu_image(job->cu_seqlens, image, a->rows, a->max_len)};
    m.prefix = m.rows.len < a->n_prefix ? m.rows.len : a->n_prefix;
    const int64_t even = m.prefix + (m.prefix & 1), odd = m.prefix | 1;
    m.a = m.rows.begin + even;
    m.n_a = every_second(even, m.rows.len);
    m.b = m.rows.begin + odd;
    m.n_b = every_second(odd, m.rows.len);
    m.merges = rvit_cpu_clamp(a->merges, 0, (m.rows.len - m.prefix) / 2);
    return m;
}

static void metric_rows(void *context, int64_t begin, int64_t end, int thread)
{
    (void)thread;
    const match_job *job = context;
    rvit_cpu_metric_rows rows = job->metric;
    rows.first = begin;
    rows.end = end;
    if (job->device->oracle)
        rvit_cpu_oracle_metric(&rows);
    else
        job->device->kernels->metric(&rows);
}

static void find_partners(void *context, int64_t begin, int64_t end, int thread)
{
    const match_job *job = context;
    const int64_t head_dim = job->args->head_dim;
    for (int64_t task = begin; task < end; task++) {
        const match_image m = image_of(job, task / job->n_parts);
        const int64_t size = (m.n_a + job->n_parts - 1) / job->n_parts, first = task % job->n_parts * size;
        if (m.merges == 0 || first >= m.n_a)
            continue;
        const int64_t row = m.a + 2 * first;
        const rvit_cpu_match_tile tile = {
            .a = job->metric.metric + row * head_dim,
            .b = job->metric.metric + m.b * head_dim,
            .stride = 2 * head_dim,
            .head_dim = head_dim,
            .n_a = m.n_a - first < size ? m.n_a - first : size,
            .n_b = m.n_b,
            .best = job->src_rows + row,
            .value = (float *)(void *)(job->next_rows + row),
        };
        if (job->device->oracle)
            rvit_cpu_oracle_match(&tile);
        else
            job->device->kernels->match(&tile, rvit_cpu_scratch(job->device, thread));
    }
}

static void mark_image(const match_job *job, int64_t image)
{
    const match_image m = image_of(job, image);
    uint8_t *keep = job->keep;
    memset(keep + m.rows.begin, 1, (size_t)m.rows.len);
    if (m.merges > 0) {
        const float *values = (const float *)(const void *)(job->next_rows + m.a);
        int64_t ties;
        const uint32_t last = rvit_cpu_kth_rank(values, m.n_a, 2, m.merges, &ties);
        for (int64_t i = 0; i < m.n_a; i++) {
            const uint32_t rank = rvit_cpu_rank(values[2 * i]);
            keep[m.a + 2 * i] = !(rank > last || (rank == last && ties > 0));
            ties -= rank == last;
        }
    }
    int64_t kept = 0;
    for (int64_t row = m.rows.begin; row < m.rows.begin + m.rows.len; row++) {
        kept += keep[row];
        job->next_rows[row] = -1;
    }
    /* Starts with the last row, so that each row goes in front of the later ones. */
    for (int64_t i = m.n_a - 1; m.merges > 0 && i >= 0; i--) {
        const int64_t row = m.a + 2 * i;
        if (keep[row])
            continue;
        const int64_t partner = m.b + 2 * rvit_cpu_clamp(job->src_rows[row], 0, m.n_b - 1);
        job->next_rows[row] = job->next_rows[partner];
        job->next_rows[partner] = (int32_t)row;
    }
    job->out_cu_seqlens[image + 1] = (int32_t)kept;
}

static void mark_images(void *context, int64_t begin, int64_t end, int thread)
{
    (void)thread;
    for (int64_t image = begin; image < end; image++)
        mark_image(context, image);
}

/* Lists the kept rows from `from` on, in steps of `step`. */
static int64_t list_rows(const match_job *job, int64_t from, int64_t n, int64_t step, int64_t out, int64_t out_end)
{
    for (int64_t i = 0; i < n && out < out_end; i++)
        if (job->keep[from + i * step])
            job->src_rows[out++] = (int32_t)(from + i * step);
    return out;
}

static void list_images(void *context, int64_t begin, int64_t end, int thread)
{
    (void)thread;
    const match_job *job = context;
    for (int64_t image = begin; image < end; image++) {
        const match_image m = image_of(job, image);
        const int64_t out_end = job->out_cu_seqlens[image + 1];
        int64_t out = list_rows(job, m.rows.begin, m.prefix, 1, job->out_cu_seqlens[image], out_end);
        out = list_rows(job, m.a, m.n_a, 2, out, out_end);
        list_rows(job, m.b, m.n_b, 2, out, out_end);
    }
}

void rvit_cpu_match(rvit_cpu_device *device, const rvit_match_args *a)
{
    match_job job = {
        .device = device,
        .args = a,
        .cu_seqlens = rvit_cpu_at(a->cu_seqlens),
        .metric =
            {
                .k = rvit_cpu_at(a->k),
                .k_stride = a->k_stride,
                .n_heads = a->n_heads,
                .head_dim = a->head_dim,
                .metric = rvit_cpu_at(a->metric),
                .dtype = a->dtype,
            },
        .keep = rvit_cpu_at(a->keep),
        .out_cu_seqlens = rvit_cpu_at(a->out_cu_seqlens),
        .src_rows = rvit_cpu_at(a->src_rows),
        .next_rows = rvit_cpu_at(a->next_rows),
        .n_parts = 1,
    };
    /* NOLINTNEXTLINE(clang-analyzer-core.NullDereference): core refuses the op without */
    const int64_t rows = rvit_cpu_clamp(job.cu_seqlens[a->n_images], 0, a->rows);
    const int64_t row_least = 32768 / ((int64_t)a->n_heads * a->head_dim) + 1;
    rvit_cpu_pool_run(device->pool, rows, rvit_cpu_grain(device->pool, rows, row_least), metric_rows, &job);
    const int n_threads = rvit_cpu_pool_threads(device->pool);
    while (n_threads > 1 && job.n_parts * a->n_images < 3 * (int64_t)n_threads && a->max_len / 2 / (job.n_parts + 1) >= PART_ROWS)
        job.n_parts++;
    const int64_t tasks = a->n_images * job.n_parts;
    rvit_cpu_pool_run(device->pool, tasks, rvit_cpu_grain(device->pool, tasks, 128 / ((int64_t)a->max_len + 1) + 1), find_partners, &job);
    const int64_t grain = rvit_cpu_grain(device->pool, a->n_images, 2048 / ((int64_t)a->max_len + 1) + 1);
    rvit_cpu_pool_run(device->pool, a->n_images, grain, mark_images, &job);
    rvit_cpu_sum_counts(job.out_cu_seqlens, a->n_images, a->rows);
    rvit_cpu_pool_run(device->pool, a->n_images, grain, list_images, &job);
}

/* The bipartite_match op: computes the metric of every row and the best partner of every row of A; then, per image, which rows merge, and
   the list of the remaining rows. In between, src_rows and next_rows hold the best partner of each row of A and the similarity, NaN if it
   has none. A group is group_size consecutive rows with one metric each; indices of A and B count groups. */
#include <math.h>
#include <string.h>

#include "backend_cpu/cpu.h"
#include "backend_cpu/rank.h"

/* Minimum rows of A per task. */
#define PART_ROWS 48

typedef struct match_job {
    const rvit_cpu_device *device;
    const rvit_bipartite_match_args *args;
    const int32_t *cu_seqlens, *window_cu_seqlens; /* window_cu_seqlens may be NULL */
    rvit_cpu_metric_rows metric;
    uint8_t *keep;
    int32_t *out_cu_seqlens, *src_rows, *next_rows;
    int64_t n_parts;
} match_job;

/* The groups of an image that may merge, all past the prefix: A is every second group starting at row a, B the same from row b. */
typedef struct match_image {
    rvit_cpu_range rows;
    int64_t prefix;
    int64_t a, n_a;
    int64_t b, n_b;
    int64_t step;   /* rows from one group to the next */
    int64_t merges; /* upper limit */
} match_image;

static int64_t every_second(int64_t from, int64_t end)
{
    return from < end ? (end - from + 1) / 2 : 0;
}

static match_image image_of(const match_job *job, int64_t image)
{
    const rvit_bipartite_match_args *a = job->args;
    match_image m = {.rows = rvit_cpu_image(job->cu_seqlens, image, a->rows, a->max_len), .step = 2 * (int64_t)a->group_size};
    m.prefix = m.rows.len < a->n_prefix ? m.rows.len : a->n_prefix; /* 0 if group_size is above 1 */
    const int64_t even = m.prefix + (m.prefix & 1), odd = m.prefix | 1, groups = m.rows.len / a->group_size;
    m.a = m.rows.begin + even * a->group_size;
    m.n_a = every_second(even, groups);
    m.b = m.rows.begin + odd * a->group_size;
    m.n_b = every_second(odd, groups);
    m.merges = rvit_cpu_clamp(a->merges, 0, (groups - m.prefix) / 2);
    return m;
}

/* How many groups, `step` rows apart and starting at `first`, begin before row `end`; at most n. */
static int64_t groups_before(int64_t first, int64_t end, int64_t step, int64_t n)
{
    return rvit_cpu_clamp((end - first + step - 1) / step, 0, n);
}

/* For groups of A up to index end_a: the n_b groups of B, starting at index first_b, that they may merge into. */
typedef struct match_choice {
    int64_t end_a, first_b, n_b;
} match_choice;

static match_choice choice_of(const match_job *job, const match_image *m, int64_t a)
{
    if (job->window_cu_seqlens == NULL)
        return (match_choice){m->n_a, 0, m->n_b};
    /* The last window that begins at or before the row. */
    const int32_t *windows = job->window_cu_seqlens;
    const int64_t row = m->a + a * m->step;
    int64_t window = 0, past = job->args->n_windows;
    while (window + 1 < past) {
        const int64_t middle = (window + past) / 2;
        if (windows[middle] <= row)
            window = middle;
        else
            past = middle;
    }
    const int64_t begin = windows[window], end = past > 0 ? windows[window + 1] : begin;
    const int64_t end_a = groups_before(m->a, end, m->step, m->n_a), first_b = groups_before(m->b, begin, m->step, m->n_b);
    const int64_t end_b = groups_before(m->b, end, m->step, m->n_b);
    return (match_choice){end_a > a ? end_a : a + 1, first_b, end_b > first_b ? end_b - first_b : 0};
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

/* Finds the partners of the groups first .. first + n - 1 of A, which all have the same choice. */
static void find_in_choice(const match_job *job, const match_image *m, int64_t first, int64_t n, const match_choice *choice, int thread)
{
    const int64_t head_dim = job->args->head_dim, row = m->a + first * m->step;
    const rvit_cpu_bipartite_match_tile tile = {
        .a = job->metric.metric + row * head_dim,
        .b = job->metric.metric + (m->b + choice->first_b * m->step) * head_dim,
        .stride = m->step * head_dim,
        .dim = job->args->group_size * head_dim,
        .n_a = n,
        .n_b = choice->n_b,
        .step = m->step,
        .best = job->src_rows + row,
        .value = (float *)(void *)(job->next_rows + row),
    };
    if (choice->n_b == 0) {
        for (int64_t i = 0; i < n; i++)
            tile.value[i * m->step] = NAN;
        return;
    }
    if (job->device->oracle)
        rvit_cpu_oracle_bipartite_match(&tile);
    else
        job->device->kernels->bipartite_match(&tile, rvit_cpu_scratch(job->device, thread));
    for (int64_t i = 0; choice->first_b > 0 && i < n; i++)
        tile.best[i * m->step] += (int32_t)choice->first_b;
}

static void find_partners(void *context, int64_t begin, int64_t end, int thread)
{
    const match_job *job = context;
    for (int64_t task = begin; task < end; task++) {
        const match_image m = image_of(job, task / job->n_parts);
        const int64_t size = (m.n_a + job->n_parts - 1) / job->n_parts, first = task % job->n_parts * size;
        if (m.merges == 0 || first >= m.n_a)
            continue;
        const int64_t past = m.n_a - first < size ? m.n_a : first + size;
        for (int64_t a = first; a < past;) {
            const match_choice choice = choice_of(job, &m, a);
            const int64_t n = (choice.end_a < past ? choice.end_a : past) - a;
            find_in_choice(job, &m, a, n, &choice, thread);
            a += n;
        }
    }
}

/* How many groups of A merge. */
static int64_t count_merges(const match_job *job, const match_image *m)
{
    const float *values = (const float *)(const void *)(job->next_rows + m->a);
    if (m->merges == 0 || job->window_cu_seqlens == NULL)
        return m->merges;
    int64_t n = 0;
    for (int64_t i = 0; i < m->n_a && n < m->merges; i++)
        n += !rvit_cpu_is_nan(values[i * m->step]);
    return n;
}

static void mark_image(const match_job *job, int64_t image)
{
    const match_image m = image_of(job, image);
    const int64_t merges = count_merges(job, &m), group_size = job->args->group_size;
    uint8_t *keep = job->keep;
    memset(keep + m.rows.begin, 1, (size_t)m.rows.len);
    if (merges > 0) {
        const float *values = (const float *)(const void *)(job->next_rows + m.a);
        int64_t ties;
        const uint32_t last = rvit_cpu_kth_rank(values, m.n_a, m.step, merges, &ties);
        for (int64_t i = 0; i < m.n_a; i++) {
            const uint32_t rank = rvit_cpu_rank(values[i * m.step]);
            memset(keep + m.a + i * m.step, !(rank > last || (rank == last && ties > 0)), (size_t)group_size);
            ties -= rank == last;
        }
    }
    int64_t kept = 0;
    for (int64_t row = m.rows.begin; row < m.rows.begin + m.rows.len; row++) {
        kept += keep[row];
        job->next_rows[row] = -1;
    }
    /* From last to first, so that each row is inserted before the later ones. */
    for (int64_t i = m.n_a - 1; merges > 0 && i >= 0; i--) {
        const int64_t row = m.a + i * m.step;
        if (keep[row])
            continue;
        const int64_t partner = m.b + m.step * rvit_cpu_clamp(job->src_rows[row], 0, m.n_b - 1);
        for (int64_t j = 0; j < group_size; j++) {
            job->next_rows[row + j] = job->next_rows[partner + j];
            job->next_rows[partner + j] = (int32_t)(row + j);
        }
    }
    job->out_cu_seqlens[image + 1] = (int32_t)kept;
}

static void mark_images(void *context, int64_t begin, int64_t end, int thread)
{
    (void)thread;
    for (int64_t image = begin; image < end; image++)
        mark_image(context, image);
}

/* Lists every step-th kept row, starting at `from`. */
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
        if (job->args->group_size > 1) {
            list_rows(job, m.rows.begin, m.rows.len, 1, job->out_cu_seqlens[image], out_end);
            continue;
        }
        int64_t out = list_rows(job, m.rows.begin, m.prefix, 1, job->out_cu_seqlens[image], out_end);
        out = list_rows(job, m.a, m.n_a, 2, out, out_end);
        list_rows(job, m.b, m.n_b, 2, out, out_end);
    }
}

void rvit_cpu_bipartite_match(rvit_cpu_device *device, const rvit_bipartite_match_args *a)
{
    match_job job = {
        .device = device,
        .args = a,
        .cu_seqlens = rvit_cpu_at(a->cu_seqlens),
        .window_cu_seqlens = rvit_cpu_at(a->window_cu_seqlens),
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
    const int64_t row_min = 32768 / ((int64_t)a->n_heads * a->head_dim) + 1;
    rvit_cpu_pool_run(device->pool, rows, rvit_cpu_grain(device->pool, rows, row_min), metric_rows, &job);
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

/* The grid_relayout op: merge groups and attention windows after a selection. */
#include "backend_cpu/cpu.h"

typedef struct grid_relayout_job {
    const rvit_grid_relayout_args *args;
    const int32_t *cu_seqlens, *out_cu_seqlens, *src_rows, *group_rows;
    const uint8_t *keep;
    int32_t *out_group_rows;
    int64_t left; /* rows after the selection */
} grid_relayout_job;

static void list_group_rows(void *context, int64_t begin, int64_t end, int thread)
{
    (void)thread;
    const grid_relayout_job *job = context;
    const rvit_grid_relayout_args *a = job->args;
    const int64_t groups = a->rows / a->group_size;
    for (int64_t image = begin; image < end; image++) {
        const rvit_cpu_range rows = rvit_cpu_image(job->cu_seqlens, image, a->rows, a->max_len),
                             after = rvit_cpu_image(job->out_cu_seqlens, image, a->rows, a->max_len);
        const int64_t past = (rows.begin + rows.len) / a->group_size, out_past = (after.begin + after.len) / a->group_size;
        int64_t out = after.begin / a->group_size;
        for (int64_t group = rows.begin / a->group_size; group < past && out < out_past; group++) {
            const int64_t row = rvit_cpu_clamp(job->group_rows[group], 0, groups - 1) * a->group_size;
            if (job->keep[row])
                job->out_group_rows[out++] = (int32_t)(rvit_cpu_rows_below(job->src_rows, job->left, row) / a->group_size);
        }
    }
}

void rvit_cpu_grid_relayout(rvit_cpu_device *device, const rvit_grid_relayout_args *a)
{
    grid_relayout_job job = {
        .args = a,
        .cu_seqlens = rvit_cpu_at(a->cu_seqlens),
        .out_cu_seqlens = rvit_cpu_at(a->out_cu_seqlens),
        .src_rows = rvit_cpu_at(a->src_rows),
        .group_rows = rvit_cpu_at(a->group_rows),
        .keep = rvit_cpu_at(a->keep),
        .out_group_rows = rvit_cpu_at(a->out_group_rows),
    };
    const int32_t *window_cu_seqlens = rvit_cpu_at(a->window_cu_seqlens);
    int32_t *group_cu_seqlens = rvit_cpu_at(a->group_cu_seqlens), *out_window_cu_seqlens = rvit_cpu_at(a->out_window_cu_seqlens);
    /* NOLINTNEXTLINE(clang-analyzer-core.NullDereference): core refuses the op without */
    job.left = rvit_cpu_clamp(job.out_cu_seqlens[a->n_images], 0, a->rows);
    for (int64_t i = 0; i <= a->n_images; i++)
        group_cu_seqlens[i] = (int32_t)(rvit_cpu_clamp(job.out_cu_seqlens[i], 0, a->rows) / a->group_size);
    for (int64_t i = 0; window_cu_seqlens != NULL && i <= a->n_windows; i++)
        out_window_cu_seqlens[i] = (int32_t)rvit_cpu_rows_below(job.src_rows, job.left, window_cu_seqlens[i]);
    if (job.group_rows != NULL)
        rvit_cpu_pool_run(device->pool, a->n_images, rvit_cpu_grain(device->pool, a->n_images, 1), list_group_rows, &job);
}

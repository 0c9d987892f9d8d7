/* The mean op: replaces columns of an image by their mean over its rows. */
#include "backend_cpu/cpu.h"

/* Columns that a thread sums at a time. */
#define MEAN_COLUMNS 256

typedef struct mean_job {
    const rvit_cpu_kernels *kernels;
    const rvit_mean_args *args;
    const int32_t *cu_seqlens;
    void *x;
    int64_t chunks;
} mean_job;

static void mean_chunk(const mean_job *job, int64_t image, int64_t column)
{
    const rvit_mean_args *a = job->args;
    const rvit_cpu_range rows = rvit_cpu_image(job->cu_seqlens, image, a->rows, a->max_len);
    const int64_t end = rows.begin + rows.len;
    const int64_t width = a->dim - column < MEAN_COLUMNS ? a->dim - column : MEAN_COLUMNS;
    const rvit_dtype dtype = a->dtype;
    float sums[MEAN_COLUMNS] = {0}, values[MEAN_COLUMNS];
    for (int64_t row = rows.begin + a->n_prefix; row < end; row++) {
        const float *x = rvit_cpu_load_floats(job->kernels, job->x, row * a->dim + column, width, dtype, values);
        for (int64_t i = 0; i < width; i++)
            sums[i] += x[i];
    }
    if (rows.len > a->n_prefix)
        for (int64_t i = 0; i < width; i++)
            sums[i] /= (float)(rows.len - a->n_prefix);
    for (int64_t row = rows.begin; row < end; row++)
        rvit_cpu_store_floats(job->kernels, sums, job->x, row * a->dim + column, width, dtype);
}

static void mean_chunks(void *context, int64_t begin, int64_t end, int thread)
{
    (void)thread;
    const mean_job *job = context;
    for (int64_t task = begin; task < end; task++)
        mean_chunk(job, task / job->chunks, job->args->first_column + task % job->chunks * MEAN_COLUMNS);
}

void rvit_cpu_mean(rvit_cpu_device *device, const rvit_mean_args *a)
{
    mean_job job = {
        .kernels = device->kernels,
        .args = a,
        .cu_seqlens = rvit_cpu_at(a->cu_seqlens),
        .x = rvit_cpu_at(a->x),
        .chunks = ((int64_t)a->dim - a->first_column + MEAN_COLUMNS - 1) / MEAN_COLUMNS,
    };
    const int64_t tasks = a->n_images * job.chunks;
    const int64_t min = 65536 / MEAN_COLUMNS / ((int64_t)a->max_len + 1) + 1;
    rvit_cpu_pool_run(device->pool, tasks, rvit_cpu_grain(device->pool, tasks, min), mean_chunks, &job);
}

/* The fused token of select: the sum of an image's dropped rows, weighted by their scores. It replaces the first of them. */
#include "backend_cpu/cpu.h"

/* Columns that a thread sums at a time. */
#define FUSE_COLUMNS 256

typedef struct fuse_job {
    const rvit_cpu_device *device;
    const rvit_select_args *args;
    const float *scores;
    const uint8_t *keep;
    const int32_t *cu_seqlens;
    void *x;
    int64_t chunks;
} fuse_job;

static void fuse_chunk(const fuse_job *job, int64_t image, int64_t column)
{
    const rvit_select_args *a = job->args;
    const rvit_cpu_range rows = rvit_cpu_image(job->cu_seqlens, image, a->rows, a->max_len);
    const int64_t end = rows.begin + rows.len;
    const int64_t width = a->fuse_dim - column < FUSE_COLUMNS ? a->fuse_dim - column : FUSE_COLUMNS;
    const rvit_dtype dtype = a->fuse_dtype;
    float sums[FUSE_COLUMNS] = {0}, values[FUSE_COLUMNS];
    int64_t first_dropped = -1;
    for (int64_t row = rows.begin; row < end; row++) {
        if (job->keep[row])
            continue;
        if (first_dropped < 0)
            first_dropped = row;
        const float *x = rvit_cpu_load_floats(job->device->kernels, job->x, row * a->fuse_dim + column, width, dtype, values);
        const float score = job->scores[row];
        for (int64_t i = 0; i < width; i++) {
            const float product = score * x[i];
            sums[i] = sums[i] + product;
        }
    }
    if (first_dropped >= 0)
        rvit_cpu_store_floats(job->device->kernels, sums, job->x, first_dropped * a->fuse_dim + column, width, dtype);
}

static void fuse_chunks(void *context, int64_t begin, int64_t end, int thread)
{
    (void)thread;
    const fuse_job *job = context;
    for (int64_t task = begin; task < end; task++)
        fuse_chunk(job, task / job->chunks, task % job->chunks * FUSE_COLUMNS);
}

void rvit_cpu_fuse(rvit_cpu_device *device, const rvit_select_args *a)
{
    if (device->oracle) {
        rvit_cpu_oracle_fuse(device, a);
        return;
    }
    fuse_job job = {
        .device = device,
        .args = a,
        .scores = rvit_cpu_at(a->scores),
        .keep = rvit_cpu_at(a->keep),
        .cu_seqlens = rvit_cpu_at(a->cu_seqlens),
        .x = rvit_cpu_at(a->fuse_x),
        .chunks = ((int64_t)a->fuse_dim + FUSE_COLUMNS - 1) / FUSE_COLUMNS,
    };
    const int64_t tasks = a->n_images * job.chunks;
    const int64_t min = 65536 / FUSE_COLUMNS / ((int64_t)a->max_len + 1) + 1;
    rvit_cpu_pool_run(device->pool, tasks, rvit_cpu_grain(device->pool, tasks, min), fuse_chunks, &job);
}

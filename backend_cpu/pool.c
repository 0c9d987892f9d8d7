/* The pool op: one row per image. */
#include <string.h>

#include "backend_cpu/cpu.h"

/* Columns that a thread sums at a time if rows need no norm. */
#define POOL_COLUMNS 256

typedef struct pool_job {
    const rvit_cpu_device *device;
    const rvit_pool_args *args;
    rvit_cpu_pool_tile whole;
    const char *x;
    char *out;
    int64_t columns, tiles; /* columns of a tile, tiles of an image */
} pool_job;

static void pool_tile(const pool_job *job, int64_t image, int64_t first_column, float *scratch)
{
    const rvit_pool_args *a = job->args;
    const rvit_cpu_range rows = rvit_cpu_pool_rows(a, image);
    const int64_t out_size = rvit_dtype_size(a->out_dtype);
    rvit_cpu_pool_tile tile = job->whole;
    tile.out = job->out + image * a->out_stride * out_size;
    tile.first_column = first_column;
    tile.n_columns = a->dim - first_column < job->columns ? a->dim - first_column : job->columns;
    tile.n_rows = rows.len;
    if (rows.len == 0) {
        memset((char *)tile.out + first_column * out_size, 0, (size_t)(tile.n_columns * out_size));
        return;
    }
    tile.x = job->x + rows.begin * a->dim * rvit_dtype_size(a->dtype);
    if (tile.sizes != NULL)
        tile.sizes += rows.begin;
    job->device->kernels->pool(&tile, scratch);
}

static void pool_tiles(void *context, int64_t begin, int64_t end, int thread)
{
    const pool_job *job = context;
    for (int64_t i = begin; i < end; i++)
        pool_tile(job, i / job->tiles, i % job->tiles * job->columns, rvit_cpu_scratch(job->device, thread));
}

void rvit_cpu_pool(rvit_cpu_device *device, const rvit_pool_args *a)
{
    pool_job job = {
        .device = device,
        .args = a,
        .whole =
            {
                .sizes = a->mode == RVIT_POOL_MEAN ? rvit_cpu_at(a->sizes) : NULL,
                .gamma = rvit_cpu_at(a->gamma),
                .beta = rvit_cpu_at(a->beta),
                .dim = a->dim,
                .eps = a->eps,
                .dtype = a->dtype,
                .out_dtype = a->out_dtype,
                .rms = a->norm == RVIT_NORM_RMS,
            },
        .x = rvit_cpu_at(a->x),
        .out = rvit_cpu_at(a->out),
        .columns = a->gamma.buffer != NULL ? RVIT_CPU_POOL_COLUMNS : POOL_COLUMNS,
    };
    job.tiles = (a->dim + job.columns - 1) / job.columns;
    rvit_cpu_pool_run(device->pool, a->n_images * job.tiles, 1, pool_tiles, &job);
}

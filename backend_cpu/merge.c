/* The merge op: the weighted mean of each list of rows that bipartite_match made. */
#include <math.h>
#include <string.h>

#include "backend_cpu/cpu.h"

/* Columns that are summed at a time. */
#define MERGE_COLUMNS 256

typedef struct merge_job {
    const rvit_cpu_kernels *kernels;
    const rvit_merge_args *args;
    const void *x;
    const float *sizes; /* or NULL */
    const int32_t *src_rows, *next_rows;
    void *out_x;
    float *out_sizes, *out_key_bias;
} merge_job;

static float size_of(const merge_job *job, int64_t row)
{
    return job->sizes != NULL ? job->sizes[row] : 1.0f;
}

static void merge_list(const merge_job *job, int64_t first, int64_t out, float total)
{
    const rvit_merge_args *a = job->args;
    const rvit_dtype dtype = a->dtype;
    for (int64_t column = 0; column < a->dim; column += MERGE_COLUMNS) {
        const int64_t width = a->dim - column < MERGE_COLUMNS ? a->dim - column : MERGE_COLUMNS;
        float sums[MERGE_COLUMNS] = {0}, values[MERGE_COLUMNS];
        for (int64_t row = first; row >= 0; row = rvit_cpu_next_row(job->next_rows, first, row, a->x_rows)) {
            const float *x = rvit_cpu_load_floats(job->kernels, job->x, row * a->dim + column, width, dtype, values);
            const float size = size_of(job, row);
            for (int64_t i = 0; i < width; i++)
                sums[i] += size * x[i];
        }
        for (int64_t i = 0; i < width; i++)
            sums[i] /= total;
        rvit_cpu_store_floats(job->kernels, sums, job->out_x, out * a->dim + column, width, dtype);
    }
}

static void merge_rows(void *context, int64_t begin, int64_t end, int thread)
{
    (void)thread;
    const merge_job *job = context;
    const rvit_merge_args *a = job->args;
    const int64_t row_size = a->dim * rvit_dtype_size(a->dtype);
    for (int64_t out = begin; out < end; out++) {
        const int64_t first = rvit_cpu_clamp(job->src_rows[out], 0, a->x_rows - 1);
        float total = size_of(job, first);
        int64_t row = rvit_cpu_next_row(job->next_rows, first, first, a->x_rows);
        if (row < 0) {
            memcpy((char *)job->out_x + out * row_size, (const char *)job->x + first * row_size, (size_t)row_size);
        } else {
            for (; row >= 0; row = rvit_cpu_next_row(job->next_rows, first, row, a->x_rows))
                total += size_of(job, row);
            merge_list(job, first, out, total);
        }
        job->out_sizes[out] = total;
        job->out_key_bias[out] = logf(total);
    }
}

void rvit_cpu_merge(rvit_cpu_device *device, const rvit_merge_args *a)
{
    merge_job job = {
        .kernels = device->kernels,
        .args = a,
        .x = rvit_cpu_at(a->x),
        .sizes = rvit_cpu_at(a->sizes),
        .src_rows = rvit_cpu_at(a->src_rows),
        .next_rows = rvit_cpu_at(a->next_rows),
        .out_x = rvit_cpu_at(a->out_x),
        .out_sizes = rvit_cpu_at(a->out_sizes),
        .out_key_bias = rvit_cpu_at(a->out_key_bias),
    };
    const int64_t rows = a->x_rows > 0 ? rvit_cpu_live_rows(&a->rows) : 0;
    const int64_t min = 16384 / (int64_t)a->dim + 1;
    rvit_cpu_pool_run(device->pool, rows, rvit_cpu_grain(device->pool, rows, min), merge_rows, &job);
}

/* The rope op: rotates the queries and keys of a row in place. */
#include "backend_cpu/cpu.h"

typedef struct rope_job {
    const rvit_cpu_device *device;
    rvit_cpu_rope_rows rows;
} rope_job;

static void oracle_rows(const rvit_cpu_rope_rows *r)
{
    for (int64_t row = r->first; row < r->end; row++) {
        const int64_t position = r->positions != NULL ? r->positions[row] : row % r->n_positions;
        if (position < r->n_prefix || position >= r->n_positions)
            continue;
        for (int i = 0; i < 2; i++)
            for (int64_t head = 0; head < r->n_heads; head++)
                rvit_cpu_oracle_rope(r->heads[i], row * r->strides[i] + head * r->head_dim, r->head_dim / 2,
                                     r->table + position * r->head_dim, r->dtype);
    }
}

static void rotate_rows(void *context, int64_t begin, int64_t end, int thread)
{
    (void)thread;
    const rope_job *job = context;
    rvit_cpu_rope_rows rows = job->rows;
    rows.first = begin;
    rows.end = end;
    if (job->device->oracle)
        oracle_rows(&rows);
    else
        job->device->kernels->rope(&rows);
}

void rvit_cpu_rope(rvit_cpu_device *device, const rvit_rope_args *a)
{
    rope_job job = {
        .device = device,
        .rows =
            {
                .heads = {rvit_cpu_at(a->q), rvit_cpu_at(a->k)},
                .strides = {a->q_stride, a->k_stride},
                .table = rvit_cpu_at(a->table),
                .positions = rvit_cpu_at(a->positions),
                .n_positions = a->n_positions,
                .n_prefix = a->n_prefix,
                .n_heads = a->n_heads,
                .head_dim = a->head_dim,
                .dtype = a->dtype,
            },
    };
    const int64_t rows = rvit_cpu_live_rows(&a->rows), min = 16384 / ((int64_t)a->n_heads * a->head_dim) + 1;
    rvit_cpu_pool_run(device->pool, rows, rvit_cpu_grain(device->pool, rows, min), rotate_rows, &job);
}

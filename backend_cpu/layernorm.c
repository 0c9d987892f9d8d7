/* The layernorm op, which can gather its rows. */
#include "backend_cpu/cpu.h"

typedef struct layernorm_job {
    const rvit_cpu_device *device;
    rvit_cpu_layernorm_rows rows;
    rvit_view saturated;
} layernorm_job;

static void layernorm_rows(void *context, int64_t begin, int64_t end, int thread)
{
    const layernorm_job *job = context;
    rvit_cpu_layernorm_rows rows = job->rows;
    rows.first = begin;
    rows.end = end;
    if (rvit_is_quantized(rows.out_dtype))
        rvit_cpu_add_saturated(job->saturated, job->device->kernels->layernorm_quantized(&rows, rvit_cpu_scratch(job->device, thread)));
    else
        job->device->kernels->layernorm(&rows);
}

static layernorm_job job_of(const rvit_cpu_device *device, const rvit_layernorm_args *a)
{
    return (layernorm_job){
        .device = device,
        .saturated = a->saturated,
        .rows =
            {
                .x = rvit_cpu_at(a->x),
                .src_rows = rvit_cpu_at(a->src_rows),
                .x_rows = a->x_rows,
                .gamma = rvit_cpu_at(a->gamma),
                .beta = rvit_cpu_at(a->beta),
                .out = rvit_cpu_at(a->out),
                .out_x = rvit_cpu_at(a->out_x),
                .dim = a->dim,
                .features = a->features,
                .eps = a->eps,
                .dtype = a->dtype,
                .out_dtype = a->out_dtype,
                .rms = a->norm == RVIT_NORM_RMS,
                .out_scales = rvit_cpu_at(a->out_scales),
                .static_scale = rvit_cpu_at(a->static_scale),
            },
    };
}

void rvit_cpu_layernorm_row_tile(rvit_cpu_device *device, const rvit_layernorm_args *a, int64_t begin, int64_t end, int thread)
{
    layernorm_job job = job_of(device, a);
    layernorm_rows(&job, begin, end, thread);
}

void rvit_cpu_layernorm(rvit_cpu_device *device, const rvit_layernorm_args *a)
{
    layernorm_job job = job_of(device, a);
    const int64_t rows = a->x_rows > 0 ? rvit_cpu_live_rows(&a->rows) : 0;
    const int64_t min = 2048 / (int64_t)a->dim + 1;
    rvit_cpu_pool_run(device->pool, rows, rvit_cpu_grain(device->pool, rows, min), layernorm_rows, &job);
}

/* The quantize op: quantized rows, with a scale each. */
#include "backend_cpu/cpu.h"

typedef struct quantize_job {
    const rvit_cpu_device *device;
    rvit_cpu_quantize_rows rows;
    rvit_view saturated;
} quantize_job;

static void quantize_rows(void *context, int64_t begin, int64_t end, int thread)
{
    const quantize_job *job = context;
    rvit_cpu_quantize_rows rows = job->rows;
    rows.first = begin;
    rows.end = end;
    rvit_cpu_add_saturated(job->saturated, job->device->kernels->quantize(&rows, rvit_cpu_scratch(job->device, thread)));
}

static quantize_job job_of(const rvit_cpu_device *device, const rvit_quantize_args *a)
{
    const rvit_sigmoid sigmoid = rvit_sigmoid_of(a->activation);
    return (quantize_job){
        .device = device,
        .saturated = a->saturated,
        .rows =
            {
                .x = rvit_cpu_at(a->x),
                .bias = rvit_cpu_at(a->bias),
                .static_scale = rvit_cpu_at(a->static_scale),
                .out = rvit_cpu_at(a->out),
                .out_scales = rvit_cpu_at(a->out_scales),
                .columns = a->columns,
                .dtype = a->dtype,
                .out_dtype = a->out_dtype,
                .gated = a->gated,
                .activation = rvit_cpu_activation_of(a->activation),
                .slope = sigmoid.slope,
                .cubic = sigmoid.cubic,
            },
    };
}

void rvit_cpu_quantize_row_tile(rvit_cpu_device *device, const rvit_quantize_args *a, int64_t begin, int64_t end, int thread)
{
    quantize_job job = job_of(device, a);
    quantize_rows(&job, begin, end, thread);
}

void rvit_cpu_quantize(rvit_cpu_device *device, const rvit_quantize_args *a)
{
    quantize_job job = job_of(device, a);
    const int64_t rows = rvit_cpu_live_rows(&a->rows), min = 8192 / (int64_t)a->columns + 1;
    rvit_cpu_pool_run(device->pool, rows, rvit_cpu_grain(device->pool, rows, min), quantize_rows, &job);
}

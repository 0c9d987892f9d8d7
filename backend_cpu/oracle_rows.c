/* The oracle of layernorm and quantize: float64, rounded once at the end; quantized outputs to float32 first, by rvit_quantize's rule. */
#include <string.h>

#include "backend_cpu/oracle.h"

typedef struct rows_job {
    const rvit_cpu_device *device;
    const void *args;
} rows_job;

/* Quantizes a row of n values and computes its scale; returns the number of saturated values. */
static int64_t quantize_values(const float *values, int64_t n, const float *static_scale, rvit_dtype dtype, uint8_t *out, float *out_scale)
{
    float largest = 0.0f;
    for (int64_t i = 0; i < n; i++)
        if (fabsf(values[i]) > largest || isnan(values[i]))
            largest = isnan(values[i]) ? INFINITY : fabsf(values[i]);
    const rvit_row_scale scale = rvit_row_scale_of(largest, static_scale, dtype);
    *out_scale = scale.scale;
    int64_t n_saturated = 0;
    for (int64_t i = 0; i < n; i++) {
        const float value = scale.inverse == 0.0f ? 0.0f : values[i] * scale.inverse;
        n_saturated += static_scale != NULL && fabsf(value) > rvit_quantized_max(dtype);
        out[i] = scale.inverse == 0.0f ? scale.fill : rvit_quantize_value(value, dtype);
    }
    return n_saturated;
}

static void layernorm_rows(void *context, int64_t begin, int64_t end, int thread)
{
    const rows_job *job = context;
    const rvit_layernorm_args *a = job->args;
    float *values = rvit_cpu_scratch(job->device, thread);
    const void *x = rvit_cpu_at(a->x);
    const int32_t *src_rows = rvit_cpu_at(a->src_rows);
    const oracle_norm norm = {rvit_cpu_at(a->gamma), rvit_cpu_at(a->beta), a->norm, a->features, a->eps};
    char *out_x = rvit_cpu_at(a->out_x);
    const int64_t row_size = a->dim * rvit_dtype_size(a->dtype);
    for (int64_t row = begin; row < end; row++) {
        const int64_t from = src_rows != NULL ? rvit_cpu_clamp(src_rows[row], 0, a->x_rows - 1) : row;
        const oracle_moments m = moments(&norm, x, from * a->dim, a->dtype);
        for (int64_t i = 0; i < a->dim; i++) {
            const double value = i < a->features ? normal(&norm, &m, x, from * a->dim, i, a->dtype) : 0.0;
            if (rvit_is_quantized(a->out_dtype))
                values[i] = (float)value;
            else
                store(rvit_cpu_at(a->out), row * a->dim + i, a->out_dtype, value);
        }
        if (rvit_is_quantized(a->out_dtype))
            rvit_cpu_add_saturated(a->saturated, quantize_values(values, a->dim, rvit_cpu_at(a->static_scale), a->out_dtype,
                                                                 (uint8_t *)rvit_cpu_at(a->out) + row * a->dim,
                                                                 (float *)rvit_cpu_at(a->out_scales) + row));
        if (out_x != NULL)
            memcpy(out_x + row * row_size, (const char *)x + from * row_size, (size_t)row_size);
    }
}

void rvit_cpu_oracle_layernorm(rvit_cpu_device *device, const rvit_layernorm_args *a)
{
    rows_job job = {device, a};
    rvit_cpu_pool_run(device->pool, a->x_rows > 0 ? rvit_cpu_live_rows(&a->rows) : 0, 64, layernorm_rows, &job);
}

static double value_at(const rvit_quantize_args *a, int64_t row, int64_t column)
{
    const float *bias = rvit_cpu_at(a->bias);
    const double x = load(rvit_cpu_at(a->x), row * rvit_quantize_width(a) + column, a->dtype);
    return bias != NULL ? x + bias[column] : x; /* -0 stays -0 */
}

static void quantize_rows(void *context, int64_t begin, int64_t end, int thread)
{
    const rows_job *job = context;
    const rvit_quantize_args *a = job->args;
    float *values = rvit_cpu_scratch(job->device, thread);
    for (int64_t row = begin; row < end; row++) {
        for (int64_t i = 0; i < a->columns; i++) {
            const double value = oracle_activate(a->activation, value_at(a, row, a->gated ? 2 * i : i));
            values[i] = (float)(a->gated ? value * value_at(a, row, 2 * i + 1) : value);
        }
        rvit_cpu_add_saturated(a->saturated, quantize_values(values, a->columns, rvit_cpu_at(a->static_scale), a->out_dtype,
                                                             (uint8_t *)rvit_cpu_at(a->out) + row * a->columns,
                                                             (float *)rvit_cpu_at(a->out_scales) + row));
    }
}

void rvit_cpu_oracle_quantize(rvit_cpu_device *device, const rvit_quantize_args *a)
{
    rows_job job = {device, a};
    rvit_cpu_pool_run(device->pool, rvit_cpu_live_rows(&a->rows), 64, quantize_rows, &job);
}

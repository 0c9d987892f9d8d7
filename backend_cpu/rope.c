/* Rope: rotates the queries and keys of a row in place. */
#include "backend_cpu/cpu.h"

typedef struct rope_job {
    const rvit_cpu_device *device;
    const rvit_rope_args *args;
    const float *table;
    const int32_t *positions; /* or NULL */
} rope_job;

static void rotate_head(const rvit_cpu_kernels *kernels, void *heads, int64_t first, int64_t pairs, const float *cosines, rvit_dtype dtype)
{
    const float *sines = cosines + pairs;
    float values[RVIT_CPU_MAX_HEAD_DIM], rotated[RVIT_CPU_MAX_HEAD_DIM];
    const float *x = rvit_cpu_load_floats(kernels, heads, first, 2 * pairs, dtype, values), *y = x + pairs;
    for (int64_t j = 0; j < pairs; j++) {
        rotated[j] = x[j] * cosines[j] - y[j] * sines[j];
        rotated[j + pairs] = y[j] * cosines[j] + x[j] * sines[j];
    }
    rvit_cpu_store_floats(kernels, rotated, heads, first, 2 * pairs, dtype);
}

static void rotate_rows(void *context, int64_t begin, int64_t end, int thread)
{
    (void)thread;
    const rope_job *job = context;
    const rvit_rope_args *a = job->args;
    const struct {
        void *heads;
        int64_t stride;
    } both[2] = {{rvit_cpu_at(a->q), a->q_stride}, {rvit_cpu_at(a->k), a->k_stride}};
    for (int64_t row = begin; row < end; row++) {
        const int64_t position = job->positions != NULL ? job->positions[row] : row % a->n_positions;
        if (position < a->n_prefix || position >= a->n_positions)
            continue;
        const float *cosines = job->table + position * a->head_dim;
        for (int i = 0; i < 2; i++)
            for (int64_t head = 0; head < a->n_heads; head++) {
                const int64_t first = row * both[i].stride + head * a->head_dim;
                if (job->device->oracle)
                    rvit_cpu_oracle_rope(both[i].heads, first, a->head_dim / 2, cosines, a->dtype);
                else
                    rotate_head(job->device->kernels, both[i].heads, first, a->head_dim / 2, cosines, a->dtype);
            }
    }
}

void rvit_cpu_rope(rvit_cpu_device *device, const rvit_rope_args *a)
{
    rope_job job = {.device = device, .args = a, .table = rvit_cpu_at(a->table), .positions = rvit_cpu_at(a->positions)};
    const int64_t rows = rvit_cpu_live_rows(&a->rows), least = 16384 / ((int64_t)a->n_heads * a->head_dim) + 1;
    rvit_cpu_pool_run(device->pool, rows, rvit_cpu_grain(device->pool, rows, least), rotate_rows, &job);
}

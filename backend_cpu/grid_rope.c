/* The grid_rope op: cosines and sines of each row of a batch, computed in float64 and rounded once. */
#include <math.h>

#include "backend_cpu/cpu.h"

typedef struct grid_rope_job {
    const rvit_grid_rope_args *args;
    const int32_t *token_map;
    const float *frequencies;
    float *out;
} grid_rope_job;

static double coordinate(const rvit_grid_rope_args *a, int32_t i, int32_t side, float reference)
{
    if (a->coordinates == RVIT_ROPE_CENTRED)
        return (2 * (i + (double)a->offset) + 1 - side) / side;
    const double at = i + (double)a->offset;
    return reference > 0 ? at * reference / side : at;
}

static void fill_axis(const grid_rope_job *job, double at, float *cosines, float *sines)
{
    static const double two_pi = 6.283185307179586477;
    for (int32_t j = 0; j < job->args->head_dim / 4; j++) {
        const double turns = at * ((double)job->frequencies[2 * j] + (double)job->frequencies[2 * j + 1]);
        const double angle = two_pi * (turns - rint(turns));
        cosines[j] = (float)cos(angle);
        sines[j] = (float)sin(angle);
    }
}

static void fill_rows(void *context, int64_t begin, int64_t end, int thread)
{
    (void)thread;
    const grid_rope_job *job = context;
    const rvit_grid_rope_args *a = job->args;
    const int32_t half = a->head_dim / 2, y_at = a->order == RVIT_ROPE_YX ? 0 : half / 2, x_at = half / 2 - y_at;
    for (int64_t row = begin; row < end; row++) {
        const int32_t *entry = job->token_map + 4 * row;
        const rvit_cpu_position position = rvit_cpu_position_of(entry);
        float *out = job->out + row * a->head_dim;
        if (entry[0] < 0) {
            for (int32_t j = 0; j < a->head_dim; j++)
                out[j] = j < half;
            continue;
        }
        fill_axis(job, coordinate(a, position.y, position.height, a->reference_height), out + y_at, out + half + y_at);
        fill_axis(job, coordinate(a, position.x, position.width, a->reference_width), out + x_at, out + half + x_at);
    }
}

void rvit_cpu_grid_rope(rvit_cpu_device *device, const rvit_grid_rope_args *a)
{
    grid_rope_job job = {
        .args = a, .token_map = rvit_cpu_at(a->token_map), .frequencies = rvit_cpu_at(a->frequencies), .out = rvit_cpu_at(a->out)};
    const int64_t rows = rvit_cpu_live_rows(&a->rows), min = 4096 / a->head_dim + 1;
    rvit_cpu_pool_run(device->pool, rows, rvit_cpu_grain(device->pool, rows, min), fill_rows, &job);
}

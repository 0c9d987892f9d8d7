/* The embed op: the input rows of the first block. Tap weights are computed in float64, sums in float32 (in the oracle, float64). */
#include "backend_cpu/cpu.h"

typedef struct embed_job {
    const rvit_cpu_device *device;
    const rvit_embed_args *args;
    const int32_t *token_map;
    const void *patches;
    const float *prefix, *table; /* or NULL */
    float *out;
} embed_job;

enum { COLUMNS = 128 };

/* Adds columns begin .. begin + n - 1 of the interpolated position table to `out`. */
static void add_position(const embed_job *job, const rvit_taps *y, const rvit_taps *x, int64_t begin, int64_t n, float *out)
{
    const rvit_embed_args *a = job->args;
    float sum[COLUMNS], line[COLUMNS];
    for (int32_t i = 0; i < y->n; i++) {
        const float *entries = job->table + (int64_t)rvit_taps_entry(y, i) * a->table_width * a->dim + begin;
        const float weight = (float)rvit_taps_weight(y, i);
        for (int32_t j = 0; j < x->n; j++) {
            const float *entry = entries + (int64_t)rvit_taps_entry(x, j) * a->dim, across = (float)rvit_taps_weight(x, j);
            for (int64_t c = 0; c < n; c++)
                line[c] = j == 0 ? across * entry[c] : line[c] + across * entry[c];
        }
        for (int64_t c = 0; c < n; c++)
            sum[c] = i == 0 ? weight * line[c] : sum[c] + weight * line[c];
    }
    for (int64_t c = 0; c < n; c++)
        out[c] += sum[c];
}

static void embed_patch(const embed_job *job, const int32_t *entry, int64_t row)
{
    const rvit_embed_args *a = job->args;
    const rvit_cpu_position position = rvit_cpu_position_of(entry);
    rvit_taps y = {.n = 0}, x = {.n = 0};
    if (job->table != NULL) {
        y = rvit_taps_of(a->resample, a->table_height, position.height, position.y);
        x = rvit_taps_of(a->resample, a->table_width, position.width, position.x);
    }
    const int64_t patch = rvit_cpu_clamp(entry[0], 0, a->patch_rows - 1);
    float values[COLUMNS];
    for (int64_t begin = 0; begin < a->dim; begin += COLUMNS) {
        const int64_t n = a->dim - begin < COLUMNS ? a->dim - begin : COLUMNS;
        const float *patches = rvit_cpu_load_floats(job->device->kernels, job->patches, patch * a->dim + begin, n, a->dtype, values);
        float *out = job->out + row * a->dim + begin;
        if (job->table != NULL && job->device->oracle) {
            rvit_cpu_oracle_embed(job->table + begin, a->table_width, a->dim, &y, &x, patches, n, out);
            continue;
        }
        memcpy(out, patches, (size_t)n * sizeof *out);
        if (job->table != NULL)
            add_position(job, &y, &x, begin, n, out);
    }
}

static void embed_rows(void *context, int64_t begin, int64_t end, int thread)
{
    (void)thread;
    const embed_job *job = context;
    const rvit_embed_args *a = job->args;
    for (int64_t row = begin; row < end; row++) {
        const int32_t *entry = job->token_map + 4 * row;
        if (entry[0] >= 0 && a->patch_rows > 0)
            embed_patch(job, entry, row);
        else if (entry[0] < 0 && a->n_prefix > 0)
            memcpy(job->out + row * a->dim, job->prefix + rvit_cpu_clamp(-1 - (int64_t)entry[0], 0, a->n_prefix - 1) * a->dim,
                   (size_t)a->dim * sizeof(float));
        else
            memset(job->out + row * a->dim, 0, (size_t)a->dim * sizeof(float));
    }
}

void rvit_cpu_embed(rvit_cpu_device *device, const rvit_embed_args *a)
{
    embed_job job = {.device = device,
                     .args = a,
                     .token_map = rvit_cpu_at(a->token_map),
                     .patches = rvit_cpu_at(a->patches),
                     .prefix = rvit_cpu_at(a->prefix),
                     .table = rvit_cpu_at(a->table),
                     .out = rvit_cpu_at(a->out)};
    const int64_t rows = rvit_cpu_live_rows(&a->rows), min = 16384 / a->dim + 1;
    rvit_cpu_pool_run(device->pool, rows, rvit_cpu_grain(device->pool, rows, min), embed_rows, &job);
}

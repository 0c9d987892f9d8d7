/* Pixelprune: marks the cells that their neighbours do not predict. All backends decide alike, so there is no float64 version: this file is
   the oracle. Neighbours are found by the cells alone, and every number read is brought into the arrays. */
#include <math.h>
#include <string.h>

#include "backend_cpu/cpu.h"

typedef struct pixelprune_job {
    const rvit_pixelprune_args *args;
    const int32_t *cu_seqlens, *cells;
    const float *pixels;
    uint8_t *keep;
    int32_t *sources; /* or NULL: cells are predicted from pixels themselves */
} pixelprune_job;

static inline int value_similar(float a, float b, float limit)
{
    return a == b || fabsf(a - b) <= limit;
}

/* Of two rows of pixels. */
static int rows_similar(const rvit_pixelprune_args *a, const float *x, const float *y)
{
    const int64_t plane = a->columns / a->channels;
    int similar = 1;
    for (int64_t i = 0; i < a->columns && similar; i++)
        similar = value_similar(x[i], y[i], a->limits[a->interleaved ? i % a->channels : i / plane]);
    return similar;
}

/* Of two cells, by their first patch rows. */
static int similar(const pixelprune_job *job, int64_t x, int64_t y)
{
    const rvit_pixelprune_args *a = job->args;
    for (int64_t row = 0; row < (int64_t)a->merge * a->merge; row++)
        if (!rows_similar(a, job->pixels + (x + row) * a->stride, job->pixels + (y + row) * a->stride))
            return 0;
    return 1;
}

/* The first patch row of what reconstructs the cell `back` cells before this one. */
static int64_t reconstruction(const pixelprune_job *job, int64_t patch_row, int64_t back)
{
    const int64_t area = (int64_t)job->args->merge * job->args->merge, most = job->args->patch_rows - area;
    const int64_t at = rvit_cpu_clamp(patch_row - back * area, 0, most);
    return job->sources == NULL ? at : rvit_cpu_clamp(job->sources[at], 0, most);
}

/* The first patch row of what predicts a cell; its own if nothing does. */
static int64_t prediction(const pixelprune_job *job, rvit_cpu_cell place, int64_t own)
{
    const int64_t merge = job->args->merge, line = place.width > merge ? place.width / merge : 1;
    const int on_left = place.x >= merge, above = place.y >= merge;
    if (!on_left)
        return above ? reconstruction(job, own, line) : own;
    const int64_t a = reconstruction(job, own, 1);
    if (!above)
        return a;
    const int64_t b = reconstruction(job, own, line), c = reconstruction(job, own, line + 1);
    return similar(job, c, a) && !similar(job, c, b) ? b : a;
}

static int keeps(const pixelprune_job *job, const int32_t *cell)
{
    const rvit_cpu_cell place = rvit_cpu_cell_of(cell);
    const int32_t merge = job->args->merge;
    const int64_t own = rvit_cpu_clamp(cell[0], 0, job->args->patch_rows - (int64_t)merge * merge);
    const int is_first = place.x < merge && place.y < merge;
    const int64_t source = prediction(job, place, own);
    const int kept = is_first || !similar(job, own, source);
    if (job->sources != NULL)
        job->sources[own] = (int32_t)(kept ? own : source);
    return kept;
}

static void mark_images(void *context, int64_t begin, int64_t end, int thread)
{
    (void)thread;
    const pixelprune_job *job = context;
    const rvit_pixelprune_args *a = job->args;
    const int64_t area = (int64_t)a->merge * a->merge;
    for (int64_t image = begin; image < end; image++) {
        const rvit_cpu_range rows = rvit_cpu_image(job->cu_seqlens, image, a->rows, a->max_len);
        const int64_t prefix = rows.len < a->n_prefix ? rows.len : a->n_prefix, past = rows.begin + rows.len;
        memset(job->keep + rows.begin, 1, (size_t)prefix);
        for (int64_t row = rows.begin + prefix; row < past; row += area) {
            const int kept = a->patch_rows < area || keeps(job, job->cells + 4 * row);
            memset(job->keep + row, kept, (size_t)(past - row < area ? past - row : area));
        }
    }
}

void rvit_cpu_pixelprune(rvit_cpu_device *device, const rvit_pixelprune_args *a)
{
    pixelprune_job job = {
        .args = a,
        .cu_seqlens = rvit_cpu_at(a->cu_seqlens),
        .cells = rvit_cpu_at(a->cells),
        .pixels = rvit_cpu_at(a->pixels),
        .keep = rvit_cpu_at(a->keep),
        .sources = rvit_pixelprune_reconstructs(a) ? rvit_cpu_at(a->sources) : NULL,
    };
    const int64_t grain = rvit_cpu_grain(device->pool, a->n_images, 65536 / ((int64_t)a->max_len * a->columns + 1) + 1);
    rvit_cpu_pool_run(device->pool, a->n_images, grain, mark_images, &job);
}

/* The pixelprune op: marks the merge groups that their neighbours do not predict. All backends decide identically, so this file is also
   the oracle. Neighbours are found from `token_map` only, and every index read from an array is clamped. */
#include <math.h>
#include <string.h>

#include "backend_cpu/cpu.h"

typedef struct pixelprune_job {
    const rvit_pixelprune_args *args;
    const int32_t *cu_seqlens, *token_map, *group_rows; /* group_rows may be NULL */
    const float *pixels;
    uint8_t *keep;
    int32_t *sources; /* or NULL: groups are predicted from the pixels themselves */
} pixelprune_job;

static inline int value_similar(float a, float b, float limit)
{
    return a == b || fabsf(a - b) <= limit;
}

/* Compares two rows of pixels. */
static int rows_similar(const rvit_pixelprune_args *a, const float *x, const float *y)
{
    const int64_t plane = a->columns / a->channels;
    int similar = 1;
    for (int64_t i = 0; i < a->columns && similar; i++)
        similar = value_similar(x[i], y[i], a->limits[a->interleaved ? i % a->channels : i / plane]);
    return similar;
}

/* Offsets between the patch rows of an image's merge groups, relative to the first patch row of a group. */
typedef struct patch_order {
    int64_t line;        /* from the first patch row of one line of the group to the next line */
    int64_t left, above; /* back to the group on the left, and above */
    int64_t last;        /* the last patch row at which a group can begin; negative: there is none */
} patch_order;

static patch_order order_of(const rvit_pixelprune_args *a, rvit_cpu_position position)
{
    const int64_t m = a->merge, groups = position.width > m ? position.width / m : 1;
    if (a->patch_merge == 1)
        return (patch_order){position.width, m, m * position.width, a->patch_rows - (m - 1) * position.width - m};
    return (patch_order){m, m * m, m * m * groups, a->patch_rows - m * m};
}

/* Compares two groups, given by their first patch rows. */
static int similar(const pixelprune_job *job, const patch_order *order, int64_t x, int64_t y)
{
    const rvit_pixelprune_args *a = job->args;
    for (int64_t line = 0; line < a->merge; line++)
        for (int64_t i = 0; i < a->merge; i++) {
            const int64_t row = line * order->line + i;
            if (!rows_similar(a, job->pixels + (x + row) * a->stride, job->pixels + (y + row) * a->stride))
                return 0;
        }
    return 1;
}

/* The first patch row of the group that reconstructs the group at this patch row. */
static int64_t reconstruction(const pixelprune_job *job, const patch_order *order, int64_t patch_row)
{
    const int64_t at = rvit_cpu_clamp(patch_row, 0, order->last);
    return job->sources == NULL ? at : rvit_cpu_clamp(job->sources[at], 0, order->last);
}

/* The first patch row of the group that predicts this one; its own if nothing does. */
static int64_t prediction(const pixelprune_job *job, const patch_order *order, rvit_cpu_position position, int64_t own)
{
    const int on_left = position.x >= job->args->merge, above = position.y >= job->args->merge;
    if (!on_left)
        return above ? reconstruction(job, order, own - order->above) : own;
    const int64_t a = reconstruction(job, order, own - order->left);
    if (!above)
        return a;
    const int64_t b = reconstruction(job, order, own - order->above), c = reconstruction(job, order, own - order->above - order->left);
    return similar(job, order, c, a) && !similar(job, order, c, b) ? b : a;
}

static int keeps(const pixelprune_job *job, const int32_t *entry)
{
    const rvit_cpu_position position = rvit_cpu_position_of(entry);
    const patch_order order = order_of(job->args, position);
    if (order.last < 0)
        return 1;
    const int64_t own = rvit_cpu_clamp(entry[0], 0, order.last), source = prediction(job, &order, position, own);
    const int is_first = position.x < job->args->merge && position.y < job->args->merge;
    const int kept = is_first || !similar(job, &order, own, source);
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
        for (int64_t next = rows.begin + prefix; next < past; next += area) {
            /* Visit groups in raster order, even if windows reorder the rows. */
            const int64_t row = job->group_rows == NULL || next / area >= a->rows / area
                                    ? next
                                    : rvit_cpu_clamp(job->group_rows[next / area] * area, rows.begin, past - 1);
            const int kept = keeps(job, job->token_map + 4 * row);
            memset(job->keep + row, kept, (size_t)(past - row < area ? past - row : area));
        }
    }
}

void rvit_cpu_pixelprune(rvit_cpu_device *device, const rvit_pixelprune_args *a)
{
    pixelprune_job job = {
        .args = a,
        .cu_seqlens = rvit_cpu_at(a->cu_seqlens),
        .token_map = rvit_cpu_at(a->token_map),
        .group_rows = rvit_pixelprune_reconstructs(a) ? rvit_cpu_at(a->group_rows) : NULL,
        .pixels = rvit_cpu_at(a->pixels),
        .keep = rvit_cpu_at(a->keep),
        .sources = rvit_pixelprune_reconstructs(a) ? rvit_cpu_at(a->sources) : NULL,
    };
    const int64_t grain = rvit_cpu_grain(device->pool, a->n_images, 65536 / ((int64_t)a->max_len * a->columns + 1) + 1);
    rvit_cpu_pool_run(device->pool, a->n_images, grain, mark_images, &job);
}

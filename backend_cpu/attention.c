/* The attention op: one task per image, head and tile of queries. */
#include "backend_cpu/cpu.h"

typedef struct attention_job {
    const rvit_cpu_device *device;
    const rvit_attention_args *args;
    rvit_cpu_attention_tile whole; /* pointers are at row 0 of head 0 */
    const int32_t *cu_seqlens;
    void (*kernel)(const rvit_cpu_attention_tile *tile, float *scratch);
    int64_t multiple; /* a tile has a multiple of this many queries */
    int64_t n_tiles;  /* query tiles per image and head */
} attention_job;

static int64_t divide_up(int64_t n, int64_t by)
{
    return (n + by - 1) / by;
}

static const void *elements(const void *base, int64_t index, rvit_dtype dtype)
{
    return (const char *)base + index * rvit_cpu_size(dtype);
}

static void attention_tasks(void *context, int64_t begin, int64_t end, int thread)
{
    const attention_job *job = context;
    const rvit_attention_args *a = job->args;
    for (int64_t task = begin; task < end; task++) {
        const int64_t part = task % job->n_tiles;
        const int64_t head = task / job->n_tiles % a->n_heads;
        const int64_t image = task / job->n_tiles / a->n_heads;
        const rvit_cpu_range rows = rvit_cpu_image(job->cu_seqlens, image, a->rows, a->max_len);
        /* Split the image's own rows evenly into whole register tiles. */
        const int64_t size = divide_up(divide_up(rows.len, job->n_tiles), job->multiple) * job->multiple;
        rvit_cpu_attention_tile tile = job->whole;
        tile.len = rows.len;
        tile.first_query = part * size;
        if (tile.first_query >= rows.len)
            continue;
        tile.n_queries = rows.len - tile.first_query < size ? rows.len - tile.first_query : size;
        const int64_t column = head * a->head_dim;
        tile.q = elements(tile.q, rows.begin * tile.q_stride + column, tile.dtype);
        tile.k = elements(tile.k, rows.begin * tile.k_stride + column, tile.dtype);
        tile.v = elements(tile.v, rows.begin * tile.v_stride + column, tile.dtype);
        tile.out = (char *)tile.out + (rows.begin * tile.out_stride + column) * rvit_cpu_size(tile.dtype);
        if (tile.key_bias != NULL)
            tile.key_bias += rows.begin;
        if (tile.cls_probs != NULL)
            tile.cls_probs += rows.begin * a->n_heads + head;
        if (tile.lse != NULL)
            tile.lse += rows.begin * a->n_heads + head;
        job->kernel(&tile, rvit_cpu_scratch(job->device, thread));
    }
}

/* Tiles are as large as the kernel allows, and smaller if there are too few images and heads for the threads. Every tile loads all keys
   again, which costs about as much as half a row tile of queries. */
static int64_t count_tiles(const attention_job *job, int64_t heads, int64_t max_len, int64_t n_threads)
{
    const int64_t unit = job->multiple < RVIT_CPU_ATTENTION_ROW_TILE ? 2 * job->multiple : job->multiple,
                  row_tiles = divide_up(max_len, unit);
    const int64_t max = RVIT_CPU_ATTENTION_QUERIES / unit;
    int64_t best = INT64_MAX, n_tiles = 1;
    for (int64_t size = max < row_tiles ? max : row_tiles; size > 0; size--) {
        const int64_t tiles = divide_up(row_tiles, size), time = divide_up(heads * tiles, n_threads) * (2 * size + 1);
        if (time < best) {
            best = time;
            n_tiles = tiles;
        }
    }
    return n_tiles;
}

void rvit_cpu_attention(rvit_cpu_device *device, const rvit_attention_args *a)
{
    attention_job job = {
        .device = device,
        .args = a,
        .whole =
            {
                .q = rvit_cpu_at(a->q),
                .k = rvit_cpu_at(a->k),
                .v = rvit_cpu_at(a->v),
                .out = rvit_cpu_at(a->out),
                .q_stride = a->q_stride,
                .k_stride = a->k_stride,
                .v_stride = a->v_stride,
                .out_stride = a->out_stride,
                .key_bias = rvit_cpu_at(a->key_bias),
                .cls_probs = rvit_cpu_at(a->cls_probs),
                .lse = rvit_cpu_at(a->lse),
                .n_heads = a->n_heads,
                .head_dim = a->head_dim,
                .scale = a->scale,
                .dtype = a->dtype,
            },
        .cu_seqlens = rvit_cpu_at(a->cu_seqlens),
        .kernel = device->kernels->attention,
        .multiple = device->kernels->rows,
    };
    if (a->dtype == RVIT_BF16 && device->kernels->attention_bf16 != NULL) {
        job.kernel = device->kernels->attention_bf16;
        job.multiple = RVIT_CPU_ATTENTION_ROW_TILE;
    }
    const int64_t heads = (int64_t)a->n_images * a->n_heads, max_len = a->max_len < a->rows ? a->max_len : a->rows;
    job.n_tiles = count_tiles(&job, heads, max_len, rvit_cpu_pool_threads(device->pool));
    const int64_t tasks = heads * job.n_tiles;
    const int64_t grain = (rvit_cpu_grain(device->pool, tasks, 1) + 7) / 8; /* lengths differ, so use a finer grain than usual */
    rvit_cpu_pool_run(device->pool, tasks, grain, attention_tasks, &job);
}

/* The gradient of attention: one task per image, head and tile of keys, and one per tile of queries. */
#include "backend_cpu/cpu.h"

typedef struct backward_job {
    const rvit_cpu_device *device;
    const rvit_attention_backward_args *args;
    const int32_t *cu_seqlens;
    float *shares;   /* per-head terms of d_key_bias: [n_heads, rows], or NULL */
    int64_t n_tiles; /* of keys, and of queries, per image and head */
} backward_job;

static const void *elements(rvit_view view, int64_t index, rvit_dtype dtype)
{
    return (const char *)rvit_cpu_at(view) + index * rvit_cpu_size(dtype);
}

static const float *values(rvit_view view, int64_t index)
{
    return view.buffer == NULL ? NULL : (const float *)rvit_cpu_at(view) + index;
}

/* A tile of one image and head, before its own rows are set. */
static rvit_cpu_backward_tile whole(const backward_job *job, rvit_cpu_range rows, int64_t head, int own_keys)
{
    const rvit_attention_backward_args *a = job->args;
    const rvit_dtype dtype = a->dtype;
    const int64_t column = head * a->head_dim, begin = rows.begin, number = begin * a->n_heads + head;
    const void *q = elements(a->q, begin * a->q_stride + column, dtype), *k = elements(a->k, begin * a->k_stride + column, dtype);
    const void *v = elements(a->v, begin * a->v_stride + column, dtype),
               *d_out = elements(a->d_out, begin * a->d_out_stride + column, dtype);
    const int64_t d_x_stride = own_keys ? a->d_k_stride : a->d_q_stride;
    return (rvit_cpu_backward_tile){
        .x = own_keys ? k : q,
        .y = own_keys ? v : d_out,
        .other_x = own_keys ? q : k,
        .other_y = own_keys ? d_out : v,
        .out = elements(a->out, begin * a->out_stride + column, dtype),
        .d_out = d_out,
        .d_x = (void *)(uintptr_t)elements(own_keys ? a->d_k : a->d_q, begin * d_x_stride + column, dtype),
        .d_y = own_keys ? (void *)(uintptr_t)elements(a->d_v, begin * a->d_v_stride + column, dtype) : NULL,
        .x_stride = own_keys ? a->k_stride : a->q_stride,
        .y_stride = own_keys ? a->v_stride : a->d_out_stride,
        .other_x_stride = own_keys ? a->q_stride : a->k_stride,
        .other_y_stride = own_keys ? a->d_out_stride : a->v_stride,
        .out_stride = a->out_stride,
        .d_out_stride = a->d_out_stride,
        .d_x_stride = d_x_stride,
        .d_y_stride = a->d_v_stride,
        .key_bias = values(a->key_bias, begin),
        .lse = values(a->lse, number),
        .d_lse = values(a->d_lse, number),
        .cls_probs = values(a->cls_probs, number),
        .d_cls_probs = values(a->d_cls_probs, number),
        .shares = job->shares != NULL ? job->shares + head * a->rows + begin : NULL,
        .n_heads = a->n_heads,
        .len = rows.len,
        .head_dim = a->head_dim,
        .scale = a->scale,
        .dtype = dtype,
        .own_keys = own_keys,
    };
}

static void backward_tasks(void *context, int64_t begin, int64_t end, int thread)
{
    const backward_job *job = context;
    const rvit_attention_backward_args *a = job->args;
    const rvit_cpu_kernels *kernels = job->device->kernels;
    for (int64_t task = begin; task < end; task++) {
        const int64_t part = task / 2 % job->n_tiles, head = task / 2 / job->n_tiles % a->n_heads;
        const int64_t image = task / 2 / job->n_tiles / a->n_heads;
        const rvit_cpu_range rows = rvit_cpu_image(job->cu_seqlens, image, a->rows, a->max_len);
        /* Split the image's own rows evenly into whole register tiles. */
        const int64_t share = (rows.len + job->n_tiles - 1) / job->n_tiles;
        const int64_t size = (share + kernels->rows - 1) / kernels->rows * kernels->rows;
        if (part * size >= rows.len)
            continue;
        rvit_cpu_backward_tile tile = whole(job, rows, head, task % 2 == 0);
        tile.first = part * size;
        tile.n = rows.len - tile.first < size ? rows.len - tile.first : size;
        kernels->attention_backward(&tile, rvit_cpu_scratch(job->device, thread));
    }
}

/* Adds the terms of the heads in ascending order. */
static void bias_images(void *context, int64_t begin, int64_t end, int thread)
{
    (void)thread;
    const backward_job *job = context;
    const rvit_attention_backward_args *a = job->args;
    float *d_key_bias = rvit_cpu_at(a->d_key_bias);
    for (int64_t image = begin; image < end; image++) {
        const rvit_cpu_range rows = rvit_cpu_image(job->cu_seqlens, image, a->rows, a->max_len);
        for (int64_t row = rows.begin; row < rows.begin + rows.len; row++) {
            float sum = 0.0f;
            for (int64_t head = 0; head < a->n_heads; head++)
                sum += job->shares[head * a->rows + row];
            d_key_bias[row] = sum;
        }
    }
}

void rvit_cpu_attention_backward(rvit_cpu_device *device, const rvit_attention_backward_args *a)
{
    const int64_t max_len = a->max_len < a->rows ? a->max_len : a->rows, heads = (int64_t)a->n_images * a->n_heads;
    if (max_len == 0 || heads == 0)
        return;
    backward_job job = {.device = device, .args = a, .cu_seqlens = rvit_cpu_at(a->cu_seqlens)};
    if (a->d_key_bias.buffer != NULL)
        job.shares = (float *)(void *)((char *)rvit_cpu_at(a->workspace) + rvit_backward_numbers_size(a));
    /* As in attention.c: tiles are as large as the kernel allows, and smaller if there are few images and heads. */
    const int n_threads = rvit_cpu_pool_threads(device->pool);
    job.n_tiles = (max_len + RVIT_CPU_ATTENTION_QUERIES - 1) / RVIT_CPU_ATTENTION_QUERIES;
    while (n_threads > 1 && 2 * job.n_tiles * heads < 3 * (int64_t)n_threads && max_len / (job.n_tiles + 1) >= 48)
        job.n_tiles++;
    const int64_t tasks = 2 * heads * job.n_tiles;
    const int64_t grain = (rvit_cpu_grain(device->pool, tasks, 1) + 7) / 8;
    rvit_cpu_pool_run(device->pool, tasks, grain, backward_tasks, &job);
    if (job.shares != NULL)
        rvit_cpu_pool_run(device->pool, a->n_images, rvit_cpu_grain(device->pool, a->n_images, 1), bias_images, &job);
}

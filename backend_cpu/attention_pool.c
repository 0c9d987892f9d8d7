/* The attention_pool op: one task per image and head. */
#include <string.h>

#include "backend_cpu/cpu.h"

typedef struct attention_pool_job {
    const rvit_cpu_device *device;
    const rvit_attention_pool_args *args;
} attention_pool_job;

static void attention_pool_head(const attention_pool_job *job, int64_t image, int64_t head, float *scratch)
{
    const rvit_attention_pool_args *a = job->args;
    const rvit_cpu_range rows = rvit_cpu_image(rvit_cpu_at(a->cu_seqlens), image, a->rows, a->max_len);
    const int64_t size = rvit_dtype_size(a->dtype), out_size = rvit_dtype_size(a->out_dtype);
    const int64_t column = head * a->head_dim, out = (image * a->n_heads + head) * a->head_dim;
    const float *sizes = rvit_cpu_at(a->sizes), *bias = rvit_cpu_at(a->bias);
    float *probs = rvit_cpu_at(a->probs);
    const rvit_cpu_attention_pool_tile tile = {
        .x = (const char *)rvit_cpu_at(a->x) + rows.begin * a->dim * size,
        .weight = (const char *)rvit_cpu_at(a->weight) + column * a->dim * size,
        .logits = (const float *)rvit_cpu_at(a->logits) + rows.begin * a->logits_stride + head,
        .sizes = sizes != NULL ? sizes + rows.begin : NULL,
        .bias = bias != NULL ? bias + column : NULL,
        .out = (char *)rvit_cpu_at(a->out) + out * out_size,
        .probs = probs != NULL ? probs + rows.begin * a->n_heads + head : NULL,
        .logits_stride = a->logits_stride,
        .n_heads = a->n_heads,
        .len = rows.len,
        .dim = a->dim,
        .head_dim = a->head_dim,
        .dtype = a->dtype,
        .out_dtype = a->out_dtype,
    };
    if (rows.len > 0)
        job->device->kernels->attention_pool(&tile, scratch);
    else
        memset(tile.out, 0, (size_t)(a->head_dim * out_size));
}

static void attention_pool_heads(void *context, int64_t begin, int64_t end, int thread)
{
    const attention_pool_job *job = context;
    for (int64_t i = begin; i < end; i++)
        attention_pool_head(job, i / job->args->n_heads, i % job->args->n_heads, rvit_cpu_scratch(job->device, thread));
}

void rvit_cpu_attention_pool(rvit_cpu_device *device, const rvit_attention_pool_args *a)
{
    attention_pool_job job = {device, a};
    rvit_cpu_pool_run(device->pool, (int64_t)a->n_images * a->n_heads, 1, attention_pool_heads, &job);
}

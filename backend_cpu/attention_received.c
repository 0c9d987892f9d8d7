/* The attention_received op: one task per image, head and block of keys. */
#include "backend_cpu/cpu.h"

typedef struct received_job {
    const rvit_cpu_device *device;
    const rvit_attention_received_args *args;
    const int32_t *cu_seqlens;
    int64_t n_blocks; /* key blocks per image and head */
} received_job;

static void received_tasks(void *context, int64_t begin, int64_t end, int thread)
{
    const received_job *job = context;
    const rvit_attention_received_args *a = job->args;
    const rvit_dtype dtype = a->dtype;
    const int64_t size = rvit_cpu_size(dtype);
    const char *q = rvit_cpu_at(a->q), *k = rvit_cpu_at(a->k);
    const float *key_bias = rvit_cpu_at(a->key_bias), *lse = rvit_cpu_at(a->lse);
    float *out = rvit_cpu_at(a->out);
    for (int64_t task = begin; task < end; task++) {
        const int64_t first = task % job->n_blocks * RVIT_CPU_ATTENTION_KEYS, head = task / job->n_blocks % a->n_heads;
        const rvit_cpu_range rows = rvit_cpu_image(job->cu_seqlens, task / job->n_blocks / a->n_heads, a->rows, a->max_len);
        if (first >= rows.len)
            continue;
        const int64_t left = rows.len - first, column = head * a->head_dim, number = rows.begin * a->n_heads + head;
        const rvit_cpu_attention_received_tile tile = {
            .q = q + (rows.begin * a->q_stride + column) * size,
            .k = k + (rows.begin * a->k_stride + column) * size,
            .q_stride = a->q_stride,
            .k_stride = a->k_stride,
            .key_bias = key_bias != NULL ? key_bias + rows.begin : NULL,
            .lse = lse + number,
            .out = out + number,
            .n_heads = a->n_heads,
            .len = rows.len,
            .first_key = first,
            .n_keys = left < RVIT_CPU_ATTENTION_KEYS ? (int)left : RVIT_CPU_ATTENTION_KEYS,
            .head_dim = a->head_dim,
            .scale = a->scale,
            .dtype = dtype,
        };
        job->device->kernels->received(&tile, rvit_cpu_scratch(job->device, thread));
    }
}

void rvit_cpu_attention_received(rvit_cpu_device *device, const rvit_attention_received_args *a)
{
    const int64_t max_len = a->max_len < a->rows ? a->max_len : a->rows;
    received_job job = {.device = device, .args = a, .cu_seqlens = rvit_cpu_at(a->cu_seqlens)};
    job.n_blocks = (max_len + RVIT_CPU_ATTENTION_KEYS - 1) / RVIT_CPU_ATTENTION_KEYS;
    const int64_t tasks = (int64_t)a->n_images * a->n_heads * job.n_blocks;
    const int64_t grain = (rvit_cpu_grain(device->pool, tasks, 1) + 7) / 8; /* lengths differ, so use a finer grain than usual */
    rvit_cpu_pool_run(device->pool, tasks, grain, received_tasks, &job);
}

#include "backend_cuda/cu.h"

#define F16(name, ...) [RVIT_CU_ATTENTION_RECEIVED_##name] = RVIT_CU_attention_received_f16_##name,
#define BF16(name, ...) [RVIT_CU_ATTENTION_RECEIVED_##name] = RVIT_CU_attention_received_bf16_##name,
static const rvit_cu_kernel kernels[][RVIT_CU_N_ATTENTION_RECEIVED_SHAPES] = {
    [RVIT_F16] = {RVIT_CU_ATTENTION_RECEIVED_SHAPES(F16)},
    [RVIT_BF16] = {RVIT_CU_ATTENTION_RECEIVED_SHAPES(BF16)},
};

rvit_status rvit_cu_attention_received(rvit_cu_queue *queue, const rvit_attention_received_args *args)
{
    if (args->rows == 0 || args->max_len == 0)
        return RVIT_OK;
    const rvit_cu_attention_size size = {RVIT_CU_ATTENTION_SIZE(args)};
    const rvit_cu_attention_received_tile tile = rvit_cu_tile_attention_received(&queue->device->machine, &size);
    const float log2_e = args->dtype == RVIT_F32 ? 1.0f : 1.44269504088896340736f;
    rvit_cu_attention_received_params params = {
        .q = rvit_cu_at(args->q),
        .k = rvit_cu_at(args->k),
        .cu_seqlens = rvit_cu_at(args->cu_seqlens),
        .key_bias = rvit_cu_at(args->key_bias),
        .lse = rvit_cu_at(args->lse),
        .out = rvit_cu_at(args->out),
        .q_stride = (int32_t)args->q_stride,
        .k_stride = (int32_t)args->k_stride,
        .n_heads = args->n_heads,
        .head_dim = args->head_dim,
        .max_len = args->max_len,
        .rows = (int32_t)args->rows,
        .scale = args->scale * log2_e,
        .lse_factor = log2_e,
    };
    const rvit_cu_kernel kernel = args->dtype == RVIT_F32 ? RVIT_CU_attention_received_f32 : kernels[args->dtype][tile.shape];
    return rvit_cu_launch_images(queue, kernel, args->n_images, args->n_heads, tile.row_blocks, tile.threads, tile.shared,
                                 &params.first_image, &params);
}

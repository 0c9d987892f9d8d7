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
    const float factor = rvit_cu_softmax_factor(args->dtype);
    rvit_cu_attention_received_params params = {
        RVIT_CU_ATTENTION_PARAMS(args),
        .out = rvit_cu_at(args->out),
        .scale = args->scale * factor,
        .lse_factor = factor,
    };
    const rvit_cu_kernel kernel = args->dtype == RVIT_F32 ? RVIT_CU_attention_received_f32 : kernels[args->dtype][tile.shape];
    return rvit_cu_launch_images(queue, kernel, args->n_images, args->n_heads, tile.row_blocks, tile.threads, tile.shared,
                                 &params.first_image, &params);
}

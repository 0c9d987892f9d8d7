#include "backend_cuda/cu.h"

#define F16(name, ...) [RVIT_CU_RECEIVED_##name] = RVIT_CU_received_f16_##name,
#define BF16(name, ...) [RVIT_CU_RECEIVED_##name] = RVIT_CU_received_bf16_##name,
/* Of 16-bit elements. */
static const rvit_cu_kernel kernels[][RVIT_CU_N_RECEIVED_SHAPES] = {
    [RVIT_F16] = {RVIT_CU_RECEIVED_SHAPES(F16)},
    [RVIT_BF16] = {RVIT_CU_RECEIVED_SHAPES(BF16)},
};

rvit_status rvit_cu_received(rvit_cu_queue *queue, const rvit_received_args *args)
{
    if (args->rows == 0 || args->max_len == 0)
        return RVIT_OK;
    const rvit_cu_attention_size size = {
        .element_size = (int32_t)rvit_dtype_size(args->dtype),
        .head_dim = args->head_dim,
        .n_heads = args->n_heads,
        .n_images = args->n_images,
        .rows = args->rows,
        .len = args->max_len < args->rows ? args->max_len : (int32_t)args->rows,
    };
    const rvit_cu_received_tile tile = rvit_cu_tile_received(&queue->device->machine, &size);
    const float log2_e = args->dtype == RVIT_F32 ? 1.0f : 1.44269504088896340736f;
    rvit_cu_received_params params = {
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
    const rvit_cu_kernel kernel = args->dtype == RVIT_F32 ? RVIT_CU_received_f32 : kernels[args->dtype][tile.shape];
    /* More images than the grid takes are more launches. */
    for (int64_t first = 0; first < args->n_images; first += RVIT_CU_MAX_GRID_Z) {
        const int64_t left = args->n_images - first, n = left < RVIT_CU_MAX_GRID_Z ? left : RVIT_CU_MAX_GRID_Z;
        const rvit_cu_grid grid = {(unsigned)tile.row_blocks, (unsigned)args->n_heads, (unsigned)n};
        params.first_image = (int32_t)first;
        RVIT_TRY(rvit_cu_launch_grid(queue, kernel, grid, tile.threads, tile.shared, &params));
    }
    return RVIT_OK;
}

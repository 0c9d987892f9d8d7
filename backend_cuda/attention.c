#include "backend_cuda/cu.h"

#include <math.h>

#define F16(name, ...) [RVIT_CU_ATTENTION_##name] = RVIT_CU_attention_f16_##name,
#define BF16(name, ...) [RVIT_CU_ATTENTION_##name] = RVIT_CU_attention_bf16_##name,
/* Of 16-bit elements. */
static const rvit_cu_kernel kernels[][RVIT_CU_N_ATTENTION_SHAPES] = {
    [RVIT_F16] = {RVIT_CU_ATTENTION_SHAPES(F16) RVIT_CU_ATTENTION_SHORTS(F16)},
    [RVIT_BF16] = {RVIT_CU_ATTENTION_SHAPES(BF16) RVIT_CU_ATTENTION_SHORTS(BF16)},
};

static rvit_cu_attention_tile choose_tile(const rvit_cu_device *device, const rvit_attention_args *args)
{
    const rvit_cu_attention_size size = {
        .element_size = (int32_t)rvit_dtype_size(args->dtype),
        .head_dim = args->head_dim,
        .n_heads = args->n_heads,
        .n_images = args->n_images,
        .rows = args->rows,
        .len = args->max_len < args->rows ? args->max_len : (int32_t)args->rows,
        .extras = args->key_bias.buffer != NULL || args->cls_probs.buffer != NULL || args->lse.buffer != NULL,
    };
    return rvit_cu_tile_attention(&device->machine, &size);
}

rvit_status rvit_cu_attention(rvit_cu_queue *queue, const rvit_attention_args *args)
{
    if (args->rows == 0 || args->max_len == 0)
        return RVIT_OK;
    const rvit_cu_attention_tile tile = choose_tile(queue->device, args);
    const rvit_cu_kernel kernel = args->dtype == RVIT_F32 ? RVIT_CU_attention_f32 : kernels[args->dtype][tile.shape];
    rvit_cu_attention_params params = {
        .q = rvit_cu_at(args->q),
        .k = rvit_cu_at(args->k),
        .v = rvit_cu_at(args->v),
        .cu_seqlens = rvit_cu_at(args->cu_seqlens),
        .key_bias = rvit_cu_at(args->key_bias),
        .out = rvit_cu_at(args->out),
        .cls_probs = rvit_cu_at(args->cls_probs),
        .lse = rvit_cu_at(args->lse),
        .q_stride = (int32_t)args->q_stride,
        .k_stride = (int32_t)args->k_stride,
        .v_stride = (int32_t)args->v_stride,
        .out_stride = (int32_t)args->out_stride,
        .n_heads = args->n_heads,
        .head_dim = args->head_dim,
        .max_len = args->max_len,
        .rows = (int32_t)args->rows,
        .scale = args->scale,
    };
    if (args->dtype != RVIT_F32) {
        params.scale = fabsf(args->scale) * 1.44269504088896340736f;
        params.q_sign = args->scale < 0.0f ? 0x80008000u : 0u;
    }
    /* More images than the grid takes are more launches. */
    for (int64_t first = 0; first < args->n_images; first += RVIT_CU_MAX_GRID_Z) {
        const int64_t left = args->n_images - first, n = left < RVIT_CU_MAX_GRID_Z ? left : RVIT_CU_MAX_GRID_Z;
        const rvit_cu_grid grid = {(unsigned)tile.row_blocks, (unsigned)args->n_heads, (unsigned)n};
        params.first_image = (int32_t)first;
        RVIT_TRY(rvit_cu_launch_grid(queue, kernel, grid, tile.threads, tile.shared, &params));
    }
    return RVIT_OK;
}

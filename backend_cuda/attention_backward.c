#include "backend_cuda/cu.h"
#include "backend_cuda/divide.h"

#define F16(name, ...) [RVIT_CU_BACKWARD_##name] = RVIT_CU_attention_backward_f16_##name,
#define BF16(name, ...) [RVIT_CU_BACKWARD_##name] = RVIT_CU_attention_backward_bf16_##name,
static const rvit_cu_kernel kernels[][RVIT_CU_N_BACKWARD_SHAPES] = {
    [RVIT_F16] = {RVIT_CU_BACKWARD_SHAPES(F16)},
    [RVIT_BF16] = {RVIT_CU_BACKWARD_SHAPES(BF16)},
};

static rvit_cu_attention_backward_params params_of(const rvit_attention_backward_args *args)
{
    const float factor = rvit_cu_softmax_factor(args->dtype);
    float *numbers = rvit_cu_at(args->workspace);
    const int has_bias = args->d_key_bias.buffer != NULL;
    return (rvit_cu_attention_backward_params){
        RVIT_CU_ATTENTION_PARAMS(args),
        .v = rvit_cu_at(args->v),
        .out = rvit_cu_at(args->out),
        .d_out = rvit_cu_at(args->d_out),
        .cls_probs = rvit_cu_at(args->cls_probs),
        .d_cls_probs = rvit_cu_at(args->d_cls_probs),
        .d_lse = rvit_cu_at(args->d_lse),
        .d_q = rvit_cu_at(args->d_q),
        .d_k = rvit_cu_at(args->d_k),
        .d_v = rvit_cu_at(args->d_v),
        .numbers = numbers,
        .shares = has_bias ? numbers + rvit_backward_numbers_size(args) / 4 : NULL,
        .d_key_bias = rvit_cu_at(args->d_key_bias),
        .v_stride = (int32_t)args->v_stride,
        .out_stride = (int32_t)args->out_stride,
        .d_out_stride = (int32_t)args->d_out_stride,
        .d_q_stride = (int32_t)args->d_q_stride,
        .d_k_stride = (int32_t)args->d_k_stride,
        .d_v_stride = (int32_t)args->d_v_stride,
        .scale = args->scale * factor,
        .lse_factor = factor,
        .store_factor = args->scale,
    };
}

/* Launches the kernels for n_images images from first_image on. attention_backward_numbers is only needed by kernels that do not hold
   an image in shared memory (row_blocks > 0). */
static rvit_status launch(rvit_cu_queue *queue, const rvit_attention_backward_args *args, const rvit_cu_backward_tile *tile, int32_t len,
                          unsigned n_images, rvit_cu_attention_backward_params *params)
{
    static const rvit_cu_kernel numbers[] = RVIT_CU_OF_TYPES(attention_backward_numbers);
    const unsigned n_heads = (unsigned)args->n_heads;
    if (tile->row_blocks > 0) {
        const int64_t lanes = args->head_dim <= 32 ? 4 : args->head_dim <= 64 ? 8 : 16;
        const rvit_cu_grid grid = {(unsigned)divide_up(len * lanes, RVIT_CU_BACKWARD_NUMBERS_THREADS), n_heads, n_images};
        RVIT_TRY(rvit_cu_launch_grid(queue, numbers[args->dtype], grid, RVIT_CU_BACKWARD_NUMBERS_THREADS, 0, params));
    }
    const rvit_cu_kernel kernel = args->dtype == RVIT_F32 ? RVIT_CU_attention_backward_f32 : kernels[args->dtype][tile->shape];
    const rvit_cu_grid grid = {tile->row_blocks > 0 ? 2 * (unsigned)tile->row_blocks : 1, n_heads, n_images};
    RVIT_TRY(rvit_cu_launch_grid(queue, kernel, grid, tile->threads, tile->shared, params));
    if (params->shares == NULL)
        return RVIT_OK;
    const rvit_cu_grid rows = {(unsigned)divide_up(len, RVIT_CU_BACKWARD_BIAS_THREADS), 1, n_images};
    return rvit_cu_launch_grid(queue, RVIT_CU_attention_backward_bias, rows, RVIT_CU_BACKWARD_BIAS_THREADS, 0, params);
}

rvit_status rvit_cu_attention_backward(rvit_cu_queue *queue, const rvit_attention_backward_args *args)
{
    if (args->rows == 0 || args->max_len == 0)
        return RVIT_OK;
    const rvit_cu_attention_size size = {
        RVIT_CU_ATTENTION_SIZE(args),
        .bias_stats = args->key_bias.buffer != NULL || args->d_key_bias.buffer != NULL || args->d_cls_probs.buffer != NULL,
    };
    const rvit_cu_backward_tile tile = rvit_cu_tile_backward(&queue->device->machine, &size);
    rvit_cu_attention_backward_params params = params_of(args);
    params.held_rows = tile.held_rows;
    /* The grid limits the images per launch. */
    for (int64_t first = 0; first < args->n_images; first += RVIT_CU_MAX_GRID_Z) {
        const int64_t left = args->n_images - first, n = left < RVIT_CU_MAX_GRID_Z ? left : RVIT_CU_MAX_GRID_Z;
        params.first_image = (int32_t)first;
        RVIT_TRY(launch(queue, args, &tile, size.len, (unsigned)n, &params));
    }
    return RVIT_OK;
}

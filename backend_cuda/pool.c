#include "backend_cuda/cu.h"

static const rvit_cu_kernel plain[] = {
    [RVIT_F32] = RVIT_CU_pool_f32_plain, [RVIT_F16] = RVIT_CU_pool_f16_plain, [RVIT_BF16] = RVIT_CU_pool_bf16_plain};
static const rvit_cu_kernel normed[] = {
    [RVIT_F32] = RVIT_CU_pool_f32_norm, [RVIT_F16] = RVIT_CU_pool_f16_norm, [RVIT_BF16] = RVIT_CU_pool_bf16_norm};

rvit_status rvit_cu_pool(rvit_cu_queue *queue, const rvit_pool_args *args)
{
    if (args->n_images == 0)
        return RVIT_OK;
    const int norm = args->gamma.buffer != NULL;
    const int32_t columns = 128 * (norm ? RVIT_CU_POOL_NORM_PIECES : RVIT_CU_POOL_PIECES);
    const int32_t warps = norm ? RVIT_CU_POOL_NORM_WARPS : RVIT_CU_POOL_WARPS;
    rvit_cu_pool_params params = {
        .x = rvit_cu_at(args->x),
        .cu_seqlens = rvit_cu_at(args->cu_seqlens),
        .sizes = args->mode == RVIT_POOL_MEAN ? rvit_cu_at(args->sizes) : NULL,
        .gamma = rvit_cu_at(args->gamma),
        .beta = rvit_cu_at(args->beta),
        .out = rvit_cu_at(args->out),
        .out_stride = args->out_stride,
        .max_len = args->max_len,
        .rows = (int32_t)args->rows,
        .dim = args->dim,
        .n_prefix = args->n_prefix,
        .first = args->mode == RVIT_POOL_FIRST,
        .out_dtype = (int32_t)args->out_dtype,
        .rms = args->norm == RVIT_NORM_RMS,
        .tiles = (args->dim + columns - 1) / columns,
        .eps = args->eps,
    };
    const rvit_cu_kernel kernel = norm ? normed[args->dtype] : plain[args->dtype];
    return rvit_cu_launch(queue, kernel, (int64_t)args->n_images * params.tiles, warps * 32, 0, &params);
}

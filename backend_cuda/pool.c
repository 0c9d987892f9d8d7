#include "backend_cuda/cu.h"

/* Only the width chooses the kernel, so that an image's mean has the same bits in every batch. */
static const struct pool_shape {
    int32_t columns, warps;
    rvit_cu_kernel kernels[3];
} plain = {128 * RVIT_CU_POOL_PIECES, RVIT_CU_POOL_WARPS, RVIT_CU_OF_TYPES_AND(pool, plain)},
  narrow = {128 * RVIT_CU_POOL_NARROW_PIECES, RVIT_CU_POOL_NARROW_WARPS, RVIT_CU_OF_TYPES_AND(pool, norm_768)},
  normed = {128 * RVIT_CU_POOL_NORM_PIECES, RVIT_CU_POOL_NORM_WARPS, RVIT_CU_OF_TYPES_AND(pool, norm)};

rvit_status rvit_cu_pool(rvit_cu_queue *queue, const rvit_pool_args *args)
{
    if (args->n_images == 0)
        return RVIT_OK;
    const struct pool_shape *shape = args->gamma.buffer == NULL ? &plain : args->dim <= narrow.columns ? &narrow : &normed;
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
        .tiles = (args->dim + shape->columns - 1) / shape->columns,
        .eps = args->eps,
    };
    return rvit_cu_launch(queue, shape->kernels[args->dtype], (int64_t)args->n_images * params.tiles, shape->warps * 32, 0, &params);
}

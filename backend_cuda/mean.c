#include "backend_cuda/cu.h"

static const rvit_cu_kernel kernels[] = RVIT_CU_OF_TYPES(mean);

rvit_status rvit_cu_mean(rvit_cu_queue *queue, const rvit_mean_args *args)
{
    if (args->n_images == 0)
        return RVIT_OK;
    rvit_cu_mean_params params = {
        .x = rvit_cu_at(args->x),
        .cu_seqlens = rvit_cu_at(args->cu_seqlens),
        .max_len = args->max_len,
        .rows = (int32_t)args->rows,
        .n_prefix = args->n_prefix,
        .dim = args->dim,
        .first_column = args->first_column,
        .tiles = (args->dim - args->first_column + RVIT_CU_MEAN_COLUMNS - 1) / RVIT_CU_MEAN_COLUMNS,
    };
    return rvit_cu_launch(queue, kernels[args->dtype], (int64_t)args->n_images * params.tiles, 256, 0, &params);
}

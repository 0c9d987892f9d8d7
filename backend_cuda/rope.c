#include "backend_cuda/cu.h"

static const rvit_cu_kernel kernels[] = RVIT_CU_OF_TYPES(rope);

rvit_status rvit_cu_rope(rvit_cu_queue *queue, const rvit_rope_args *args)
{
    rvit_cu_rope_params params = {
        .q = rvit_cu_at(args->q),
        .k = rvit_cu_at(args->k),
        .table = rvit_cu_at(args->table),
        .positions = rvit_cu_at(args->positions),
        .rows = rvit_cu_rows_of(&args->rows),
        .q_stride = args->q_stride,
        .k_stride = args->k_stride,
        .n_heads = args->n_heads,
        .head_dim = args->head_dim,
        .n_positions = args->n_positions,
        .n_prefix = args->n_prefix,
    };
    return rvit_cu_launch_rows(queue, kernels[args->dtype], args->rows.capacity, &params);
}

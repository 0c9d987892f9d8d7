#include "backend_cuda/cu.h"

static const rvit_cu_kernel kernels[] = RVIT_CU_OF_TYPES(merge);

rvit_status rvit_cu_merge(rvit_cu_queue *queue, const rvit_merge_args *args)
{
    rvit_cu_merge_params params = {
        .x = rvit_cu_at(args->x),
        .sizes = rvit_cu_at(args->sizes),
        .src_rows = rvit_cu_at(args->src_rows),
        .next_rows = rvit_cu_at(args->next_rows),
        .out_x = rvit_cu_at(args->out_x),
        .out_sizes = rvit_cu_at(args->out_sizes),
        .out_key_bias = rvit_cu_at(args->out_key_bias),
        .rows = rvit_cu_rows_of(&args->rows),
        .x_rows = (int32_t)args->x_rows,
        .dim = args->dim,
    };
    return rvit_cu_launch_rows(queue, kernels[args->dtype], args->rows.capacity, &params);
}

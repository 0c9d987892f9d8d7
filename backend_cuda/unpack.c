#include "backend_cuda/cu.h"

rvit_status rvit_cu_unpack(rvit_cu_queue *queue, const rvit_unpack_args *args)
{
    rvit_cu_unpack_params params = {
        .source = rvit_cu_at(args->source),
        .base = rvit_cu_at(args->base),
        .src_rows = rvit_cu_at(args->src_rows),
        .destination = rvit_cu_at(args->destination),
        .rows = rvit_cu_rows_of(&args->rows),
        .destination_rows = rvit_cu_rows_of(&args->destination_rows),
        .row_size = args->dim * (int32_t)rvit_dtype_size(args->dtype),
        .fill = rvit_unpack_fill(args),
    };
    const int32_t ctas = rvit_cu_tile_ctas(&queue->device->machine, args->destination_rows.capacity, 8, 8);
    return rvit_cu_launch(queue, RVIT_CU_unpack, ctas, 256, 0, &params);
}

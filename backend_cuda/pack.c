#include "backend_cuda/cu.h"

rvit_status rvit_cu_pack(rvit_cu_queue *queue, const rvit_pack_args *args)
{
    rvit_cu_pack_params params = {
        .source = rvit_cu_at(args->source),
        .src_rows = rvit_cu_at(args->src_rows),
        .destination = rvit_cu_at(args->destination),
        .rows = rvit_cu_rows_of(&args->rows),
        .source_rows = (int32_t)args->source_rows,
        .row_size = (int32_t)args->row_size,
    };
    const int32_t ctas = rvit_cu_tile_ctas(&queue->device->machine, args->rows.capacity, 8, 8);
    return rvit_cu_launch(queue, RVIT_CU_pack, ctas, 256, 0, &params);
}

#include "backend_cuda/cu.h"

rvit_status rvit_cu_positions(rvit_cu_queue *queue, const rvit_positions_args *args)
{
    rvit_cu_positions_params params = {
        .src_rows = rvit_cu_at(args->src_rows),
        .positions = rvit_cu_at(args->positions),
        .keep = rvit_cu_at(args->keep),
        .out = rvit_cu_at(args->out),
        .rows = rvit_cu_rows_of(&args->rows),
        .source_rows = (int32_t)args->source_rows,
        .n_positions = args->n_positions,
    };
    const int32_t ctas = rvit_cu_tile_ctas(&queue->device->machine, args->rows.capacity, 256, 8);
    return rvit_cu_launch(queue, RVIT_CU_positions, ctas, 256, 0, &params);
}

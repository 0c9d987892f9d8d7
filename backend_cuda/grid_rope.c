#include "backend_cuda/cu.h"

rvit_status rvit_cu_grid_rope(rvit_cu_queue *queue, const rvit_grid_rope_args *args)
{
    rvit_cu_grid_rope_params params = {
        .token_map = rvit_cu_at(args->token_map),
        .frequencies = rvit_cu_at(args->frequencies),
        .out = rvit_cu_at(args->out),
        .rows = rvit_cu_rows_of(&args->rows),
        .head_dim = args->head_dim,
        .centred = args->coordinates == RVIT_ROPE_CENTRED,
        .xy = args->order == RVIT_ROPE_XY,
        .offset = args->offset,
        .reference_height = args->reference_height,
        .reference_width = args->reference_width,
    };
    const int32_t ctas = rvit_cu_tile_ctas(&queue->device->machine, args->rows.capacity, 8, 8);
    return rvit_cu_launch(queue, RVIT_CU_grid_rope, ctas, 256, 0, &params);
}

#include "backend_cuda/cu.h"

rvit_status rvit_cu_grid_relayout(rvit_cu_queue *queue, const rvit_grid_relayout_args *args)
{
    rvit_cu_grid_relayout_params params = {
        .cu_seqlens = rvit_cu_at(args->cu_seqlens),
        .out_cu_seqlens = rvit_cu_at(args->out_cu_seqlens),
        .src_rows = rvit_cu_at(args->src_rows),
        .window_cu_seqlens = rvit_cu_at(args->window_cu_seqlens),
        .group_rows = rvit_cu_at(args->group_rows),
        .keep = rvit_cu_at(args->keep),
        .group_cu_seqlens = rvit_cu_at(args->group_cu_seqlens),
        .out_window_cu_seqlens = rvit_cu_at(args->out_window_cu_seqlens),
        .out_group_rows = rvit_cu_at(args->out_group_rows),
        .n_images = args->n_images,
        .n_windows = args->n_windows,
        .max_len = args->max_len,
        .group_size = args->group_size,
        .rows = (int32_t)args->rows,
    };
    const int64_t by_windows = args->n_windows / 256 + (int64_t)1, items = args->n_images > by_windows ? args->n_images : by_windows;
    return rvit_cu_launch(queue, RVIT_CU_grid_relayout, rvit_cu_tile_ctas(&queue->device->machine, items, 1, 8), 256, 0, &params);
}

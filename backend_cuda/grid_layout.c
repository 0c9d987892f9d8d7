#include "backend_cuda/cu.h"

rvit_status rvit_cu_grid_layout(rvit_cu_queue *queue, const rvit_grid_layout_args *args)
{
    /* Each CTA reads all grids before its own, so CTAs beyond one wave would only read more. */
    const int64_t entries = args->n_images + (int64_t)1;
    const int32_t max_ctas = rvit_cu_tile_ctas(&queue->device->machine, entries, 1, 4);
    const int64_t per_cta = (entries + max_ctas - 1) / max_ctas, ctas = (entries + per_cta - 1) / per_cta;
    rvit_cu_grid_layout_params params = {
        .grids = rvit_cu_at(args->grids),
        .live_images = rvit_cu_at(args->live_images),
        .cu_seqlens = rvit_cu_at(args->cu_seqlens),
        .patch_cu_seqlens = rvit_cu_at(args->patch_cu_seqlens),
        .token_map = rvit_cu_at(args->token_map),
        .group_cu_seqlens = rvit_cu_at(args->group_cu_seqlens),
        .window_cu_seqlens = rvit_cu_at(args->window_cu_seqlens),
        .group_rows = rvit_cu_at(args->group_rows),
        .n_images = args->n_images,
        .n_prefix = args->n_prefix,
        .max_len = args->max_len,
        .merge = args->merge,
        .rows = (int32_t)args->rows,
        .patch_rows = (int32_t)args->patch_rows,
        .per_cta = (int32_t)per_cta,
        .line_by_line = args->patch_merge == 1,
        .window = args->window,
        .max_windows = args->max_windows,
    };
    return rvit_cu_launch(queue, RVIT_CU_grid_layout, ctas, RVIT_CU_GRID_THREADS, 0, &params);
}

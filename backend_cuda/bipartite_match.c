#include "backend_cuda/cu.h"

rvit_status rvit_cu_bipartite_match_reserve(rvit_cu_queue *queue, const rvit_bipartite_match_args *args)
{
    return rvit_cu_layout_reserve(queue, args->n_images, 0);
}

rvit_status rvit_cu_bipartite_match(rvit_cu_queue *queue, const rvit_bipartite_match_args *args)
{
    RVIT_TRY(rvit_cu_bipartite_match_reserve(queue, args));
    const int32_t len = args->max_len < args->rows ? args->max_len : (int32_t)args->rows;
    const rvit_cu_image_tile tile =
        rvit_cu_tile_bipartite_match(&queue->device->machine, args->n_images, len, args->head_dim, args->group_size);
    rvit_cu_bipartite_match_params params = {
        .layout =
            {
                .cu_seqlens = rvit_cu_at(args->cu_seqlens),
                .out_cu_seqlens = rvit_cu_at(args->out_cu_seqlens),
                .src_rows = rvit_cu_at(args->src_rows),
                .n_images = args->n_images,
                .max_len = args->max_len,
                .rows = (int32_t)args->rows,
                .n_prefix = args->n_prefix,
                .parts = tile.parts,
            },
        .k = rvit_cu_at(args->k),
        .metric = rvit_cu_at(args->metric),
        .keep = rvit_cu_at(args->keep),
        .next_rows = rvit_cu_at(args->next_rows),
        .k_stride = args->k_stride,
        .window_cu_seqlens = rvit_cu_at(args->window_cu_seqlens),
        .dtype = (int32_t)args->dtype,
        .n_heads = args->n_heads,
        .head_dim = args->head_dim,
        .merges = args->merges,
        .group_size = args->group_size,
        .n_windows = args->n_windows,
        .shared_groups = tile.held_rows,
        .splits = tile.splits,
    };
    if (tile.splits)
        RVIT_TRY(rvit_cu_launch(queue, RVIT_CU_bipartite_match_metric, rvit_cu_tile_ctas(&queue->device->machine, args->rows, 8, 8), 256, 0,
                                &params));
    rvit_cu_layout_attach(queue, &params.layout);
    const int64_t ctas = args->n_images > 0 ? (int64_t)args->n_images * tile.parts : 1;
    return rvit_cu_launch(queue, RVIT_CU_bipartite_match_rows, ctas, tile.threads, tile.shared, &params);
}

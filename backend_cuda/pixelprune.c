#include "backend_cuda/cu.h"

rvit_status rvit_cu_pixelprune(rvit_cu_queue *queue, const rvit_pixelprune_args *args)
{
    enum { WARPS = 8, GROUPS = 4 }; /* merge groups per warp, for the longest image */
    const int64_t len = args->max_len < args->rows ? args->max_len : args->rows, step = (int64_t)WARPS * GROUPS * args->merge * args->merge;
    if (args->n_images == 0 || len == 0)
        return RVIT_OK;
    const int reconstructs = rvit_pixelprune_reconstructs(args);
    const int64_t wanted = (len + step - 1) / step, max_parts = INT32_MAX / args->n_images;
    rvit_cu_pixelprune_params params = {
        .cu_seqlens = rvit_cu_at(args->cu_seqlens),
        .token_map = rvit_cu_at(args->token_map),
        .group_rows = rvit_cu_at(args->group_rows),
        .pixels = rvit_cu_at(args->pixels),
        .keep = rvit_cu_at(args->keep),
        .sources = reconstructs ? rvit_cu_at(args->sources) : NULL,
        .stride = args->stride,
        .limits = {args->limits[0], args->limits[1], args->limits[2], args->limits[3]},
        .n_images = args->n_images,
        .n_prefix = args->n_prefix,
        .max_len = args->max_len,
        .merge = args->merge,
        .rows = (int32_t)args->rows,
        .patch_rows = (int32_t)args->patch_rows,
        .columns = args->columns,
        .channels = args->channels,
        .interleaved = args->interleaved,
        .patch_merge = args->patch_merge,
        .parts = reconstructs ? 1 : (int32_t)(wanted < max_parts ? wanted : max_parts),
    };
    return rvit_cu_launch(queue, RVIT_CU_pixelprune, (int64_t)args->n_images * params.parts, WARPS * 32, 0, &params);
}

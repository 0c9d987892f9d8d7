#include "backend_cuda/cu.h"

static const rvit_cu_kernel kernels[] = RVIT_CU_OF_TYPES(embed);

_Static_assert(RVIT_CU_BICUBIC == RVIT_RESAMPLE_BICUBIC && RVIT_CU_BICUBIC_ANTIALIAS == RVIT_RESAMPLE_TIMM &&
                   RVIT_CU_BILINEAR_ANTIALIAS == RVIT_RESAMPLE_BILINEAR_ANTIALIAS && RVIT_CU_ALIGN_CORNERS == RVIT_RESAMPLE_ALIGN_CORNERS &&
                   RVIT_CU_NEAREST == RVIT_RESAMPLE_NEAREST,
               "the kernels' numbers");

rvit_status rvit_cu_embed(rvit_cu_queue *queue, const rvit_embed_args *args)
{
    rvit_cu_embed_params params = {
        .token_map = rvit_cu_at(args->token_map),
        .patches = rvit_cu_at(args->patches),
        .prefix = rvit_cu_at(args->prefix),
        .table = rvit_cu_at(args->table),
        .out = rvit_cu_at(args->out),
        .rows = rvit_cu_rows_of(&args->rows),
        .patch_rows = (int32_t)args->patch_rows,
        .dim = args->dim,
        .n_prefix = args->n_prefix,
        .resample = (int32_t)args->resample,
        .table_height = args->table_height,
        .table_width = args->table_width,
    };
    /* A thread takes four columns. */
    const int32_t warps = args->dim >= 1024 ? 8 : (args->dim + 127) / 128;
    const int32_t ctas = rvit_cu_tile_ctas(&queue->device->machine, args->rows.capacity, 1, 64 / warps < 32 ? 64 / warps : 32);
    return rvit_cu_launch(queue, kernels[args->dtype], ctas, warps * 32, 0, &params);
}

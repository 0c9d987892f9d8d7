#include "backend_cuda/cu.h"

static const rvit_cu_kernel kernels[] = RVIT_CU_OF_TYPES(head);

rvit_status rvit_cu_head(rvit_cu_queue *queue, const rvit_head_args *args)
{
    if (args->n_images == 0)
        return RVIT_OK;
    const int32_t images = rvit_cu_tile_head(&queue->device->machine, args->n_images, args->n_classes);
    const int32_t classes = RVIT_CU_HEAD_WARPS * (images == 1 ? 1 : RVIT_CU_HEAD_CLASSES);
    rvit_cu_head_params params = {
        .x = rvit_cu_at(args->x),
        .cu_seqlens = rvit_cu_at(args->cu_seqlens),
        .gamma = rvit_cu_at(args->gamma),
        .beta = rvit_cu_at(args->beta),
        .weight = rvit_cu_at(args->weight),
        .bias = rvit_cu_at(args->bias),
        .logits = rvit_cu_at(args->logits),
        .n_images = args->n_images,
        .rows = (int32_t)args->rows,
        .dim = args->dim,
        .n_tokens = args->n_tokens,
        .n_classes = args->n_classes,
        .x_dtype = (int32_t)args->dtype,
        .class_tiles = (args->n_classes + classes - 1) / classes,
        .images = images,
        .eps = args->eps,
        .rms = args->norm == RVIT_NORM_RMS,
    };
    const int64_t ctas = ((int64_t)args->n_images + images - 1) / images * params.class_tiles;
    return rvit_cu_launch(queue, kernels[args->weight_dtype], ctas, RVIT_CU_HEAD_WARPS * 32, 0, &params);
}

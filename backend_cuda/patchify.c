#include "backend_cuda/cu.h"

rvit_status rvit_cu_patchify(rvit_cu_queue *queue, const rvit_patchify_args *args)
{
    const int32_t grid = args->image_size / args->patch_size;
    rvit_cu_patchify_params params = {
        .images = rvit_cu_at(args->images),
        .out = rvit_cu_at(args->out),
        .cu_seqlens = rvit_cu_at(args->cu_seqlens),
        .live_images = rvit_cu_at(args->live_images),
        .n_images = args->n_images,
        .channels = args->channels,
        .image_size = args->image_size,
        .patch_size = args->patch_size,
        .grid = grid,
        .n_prefix = args->n_prefix,
    };
    const int64_t tasks = (int64_t)args->n_images * args->channels * grid;
    const int32_t ctas = rvit_cu_tile_ctas(&queue->device->machine, tasks, 1, 8);
    return rvit_cu_launch(queue, rvit_cu_of_dtype(RVIT_CU_patchify_f32, args->dtype), ctas, 256, 0, &params);
}

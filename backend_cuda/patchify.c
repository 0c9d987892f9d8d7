#include "backend_cuda/cu.h"

static const rvit_cu_kernel kernels[] = RVIT_CU_OF_TYPES(patchify);

rvit_status rvit_cu_patchify(rvit_cu_queue *queue, const rvit_patchify_args *args)
{
    const int32_t grid_height = args->image_height / args->patch_size;
    rvit_cu_patchify_params params = {
        .images = rvit_cu_at(args->images),
        .out = rvit_cu_at(args->out),
        .cu_seqlens = rvit_cu_at(args->cu_seqlens),
        .live_images = rvit_cu_at(args->live_images),
        .n_images = args->n_images,
        .channels = args->channels,
        .height = args->image_height,
        .width = args->image_width,
        .patch_size = args->patch_size,
        .grid_height = grid_height,
        .grid_width = args->image_width / args->patch_size,
        .n_prefix = args->n_prefix,
        .out_stride = args->out_stride,
        .low_offset = args->split == 2 ? args->out_stride / 2 : 0,
    };
    const int32_t images = args->n_images < 1 ? 1 : args->n_images < RVIT_CU_MAX_GRID_Z ? args->n_images : RVIT_CU_MAX_GRID_Z;
    const rvit_cu_grid ctas = {(unsigned)(args->channels * grid_height), (unsigned)images, 1};
    return rvit_cu_launch_grid(queue, kernels[args->dtype], ctas, 256, 0, &params);
}

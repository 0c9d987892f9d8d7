#include "backend_cuda/cu.h"

static const rvit_cu_kernel kernels[] = RVIT_CU_OF_TYPES(preprocess);

/* Copies the host's staging buffer to the device. This needs only enough CTAs to keep the bus busy. */
static rvit_status fetch(rvit_cu_queue *queue, const rvit_preprocess_args *args)
{
    rvit_cu_fetch_params params = {
        .source = rvit_cu_at(args->source), .destination = rvit_cu_at(args->staging), .units = args->source_size / 16};
    const int32_t ctas = rvit_cu_tile_ctas(&queue->device->machine, params.units, 1024, 4);
    return rvit_cu_launch(queue, RVIT_CU_fetch, ctas, 256, 0, &params);
}

rvit_status rvit_cu_preprocess(rvit_cu_queue *queue, const rvit_preprocess_args *args)
{
    const int staged = args->staging.buffer != NULL;
    if (staged)
        RVIT_TRY(fetch(queue, args));
    rvit_cu_preprocess_params params = {
        .words = rvit_cu_at(staged ? args->staging : args->source),
        .pixels = rvit_cu_at(args->pixels),
        .out = rvit_cu_at(args->out),
        .cu_seqlens = rvit_cu_at(args->cu_seqlens),
        .grids = rvit_cu_at(args->grids),
        .n_words = (int32_t)(args->source_size / 4),
        .pixels_size = args->pixels_size,
        .n_images = args->n_images,
        .rows = (int32_t)args->rows,
        .patch_size = args->patch_size,
        .out_stride = args->out_stride,
        .low_offset = args->split == 2 ? args->out_stride / 2 : 0,
    };
    const int64_t pixels = args->rows * args->patch_size * args->patch_size;
    const rvit_cu_preprocess_tile tile = rvit_cu_tile_preprocess(&queue->device->machine, pixels, args->source_size + args->pixels_size);
    params.tile_height = 1 << (tile.slot_bits - RVIT_CU_PREPROCESS_WIDTH_BITS);
    params.slot_bits = tile.slot_bits;
    params.raw_size = tile.raw_size;
    const int64_t max_slots = (pixels >> tile.slot_bits) + args->n_images;
    const int64_t slots = max_slots < 1 ? 1 : max_slots < 1 << 30 ? max_slots : 1 << 30;
    params.images_per_slot = (float)args->n_images / (float)slots;
    const rvit_cu_grid ctas = {(unsigned)slots, 1, 1};
    return rvit_cu_launch_grid(queue, kernels[args->dtype], ctas, RVIT_CU_PREPROCESS_THREADS, RVIT_CU_PREPROCESS_SHARED + tile.raw_size,
                               &params);
}

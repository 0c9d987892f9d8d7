#include "backend_cuda/cu.h"

#include <math.h>
#include <string.h>

#define F16(name, ...) [RVIT_CU_ATTENTION_##name] = RVIT_CU_attention_f16_##name,
#define BF16(name, ...) [RVIT_CU_ATTENTION_##name] = RVIT_CU_attention_bf16_##name,
static const rvit_cu_kernel kernels[][RVIT_CU_N_ATTENTION_SHAPES] = {
    [RVIT_F16] = {RVIT_CU_ATTENTION_SHAPES(F16) RVIT_CU_ATTENTION_DIRECT(F16)},
    [RVIT_BF16] = {RVIT_CU_ATTENTION_SHAPES(BF16) RVIT_CU_ATTENTION_DIRECT(BF16)},
};

#define HOPPER_F16(name, ...) [RVIT_CU_ATTENTION_##name] = RVIT_CU_attention_f16_##name,
#define HOPPER_BF16(name, ...) [RVIT_CU_ATTENTION_##name] = RVIT_CU_attention_bf16_##name,
static const rvit_cu_kernel hopper_kernels[][RVIT_CU_N_ATTENTION_HOPPER] = {
    [RVIT_F16] = {RVIT_CU_ATTENTION_HOPPER(HOPPER_F16) RVIT_CU_ATTENTION_SPLIT_KV(HOPPER_F16)},
    [RVIT_BF16] = {RVIT_CU_ATTENTION_HOPPER(HOPPER_BF16) RVIT_CU_ATTENTION_SPLIT_KV(HOPPER_BF16)},
};

static rvit_cu_attention_size size_of(const rvit_attention_args *args)
{
    return (rvit_cu_attention_size){
        RVIT_CU_ATTENTION_SIZE(args),
        .bias_stats = args->key_bias.buffer != NULL || args->cls_probs.buffer != NULL || args->lse.buffer != NULL,
    };
}

#if CUDA_VERSION >= 12000
/* A tensor map of q, k or v, with boxes of 64 channels of one head. Out-of-bounds channels and rows are filled with zeros. */
static rvit_status map_rows(const rvit_cu_driver *driver, const rvit_attention_args *args, rvit_view view, int64_t stride, int32_t box_rows,
                            rvit_cu_tensor_map *out_map)
{
    const cuuint64_t sizes[3] = {(cuuint64_t)args->head_dim, (cuuint64_t)args->n_heads, (cuuint64_t)args->rows};
    const cuuint64_t strides[2] = {(cuuint64_t)args->head_dim * 2, (cuuint64_t)stride * 2};
    const cuuint32_t box[3] = {64, 1, (cuuint32_t)box_rows}, steps[3] = {1, 1, 1};
    CUtensorMap map; /* aligned as the driver requires */
    _Static_assert(sizeof map == sizeof *out_map, "a map is passed as it is");
    RVIT_CU_TRY(driver, cuTensorMapEncodeTiled,
                (&map, args->dtype == RVIT_F16 ? CU_TENSOR_MAP_DATA_TYPE_FLOAT16 : CU_TENSOR_MAP_DATA_TYPE_BFLOAT16, 3, rvit_cu_at(view),
                 sizes, strides, box, steps, CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_128B, CU_TENSOR_MAP_L2_PROMOTION_L2_128B,
                 CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE));
    memcpy(out_map, &map, sizeof map);
    return RVIT_OK;
}

/* Chooses a Hopper kernel. None supports a negative scale, or addresses and strides that a tensor map cannot have. */
static rvit_cu_attention_hopper_tile choose_hopper(const rvit_cu_queue *queue, const rvit_attention_args *args)
{
    rvit_cu_attention_size size = size_of(args);
    size.fixed_images = queue->hints.fixed_images;
    const uintptr_t addresses = (uintptr_t)rvit_cu_at(args->q) | (uintptr_t)rvit_cu_at(args->k) | (uintptr_t)rvit_cu_at(args->v);
    const int64_t strides = args->q_stride | args->k_stride | args->v_stride;
    if (args->scale < 0.0f || addresses % 16 != 0 || strides % 8 != 0)
        return (rvit_cu_attention_hopper_tile){.shape = RVIT_CU_N_ATTENTION_HOPPER};
    return rvit_cu_tile_attention_hopper(&queue->device->machine, &size);
}

static rvit_status launch_hopper(rvit_cu_queue *queue, const rvit_attention_args *args, const rvit_cu_attention_params *rows,
                                 const rvit_cu_attention_hopper_tile *tile)
{
    const rvit_cu_driver *driver = queue->device->driver;
    rvit_cu_attention_hopper_params params = {
        .rows = *rows,
        .min_rows = RVIT_CU_ATTENTION_HOPPER_MIN_ROWS,
        .large_block_rows = RVIT_CU_ATTENTION_LARGE_BLOCK_MIN_ROWS(args->head_dim > 96 ? 128 : 64),
        .n_images = (int32_t)args->n_images,
    };
    RVIT_TRY(map_rows(driver, args, args->q, args->q_stride, 64, &params.q));
    RVIT_TRY(map_rows(driver, args, args->k, args->k_stride, RVIT_CU_ATTENTION_HOPPER_BOX, &params.k));
    RVIT_TRY(map_rows(driver, args, args->v, args->v_stride, RVIT_CU_ATTENTION_HOPPER_BOX, &params.v));
    const rvit_cu_kernel kernel = hopper_kernels[args->dtype][tile->shape];
    if (!tile->persistent)
        return rvit_cu_launch_images(queue, kernel, args->n_images, args->n_heads, tile->row_blocks, tile->threads, tile->shared,
                                     &params.rows.first_image, &params);
    /* Persistent CTAs find their tiles themselves. */
    const int64_t tiles = (int64_t)tile->row_blocks * args->n_heads * args->n_images, sms = queue->device->machine.n_sms;
    const rvit_cu_grid grid = {(unsigned)(tiles < sms ? tiles : sms), 1, 1};
    return rvit_cu_launch_grid(queue, kernel, grid, tile->threads, tile->shared, &params);
}
#endif

rvit_status rvit_cu_attention(rvit_cu_queue *queue, const rvit_attention_args *args)
{
    if (args->rows == 0 || args->max_len == 0)
        return RVIT_OK;
    rvit_cu_attention_params params = {
        RVIT_CU_ATTENTION_PARAMS(args),
        .v = rvit_cu_at(args->v),
        .out = rvit_cu_at(args->out),
        .cls_probs = rvit_cu_at(args->cls_probs),
        .v_stride = (int32_t)args->v_stride,
        .out_stride = (int32_t)args->out_stride,
        .scale = args->scale,
    };
    if (args->dtype != RVIT_F32) {
        params.scale = fabsf(args->scale) * rvit_cu_softmax_factor(args->dtype);
        params.q_sign = args->scale < 0.0f ? 0x80008000u : 0u;
    }
#if CUDA_VERSION >= 12000
    const rvit_cu_attention_hopper_tile hopper_tile = choose_hopper(queue, args);
    if (hopper_tile.shape != RVIT_CU_N_ATTENTION_HOPPER)
        return launch_hopper(queue, args, &params, &hopper_tile);
#endif
    const rvit_cu_attention_size size = size_of(args);
    const rvit_cu_attention_tile tile = rvit_cu_tile_attention(&queue->device->machine, &size);
    const rvit_cu_kernel kernel = args->dtype == RVIT_F32 ? RVIT_CU_attention_f32 : kernels[args->dtype][tile.shape];
    return rvit_cu_launch_images(queue, kernel, args->n_images, args->n_heads, tile.row_blocks, tile.threads, tile.shared,
                                 &params.first_image, &params);
}

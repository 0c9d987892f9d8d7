/* wgmma GEMMs on sm_90a, for large and small M. They run where they are faster than cuBLASLt, and where cuBLASLt cannot run: the row
   count is only on the device, or the residual repeats. A row's bits do not depend on the number of live rows. */
#include "backend_cuda/cu.h"

#include <string.h>

int rvit_cu_prefers_quantized(const rvit_device *device, const rvit_op *linear)
{
    return rvit_cu_linear_makes_e4m3(&rvit_cu_device_of(device)->machine, linear->linear.rows.capacity, linear->linear.out_features);
}

#if CUDA_VERSION >= 12000
/* [type of x][type of out][with sigmoid], where rvit_cu_linear_has_kernel is true. */
static const rvit_cu_kernel kernels[RVIT_E4M3 + 1][RVIT_E4M3 + 1][2] = {
    [RVIT_F16] =
        {[RVIT_F16] = {RVIT_CU_linear_f16_hopper, RVIT_CU_linear_f16_hopper_sigmoid}, [RVIT_F32] = {RVIT_CU_linear_f16_hopper_f32}},
    [RVIT_BF16] =
        {[RVIT_BF16] = {RVIT_CU_linear_bf16_hopper, RVIT_CU_linear_bf16_hopper_sigmoid}, [RVIT_F32] = {RVIT_CU_linear_bf16_hopper_f32}},
    [RVIT_E4M3] = {[RVIT_E4M3] = {RVIT_CU_linear_e4m3_hopper, RVIT_CU_linear_e4m3_hopper_sigmoid},
                   [RVIT_F16] = {RVIT_CU_linear_e4m3_hopper_f16},
                   [RVIT_BF16] = {RVIT_CU_linear_e4m3_hopper_bf16},
                   [RVIT_F32] = {RVIT_CU_linear_e4m3_hopper_f32}},
};

#define F16(name, ...) [RVIT_CU_SMALL_M_##name] = RVIT_CU_linear_f16_small_m_##name,
#define F16_SIGMOID(name, ...) [RVIT_CU_SMALL_M_##name] = RVIT_CU_linear_f16_small_m_##name##_sigmoid,
#define F16_WIDE(name, ...) [RVIT_CU_SMALL_M_##name] = RVIT_CU_linear_f16_small_m_##name##_f32,
#define BF16(name, ...) [RVIT_CU_SMALL_M_##name] = RVIT_CU_linear_bf16_small_m_##name,
#define BF16_SIGMOID(name, ...) [RVIT_CU_SMALL_M_##name] = RVIT_CU_linear_bf16_small_m_##name##_sigmoid,
#define BF16_WIDE(name, ...) [RVIT_CU_SMALL_M_##name] = RVIT_CU_linear_bf16_small_m_##name##_f32,
/* The small-M kernels, by shape. */
static const rvit_cu_kernel small_m_kernels[RVIT_E4M3 + 1][RVIT_E4M3 + 1][2][RVIT_CU_N_SMALL_M_SHAPES] = {
    [RVIT_F16] = {[RVIT_F16] = {{RVIT_CU_LINEAR_SMALL_M(F16)}, {RVIT_CU_LINEAR_SMALL_M(F16_SIGMOID)}},
                  [RVIT_F32] = {{RVIT_CU_LINEAR_SMALL_M(F16_WIDE)}}},
    [RVIT_BF16] = {[RVIT_BF16] = {{RVIT_CU_LINEAR_SMALL_M(BF16)}, {RVIT_CU_LINEAR_SMALL_M(BF16_SIGMOID)}},
                   [RVIT_F32] = {{RVIT_CU_LINEAR_SMALL_M(BF16_WIDE)}}},
    [RVIT_E4M3] = {[RVIT_E4M3] = {{[RVIT_CU_SMALL_M_128x64] = RVIT_CU_linear_e4m3_small_m_128x64},
                                  {[RVIT_CU_SMALL_M_128x64] = RVIT_CU_linear_e4m3_small_m_128x64_sigmoid}}},
};

static int has_sigmoid(const rvit_linear_args *args)
{
    return rvit_sigmoid_of(args->activation).slope != 0.0f;
}

static rvit_cu_kernel kernel_of(const rvit_linear_args *args)
{
    return kernels[args->dtype][args->out_dtype][has_sigmoid(args)];
}

static const rvit_cu_kernel *small_m_kernels_of(const rvit_linear_args *args)
{
    return small_m_kernels[args->dtype][args->out_dtype][has_sigmoid(args)];
}

static rvit_status encode(const rvit_cu_queue *queue, const rvit_linear_args *args, cuuint32_t rank, rvit_view view,
                          const cuuint64_t *sizes, const cuuint64_t *strides, const cuuint32_t *box, rvit_cu_tensor_map *out_map)
{
    static const cuuint32_t steps[5] = {1, 1, 1, 1, 1};
    static const CUtensorMapDataType types[] = {[RVIT_F16] = CU_TENSOR_MAP_DATA_TYPE_FLOAT16,
                                                [RVIT_BF16] = CU_TENSOR_MAP_DATA_TYPE_BFLOAT16,
                                                [RVIT_E4M3] = CU_TENSOR_MAP_DATA_TYPE_UINT8};
    const rvit_cu_driver *driver = queue->device->driver;
    CUtensorMap map; /* aligned by its type */
    _Static_assert(sizeof map == sizeof *out_map, "a map is passed as it is");
    RVIT_CU_TRY(driver, cuTensorMapEncodeTiled,
                (&map, types[args->dtype], rank, rvit_cu_at(view), sizes, strides, box, steps, CU_TENSOR_MAP_INTERLEAVE_NONE,
                 CU_TENSOR_MAP_SWIZZLE_128B, CU_TENSOR_MAP_L2_PROMOTION_L2_128B, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE));
    memcpy(out_map, &map, sizeof map);
    return RVIT_OK;
}

/* TMA boxes of `rows` rows. */
static rvit_status map_x(const rvit_cu_queue *queue, const rvit_linear_args *args, int32_t rows, rvit_cu_tensor_map *out_map)
{
    const cuuint64_t size = (cuuint64_t)rvit_dtype_size(args->dtype);
    const cuuint64_t sizes[2] = {(cuuint64_t)args->in_features, (cuuint64_t)args->rows.capacity};
    const cuuint64_t strides[1] = {(cuuint64_t)args->in_features * size};
    const cuuint32_t box[2] = {(cuuint32_t)(128 / size), (cuuint32_t)rows};
    return encode(queue, args, 2, args->x, sizes, strides, box, out_map);
}

/* wgmma gives a lane columns 2 q and 2 q + 1 of each 8. The map permutes the rows of weight so that a lane gets adjacent outputs: 4 of
   float32, otherwise 8. */
static rvit_status map_weight(const rvit_cu_queue *queue, const rvit_linear_args *args, int32_t rows, rvit_cu_tensor_map *out_map)
{
    const cuuint32_t step = args->out_dtype == RVIT_F32 ? 4 : 8, unit = 4 * step;
    const cuuint64_t size = (cuuint64_t)rvit_dtype_size(args->dtype), row = (cuuint64_t)args->in_features * size;
    const cuuint64_t sizes[5] = {(cuuint64_t)args->in_features, 2, 4, step / 2, (cuuint64_t)args->out_features / unit};
    const cuuint64_t strides[4] = {row, step * row, 2 * row, unit * row};
    const cuuint32_t box[5] = {(cuuint32_t)(128 / size), 2, 4, step / 2, (cuuint32_t)rows / unit};
    return encode(queue, args, 5, args->weight, sizes, strides, box, out_map);
}

rvit_status rvit_cu_linear_small_m(rvit_cu_queue *queue, const rvit_linear_args *args, const rvit_cu_small_m_tile *tile)
{
    rvit_cu_linear_small_m_params params = {
        .args = rvit_cu_linear_params_of(queue, args),
        .stages = tile->config.stages,
        .split_k = tile->config.split_k,
        .cluster_n = tile->config.cluster_n,
        .cluster_m = tile->config.cluster_m,
    };
    RVIT_TRY(map_x(queue, args, tile->rows / tile->config.cluster_n, &params.x));
    RVIT_TRY(map_weight(queue, args, tile->columns / tile->config.cluster_m, &params.weight));
    return rvit_cu_launch_clusters(queue, small_m_kernels_of(args)[tile->config.shape], tile->ctas, tile->cluster, tile->threads,
                                   tile->shared, &params);
}

rvit_status rvit_cu_linear_large_m(rvit_cu_queue *queue, const rvit_linear_args *args)
{
    if (args->rows.capacity == 0)
        return RVIT_OK;
    const int32_t out_size = (int32_t)rvit_dtype_size(args->out_dtype);
    rvit_cu_linear_hopper_params params = {.args = rvit_cu_linear_params_of(queue, args)};
    RVIT_TRY(map_x(queue, args, RVIT_CU_HOPPER_X_BOX, &params.x));
    RVIT_TRY(map_weight(queue, args, RVIT_CU_HOPPER_WEIGHT_BOX(RVIT_CU_HOPPER_COLUMNS(out_size)), &params.weight));
    const int32_t ctas = rvit_cu_tile_hopper(&queue->device->machine, args->rows.capacity, args->out_features, out_size);
    return rvit_cu_launch(queue, kernel_of(args), ctas, RVIT_CU_HOPPER_THREADS, RVIT_CU_HOPPER_SHARED(out_size), &params);
}
#endif

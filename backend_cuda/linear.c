#include "backend_cuda/cu.h"

#define F16(name, ...) [RVIT_CU_LINEAR_##name] = RVIT_CU_linear_f16_##name,
#define BF16(name, ...) [RVIT_CU_LINEAR_##name] = RVIT_CU_linear_bf16_##name,
#define F16_SIGMOID(name, ...) [RVIT_CU_LINEAR_##name] = RVIT_CU_linear_f16_##name##_sigmoid,
#define BF16_SIGMOID(name, ...) [RVIT_CU_LINEAR_##name] = RVIT_CU_linear_bf16_##name##_sigmoid,
/* [type of 16 bits][with a sigmoid], and of float32 [gated, or with a sigmoid]. */
static const rvit_cu_kernel kernels[][2][RVIT_CU_N_LINEAR_SHAPES] = {
    [RVIT_F16] = {{RVIT_CU_LINEAR_SHAPES(F16) RVIT_CU_LINEAR_SINGLES(F16)},
                  {RVIT_CU_LINEAR_ODD(F16) RVIT_CU_LINEAR_TILES(F16_SIGMOID) RVIT_CU_LINEAR_SINGLES(F16_SIGMOID)}},
    [RVIT_BF16] = {{RVIT_CU_LINEAR_SHAPES(BF16) RVIT_CU_LINEAR_SINGLES(BF16)},
                   {RVIT_CU_LINEAR_ODD(BF16) RVIT_CU_LINEAR_TILES(BF16_SIGMOID) RVIT_CU_LINEAR_SINGLES(BF16_SIGMOID)}},
};
static const rvit_cu_kernel kernels_f32[2] = {RVIT_CU_linear_f32_64x64, RVIT_CU_linear_f32_64x64_all};

static rvit_cu_kernel kernel_of(rvit_dtype dtype, rvit_cu_linear_shape shape, int has_sigmoid, int is_plain)
{
    if (dtype == RVIT_F32)
        return kernels_f32[!is_plain];
    if (dtype == RVIT_E4M3)
        return is_plain ? RVIT_CU_linear_e4m3_64x64 : RVIT_CU_linear_e4m3_odd;
    return kernels[dtype][has_sigmoid][shape];
}

rvit_status rvit_cu_linear(rvit_cu_queue *queue, const rvit_linear_args *args)
{
    const rvit_cu_lt_gemm *gemm;
#if CUDA_VERSION >= 12000
    if (rvit_cu_hopper_serves(queue, args))
        return rvit_cu_linear_hopper(queue, args);
#endif
    RVIT_TRY(rvit_cu_lt_prepare(queue, args, &gemm));
    if (gemm != NULL)
        return rvit_cu_lt_run(queue, args, gemm);
    rvit_cu_linear_params params = rvit_cu_linear_params_of(queue, args);
    if (args->dtype == RVIT_E4M3)
        params.in_features /= 2;
    /* Most kernels serve what models ask for, one serves all. */
    const int has_sigmoid = params.slope != 0.0f, is_plain = !has_sigmoid && !args->gated;
    const int is_general = !is_plain && !(has_sigmoid && args->residual.buffer == NULL && args->out_dtype == args->dtype);
    const rvit_cu_linear_tile tile = rvit_cu_tile_linear(&queue->device->machine, (int32_t)rvit_dtype_size(args->dtype),
                                                         args->rows.capacity, params.in_features, params.out_features, is_general);
    return rvit_cu_launch(queue, kernel_of(args->dtype, tile.shape, has_sigmoid, is_plain), tile.ctas, tile.threads, tile.shared, &params);
}

/* GEMM kernels that run on every device: persistent, one tile per CTA, e4m3, float32. */
#include "backend_cuda/cu.h"

#define F16(name, ...) [RVIT_CU_LINEAR_##name] = RVIT_CU_linear_f16_##name,
#define BF16(name, ...) [RVIT_CU_LINEAR_##name] = RVIT_CU_linear_bf16_##name,
#define F16_SIGMOID(name, ...) [RVIT_CU_LINEAR_##name] = RVIT_CU_linear_f16_##name##_sigmoid,
#define BF16_SIGMOID(name, ...) [RVIT_CU_LINEAR_##name] = RVIT_CU_linear_bf16_##name##_sigmoid,
/* 16-bit types: [type][with sigmoid]. float32: [gated or with sigmoid]. */
static const rvit_cu_kernel kernels[][2][RVIT_CU_N_LINEAR_SHAPES] = {
    [RVIT_F16] = {{RVIT_CU_LINEAR_SHAPES(F16) RVIT_CU_LINEAR_NONPERSISTENT(F16)},
                  {RVIT_CU_LINEAR_GENERAL(F16) RVIT_CU_LINEAR_TILES(F16_SIGMOID) RVIT_CU_LINEAR_NONPERSISTENT(F16_SIGMOID)}},
    [RVIT_BF16] = {{RVIT_CU_LINEAR_SHAPES(BF16) RVIT_CU_LINEAR_NONPERSISTENT(BF16)},
                   {RVIT_CU_LINEAR_GENERAL(BF16) RVIT_CU_LINEAR_TILES(BF16_SIGMOID) RVIT_CU_LINEAR_NONPERSISTENT(BF16_SIGMOID)}},
};
static const rvit_cu_kernel kernels_f32[2] = {RVIT_CU_linear_f32_64x64, RVIT_CU_linear_f32_64x64_all};

static rvit_cu_kernel kernel_of(rvit_dtype dtype, rvit_cu_linear_shape shape, int has_sigmoid, int is_plain)
{
    if (dtype == RVIT_F32)
        return kernels_f32[!is_plain];
    if (dtype == RVIT_E4M3)
        return is_plain ? RVIT_CU_linear_e4m3_64x64 : RVIT_CU_linear_e4m3_general;
    return kernels[dtype][has_sigmoid][shape];
}

rvit_status rvit_cu_linear_own(rvit_cu_queue *queue, const rvit_linear_args *args, const rvit_cu_linear_tile *tile)
{
    rvit_cu_linear_params params = rvit_cu_linear_params_of(queue, args);
    if (args->dtype == RVIT_E4M3)
        params.in_features /= 2;
    const int has_sigmoid = params.slope != 0.0f, is_plain = !has_sigmoid && !args->gated;
    return rvit_cu_launch(queue, kernel_of(args->dtype, tile->shape, has_sigmoid, is_plain), tile->ctas, tile->threads, tile->shared,
                          &params);
}

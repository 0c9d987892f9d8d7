#include "backend_cuda/cu.h"

#define F16(name, ...) [RVIT_CU_LINEAR_##name] = RVIT_CU_linear_f16_##name,
#define BF16(name, ...) [RVIT_CU_LINEAR_##name] = RVIT_CU_linear_bf16_##name,
/* Of 16-bit elements. */
static const rvit_cu_kernel kernels[][RVIT_CU_N_LINEAR_SHAPES] = {
    [RVIT_F16] = {RVIT_CU_LINEAR_SHAPES(F16) RVIT_CU_LINEAR_SINGLES(F16)},
    [RVIT_BF16] = {RVIT_CU_LINEAR_SHAPES(BF16) RVIT_CU_LINEAR_SINGLES(BF16)},
};

/* Whether no op of the program writes weight or bias. */
static int has_constant_weights(const rvit_cu_queue *queue, const rvit_linear_args *args)
{
    const int64_t weight_size = (int64_t)args->in_features * args->out_features * rvit_dtype_size(args->dtype);
    for (int32_t i = 0; i < queue->n_ops; i++)
        if (rvit_cu_writes(&queue->ops[i], args->weight, weight_size) ||
            rvit_cu_writes(&queue->ops[i], args->bias, args->out_features * (int64_t)sizeof(float)))
            return 0;
    return queue->n_ops > 0;
}

rvit_status rvit_cu_linear(rvit_cu_queue *queue, const rvit_linear_args *args)
{
    const rvit_cu_lt_gemm *gemm;
    RVIT_TRY(rvit_cu_lt_prepare(queue, args, &gemm));
    if (gemm != NULL)
        return rvit_cu_lt_run(queue, args, gemm);
    rvit_cu_linear_params params = {
        .x = rvit_cu_at(args->x),
        .weight = rvit_cu_at(args->weight),
        .bias = rvit_cu_at(args->bias),
        .residual = rvit_cu_at(args->residual),
        .out = rvit_cu_at(args->out),
        .rows = rvit_cu_rows_of(&args->rows),
        .in_features = args->in_features,
        .out_features = args->out_features,
        .residual_period = (int32_t)args->residual_period,
        .gelu = args->activation == RVIT_ACTIVATION_GELU,
        .out_f32 = args->out_dtype == RVIT_F32,
        .constant_weights = has_constant_weights(queue, args),
    };
    const rvit_cu_linear_tile tile = rvit_cu_tile_linear(&queue->device->machine, (int32_t)rvit_dtype_size(args->dtype),
                                                         args->rows.capacity, args->in_features, args->out_features);
    const rvit_cu_kernel kernel = args->dtype == RVIT_F32 ? RVIT_CU_linear_f32_64x64 : kernels[args->dtype][tile.shape];
    return rvit_cu_launch(queue, kernel, tile.ctas, tile.threads, tile.shared, &params);
}

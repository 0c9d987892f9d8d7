#include "backend_cuda/cu.h"

static rvit_cu_kernel choose_kernel(rvit_dtype dtype, rvit_cu_linear_shape shape)
{
    if (dtype == RVIT_F32)
        return RVIT_CU_linear_f32_64x64;
    const rvit_cu_kernel first = dtype == RVIT_F16 ? RVIT_CU_linear_f16_odd : RVIT_CU_linear_bf16_odd;
    return (rvit_cu_kernel)((int)first + (int)shape);
}

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
    const rvit_cu_lt_plan *plan;
    RVIT_TRY(rvit_cu_lt_prepare(queue, args, &plan));
    if (plan != NULL)
        return rvit_cu_lt_run(queue, args, plan);
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
    return rvit_cu_launch(queue, choose_kernel(args->dtype, tile.shape), tile.ctas, tile.threads, tile.shared, &params);
}

/* A linear op as input for the choice of a kernel, and as kernel parameters. */
#include "backend_cuda/cu.h"

int rvit_cu_linear_has_constant_weights(const rvit_cu_queue *queue, const rvit_linear_args *args)
{
    const int64_t columns = rvit_linear_columns(args), size = sizeof(float);
    const struct {
        rvit_view view;
        int64_t size;
    } read[] = {{args->weight, args->in_features * columns * rvit_dtype_size(args->dtype)},
                {args->bias, columns * size},
                {args->weight_scales, columns * size},
                {args->static_scale, size},
                {queue->hints.one_scale, size}};
    for (int32_t i = 0; i < queue->n_ops; i++)
        for (size_t j = 0; j < sizeof read / sizeof read[0]; j++)
            if (rvit_cu_writes(&queue->ops[i], read[j].view, read[j].size))
                return 0;
    return queue->n_ops > 0;
}

rvit_cu_linear_facts rvit_cu_linear_facts_of(const rvit_cu_queue *queue, const rvit_linear_args *args)
{
    const uintptr_t at = (uintptr_t)rvit_cu_at(args->x) | (uintptr_t)rvit_cu_at(args->weight) | (uintptr_t)rvit_cu_at(args->out) |
                         (uintptr_t)rvit_cu_at(args->residual) | (uintptr_t)rvit_cu_at(args->bias);
    return (rvit_cu_linear_facts){
        .dtype = args->dtype,
        .out_dtype = args->out_dtype,
        .rows = args->rows.capacity,
        .in_features = args->in_features,
        .out_features = args->out_features,
        .activation = args->activation,
        .gated = args->gated,
        .has_bias = args->bias.buffer != NULL,
        .has_residual = args->residual.buffer != NULL,
        .repeats = args->residual.buffer != NULL && args->residual_period != 0 && args->residual_period < args->rows.capacity,
        .live = args->rows.live.buffer != NULL && args->rows.padded != RVIT_ROWS_PADDED,
        .may_pad = queue->hints.padding_rows,
        .narrow_bias = queue->hints.narrow_bias.buffer != NULL,
        .is_unaligned = at % 16 != 0,
    };
}

rvit_cu_linear_params rvit_cu_linear_params_of(const rvit_cu_queue *queue, const rvit_linear_args *args)
{
    const rvit_sigmoid sigmoid = rvit_sigmoid_of(args->activation);
    return (rvit_cu_linear_params){
        .x = rvit_cu_at(args->x),
        .weight = rvit_cu_at(args->weight),
        .bias = rvit_cu_at(args->bias),
        .residual = rvit_cu_at(args->residual),
        .out = rvit_cu_at(args->out),
        .rows = rvit_cu_rows_of(&args->rows),
        .in_features = args->in_features,
        .out_features = (int32_t)rvit_linear_columns(args),
        .residual_period = (int32_t)args->residual_period,
        .gelu = args->activation == RVIT_ACTIVATION_GELU,
        .out_f32 = args->out_dtype == RVIT_F32,
        .constant_weights = rvit_cu_linear_has_constant_weights(queue, args),
        .slope = sigmoid.slope,
        .cubic = sigmoid.cubic,
        .gated = args->gated,
        .out_bf16 = args->out_dtype == RVIT_BF16,
        .x_scales = rvit_cu_at(args->x_scales),
        .weight_scales = rvit_cu_at(args->weight_scales),
        .one_scale = rvit_cu_at(queue->hints.one_scale),
        .static_scale = rvit_cu_at(args->static_scale),
        .out_scales = rvit_cu_at(args->out_scales),
        .saturated = rvit_cu_at(args->saturated),
    };
}

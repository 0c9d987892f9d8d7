/* The linear op. */
#include "backend_vulkan/vulkan.h"

_Static_assert(RVIT_LINEAR_NONE == RVIT_ACTIVATION_NONE && RVIT_LINEAR_GELU == RVIT_ACTIVATION_GELU &&
                   RVIT_LINEAR_GELU_TANH == RVIT_ACTIVATION_GELU_TANH && RVIT_LINEAR_QUICK_GELU == RVIT_ACTIVATION_QUICK_GELU &&
                   RVIT_LINEAR_SILU == RVIT_ACTIVATION_SILU,
               "shaders number activations as the API does");

/* [dtype][half out] */
static const rvit_vk_shader shaders[4][2] = {
    [RVIT_F32] = {RVIT_VK_LINEAR_F32_VK, RVIT_VK_LINEAR_F32_VK},
    [RVIT_F16] = {RVIT_VK_LINEAR_F16_F32_VK, RVIT_VK_LINEAR_F16_VK},
    [RVIT_BF16] = {RVIT_VK_LINEAR_F16_F32_VK, RVIT_VK_LINEAR_F16_VK},
    [RVIT_I8] = {RVIT_VK_LINEAR_I8_F32_VK_SCALAR, RVIT_VK_LINEAR_I8_F16_VK_SCALAR},
};
static const rvit_vk_shader dot_shaders[2] = {RVIT_VK_LINEAR_I8_F32_VK_SUBGROUP, RVIT_VK_LINEAR_I8_F16_VK_SUBGROUP};
static const rvit_vk_shader matrix_shaders[4][2] = {
    [RVIT_F16] = {RVIT_VK_LINEAR_F16_F32_VK_MATRIX, RVIT_VK_LINEAR_F16_VK_MATRIX},
    [RVIT_BF16] = {RVIT_VK_LINEAR_BF16_F32_VK_MATRIX, RVIT_VK_LINEAR_BF16_VK_MATRIX},
    [RVIT_I8] = {RVIT_VK_LINEAR_I8_F32_VK_MATRIX, RVIT_VK_LINEAR_I8_F16_VK_MATRIX},
};
static const rvit_vk_shader direct_matrix_shaders[2] = {RVIT_VK_LINEAR_DIRECT_F16_F32_VK_MATRIX, RVIT_VK_LINEAR_DIRECT_F16_VK_MATRIX};
static const rvit_vk_shader direct_shaders[3][2] = {
    [RVIT_F32] = {RVIT_VK_LINEAR_DIRECT_F32_VK, RVIT_VK_LINEAR_DIRECT_F32_VK},
    [RVIT_F16] = {RVIT_VK_LINEAR_DIRECT_F16_F32_VK, RVIT_VK_LINEAR_DIRECT_F16_VK},
    [RVIT_BF16] = {RVIT_VK_LINEAR_DIRECT_BF16_F32_VK, RVIT_VK_LINEAR_DIRECT_BF16_VK},
};

static rvit_status record_arrange(rvit_vk_recorder *recorder, const rvit_linear_args *args)
{
    struct rvit_arrange_push push = {.in8 = args->in_features / 8};
    rvit_vk_dispatch dispatch = {.shader = RVIT_VK_ARRANGE_F16_VK,
                                 .specs = {[RVIT_SPEC_THREADS] = RVIT_ARRANGE_THREADS},
                                 .groups = {.rows = rvit_linear_columns(args) / 64, .times = args->in_features / 64}};
    RVIT_VK_BIND(recorder, &dispatch, RVIT_VK_ARRAY(linear, weight, 16));
    return rvit_vk_record_dispatch(recorder, &dispatch, &push, sizeof push);
}

rvit_status rvit_vk_record_linear(rvit_vk_recorder *recorder, const rvit_linear_args *args)
{
    if (recorder->hints->arranged == RVIT_VK_ARRANGING)
        return record_arrange(recorder, args);
    if (args->rows.capacity == 0)
        return RVIT_OK;
    const rvit_vk_linear_shape shape = rvit_vk_shape_linear(recorder->device, args, recorder->hints->arranged);
    const int64_t columns = rvit_linear_columns(args);
    const int half_in = rvit_vk_is_half(args->dtype), half_out = rvit_vk_is_half(args->out_dtype), is_i8 = args->dtype == RVIT_I8;
    const int in_unit = half_in && !shape.matrix ? 8 : 16, out_unit = half_out && !shape.matrix ? 8 : 16;
    const uint32_t flags = (args->bias.buffer != NULL ? RVIT_LINEAR_HAS_BIAS : 0u) | (args->gated ? RVIT_LINEAR_GATED : 0u) |
                           (args->residual.buffer != NULL ? RVIT_LINEAR_HAS_RESIDUAL : 0u) | (shape.tight ? RVIT_LINEAR_TIGHT : 0u) |
                           (shape.small_m ? RVIT_LINEAR_SMALL_M : 0u) |
                           (shape.tight && args->in_features % (int32_t)shape.tile_k == 0 ? RVIT_LINEAR_WHOLE_K : 0u);
    struct rvit_linear_push push = {
        .rows = (int)args->rows.capacity, .in4 = args->in_features / 4, .out4 = (int)(columns / 4), .period = (int)args->residual_period};
    const rvit_vk_matrix *matrix = &recorder->device->physical.matrix;
    const int dot = is_i8 && rvit_vk_uses_dot(recorder->device);
    const rvit_vk_shader shader = shape.direct_matrix ? direct_matrix_shaders[half_out]
                                  : shape.matrix      ? matrix_shaders[args->dtype][half_out]
                                  : shape.direct      ? direct_shaders[args->dtype][half_out]
                                  : dot               ? dot_shaders[half_out]
                                                      : shaders[args->dtype][half_out];
    rvit_vk_dispatch dispatch = {.shader = shader,
                                 .specs = {[RVIT_SPEC_THREADS] = shape.threads,
                                           [RVIT_LINEAR_ROWS] = shape.rows,
                                           [RVIT_LINEAR_COLUMNS] = shape.columns,
                                           [RVIT_LINEAR_TILE_M] = shape.tile_m,
                                           [RVIT_LINEAR_TILE_N] = shape.tile_n,
                                           [RVIT_LINEAR_TILE_K] = shape.tile_k,
                                           [RVIT_LINEAR_FLAGS] = flags,
                                           [RVIT_LINEAR_ACTIVATION] = (uint32_t)args->activation,
                                           [RVIT_LINEAR_SUBGROUP] = matrix->subgroup,
                                           [RVIT_LINEAR_MATRIX_M] = is_i8 ? matrix->i8_m : matrix->m,
                                           [RVIT_LINEAR_MATRIX_N] = is_i8 ? matrix->i8_n : matrix->n,
                                           [RVIT_LINEAR_MATRIX_K] = is_i8 ? matrix->i8_k : matrix->k,
                                           [RVIT_VK_SPEC_BF16] = rvit_vk_bf16(args->dtype, args->out_dtype)},
                                 .n_texels = shape.direct ? 2 : 0,
                                 .texel_format = rvit_vk_texel_format(args->dtype),
                                 .groups = {.rows = args->rows.capacity,
                                            .divide = shape.tile_m,
                                            .times = (columns + shape.tile_n - 1) / shape.tile_n,
                                            .live = rvit_vk_dispatch_live(args->rows)}};
    RVIT_VK_BIND(recorder, &dispatch, RVIT_VK_ARRAY(linear, x, in_unit), RVIT_VK_ARRAY(linear, weight, in_unit),
                 RVIT_VK_ARRAY(linear, bias, 16), RVIT_VK_ARRAY(linear, residual, out_unit), RVIT_VK_ARRAY(linear, out, out_unit),
                 RVIT_VK_OPTIONAL(linear, live));
    if (is_i8) {
        RVIT_VK_BIND(recorder, &dispatch, RVIT_VK_ARRAY(linear, x_scales, 4), RVIT_VK_ARRAY(linear, weight_scales, 16));
    }
    return rvit_vk_record_dispatch(recorder, &dispatch, &push, sizeof push);
}

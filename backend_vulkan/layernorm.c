/* The layernorm op, with its gather. */
#include "backend_vulkan/vulkan.h"

#define MAX_HELD 8 /* 96 registers per lane */

/* [subgroup][half in][half out] */
static const rvit_vk_shader shaders[2][2][2] = {
    {{RVIT_VK_LAYERNORM_F32_VK_SCALAR, RVIT_VK_LAYERNORM_F32_F16_VK_SCALAR},
     {RVIT_VK_LAYERNORM_F16_F32_VK_SCALAR, RVIT_VK_LAYERNORM_F16_VK_SCALAR}},
    {{RVIT_VK_LAYERNORM_F32_VK_SUBGROUP, RVIT_VK_LAYERNORM_F32_F16_VK_SUBGROUP},
     {RVIT_VK_LAYERNORM_F16_F32_VK_SUBGROUP, RVIT_VK_LAYERNORM_F16_VK_SUBGROUP}},
};
/* [subgroup][half in] */
static const rvit_vk_shader byte_shaders[2][2] = {{RVIT_VK_LAYERNORM_F32_I8_VK_SCALAR, RVIT_VK_LAYERNORM_F16_I8_VK_SCALAR},
                                                  {RVIT_VK_LAYERNORM_F32_I8_VK_SUBGROUP, RVIT_VK_LAYERNORM_F16_I8_VK_SUBGROUP}};

static uint32_t flags_of(const rvit_layernorm_args *args)
{
    return (args->src_rows.buffer != NULL ? RVIT_LAYERNORM_HAS_GATHER : 0u) | (args->out_x.buffer != NULL ? RVIT_LAYERNORM_HAS_OUT_X : 0u) |
           (args->beta.buffer != NULL ? RVIT_LAYERNORM_HAS_BETA : 0u) | (args->norm == RVIT_NORM_RMS ? RVIT_LAYERNORM_RMS : 0u) |
           (args->features < args->dim ? RVIT_LAYERNORM_PADDED : 0u);
}

rvit_status rvit_vk_record_layernorm(rvit_vk_recorder *recorder, const rvit_layernorm_args *args)
{
    if (args->rows.capacity == 0 || args->x_rows == 0)
        return RVIT_OK;
    const int subgroup = rvit_vk_uses_subgroups(recorder->device);
    const int half_in = rvit_vk_is_half(args->dtype), half_out = rvit_vk_is_half(args->out_dtype), bytes = args->out_dtype == RVIT_I8;
    const uint32_t lanes = recorder->device->physical.subgroup_size;
    const uint32_t rows = rvit_vk_row_teams(recorder->device);
    const uint32_t held = subgroup ? ((uint32_t)args->dim / 4 + lanes - 1) / lanes : 1;
    struct rvit_layernorm_push push = {
        .rows = (int)args->rows.capacity, .x_rows = (int)args->x_rows, .dim4 = args->dim / 4, .features = args->features, .eps = args->eps};
    rvit_vk_dispatch dispatch = {
        .shader = bytes ? byte_shaders[subgroup][half_in] : shaders[subgroup][half_in][half_out],
        .specs = {[RVIT_SPEC_THREADS] = RVIT_MAX_THREADS,
                  [RVIT_LAYERNORM_ROWS] = rows,
                  [RVIT_LAYERNORM_FLAGS] = flags_of(args),
                  [RVIT_LAYERNORM_HELD] = held <= MAX_HELD ? held : 1,
                  [RVIT_VK_SPEC_BF16] = rvit_vk_bf16(args->dtype, args->out_dtype)},
        .n_specs = RVIT_LAYERNORM_N_SPECS,
        .push = &push,
        .push_size = sizeof push,
        .groups = {.rows = args->rows.capacity, .multiply = 1, .divide = rows, .times = 1, .live = rvit_vk_grid_live(args->rows)}};
    push.x_at = rvit_vk_bind(recorder, &dispatch, RVIT_LAYERNORM_X, RVIT_SLOT(layernorm, x), half_in ? 8 : 16);
    push.src_rows_at = rvit_vk_bind(recorder, &dispatch, RVIT_LAYERNORM_SRC_ROWS, RVIT_SLOT(layernorm, src_rows), 4);
    push.gamma_at = rvit_vk_bind(recorder, &dispatch, RVIT_LAYERNORM_GAMMA, RVIT_SLOT(layernorm, gamma), 16);
    push.beta_at = rvit_vk_bind(recorder, &dispatch, RVIT_LAYERNORM_BETA, RVIT_SLOT(layernorm, beta), 16);
    push.out_at = rvit_vk_bind(recorder, &dispatch, RVIT_LAYERNORM_OUT, RVIT_SLOT(layernorm, out), bytes ? 4 : half_out ? 8 : 16);
    push.out_x_at = rvit_vk_bind(recorder, &dispatch, RVIT_LAYERNORM_OUT_X, RVIT_SLOT(layernorm, out_x), half_in ? 8 : 16);
    push.live_at = rvit_vk_bind(recorder, &dispatch, RVIT_LAYERNORM_LIVE, RVIT_SLOT(layernorm, live), 4);
    if (bytes) {
        push.out_scales_at = rvit_vk_bind(recorder, &dispatch, RVIT_LAYERNORM_OUT_SCALES, RVIT_SLOT(layernorm, out_scales), 4);
        push.static_scale_at = rvit_vk_bind_or(recorder, &dispatch, RVIT_LAYERNORM_STATIC_SCALE, RVIT_SLOT(layernorm, static_scale), 4, -1);
        push.saturated_at = rvit_vk_bind_or(recorder, &dispatch, RVIT_LAYERNORM_SATURATED, RVIT_SLOT(layernorm, saturated), 4, -1);
        if (push.static_scale_at < 0)
            push.saturated_at = -1; /* nothing is cut off */
    }
    return rvit_vk_record_dispatch(recorder, &dispatch);
}

/* The layernorm op, which can gather its rows. */
#include "backend_vulkan/vulkan.h"

#define MAX_HELD 8 /* 96 registers per lane */

static const rvit_vk_shader shaders[2][2][2] = RVIT_VK_OF_TYPES(LAYERNORM);
/* [subgroup][half in] */
static const rvit_vk_shader i8_shaders[2][2] = {{RVIT_VK_LAYERNORM_F32_I8_VK_SCALAR, RVIT_VK_LAYERNORM_F16_I8_VK_SCALAR},
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
    const int half_in = rvit_vk_is_half(args->dtype), half_out = rvit_vk_is_half(args->out_dtype), is_i8 = args->out_dtype == RVIT_I8;
    const uint32_t lanes = recorder->device->physical.subgroup_size;
    const uint32_t rows = rvit_vk_row_teams(recorder->device);
    const uint32_t held = subgroup ? ((uint32_t)args->dim / 4 + lanes - 1) / lanes : 1;
    struct rvit_layernorm_push push = {
        .rows = (int)args->rows.capacity, .x_rows = (int)args->x_rows, .dim4 = args->dim / 4, .features = args->features, .eps = args->eps};
    rvit_vk_dispatch dispatch = {.shader = is_i8 ? i8_shaders[subgroup][half_in] : shaders[subgroup][half_in][half_out],
                                 .specs = {[RVIT_LAYERNORM_ROWS] = rows,
                                           [RVIT_LAYERNORM_FLAGS] = flags_of(args),
                                           [RVIT_LAYERNORM_HELD] = held <= MAX_HELD ? held : 1,
                                           [RVIT_VK_SPEC_BF16] = rvit_vk_bf16(args->dtype, args->out_dtype)},
                                 .groups = {.rows = args->rows.capacity, .divide = rows, .live = rvit_vk_dispatch_live(args->rows)}};
    RVIT_VK_BIND(recorder, &dispatch, RVIT_VK_ARRAY(layernorm, x, half_in ? 8 : 16), RVIT_VK_ARRAY(layernorm, src_rows, 4),
                 RVIT_VK_ARRAY(layernorm, gamma, 16), RVIT_VK_ARRAY(layernorm, beta, 16),
                 RVIT_VK_ARRAY(layernorm, out,
                               is_i8      ? 4
                               : half_out ? 8
                                          : 16),
                 RVIT_VK_ARRAY(layernorm, out_x, half_in ? 8 : 16), RVIT_VK_OPTIONAL(layernorm, live));
    if (is_i8) {
        RVIT_VK_BIND(recorder, &dispatch, RVIT_VK_ARRAY(layernorm, out_scales, 4), RVIT_VK_OPTIONAL(layernorm, static_scale),
                     RVIT_VK_OPTIONAL(layernorm, saturated));
        if (push.static_scale_at < 0)
            push.saturated_at = -1; /* nothing saturates */
    }
    return rvit_vk_record_dispatch(recorder, &dispatch, &push, sizeof push);
}

/* The quantize op. */
#include "backend_vulkan/vulkan.h"

#define MAX_HELD 24 /* 96 registers per lane */

/* [subgroup][half in] */
static const rvit_vk_shader shaders[2][2] = {{RVIT_VK_QUANTIZE_F32_VK_SCALAR, RVIT_VK_QUANTIZE_F16_VK_SCALAR},
                                             {RVIT_VK_QUANTIZE_F32_VK_SUBGROUP, RVIT_VK_QUANTIZE_F16_VK_SUBGROUP}};

rvit_status rvit_vk_record_quantize(rvit_vk_recorder *recorder, const rvit_quantize_args *args)
{
    if (args->rows.capacity == 0)
        return RVIT_OK;
    const int subgroup = rvit_vk_uses_subgroups(recorder->device), half = rvit_vk_is_half(args->dtype);
    const uint32_t rows = rvit_vk_row_teams(recorder->device);
    const uint32_t lanes = subgroup ? recorder->device->physical.subgroup_size : RVIT_MAX_THREADS / rows;
    const uint32_t held = ((uint32_t)args->columns / 4 + lanes - 1) / lanes;
    struct rvit_quantize_push push = {.rows = (int)args->rows.capacity, .columns4 = args->columns / 4};
    rvit_vk_dispatch dispatch = {.shader = shaders[subgroup][half],
                                 .specs = {[RVIT_QUANTIZE_ROWS] = rows,
                                           [RVIT_QUANTIZE_FLAGS] = (args->bias.buffer != NULL ? RVIT_QUANTIZE_HAS_BIAS : 0u) |
                                                                   (args->gated ? RVIT_QUANTIZE_GATED : 0u),
                                           [RVIT_QUANTIZE_HELD] = held <= MAX_HELD ? held : 1,
                                           [RVIT_QUANTIZE_ACTIVATION] = (uint32_t)args->activation,
                                           [RVIT_VK_SPEC_BF16] = rvit_vk_bf16(args->dtype, RVIT_F32)},
                                 .groups = {.rows = args->rows.capacity, .divide = rows, .live = rvit_vk_dispatch_live(args->rows)}};
    RVIT_VK_BIND(recorder, &dispatch, RVIT_VK_ARRAY(quantize, x, half ? 8 : 16), RVIT_VK_ARRAY(quantize, bias, 16),
                 RVIT_VK_OPTIONAL(quantize, static_scale), RVIT_VK_ARRAY(quantize, out, 4), RVIT_VK_ARRAY(quantize, out_scales, 4),
                 RVIT_VK_OPTIONAL(quantize, saturated));
    if (push.static_scale_at < 0)
        push.saturated_at = -1; /* nothing saturates */
    RVIT_VK_BIND(recorder, &dispatch, RVIT_VK_OPTIONAL(quantize, live));
    return rvit_vk_record_dispatch(recorder, &dispatch, &push, sizeof push);
}

/* The rope op. */
#include "backend_vulkan/vulkan.h"

rvit_status rvit_vk_record_rope(rvit_vk_recorder *recorder, const rvit_rope_args *args)
{
    if (args->rows.capacity == 0)
        return RVIT_OK;
    const int half = rvit_vk_is_half(args->dtype), unit = half ? 8 : 16;
    struct rvit_rope_push push = {.rows = (int)args->rows.capacity,
                                  .n_heads = args->n_heads,
                                  .pairs4 = args->head_dim / 8,
                                  .n_positions = args->n_positions,
                                  .n_prefix = args->n_prefix,
                                  .q_stride4 = (int)(args->q_stride / 4),
                                  .k_stride4 = (int)(args->k_stride / 4)};
    rvit_vk_dispatch dispatch = {
        .shader = half ? RVIT_VK_ROPE_F16_VK : RVIT_VK_ROPE_F32_VK,
        .specs = {[RVIT_ROPE_HAS_POSITIONS] = args->positions.buffer != NULL, [RVIT_VK_SPEC_BF16] = rvit_vk_bf16(args->dtype, args->dtype)},
        .groups = {.rows = args->rows.capacity,
                   .multiply = (int64_t)args->n_heads * args->head_dim / 4,
                   .divide = RVIT_MAX_THREADS,
                   .live = rvit_vk_dispatch_live(args->rows)}};
    RVIT_VK_BIND(recorder, &dispatch, RVIT_VK_ARRAY(rope, q, unit), RVIT_VK_ARRAY(rope, k, unit), RVIT_VK_ARRAY(rope, table, 16),
                 RVIT_VK_ARRAY(rope, positions, 4), RVIT_VK_OPTIONAL(rope, live));
    return rvit_vk_record_dispatch(recorder, &dispatch, &push, sizeof push);
}

/* The merge op. */
#include "backend_vulkan/vulkan.h"

rvit_status rvit_vk_record_merge(rvit_vk_recorder *recorder, const rvit_merge_args *args)
{
    if (args->rows.capacity == 0 || args->x_rows == 0)
        return RVIT_OK;
    const int half = rvit_vk_is_half(args->dtype);
    struct rvit_merge_push push = {.rows = (int)args->rows.capacity, .x_rows = (int)args->x_rows, .dim4 = args->dim / 4};
    rvit_vk_dispatch dispatch = {
        .shader = half ? RVIT_VK_MERGE_F16_VK : RVIT_VK_MERGE_F32_VK,
        .specs = {[RVIT_MERGE_HAS_SIZES] = args->sizes.buffer != NULL, [RVIT_VK_SPEC_BF16] = rvit_vk_bf16(args->dtype, args->dtype)},
        .groups = {
            .rows = args->rows.capacity, .multiply = args->dim / 4, .divide = RVIT_MAX_THREADS, .live = rvit_vk_dispatch_live(args->rows)}};
    RVIT_VK_BIND(recorder, &dispatch, RVIT_VK_ARRAY(merge, x, half ? 8 : 16), RVIT_VK_ARRAY(merge, sizes, 4),
                 RVIT_VK_ARRAY(merge, src_rows, 4), RVIT_VK_ARRAY(merge, next_rows, 4), RVIT_VK_ARRAY(merge, out_x, half ? 8 : 16),
                 RVIT_VK_ARRAY(merge, out_sizes, 4), RVIT_VK_ARRAY(merge, out_key_bias, 4), RVIT_VK_OPTIONAL(merge, live));
    return rvit_vk_record_dispatch(recorder, &dispatch, &push, sizeof push);
}

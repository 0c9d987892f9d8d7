/* The merge op. */
#include "backend_vulkan/vulkan.h"

rvit_status rvit_vk_record_merge(rvit_vk_recorder *recorder, const rvit_merge_args *args)
{
    if (args->rows.capacity == 0 || args->x_rows == 0)
        return RVIT_OK;
    const int half = rvit_vk_is_half(args->dtype);
    struct rvit_merge_push push = {.rows = (int)args->rows.capacity, .x_rows = (int)args->x_rows, .dim4 = args->dim / 4};
    rvit_vk_dispatch dispatch = {.shader = half ? RVIT_VK_MERGE_F16_VK : RVIT_VK_MERGE_F32_VK,
                                 .specs = {[RVIT_SPEC_THREADS] = RVIT_MAX_THREADS,
                                           [RVIT_MERGE_HAS_SIZES] = args->sizes.buffer != NULL,
                                           [RVIT_VK_SPEC_BF16] = rvit_vk_bf16(args->dtype, args->dtype)},
                                 .n_specs = RVIT_MERGE_N_SPECS,
                                 .push = &push,
                                 .push_size = sizeof push,
                                 .groups = {.rows = args->rows.capacity,
                                            .multiply = args->dim / 4,
                                            .divide = RVIT_MAX_THREADS,
                                            .times = 1,
                                            .live = rvit_vk_grid_live(args->rows)}};
    push.x_at = rvit_vk_bind(recorder, &dispatch, RVIT_MERGE_X, RVIT_SLOT(merge, x), half ? 8 : 16);
    push.sizes_at = rvit_vk_bind(recorder, &dispatch, RVIT_MERGE_SIZES, RVIT_SLOT(merge, sizes), 4);
    push.src_rows_at = rvit_vk_bind(recorder, &dispatch, RVIT_MERGE_SRC_ROWS, RVIT_SLOT(merge, src_rows), 4);
    push.next_rows_at = rvit_vk_bind(recorder, &dispatch, RVIT_MERGE_NEXT_ROWS, RVIT_SLOT(merge, next_rows), 4);
    push.out_x_at = rvit_vk_bind(recorder, &dispatch, RVIT_MERGE_OUT_X, RVIT_SLOT(merge, out_x), half ? 8 : 16);
    push.out_sizes_at = rvit_vk_bind(recorder, &dispatch, RVIT_MERGE_OUT_SIZES, RVIT_SLOT(merge, out_sizes), 4);
    push.out_key_bias_at = rvit_vk_bind(recorder, &dispatch, RVIT_MERGE_OUT_KEY_BIAS, RVIT_SLOT(merge, out_key_bias), 4);
    push.live_at = rvit_vk_bind(recorder, &dispatch, RVIT_MERGE_LIVE, RVIT_SLOT(merge, live), 4);
    return rvit_vk_record_dispatch(recorder, &dispatch);
}

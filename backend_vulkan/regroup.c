/* The regroup op. */
#include "backend_vulkan/vulkan.h"

rvit_status rvit_vk_record_regroup(rvit_vk_recorder *recorder, const rvit_regroup_args *args)
{
    const int64_t by_windows = args->n_windows / RVIT_MAX_THREADS + (int64_t)1;
    const int64_t wanted = args->n_images > by_windows ? args->n_images : by_windows;
    struct rvit_regroup_push push = {
        .n_images = args->n_images, .max_len = args->max_len, .rows = (int)args->rows, .n_windows = args->n_windows, .unit = args->unit};
    rvit_vk_dispatch dispatch = {.shader = RVIT_VK_REGROUP_VK,
                                 .specs = {[RVIT_REGROUP_FLAGS] = (args->window_cu_seqlens.buffer != NULL ? RVIT_REGROUP_HAS_WINDOWS : 0) |
                                                                  (args->unit_rows.buffer != NULL ? RVIT_REGROUP_HAS_UNITS : 0)},
                                 .groups = {.rows = wanted < RVIT_REGROUP_MOST_GROUPS ? wanted : RVIT_REGROUP_MOST_GROUPS}};
    RVIT_VK_BIND(recorder, &dispatch, RVIT_VK_ARRAY(regroup, cu_seqlens, 4), RVIT_VK_ARRAY(regroup, out_cu_seqlens, 4),
                 RVIT_VK_ARRAY(regroup, src_rows, 4), RVIT_VK_ARRAY(regroup, keep, 4), RVIT_VK_ARRAY(regroup, window_cu_seqlens, 4),
                 RVIT_VK_ARRAY(regroup, unit_rows, 4), RVIT_VK_ARRAY(regroup, unit_cu_seqlens, 4),
                 RVIT_VK_ARRAY(regroup, out_window_cu_seqlens, 4), RVIT_VK_ARRAY(regroup, out_unit_rows, 4));
    return rvit_vk_record_dispatch(recorder, &dispatch, &push, sizeof push);
}

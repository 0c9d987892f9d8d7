/* The grid_relayout op. */
#include "backend_vulkan/vulkan.h"

rvit_status rvit_vk_record_grid_relayout(rvit_vk_recorder *recorder, const rvit_grid_relayout_args *args)
{
    const int64_t by_windows = args->n_windows / RVIT_MAX_THREADS + (int64_t)1;
    const int64_t wanted = args->n_images > by_windows ? args->n_images : by_windows;
    struct rvit_grid_relayout_push push = {.n_images = args->n_images,
                                           .max_len = args->max_len,
                                           .rows = (int)args->rows,
                                           .n_windows = args->n_windows,
                                           .group_size = args->group_size};
    rvit_vk_dispatch dispatch = {
        .shader = RVIT_VK_GRID_RELAYOUT_VK,
        .specs = {[RVIT_GRID_RELAYOUT_FLAGS] = (args->window_cu_seqlens.buffer != NULL ? RVIT_GRID_RELAYOUT_HAS_WINDOWS : 0) |
                                               (args->group_rows.buffer != NULL ? RVIT_GRID_RELAYOUT_HAS_GROUP_ROWS : 0)},
        .groups = {.rows = wanted < RVIT_GRID_RELAYOUT_MAX_GROUPS ? wanted : RVIT_GRID_RELAYOUT_MAX_GROUPS}};
    RVIT_VK_BIND(recorder, &dispatch, RVIT_VK_ARRAY(grid_relayout, cu_seqlens, 4), RVIT_VK_ARRAY(grid_relayout, out_cu_seqlens, 4),
                 RVIT_VK_ARRAY(grid_relayout, src_rows, 4), RVIT_VK_ARRAY(grid_relayout, keep, 4),
                 RVIT_VK_ARRAY(grid_relayout, window_cu_seqlens, 4), RVIT_VK_ARRAY(grid_relayout, group_rows, 4),
                 RVIT_VK_ARRAY(grid_relayout, group_cu_seqlens, 4), RVIT_VK_ARRAY(grid_relayout, out_window_cu_seqlens, 4),
                 RVIT_VK_ARRAY(grid_relayout, out_group_rows, 4));
    return rvit_vk_record_dispatch(recorder, &dispatch, &push, sizeof push);
}

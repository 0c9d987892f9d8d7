/* The grid_layout op. */
#include "backend_vulkan/vulkan.h"

rvit_status rvit_vk_record_grid_layout(rvit_vk_recorder *recorder, const rvit_grid_layout_args *args)
{
    /* Each workgroup reads the grids before its own. More workgroups than this would only read more. */
    const int64_t entries = args->n_images + (int64_t)1, per_group = (entries - 1) / RVIT_GRID_LAYOUT_MAX_GROUPS + 1;
    struct rvit_grid_layout_push push = {.n_images = args->n_images,
                                         .n_prefix = args->n_prefix,
                                         .max_len = args->max_len,
                                         .merge = args->merge,
                                         .rows = (int)args->rows,
                                         .patch_rows = (int)args->patch_rows,
                                         .per_group = (int)per_group,
                                         .window = args->window,
                                         .max_windows = args->max_windows};
    rvit_vk_dispatch dispatch = {
        .shader = RVIT_VK_GRID_LAYOUT_VK,
        .specs = {[RVIT_GRID_LAYOUT_FLAGS] = (args->live_images.buffer != NULL ? RVIT_GRID_LAYOUT_HAS_LIVE : 0) |
                                             (args->patch_cu_seqlens.buffer != NULL ? RVIT_GRID_LAYOUT_HAS_PATCHES : 0) |
                                             (args->token_map.buffer != NULL ? RVIT_GRID_LAYOUT_HAS_CELLS : 0) |
                                             (args->group_cu_seqlens.buffer != NULL ? RVIT_GRID_LAYOUT_HAS_GROUPS : 0) |
                                             (args->window_cu_seqlens.buffer != NULL ? RVIT_GRID_LAYOUT_HAS_WINDOWS : 0) |
                                             (args->group_rows.buffer != NULL ? RVIT_GRID_LAYOUT_HAS_GROUP_ROWS : 0) |
                                             (args->patch_merge == 1 ? RVIT_GRID_LAYOUT_LINE_BY_LINE : 0)},
        .groups = {.rows = entries, .divide = per_group}};
    RVIT_VK_BIND(recorder, &dispatch, RVIT_VK_ARRAY(grid_layout, grids, 8), RVIT_VK_ARRAY(grid_layout, cu_seqlens, 4),
                 RVIT_VK_ARRAY(grid_layout, patch_cu_seqlens, 4), RVIT_VK_ARRAY(grid_layout, token_map, 16),
                 RVIT_VK_OPTIONAL(grid_layout, live), RVIT_VK_ARRAY(grid_layout, group_cu_seqlens, 4),
                 RVIT_VK_ARRAY(grid_layout, window_cu_seqlens, 4), RVIT_VK_ARRAY(grid_layout, group_rows, 4));
    return rvit_vk_record_dispatch(recorder, &dispatch, &push, sizeof push);
}

/* The grid_rope op. */
#include "backend_vulkan/vulkan.h"

rvit_status rvit_vk_record_grid_rope(rvit_vk_recorder *recorder, const rvit_grid_rope_args *args)
{
    if (args->rows.capacity == 0)
        return RVIT_OK;
    struct rvit_grid_rope_push push = {.rows = (int)args->rows.capacity,
                                       .pairs = args->head_dim / 2,
                                       .offset = args->offset,
                                       .reference_height = args->reference_height,
                                       .reference_width = args->reference_width};
    rvit_vk_dispatch dispatch = {
        .shader = RVIT_VK_GRID_ROPE_VK,
        .specs = {[RVIT_GRID_ROPE_FLAGS] = (args->coordinates == RVIT_ROPE_CENTRED ? RVIT_GRID_ROPE_IS_CENTRED : 0) |
                                           (args->order == RVIT_ROPE_XY ? RVIT_GRID_ROPE_IS_XY : 0)},
        .groups = {.rows = args->rows.capacity,
                   .multiply = args->head_dim / 2,
                   .divide = RVIT_MAX_THREADS,
                   .live = rvit_vk_dispatch_live(args->rows)}};
    RVIT_VK_BIND(recorder, &dispatch, RVIT_VK_ARRAY(grid_rope, token_map, 16), RVIT_VK_ARRAY(grid_rope, frequencies, 8),
                 RVIT_VK_ARRAY(grid_rope, out, 4), RVIT_VK_OPTIONAL(grid_rope, live));
    return rvit_vk_record_dispatch(recorder, &dispatch, &push, sizeof push);
}

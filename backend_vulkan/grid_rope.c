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
        .specs = {[RVIT_SPEC_THREADS] = RVIT_MAX_THREADS,
                  [RVIT_GRID_ROPE_FLAGS] = (args->coordinates == RVIT_ROPE_CENTRED ? RVIT_GRID_ROPE_IS_CENTRED : 0) |
                                           (args->order == RVIT_ROPE_XY ? RVIT_GRID_ROPE_IS_XY : 0)},
        .n_specs = RVIT_GRID_ROPE_N_SPECS,
        .push = &push,
        .push_size = sizeof push,
        .groups = {.rows = args->rows.capacity,
                   .multiply = args->head_dim / 2,
                   .divide = RVIT_MAX_THREADS,
                   .times = 1,
                   .live = rvit_vk_grid_live(args->rows)}};
    push.cells_at = rvit_vk_bind(recorder, &dispatch, RVIT_GRID_ROPE_CELLS, RVIT_SLOT(grid_rope, cells), 16);
    push.frequencies_at = rvit_vk_bind(recorder, &dispatch, RVIT_GRID_ROPE_FREQUENCIES, RVIT_SLOT(grid_rope, frequencies), 8);
    push.out_at = rvit_vk_bind(recorder, &dispatch, RVIT_GRID_ROPE_OUT, RVIT_SLOT(grid_rope, out), 4);
    push.live_at = rvit_vk_bind(recorder, &dispatch, RVIT_GRID_ROPE_LIVE, RVIT_SLOT(grid_rope, live), 4);
    return rvit_vk_record_dispatch(recorder, &dispatch);
}

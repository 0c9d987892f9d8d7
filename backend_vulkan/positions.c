/* The positions op. */
#include "backend_vulkan/vulkan.h"

rvit_status rvit_vk_record_positions(rvit_vk_recorder *recorder, const rvit_positions_args *args)
{
    if (args->rows.capacity == 0 || args->source_rows == 0)
        return RVIT_OK;
    struct rvit_positions_push push = {
        .rows = (int)args->rows.capacity, .source_rows = (int)args->source_rows, .n_positions = args->n_positions};
    rvit_vk_dispatch dispatch = {
        .shader = RVIT_VK_POSITIONS_VK,
        .specs = {[RVIT_SPEC_THREADS] = RVIT_MAX_THREADS,
                  [RVIT_POSITIONS_FLAGS] = (args->keep.buffer != NULL ? RVIT_POSITIONS_HAS_KEEP : 0) |
                                           (args->positions.buffer != NULL ? RVIT_POSITIONS_HAS_POSITIONS : 0)},
        .n_specs = RVIT_POSITIONS_N_SPECS,
        .push = &push,
        .push_size = sizeof push,
        .groups = {
            .rows = args->rows.capacity, .multiply = 1, .divide = RVIT_MAX_THREADS, .times = 1, .live = rvit_vk_grid_live(args->rows)}};
    push.src_rows_at = rvit_vk_bind(recorder, &dispatch, RVIT_POSITIONS_SRC_ROWS, RVIT_SLOT(positions, src_rows), 4);
    push.keep_at = rvit_vk_bind(recorder, &dispatch, RVIT_POSITIONS_KEEP, RVIT_SLOT(positions, keep), 4);
    push.positions_at = rvit_vk_bind(recorder, &dispatch, RVIT_POSITIONS_POSITIONS, RVIT_SLOT(positions, positions), 4);
    push.out_at = rvit_vk_bind(recorder, &dispatch, RVIT_POSITIONS_OUT, RVIT_SLOT(positions, out), 4);
    push.live_at = rvit_vk_bind(recorder, &dispatch, RVIT_POSITIONS_LIVE, RVIT_SLOT(positions, live), 4);
    return rvit_vk_record_dispatch(recorder, &dispatch);
}

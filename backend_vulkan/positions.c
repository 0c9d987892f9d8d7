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
        .specs = {[RVIT_POSITIONS_FLAGS] = (args->keep.buffer != NULL ? RVIT_POSITIONS_HAS_KEEP : 0) |
                                           (args->positions.buffer != NULL ? RVIT_POSITIONS_HAS_POSITIONS : 0)},
        .groups = {.rows = args->rows.capacity, .divide = RVIT_MAX_THREADS, .live = rvit_vk_dispatch_live(args->rows)}};
    RVIT_VK_BIND(recorder, &dispatch, RVIT_VK_ARRAY(positions, src_rows, 4), RVIT_VK_ARRAY(positions, keep, 4),
                 RVIT_VK_ARRAY(positions, positions, 4), RVIT_VK_ARRAY(positions, out, 4), RVIT_VK_OPTIONAL(positions, live));
    return rvit_vk_record_dispatch(recorder, &dispatch, &push, sizeof push);
}

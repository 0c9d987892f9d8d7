/* The pack op. */
#include "backend_vulkan/vulkan.h"

rvit_status rvit_vk_record_pack(rvit_vk_recorder *recorder, const rvit_pack_args *args)
{
    if (args->rows.capacity == 0 || args->source_rows == 0)
        return RVIT_OK;
    const int unit = args->row_size % 16 == 0 ? 16 : 4;
    struct rvit_pack_push push = {
        .rows = (int)args->rows.capacity, .source_rows = (int)args->source_rows, .row_units = (int)(args->row_size / unit)};
    rvit_vk_dispatch dispatch = {.shader = unit == 16 ? RVIT_VK_PACK_16_VK : RVIT_VK_PACK_4_VK,
                                 .specs = {RVIT_MAX_THREADS},
                                 .n_specs = RVIT_PACK_N_SPECS,
                                 .push = &push,
                                 .push_size = sizeof push,
                                 .groups = {.rows = args->rows.capacity,
                                            .multiply = args->row_size / unit,
                                            .divide = RVIT_MAX_THREADS,
                                            .times = 1,
                                            .live = rvit_vk_grid_live(args->rows)}};
    push.source_at = rvit_vk_bind(recorder, &dispatch, RVIT_PACK_SOURCE, RVIT_SLOT(pack, source), unit);
    push.src_rows_at = rvit_vk_bind(recorder, &dispatch, RVIT_PACK_SRC_ROWS, RVIT_SLOT(pack, src_rows), 4);
    push.destination_at = rvit_vk_bind(recorder, &dispatch, RVIT_PACK_DESTINATION, RVIT_SLOT(pack, destination), unit);
    push.live_at = rvit_vk_bind(recorder, &dispatch, RVIT_PACK_LIVE, RVIT_SLOT(pack, live), 4);
    return rvit_vk_record_dispatch(recorder, &dispatch);
}

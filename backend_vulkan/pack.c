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
                                 .groups = {.rows = args->rows.capacity,
                                            .multiply = args->row_size / unit,
                                            .divide = RVIT_MAX_THREADS,
                                            .live = rvit_vk_dispatch_live(args->rows)}};
    RVIT_VK_BIND(recorder, &dispatch, RVIT_VK_ARRAY(pack, source, unit), RVIT_VK_ARRAY(pack, src_rows, 4),
                 RVIT_VK_ARRAY(pack, destination, unit), RVIT_VK_OPTIONAL(pack, live));
    return rvit_vk_record_dispatch(recorder, &dispatch, &push, sizeof push);
}

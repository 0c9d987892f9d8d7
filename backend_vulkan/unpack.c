/* The unpack op. */
#include "backend_vulkan/vulkan.h"

#define ROWS 8 /* destination rows per workgroup */

rvit_status rvit_vk_record_unpack(rvit_vk_recorder *recorder, const rvit_unpack_args *args)
{
    if (args->destination_rows.capacity == 0)
        return RVIT_OK;
    const uint32_t base_mode = args->base.buffer == NULL ? RVIT_UNPACK_FILL
                               : args->base.buffer == args->destination.buffer && args->base.offset == args->destination.offset
                                   ? RVIT_UNPACK_IN_PLACE
                                   : RVIT_UNPACK_COPY_BASE;
    struct rvit_unpack_push push = {.rows = (int)args->rows.capacity,
                                    .destination_rows = (int)args->destination_rows.capacity,
                                    .row_units = (int)(args->dim * rvit_dtype_size(args->dtype) / 8),
                                    .fill = (int)rvit_unpack_fill(args)};
    rvit_vk_dispatch dispatch = {
        .shader = RVIT_VK_UNPACK_VK,
        .specs = {[RVIT_UNPACK_ROWS] = ROWS, [RVIT_UNPACK_BASE_MODE] = base_mode},
        .groups = {.rows = args->destination_rows.capacity, .divide = ROWS, .live = rvit_vk_dispatch_live(args->destination_rows)}};
    RVIT_VK_BIND(recorder, &dispatch, RVIT_VK_ARRAY(unpack, source, 8), RVIT_VK_ARRAY(unpack, src_rows, 4), RVIT_VK_ARRAY(unpack, base, 8),
                 RVIT_VK_ARRAY(unpack, destination, 8), RVIT_VK_OPTIONAL(unpack, live), RVIT_VK_OPTIONAL(unpack, destination_live));
    return rvit_vk_record_dispatch(recorder, &dispatch, &push, sizeof push);
}

/* The unpack op. */
#include "backend_vulkan/vulkan.h"
#include "core/base/half.h"

#define ROWS 8 /* destination rows per workgroup */

/* The fill value as 32 bits of destination elements. */
static uint32_t fill_bits(rvit_dtype dtype, float fill)
{
    if (dtype == RVIT_F32)
        return rvit_float_bits(fill);
    const uint32_t element = dtype == RVIT_F16 ? rvit_f32_to_f16(fill) : rvit_f32_to_bf16(fill);
    return element | element << 16;
}

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
                                    .fill = (int)fill_bits(args->dtype, args->fill)};
    rvit_vk_dispatch dispatch = {
        .shader = RVIT_VK_UNPACK_VK,
        .specs = {[RVIT_SPEC_THREADS] = RVIT_MAX_THREADS, [RVIT_UNPACK_ROWS] = ROWS, [RVIT_UNPACK_BASE_MODE] = base_mode},
        .n_specs = RVIT_UNPACK_N_SPECS,
        .push = &push,
        .push_size = sizeof push,
        .groups = {.rows = args->destination_rows.capacity,
                   .multiply = 1,
                   .divide = ROWS,
                   .times = 1,
                   .live = rvit_vk_grid_live(args->destination_rows)}};
    push.source_at = rvit_vk_bind(recorder, &dispatch, RVIT_UNPACK_SOURCE, RVIT_SLOT(unpack, source), 8);
    push.src_rows_at = rvit_vk_bind(recorder, &dispatch, RVIT_UNPACK_SRC_ROWS, RVIT_SLOT(unpack, src_rows), 4);
    push.base_at = rvit_vk_bind(recorder, &dispatch, RVIT_UNPACK_BASE, RVIT_SLOT(unpack, base), 8);
    push.destination_at = rvit_vk_bind(recorder, &dispatch, RVIT_UNPACK_DESTINATION, RVIT_SLOT(unpack, destination), 8);
    push.live_at = rvit_vk_bind(recorder, &dispatch, RVIT_UNPACK_LIVE, RVIT_SLOT(unpack, live), 4);
    push.destination_live_at = rvit_vk_bind(recorder, &dispatch, RVIT_UNPACK_DESTINATION_LIVE, RVIT_SLOT(unpack, destination_live), 4);
    return rvit_vk_record_dispatch(recorder, &dispatch);
}

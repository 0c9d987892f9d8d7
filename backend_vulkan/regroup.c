/* The regroup op. */
#include "backend_vulkan/vulkan.h"

rvit_status rvit_vk_record_regroup(rvit_vk_recorder *recorder, const rvit_regroup_args *args)
{
    const int64_t by_windows = args->n_windows / RVIT_MAX_THREADS + (int64_t)1;
    const int64_t wanted = args->n_images > by_windows ? args->n_images : by_windows;
    struct rvit_regroup_push push = {
        .n_images = args->n_images, .max_len = args->max_len, .rows = (int)args->rows, .n_windows = args->n_windows, .unit = args->unit};
    rvit_vk_dispatch dispatch = {
        .shader = RVIT_VK_REGROUP_VK,
        .specs = {[RVIT_SPEC_THREADS] = RVIT_MAX_THREADS,
                  [RVIT_REGROUP_FLAGS] = (args->window_cu_seqlens.buffer != NULL ? RVIT_REGROUP_HAS_WINDOWS : 0) |
                                         (args->unit_rows.buffer != NULL ? RVIT_REGROUP_HAS_UNITS : 0)},
        .n_specs = RVIT_REGROUP_N_SPECS,
        .push = &push,
        .push_size = sizeof push,
        .groups = {.rows = wanted < RVIT_REGROUP_MOST_GROUPS ? wanted : RVIT_REGROUP_MOST_GROUPS, .multiply = 1, .divide = 1, .times = 1}};
    push.cu_seqlens_at = rvit_vk_bind(recorder, &dispatch, RVIT_REGROUP_CU_SEQLENS, RVIT_SLOT(regroup, cu_seqlens), 4);
    push.after_at = rvit_vk_bind(recorder, &dispatch, RVIT_REGROUP_AFTER, RVIT_SLOT(regroup, out_cu_seqlens), 4);
    push.src_rows_at = rvit_vk_bind(recorder, &dispatch, RVIT_REGROUP_SRC_ROWS, RVIT_SLOT(regroup, src_rows), 4);
    push.keep_at = rvit_vk_bind(recorder, &dispatch, RVIT_REGROUP_KEEP, RVIT_SLOT(regroup, keep), 4);
    push.windows_at = rvit_vk_bind(recorder, &dispatch, RVIT_REGROUP_WINDOWS, RVIT_SLOT(regroup, window_cu_seqlens), 4);
    push.unit_rows_at = rvit_vk_bind(recorder, &dispatch, RVIT_REGROUP_UNIT_ROWS, RVIT_SLOT(regroup, unit_rows), 4);
    push.unit_cu_seqlens_at = rvit_vk_bind(recorder, &dispatch, RVIT_REGROUP_UNIT_CU_SEQLENS, RVIT_SLOT(regroup, unit_cu_seqlens), 4);
    push.out_windows_at = rvit_vk_bind(recorder, &dispatch, RVIT_REGROUP_OUT_WINDOWS, RVIT_SLOT(regroup, out_window_cu_seqlens), 4);
    push.out_unit_rows_at = rvit_vk_bind(recorder, &dispatch, RVIT_REGROUP_OUT_UNIT_ROWS, RVIT_SLOT(regroup, out_unit_rows), 4);
    return rvit_vk_record_dispatch(recorder, &dispatch);
}

/* The select op: keep marks and counts, their sums, the source rows. */
#include "backend_vulkan/vulkan.h"
#include "core/half.h"

/* [subgroup][stage] */
static const rvit_vk_shader shaders[2][3] = {
    {RVIT_VK_SELECT_KEEP_VK_SCALAR, RVIT_VK_SELECT_SCAN_VK_SCALAR, RVIT_VK_SELECT_ROWS_VK_SCALAR},
    {RVIT_VK_SELECT_KEEP_VK_SUBGROUP, RVIT_VK_SELECT_SCAN_VK_SUBGROUP, RVIT_VK_SELECT_ROWS_VK_SUBGROUP},
};

/* score_key() of common/order.glsl, for a threshold that is not NaN. */
static uint32_t threshold_key(float threshold)
{
    uint32_t bits = rvit_float_bits(threshold);
    if (bits == 0x80000000u)
        bits = 0;
    return (bits & 0x80000000u) != 0 ? ~bits : bits | 0x80000000u;
}

rvit_status rvit_vk_record_select(rvit_vk_recorder *recorder, const rvit_select_args *args)
{
    const int subgroup = rvit_vk_uses_subgroups(recorder->device);
    struct rvit_select_push push = {.n_images = args->n_images,
                                    .max_len = args->max_len,
                                    .rows = (int)args->rows,
                                    .n_prefix = args->n_prefix,
                                    .prefix_competes = args->prefix_competes,
                                    .threshold_key = (int)threshold_key(args->threshold)};
    rvit_vk_dispatch dispatch = {.specs = {[RVIT_SPEC_THREADS] = RVIT_MAX_THREADS,
                                           [RVIT_SELECT_MODE] = (uint32_t)args->mode,
                                           [RVIT_SELECT_HAS_ERROR] = args->error.buffer != NULL},
                                 .n_specs = RVIT_SELECT_N_SPECS,
                                 .push = &push,
                                 .push_size = sizeof push};
    const int masked = args->mode == RVIT_SELECT_MASK;
    push.counts_at = rvit_vk_bind(recorder, &dispatch, RVIT_SELECT_COUNTS, "counts", 4);
    push.input_at = rvit_vk_bind(recorder, &dispatch, RVIT_SELECT_INPUT, masked ? "keep_in" : "scores", 4);
    push.cu_seqlens_at = rvit_vk_bind(recorder, &dispatch, RVIT_SELECT_CU_SEQLENS, "cu_seqlens", 4);
    push.keep_at = rvit_vk_bind(recorder, &dispatch, RVIT_SELECT_KEEP, "keep", 4);
    push.out_cu_seqlens_at = rvit_vk_bind(recorder, &dispatch, RVIT_SELECT_OUT_CU_SEQLENS, "out_cu_seqlens", 4);
    push.src_rows_at = rvit_vk_bind(recorder, &dispatch, RVIT_SELECT_SRC_ROWS, "src_rows", 4);
    push.error_at = rvit_vk_bind(recorder, &dispatch, RVIT_SELECT_ERROR, "error", 4);
    for (int stage = 0; stage < 3; stage++) {
        dispatch.shader = shaders[subgroup][stage];
        dispatch.groups = (rvit_vk_groups){.rows = stage == 1 ? 1 : args->n_images, .multiply = 1, .divide = 1, .times = 1};
        if (stage > 0)
            rvit_vk_record_barrier(recorder);
        RVIT_TRY(rvit_vk_record_dispatch(recorder, &dispatch));
    }
    return RVIT_OK;
}

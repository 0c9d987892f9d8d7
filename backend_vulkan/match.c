/* The match op. */
#include "backend_vulkan/vulkan.h"

#define MAX_GROUPS 1024 /* each adds up the lengths of all images before its own */

/* [windows][subgroup][half] */
static const rvit_vk_shader shaders[2][2][2] = {
    {{RVIT_VK_MATCH_F32_VK_SCALAR, RVIT_VK_MATCH_F16_VK_SCALAR}, {RVIT_VK_MATCH_F32_VK_SUBGROUP, RVIT_VK_MATCH_F16_VK_SUBGROUP}},
    {{RVIT_VK_MATCH_WINDOWS_F32_VK_SCALAR, RVIT_VK_MATCH_WINDOWS_F16_VK_SCALAR},
     {RVIT_VK_MATCH_WINDOWS_F32_VK_SUBGROUP, RVIT_VK_MATCH_WINDOWS_F16_VK_SUBGROUP}},
};

int rvit_vk_match_share(const rvit_match_args *args)
{
    return args->n_images == 0 ? 1 : (args->n_images - 1) / MAX_GROUPS + 1;
}

rvit_status rvit_vk_record_match(rvit_vk_recorder *recorder, const rvit_match_args *args)
{
    const int half = rvit_vk_is_half(args->dtype), windows = args->window_cu_seqlens.buffer != NULL;
    const int share = rvit_vk_match_share(args);
    struct rvit_match_push push = {.n_images = args->n_images,
                                   .max_len = args->max_len,
                                   .rows = (int)args->rows,
                                   .n_prefix = args->n_prefix,
                                   .n_heads = args->n_heads,
                                   .k_stride4 = (int)(args->k_stride / 4),
                                   .merges = args->merges,
                                   .n_windows = args->n_windows,
                                   .share = share};
    rvit_vk_dispatch dispatch = {.shader = shaders[windows][rvit_vk_uses_subgroups(recorder->device)][half],
                                 .specs = {[RVIT_SPEC_THREADS] = RVIT_MAX_THREADS,
                                           [RVIT_MATCH_HEAD_DIM] = (uint32_t)args->head_dim,
                                           [RVIT_MATCH_LONG] = args->max_len > RVIT_NEAR_KEYS,
                                           [RVIT_MATCH_UNIT] = (uint32_t)args->unit,
                                           [RVIT_VK_SPEC_BF16] = rvit_vk_bf16(args->dtype, args->dtype)},
                                 .n_specs = RVIT_MATCH_N_SPECS,
                                 .push = &push,
                                 .push_size = sizeof push,
                                 .groups = {.rows = args->n_images == 0 ? 1 : args->n_images, .multiply = 1, .divide = share, .times = 1}};
    push.cu_seqlens_at = rvit_vk_bind(recorder, &dispatch, RVIT_MATCH_CU_SEQLENS, RVIT_SLOT(match, cu_seqlens), 4);
    push.k_at = rvit_vk_bind(recorder, &dispatch, RVIT_MATCH_K, RVIT_SLOT(match, k), half ? 8 : 16);
    push.keep_at = rvit_vk_bind(recorder, &dispatch, RVIT_MATCH_KEEP, RVIT_SLOT(match, keep), 4);
    push.out_cu_seqlens_at = rvit_vk_bind(recorder, &dispatch, RVIT_MATCH_OUT_CU_SEQLENS, RVIT_SLOT(match, out_cu_seqlens), 4);
    push.src_rows_at = rvit_vk_bind(recorder, &dispatch, RVIT_MATCH_SRC_ROWS, RVIT_SLOT(match, src_rows), 4);
    push.metric_at = rvit_vk_bind(recorder, &dispatch, RVIT_MATCH_METRIC, RVIT_SLOT(match, metric), 16);
    push.next_rows_at = rvit_vk_bind(recorder, &dispatch, RVIT_MATCH_NEXT_ROWS, RVIT_SLOT(match, next_rows), 4);
    if (windows)
        push.windows_at = rvit_vk_bind(recorder, &dispatch, RVIT_MATCH_WINDOWS, RVIT_SLOT(match, window_cu_seqlens), 4);
    (void)rvit_vk_bind(recorder, &dispatch, RVIT_MATCH_GRIDS, RVIT_N_SLOTS_match, 4);
    const rvit_vk_grid_list own = rvit_vk_find_own_grids(recorder);
    push.n_grids = own.n;
    push.grids_at = own.grids_at;
    push.rules_at = own.rules_at;
    return rvit_vk_record_dispatch(recorder, &dispatch);
}

/* The bipartite_match op. */
#include "backend_vulkan/vulkan.h"

#define MAX_GROUPS 1024 /* each workgroup adds up the lengths of all images before its own */

/* [windows][subgroup][half] */
static const rvit_vk_shader shaders[2][2][2] = {
    {{RVIT_VK_BIPARTITE_MATCH_F32_VK_SCALAR, RVIT_VK_BIPARTITE_MATCH_F16_VK_SCALAR},
     {RVIT_VK_BIPARTITE_MATCH_F32_VK_SUBGROUP, RVIT_VK_BIPARTITE_MATCH_F16_VK_SUBGROUP}},
    {{RVIT_VK_BIPARTITE_MATCH_WINDOWS_F32_VK_SCALAR, RVIT_VK_BIPARTITE_MATCH_WINDOWS_F16_VK_SCALAR},
     {RVIT_VK_BIPARTITE_MATCH_WINDOWS_F32_VK_SUBGROUP, RVIT_VK_BIPARTITE_MATCH_WINDOWS_F16_VK_SUBGROUP}},
};

int rvit_vk_bipartite_match_share(const rvit_bipartite_match_args *args)
{
    return args->n_images == 0 ? 1 : (args->n_images - 1) / MAX_GROUPS + 1;
}

rvit_status rvit_vk_record_bipartite_match(rvit_vk_recorder *recorder, const rvit_bipartite_match_args *args)
{
    const int half = rvit_vk_is_half(args->dtype), windows = args->window_cu_seqlens.buffer != NULL;
    const int share = rvit_vk_bipartite_match_share(args);
    struct rvit_bipartite_match_push push = {.n_images = args->n_images,
                                             .max_len = args->max_len,
                                             .rows = (int)args->rows,
                                             .n_prefix = args->n_prefix,
                                             .n_heads = args->n_heads,
                                             .k_stride4 = (int)(args->k_stride / 4),
                                             .merges = args->merges,
                                             .n_windows = args->n_windows,
                                             .share = share};
    rvit_vk_dispatch dispatch = {.shader = shaders[windows][rvit_vk_uses_subgroups(recorder->device)][half],
                                 .specs = {[RVIT_BIPARTITE_MATCH_HEAD_DIM] = (uint32_t)args->head_dim,
                                           [RVIT_BIPARTITE_MATCH_LONG] = args->max_len > RVIT_NEAR_KEYS,
                                           [RVIT_BIPARTITE_MATCH_GROUP_SIZE] = (uint32_t)args->group_size,
                                           [RVIT_VK_SPEC_BF16] = rvit_vk_bf16(args->dtype, args->dtype)},
                                 .groups = {.rows = args->n_images == 0 ? 1 : args->n_images, .divide = share}};
    RVIT_VK_BIND(recorder, &dispatch, RVIT_VK_ARRAY(bipartite_match, cu_seqlens, 4), RVIT_VK_ARRAY(bipartite_match, k, half ? 8 : 16),
                 RVIT_VK_ARRAY(bipartite_match, keep, 4), RVIT_VK_ARRAY(bipartite_match, out_cu_seqlens, 4),
                 RVIT_VK_ARRAY(bipartite_match, src_rows, 4), RVIT_VK_ARRAY(bipartite_match, metric, 16),
                 RVIT_VK_ARRAY(bipartite_match, next_rows, 4));
    (void)rvit_vk_bind(recorder, &dispatch, RVIT_N_SLOTS_bipartite_match, 4);
    if (windows)
        push.windows_at = rvit_vk_bind(recorder, &dispatch, RVIT_SLOT(bipartite_match, window_cu_seqlens), 4);
    const rvit_vk_dispatch_size_list own = rvit_vk_find_own_dispatch_sizes(recorder);
    push.n_dispatch_sizes = own.n;
    push.dispatch_sizes_at = own.sizes_at;
    push.rules_at = own.rules_at;
    return rvit_vk_record_dispatch(recorder, &dispatch, &push, sizeof push);
}

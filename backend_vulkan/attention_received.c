/* The attention_received op. The number of workgroups follows from capacities; a workgroup whose keys are past the end of its image returns
 * early. */
#include "backend_vulkan/vulkan.h"

rvit_status rvit_vk_record_attention_received(rvit_vk_recorder *recorder, const rvit_attention_received_args *args)
{
    const int64_t len = args->max_len < args->rows ? args->max_len : args->rows;
    if (len == 0 || args->n_images == 0)
        return RVIT_OK;
    const int half = rvit_vk_is_half(args->dtype), unit = half ? 8 : 16;
    const int64_t tiles = (len + RVIT_ATTENTION_RECEIVED_KEYS - 1) / RVIT_ATTENTION_RECEIVED_KEYS;
    struct rvit_attention_received_push push = {.n_images = args->n_images,
                                                .n_heads = args->n_heads,
                                                .max_len = args->max_len,
                                                .rows = (int)args->rows,
                                                .n_tiles = (int)tiles,
                                                .dim4 = args->head_dim / 4,
                                                .scale = args->scale,
                                                .q_stride4 = (int)(args->q_stride / 4),
                                                .k_stride4 = (int)(args->k_stride / 4)};
    rvit_vk_dispatch dispatch = {.shader = half ? RVIT_VK_ATTENTION_RECEIVED_F16_VK : RVIT_VK_ATTENTION_RECEIVED_F32_VK,
                                 .specs = {[RVIT_ATTENTION_RECEIVED_HAS_BIAS] = args->key_bias.buffer != NULL,
                                           [RVIT_VK_SPEC_BF16] = rvit_vk_bf16(args->dtype, args->dtype)},
                                 .groups = {.rows = args->n_images, .multiply = args->n_heads, .times = tiles}};
    RVIT_VK_BIND(recorder, &dispatch, RVIT_VK_ARRAY(attention_received, q, unit), RVIT_VK_ARRAY(attention_received, k, unit),
                 RVIT_VK_ARRAY(attention_received, cu_seqlens, 4), RVIT_VK_ARRAY(attention_received, key_bias, 4),
                 RVIT_VK_ARRAY(attention_received, lse, 4), RVIT_VK_ARRAY(attention_received, out, 4));
    return rvit_vk_record_dispatch(recorder, &dispatch, &push, sizeof push);
}

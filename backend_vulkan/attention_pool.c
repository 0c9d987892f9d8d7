/* The attention_pool op. */
#include "backend_vulkan/vulkan.h"

static const rvit_vk_shader shaders[2][2][2] = RVIT_VK_OF_TYPES(ATTENTION_POOL);

rvit_status rvit_vk_record_attention_pool(rvit_vk_recorder *recorder, const rvit_attention_pool_args *args)
{
    if (args->n_images == 0)
        return RVIT_OK;
    const int half_in = rvit_vk_is_half(args->dtype), half_out = rvit_vk_is_half(args->out_dtype);
    struct rvit_attention_pool_push push = {.n_images = args->n_images,
                                            .n_heads = args->n_heads,
                                            .max_len = args->max_len,
                                            .rows = (int)args->rows,
                                            .dim4 = args->dim / 4,
                                            .head_dim = args->head_dim,
                                            .logits_stride = (int)args->logits_stride};
    rvit_vk_dispatch dispatch = {.shader = shaders[rvit_vk_uses_subgroups(recorder->device)][half_in][half_out],
                                 .specs = {[RVIT_ATTENTION_POOL_TEAMS] = rvit_vk_row_teams(recorder->device),
                                           [RVIT_ATTENTION_POOL_FLAGS] = (args->sizes.buffer != NULL ? RVIT_ATTENTION_POOL_HAS_SIZES : 0u) |
                                                                         (args->bias.buffer != NULL ? RVIT_ATTENTION_POOL_HAS_BIAS : 0u) |
                                                                         (args->probs.buffer != NULL ? RVIT_ATTENTION_POOL_HAS_PROBS : 0u),
                                           [RVIT_VK_SPEC_BF16] = rvit_vk_bf16(args->dtype, args->out_dtype)},
                                 .groups = {.rows = args->n_images, .multiply = args->n_heads}};
    RVIT_VK_BIND(recorder, &dispatch, RVIT_VK_ARRAY(attention_pool, cu_seqlens, 4), RVIT_VK_ARRAY(attention_pool, x, half_in ? 8 : 16),
                 RVIT_VK_ARRAY(attention_pool, logits, 4), RVIT_VK_ARRAY(attention_pool, sizes, 4),
                 RVIT_VK_ARRAY(attention_pool, weight, half_in ? 8 : 16), RVIT_VK_ARRAY(attention_pool, bias, 4),
                 RVIT_VK_ARRAY(attention_pool, out, half_out ? 8 : 16), RVIT_VK_ARRAY(attention_pool, probs, 4));
    return rvit_vk_record_dispatch(recorder, &dispatch, &push, sizeof push);
}

/* The head op. */
#include "backend_vulkan/vulkan.h"

static const rvit_vk_shader shaders[2][2][2] = RVIT_VK_OF_TYPES(HEAD);

static uint32_t flags_of(const rvit_head_args *args)
{
    return (args->bias.buffer != NULL ? RVIT_HEAD_HAS_BIAS : 0u) | (args->cu_seqlens.buffer != NULL ? RVIT_HEAD_HAS_LENGTHS : 0u) |
           (args->gamma.buffer != NULL ? RVIT_HEAD_HAS_NORM : 0u) | (args->beta.buffer != NULL ? RVIT_HEAD_HAS_BETA : 0u) |
           (args->norm == RVIT_NORM_RMS ? RVIT_HEAD_RMS : 0u);
}

rvit_status rvit_vk_record_head(rvit_vk_recorder *recorder, const rvit_head_args *args)
{
    if (args->n_images == 0)
        return RVIT_OK;
    const int half_in = rvit_vk_is_half(args->dtype), half_weight = rvit_vk_is_half(args->weight_dtype);
    const uint32_t teams = rvit_vk_row_teams(recorder->device);
    struct rvit_head_push push = {.n_images = args->n_images,
                                  .rows = (int)args->rows,
                                  .dim4 = args->dim / 4,
                                  .n_tokens = args->n_tokens,
                                  .n_classes = args->n_classes,
                                  .eps = args->eps};
    rvit_vk_dispatch dispatch = {.shader = shaders[rvit_vk_uses_subgroups(recorder->device)][half_in][half_weight],
                                 .specs = {[RVIT_HEAD_TEAMS] = teams,
                                           [RVIT_HEAD_FLAGS] = flags_of(args),
                                           [RVIT_VK_SPEC_BF16] = rvit_vk_bf16(args->dtype, args->weight_dtype)},
                                 .groups = {.rows = args->n_classes, .divide = teams * RVIT_HEAD_CLASSES, .times = args->n_images}};
    RVIT_VK_BIND(recorder, &dispatch, RVIT_VK_ARRAY(head, x, half_in ? 8 : 16), RVIT_VK_ARRAY(head, cu_seqlens, 4),
                 RVIT_VK_ARRAY(head, gamma, 16), RVIT_VK_ARRAY(head, beta, 16), RVIT_VK_ARRAY(head, weight, half_weight ? 8 : 16),
                 RVIT_VK_ARRAY(head, bias, 4), RVIT_VK_ARRAY(head, logits, 4));
    return rvit_vk_record_dispatch(recorder, &dispatch, &push, sizeof push);
}

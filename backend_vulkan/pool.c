/* The pool op. */
#include "backend_vulkan/vulkan.h"

static const rvit_vk_shader shaders[2][2][2] = RVIT_VK_OF_TYPES(POOL);

static uint32_t flags_of(const rvit_pool_args *args)
{
    return (args->sizes.buffer != NULL && args->mode == RVIT_POOL_MEAN ? RVIT_POOL_HAS_SIZES : 0u) |
           (args->gamma.buffer != NULL ? RVIT_POOL_HAS_NORM : 0u) | (args->beta.buffer != NULL ? RVIT_POOL_HAS_BETA : 0u) |
           (args->norm == RVIT_NORM_RMS ? RVIT_POOL_RMS : 0u) | (args->mode == RVIT_POOL_FIRST ? RVIT_POOL_FIRST_ROW : 0u);
}

rvit_status rvit_vk_record_pool(rvit_vk_recorder *recorder, const rvit_pool_args *args)
{
    if (args->n_images == 0)
        return RVIT_OK;
    const int half_in = rvit_vk_is_half(args->dtype), half_out = rvit_vk_is_half(args->out_dtype);
    const int columns = args->gamma.buffer != NULL ? RVIT_POOL_NORM_COLUMNS : RVIT_POOL_PLAIN_COLUMNS;
    struct rvit_pool_push push = {.n_images = args->n_images,
                                  .max_len = args->max_len,
                                  .rows = (int)args->rows,
                                  .n_prefix = args->n_prefix,
                                  .dim4 = args->dim / 4,
                                  .out_stride4 = (int)(args->out_stride / 4),
                                  .n_blocks = (args->dim / 4 + columns - 1) / columns,
                                  .eps = args->eps};
    rvit_vk_dispatch dispatch = {.shader = shaders[rvit_vk_uses_subgroups(recorder->device)][half_in][half_out],
                                 .specs = {[RVIT_POOL_TEAMS] = rvit_vk_row_teams(recorder->device),
                                           [RVIT_POOL_COLUMNS] = (uint32_t)columns,
                                           [RVIT_POOL_FLAGS] = flags_of(args),
                                           [RVIT_VK_SPEC_BF16] = rvit_vk_bf16(args->dtype, args->out_dtype)},
                                 .groups = {.rows = args->n_images, .multiply = push.n_blocks}};
    RVIT_VK_BIND(recorder, &dispatch, RVIT_VK_ARRAY(pool, cu_seqlens, 4), RVIT_VK_ARRAY(pool, x, half_in ? 8 : 16),
                 RVIT_VK_ARRAY(pool, sizes, 4), RVIT_VK_ARRAY(pool, gamma, 16), RVIT_VK_ARRAY(pool, beta, 16),
                 RVIT_VK_ARRAY(pool, out, half_out ? 8 : 16));
    return rvit_vk_record_dispatch(recorder, &dispatch, &push, sizeof push);
}

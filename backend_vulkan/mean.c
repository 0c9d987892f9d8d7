/* The mean op. */
#include "backend_vulkan/vulkan.h"

rvit_status rvit_vk_record_mean(rvit_vk_recorder *recorder, const rvit_mean_args *args)
{
    if (args->n_images == 0 || args->rows == 0)
        return RVIT_OK;
    const int half = rvit_vk_is_half(args->dtype);
    const int n_blocks = ((args->dim - args->first_column) / 4 + RVIT_MEAN_COLUMNS - 1) / RVIT_MEAN_COLUMNS;
    struct rvit_mean_push push = {.n_images = args->n_images,
                                  .max_len = args->max_len,
                                  .rows = (int)args->rows,
                                  .n_prefix = args->n_prefix,
                                  .dim4 = args->dim / 4,
                                  .first4 = args->first_column / 4,
                                  .n_blocks = n_blocks};
    rvit_vk_dispatch dispatch = {.shader = half ? RVIT_VK_MEAN_F16_VK : RVIT_VK_MEAN_F32_VK,
                                 .specs = {[RVIT_VK_SPEC_BF16] = rvit_vk_bf16(args->dtype, args->dtype)},
                                 .groups = {.rows = args->n_images, .multiply = n_blocks}};
    RVIT_VK_BIND(recorder, &dispatch, RVIT_VK_ARRAY(mean, cu_seqlens, 4), RVIT_VK_ARRAY(mean, x, half ? 8 : 16));
    return rvit_vk_record_dispatch(recorder, &dispatch, &push, sizeof push);
}

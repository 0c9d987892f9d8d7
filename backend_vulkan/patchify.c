/* The patchify op. */
#include "backend_vulkan/vulkan.h"

rvit_status rvit_vk_record_patchify(rvit_vk_recorder *recorder, const rvit_patchify_args *args)
{
    const int half = rvit_vk_is_half(args->dtype);
    const int32_t grid_height = args->image_height / args->patch_size, grid_width = args->image_width / args->patch_size;
    const int64_t row_pairs = args->out_stride / 2;
    const int64_t pairs = args->n_images * (args->n_prefix + (int64_t)grid_height * grid_width) * row_pairs;
    const int64_t lengths = args->cu_seqlens.buffer != NULL ? args->n_images + (int64_t)1 : 0;
    struct rvit_patchify_push push = {.n_images = args->n_images,
                                      .channels = args->channels,
                                      .height = args->image_height,
                                      .width = args->image_width,
                                      .patch_size = args->patch_size,
                                      .grid_height = grid_height,
                                      .grid_width = grid_width,
                                      .n_prefix = args->n_prefix,
                                      .out_stride = args->out_stride,
                                      .part = args->out_stride / args->split};
    rvit_vk_dispatch dispatch = {.shader = half ? RVIT_VK_PATCHIFY_F16_VK : RVIT_VK_PATCHIFY_F32_VK,
                                 .specs = {[RVIT_PATCHIFY_FLAGS] = (args->live_images.buffer != NULL ? RVIT_PATCHIFY_HAS_LIVE : 0) |
                                                                   (lengths > 0 ? RVIT_PATCHIFY_HAS_CU_SEQLENS : 0),
                                           [RVIT_VK_SPEC_BF16] = rvit_vk_bf16(args->dtype, args->dtype)},
                                 .groups = {.rows = pairs > lengths ? pairs : lengths, .divide = RVIT_MAX_THREADS}};
    if (dispatch.groups.rows == 0)
        return RVIT_OK;
    RVIT_VK_BIND(recorder, &dispatch, RVIT_VK_ARRAY(patchify, images, 8), RVIT_VK_ARRAY(patchify, out, half ? 4 : 8),
                 RVIT_VK_ARRAY(patchify, cu_seqlens, 4), RVIT_VK_OPTIONAL(patchify, live));
    return rvit_vk_record_dispatch(recorder, &dispatch, &push, sizeof push);
}

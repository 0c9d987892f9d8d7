/* The embed op. */
#include "backend_vulkan/vulkan.h"

_Static_assert(RVIT_EMBED_BICUBIC == RVIT_RESAMPLE_BICUBIC && RVIT_EMBED_BICUBIC_ANTIALIAS == RVIT_RESAMPLE_TIMM &&
                   RVIT_EMBED_BILINEAR_ANTIALIAS == RVIT_RESAMPLE_BILINEAR_ANTIALIAS &&
                   RVIT_EMBED_ALIGN_CORNERS == RVIT_RESAMPLE_ALIGN_CORNERS && RVIT_EMBED_NEAREST == RVIT_RESAMPLE_NEAREST,
               "the shader's numbers");

rvit_status rvit_vk_record_embed(rvit_vk_recorder *recorder, const rvit_embed_args *args)
{
    if (args->rows.capacity == 0)
        return RVIT_OK;
    const int half = rvit_vk_is_half(args->dtype);
    struct rvit_embed_push push = {.rows = (int)args->rows.capacity,
                                   .patch_rows = (int)args->patch_rows,
                                   .dim4 = args->dim / 4,
                                   .n_prefix = args->n_prefix,
                                   .table_height = args->table_height,
                                   .table_width = args->table_width};
    rvit_vk_dispatch dispatch = {.shader = half ? RVIT_VK_EMBED_F16_VK : RVIT_VK_EMBED_F32_VK,
                                 .specs = {[RVIT_EMBED_RESAMPLE] = args->table.buffer != NULL ? (uint32_t)args->resample : 0,
                                           [RVIT_VK_SPEC_BF16] = rvit_vk_bf16(args->dtype, args->dtype)},
                                 .groups = {.rows = args->rows.capacity, .live = rvit_vk_dispatch_live(args->rows)}};
    RVIT_VK_BIND(recorder, &dispatch, RVIT_VK_ARRAY(embed, token_map, 16), RVIT_VK_ARRAY(embed, patches, half ? 8 : 16),
                 RVIT_VK_ARRAY(embed, prefix, 16), RVIT_VK_ARRAY(embed, table, 16), RVIT_VK_ARRAY(embed, out, 16),
                 RVIT_VK_OPTIONAL(embed, live));
    return rvit_vk_record_dispatch(recorder, &dispatch, &push, sizeof push);
}

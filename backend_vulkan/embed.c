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
    rvit_vk_dispatch dispatch = {
        .shader = half ? RVIT_VK_EMBED_F16_VK : RVIT_VK_EMBED_F32_VK,
        .specs = {[RVIT_SPEC_THREADS] = RVIT_MAX_THREADS,
                  [RVIT_EMBED_RESAMPLE] = args->table.buffer != NULL ? (uint32_t)args->resample : 0,
                  [RVIT_VK_SPEC_BF16] = rvit_vk_bf16(args->dtype, args->dtype)},
        .n_specs = RVIT_EMBED_N_SPECS,
        .push = &push,
        .push_size = sizeof push,
        .groups = {.rows = args->rows.capacity, .multiply = 1, .divide = 1, .times = 1, .live = rvit_vk_grid_live(args->rows)}};
    push.cells_at = rvit_vk_bind(recorder, &dispatch, RVIT_EMBED_CELLS, RVIT_SLOT(embed, cells), 16);
    push.patches_at = rvit_vk_bind(recorder, &dispatch, RVIT_EMBED_PATCHES, RVIT_SLOT(embed, patches), half ? 8 : 16);
    push.prefix_at = rvit_vk_bind(recorder, &dispatch, RVIT_EMBED_PREFIX, RVIT_SLOT(embed, prefix), 16);
    push.table_at = rvit_vk_bind(recorder, &dispatch, RVIT_EMBED_TABLE, RVIT_SLOT(embed, table), 16);
    push.out_at = rvit_vk_bind(recorder, &dispatch, RVIT_EMBED_OUT, RVIT_SLOT(embed, out), 16);
    push.live_at = rvit_vk_bind(recorder, &dispatch, RVIT_EMBED_LIVE, RVIT_SLOT(embed, live), 4);
    return rvit_vk_record_dispatch(recorder, &dispatch);
}

/* The pixelprune op. */
#include "backend_vulkan/vulkan.h"

int64_t rvit_vk_pixelprune_groups(const rvit_pixelprune_args *args)
{
    const int64_t len = args->max_len < args->rows ? args->max_len : args->rows;
    const int64_t step = (int64_t)RVIT_MAX_THREADS / RVIT_PIXELPRUNE_TEAM * RVIT_PIXELPRUNE_TURNS * args->merge * args->merge;
    return rvit_pixelprune_reconstructs(args) ? 1 : (len + step - 1) / step;
}

rvit_status rvit_vk_record_pixelprune(rvit_vk_recorder *recorder, const rvit_pixelprune_args *args)
{
    const int reconstructs = rvit_pixelprune_reconstructs(args);
    const int64_t groups = rvit_vk_pixelprune_groups(args);
    if (args->n_images == 0 || args->max_len == 0 || args->rows == 0)
        return RVIT_OK;
    struct rvit_pixelprune_push push = {.n_images = args->n_images,
                                        .n_prefix = args->n_prefix,
                                        .max_len = args->max_len,
                                        .rows = (int)args->rows,
                                        .patch_rows = (int)args->patch_rows,
                                        .merge = args->merge,
                                        .columns4 = args->columns / 4,
                                        .stride4 = (int)(args->stride / 4),
                                        .channels = args->channels,
                                        .groups = (int)groups,
                                        .limit_0 = args->limits[0],
                                        .limit_1 = args->limits[1],
                                        .limit_2 = args->limits[2],
                                        .limit_3 = args->limits[3]};
    rvit_vk_dispatch dispatch = {
        .shader = RVIT_VK_PIXELPRUNE_VK,
        .specs = {[RVIT_PIXELPRUNE_FLAGS] = (reconstructs ? RVIT_PIXELPRUNE_RECONSTRUCTS : 0) |
                                            (args->interleaved ? RVIT_PIXELPRUNE_IS_INTERLEAVED : 0) |
                                            (args->patch_merge == 1 ? RVIT_PIXELPRUNE_BY_LINES : 0) |
                                            (args->group_rows.buffer != NULL ? RVIT_PIXELPRUNE_HAS_GROUP_ROWS : 0)},
        .groups = {.rows = args->n_images, .times = groups}};
    RVIT_VK_BIND(recorder, &dispatch, RVIT_VK_ARRAY(pixelprune, cu_seqlens, 4), RVIT_VK_ARRAY(pixelprune, token_map, 16),
                 RVIT_VK_ARRAY(pixelprune, pixels, 16), RVIT_VK_ARRAY(pixelprune, keep, 4), RVIT_VK_ARRAY(pixelprune, group_rows, 4));
    /* The shader declares sources as writable, so the array bound in its place must be one that the op writes, too. */
    const int sources = reconstructs ? RVIT_SLOT(pixelprune, sources) : RVIT_SLOT(pixelprune, keep);
    push.sources_at = rvit_vk_bind(recorder, &dispatch, sources, 4);
    return rvit_vk_record_dispatch(recorder, &dispatch, &push, sizeof push);
}

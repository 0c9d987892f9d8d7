/* The attention op. The number of workgroups follows from capacities; a workgroup whose tile is past the end of its image returns early. */
#include "backend_vulkan/vulkan.h"

static rvit_vk_shader choose_shader(const rvit_vk_attention_shape *shape, rvit_dtype dtype)
{
    const int half = rvit_vk_is_half(dtype);
    if (shape->in_rows)
        return RVIT_VK_ATTENTION_ROWS_F16_VK_MATRIX;
    if (shape->matrix)
        return dtype == RVIT_BF16 ? RVIT_VK_ATTENTION_BF16_VK_MATRIX : RVIT_VK_ATTENTION_F16_VK_MATRIX;
    if (shape->direct)
        return dtype == RVIT_BF16 ? RVIT_VK_ATTENTION_DIRECT_BF16_VK_SUBGROUP
               : half             ? RVIT_VK_ATTENTION_DIRECT_F16_VK_SUBGROUP
                                  : RVIT_VK_ATTENTION_DIRECT_F32_VK_SUBGROUP;
    if (shape->lines)
        return half ? RVIT_VK_ATTENTION_F16_VK_SUBGROUP : RVIT_VK_ATTENTION_F32_VK_SUBGROUP;
    return half ? RVIT_VK_ATTENTION_F16_VK_SCALAR : RVIT_VK_ATTENTION_F32_VK_SCALAR;
}

rvit_status rvit_vk_record_attention(rvit_vk_recorder *recorder, const rvit_attention_args *args)
{
    const int64_t len = args->max_len < args->rows ? args->max_len : args->rows;
    if (len == 0 || args->n_images == 0)
        return RVIT_OK;
    const rvit_vk_attention_shape shape = rvit_vk_shape_attention(recorder->device, args);
    const int half = rvit_vk_is_half(args->dtype);
    const int unit = half && !shape.matrix ? 8 : 16, out_unit = half ? 8 : 16;
    const rvit_vk_matrix *matrix = &recorder->device->physical.matrix;
    const int64_t tiles = (len + shape.queries - 1) / shape.queries;
    const uint32_t flags = (args->key_bias.buffer != NULL ? RVIT_ATTENTION_HAS_BIAS : 0u) |
                           (args->cls_probs.buffer != NULL ? RVIT_ATTENTION_HAS_CLS_PROBS : 0u) |
                           (args->lse.buffer != NULL ? RVIT_ATTENTION_HAS_LSE : 0u) |
                           (recorder->device->base.info.is_software ? RVIT_ATTENTION_TOGETHER : 0u);
    struct rvit_attention_push push = {.n_images = args->n_images,
                                       .n_heads = args->n_heads,
                                       .max_len = args->max_len,
                                       .rows = (int)args->rows,
                                       .n_tiles = (int)tiles,
                                       .scale = args->scale,
                                       .q_stride4 = (int)(args->q_stride / 4),
                                       .k_stride4 = (int)(args->k_stride / 4),
                                       .v_stride4 = (int)(args->v_stride / 4),
                                       .out_stride4 = (int)(args->out_stride / 4)};
    rvit_vk_dispatch dispatch = {.shader = choose_shader(&shape, args->dtype),
                                 .specs = {[RVIT_SPEC_THREADS] = shape.threads,
                                           [RVIT_ATTENTION_HEAD_DIM] = (uint32_t)args->head_dim,
                                           [RVIT_ATTENTION_QUERIES] = shape.queries,
                                           [RVIT_ATTENTION_KEYS] = shape.keys,
                                           [RVIT_ATTENTION_FLAGS] = flags,
                                           [RVIT_VK_SPEC_BF16] = rvit_vk_bf16(args->dtype, args->dtype)},
                                 .n_texels = shape.direct ? 3 : 0,
                                 .texel_format = rvit_vk_texel_format(args->dtype),
                                 .groups = {.rows = args->n_images, .multiply = args->n_heads, .times = tiles}};
    if (shape.matrix) {
        dispatch.specs[RVIT_ATTENTION_SUBGROUP] = matrix->subgroup;
        dispatch.specs[RVIT_ATTENTION_MATRIX_M] = matrix->m;
        dispatch.specs[RVIT_ATTENTION_MATRIX_N] = matrix->n;
        dispatch.specs[RVIT_ATTENTION_MATRIX_K] = matrix->k;
        dispatch.specs[RVIT_ATTENTION_MATRIX_ROWS] = shape.rows;
    } else if (!shape.direct) {
        dispatch.specs[RVIT_ATTENTION_COLUMNS] = shape.columns;
    }
    RVIT_VK_BIND(recorder, &dispatch, RVIT_VK_ARRAY(attention, q, unit), RVIT_VK_ARRAY(attention, k, unit),
                 RVIT_VK_ARRAY(attention, v, unit), RVIT_VK_ARRAY(attention, cu_seqlens, 4), RVIT_VK_ARRAY(attention, key_bias, 4),
                 RVIT_VK_ARRAY(attention, out, out_unit), RVIT_VK_ARRAY(attention, cls_probs, 4), RVIT_VK_ARRAY(attention, lse, 4));
    return rvit_vk_record_dispatch(recorder, &dispatch, &push, sizeof push);
}

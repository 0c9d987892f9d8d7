/* The preprocess op: one dispatch, or two if it works on a copy of its staging buffer. */
#include <stddef.h>

#include "backend_vulkan/vulkan.h"
#include "core/contract/image_descriptor.h"

/* Checks that the shaders' and core's layouts of the staging buffer agree. */
#define SAME(NAME, field) _Static_assert(RVIT_ENTRY_##NAME * 4 == offsetof(rvit_image_entry, field), #field)
SAME(READ, read);
SAME(ON_DEVICE, on_device);
SAME(OFFSET_LOW, offset_low);
SAME(OFFSET_HIGH, offset_high);
SAME(PLANE_LOW, plane_low);
SAME(PLANE_HIGH, plane_high);
SAME(WIDTH, width);
SAME(HEIGHT, height);
SAME(STRIDE, stride);
SAME(PIXEL_SIZE, pixel_size);
SAME(RED, red);
SAME(GREEN, green);
SAME(BLUE, blue);
SAME(GRID_HEIGHT, grid_height);
SAME(GRID_WIDTH, grid_width);
SAME(LEFT, left);
SAME(RIGHT, right);
SAME(TOP, top);
SAME(BOTTOM, bottom);
SAME(FILL, fill);
SAME(X_AXIS, x_axis);
SAME(Y_AXIS, y_axis);
SAME(X_BITS, x_bits);
SAME(Y_BITS, y_bits);
SAME(DOWN_FIRST, down_first);
SAME(LUMA_ZERO, luma_zero);
SAME(LUMA_GAIN, luma_gain);
SAME(RED_CR, red_cr);
SAME(GREEN_CB, green_cb);
SAME(GREEN_CR, green_cr);
SAME(BLUE_CB, blue_cb);
_Static_assert(RVIT_TABLE_LIVE_IMAGES == RVIT_IMAGE_LIVE_IMAGES && RVIT_IMAGE_LIVE_UNITS == 1, "header");
_Static_assert(RVIT_TABLE_LEVELS == RVIT_IMAGE_LEVELS && RVIT_TABLE_ROW_STARTS == RVIT_IMAGE_ROW_STARTS, "table");
_Static_assert(RVIT_TABLE_ENTRY_WORDS == RVIT_IMAGE_ENTRY_WORDS && RVIT_TABLE_SIDE == RVIT_IMAGE_ENTRY_SIDE, "entries");
_Static_assert(RVIT_READ_PACKED == RVIT_IMAGE_READ_PACKED && RVIT_READ_NV12 == RVIT_IMAGE_READ_NV12, "read");
_Static_assert(RVIT_READ_F32 == RVIT_IMAGE_READ_F32 && RVIT_READ_F16 == RVIT_IMAGE_READ_F16, "read");

static rvit_status fetch(rvit_vk_recorder *recorder, const rvit_preprocess_args *args)
{
    struct rvit_fetch_push push = {.units = (int)(args->source_size / 16)};
    rvit_vk_dispatch dispatch = {.shader = RVIT_VK_PREPROCESS_FETCH_VK, .groups = {.rows = push.units, .divide = RVIT_MAX_THREADS}};
    RVIT_VK_BIND(recorder, &dispatch, RVIT_VK_ARRAY(preprocess, source, 16), RVIT_VK_ARRAY(preprocess, staging, 16));
    RVIT_TRY(rvit_vk_record_dispatch(recorder, &dispatch, &push, sizeof push));
    rvit_vk_record_barrier(recorder);
    return RVIT_OK;
}

int64_t rvit_vk_preprocess_groups(const rvit_preprocess_args *args)
{
    const int64_t side = (args->patch_size + RVIT_PREPROCESS_TILE - 1) / RVIT_PREPROCESS_TILE;
    const int64_t tiles = args->rows * side * side, layout = args->n_images / RVIT_MAX_THREADS + (int64_t)1;
    return tiles > layout ? tiles : layout;
}

rvit_status rvit_vk_record_preprocess(rvit_vk_recorder *recorder, const rvit_preprocess_args *args)
{
    const int half = rvit_vk_is_half(args->dtype), staged = args->staging.buffer != NULL;
    struct rvit_preprocess_push push = {.n_images = args->n_images,
                                        .rows = (int)args->rows,
                                        .patch_size = args->patch_size,
                                        .out_stride = args->out_stride,
                                        .part = args->out_stride / args->split,
                                        .entries_at = (int)RVIT_IMAGE_ENTRIES(args->n_images),
                                        .n_words = (int)(args->source_size / 4),
                                        .pixels_size = args->pixels.buffer != NULL ? (int)(uint32_t)args->pixels_size : 0};
    rvit_vk_dispatch dispatch = {
        .shader = half ? RVIT_VK_PREPROCESS_F16_VK : RVIT_VK_PREPROCESS_F32_VK,
        .specs = {[RVIT_PREPROCESS_FLAGS] = (args->cu_seqlens.buffer != NULL ? RVIT_PREPROCESS_HAS_CU_SEQLENS : 0u) |
                                            (args->grids.buffer != NULL ? RVIT_PREPROCESS_HAS_GRIDS : 0u),
                  [RVIT_VK_SPEC_BF16] = rvit_vk_bf16(args->dtype, args->dtype)},
        .groups = {.rows = rvit_vk_preprocess_groups(args)}};
    if (staged)
        RVIT_TRY(fetch(recorder, args));
    const int source = staged ? RVIT_SLOT(preprocess, staging) : RVIT_SLOT(preprocess, source);
    push.words_at = rvit_vk_bind(recorder, &dispatch, source, 4);
    RVIT_VK_BIND(recorder, &dispatch, RVIT_VK_ARRAY(preprocess, pixels, 4), RVIT_VK_ARRAY(preprocess, out, half ? 4 : 8),
                 RVIT_VK_ARRAY(preprocess, cu_seqlens, 4), RVIT_VK_ARRAY(preprocess, grids, 4));
    return rvit_vk_record_dispatch(recorder, &dispatch, &push, sizeof push);
}

/* The select op: one dispatch, or up to three where a device can bind too few arrays at once. */
#include "backend_vulkan/vulkan.h"
#include "core/base/half.h"

/* [subgroup] */
static const rvit_vk_shader plain_shaders[2] = {RVIT_VK_SELECT_VK_SCALAR, RVIT_VK_SELECT_VK_SUBGROUP};
static const rvit_vk_shader scored_shaders[2] = {RVIT_VK_SELECT_SCORED_VK_SCALAR, RVIT_VK_SELECT_SCORED_VK_SUBGROUP};
static const rvit_vk_shader fuse_shaders[2] = {RVIT_VK_SELECT_FUSE_VK_SCALAR, RVIT_VK_SELECT_FUSE_VK_SUBGROUP};

/* score_key() of common/order.glsl, for a threshold other than NaN. */
static uint32_t threshold_key(float threshold)
{
    uint32_t bits = rvit_float_bits(threshold);
    if (bits == 0x80000000u)
        bits = 0;
    return (bits & 0x80000000u) != 0 ? ~bits : bits | 0x80000000u;
}

static uint32_t amount_of(const rvit_select_args *args)
{
    switch (args->mode) {
    case RVIT_SELECT_THRESHOLD:
        return (uint32_t)args->k_min;
    case RVIT_SELECT_SAMPLE:
        return (uint32_t)args->n_samples;
    case RVIT_SELECT_MASS:
        return args->mass < 1.0 ? (uint32_t)(args->mass * 4294967296.0) : 0;
    default:
        return 0;
    }
}

static uint32_t flags_of(const rvit_select_args *args)
{
    uint32_t flags = args->error.buffer != NULL ? RVIT_SELECT_HAS_ERROR : 0u;
    if (rvit_vk_is_half(args->dtype))
        flags |= RVIT_SELECT_HALF_X;
    if (args->fuse_x.buffer != NULL)
        flags |= rvit_vk_is_half(args->fuse_dtype) ? RVIT_SELECT_HAS_FUSE | RVIT_SELECT_HALF_FUSE : RVIT_SELECT_HAS_FUSE;
    if (args->mode == RVIT_SELECT_TOP_K && args->prefix_competes)
        flags |= RVIT_SELECT_PREFIX_COMPETES;
    if (args->mode == RVIT_SELECT_MASS && args->mass >= 1.0)
        flags |= RVIT_SELECT_WHOLE_MASS;
    if (args->anchors.buffer != NULL)
        flags |= RVIT_SELECT_HAS_ANCHORS;
    if (args->error_stays)
        flags |= RVIT_SELECT_ERROR_STAYS;
    if (args->error.buffer != NULL && args->image_errors)
        flags |= RVIT_SELECT_IMAGE_ERRORS;
    return flags;
}

typedef struct selection {
    const rvit_vk_recorder *recorder;
    const rvit_select_args *args;
    struct rvit_select_push push;
    rvit_vk_dispatch dispatch;
} selection;

static selection begin(const rvit_vk_recorder *recorder, const rvit_select_args *args, rvit_vk_shader shader)
{
    const int scored = args->mode != RVIT_SELECT_MASK;
    selection s = {.recorder = recorder,
                   .args = args,
                   .push = {.n_images = args->n_images,
                            .max_len = args->max_len,
                            .rows = (int)args->rows,
                            .n_prefix = args->n_prefix,
                            .threshold_key = (int)threshold_key(args->threshold),
                            .amount = (int)amount_of(args),
                            .n_heads = args->n_heads,
                            .dim4 = args->dim / 4,
                            .x_stride4 = (int)(args->x_stride / 4),
                            .fuse_dim4 = args->fuse_dim / 4,
                            .anchor_columns = args->anchor_columns,
                            .group_size = args->group_size,
                            .inverse_group_size = 1.0f / (float)(args->group_size > 0 ? args->group_size : 1)},
                   .dispatch = {.shader = shader,
                                .specs = {[RVIT_SELECT_MODE] = (uint32_t)args->mode,
                                          [RVIT_SELECT_SCORE] = scored ? (uint32_t)args->score : RVIT_SELECT_GIVEN,
                                          [RVIT_SELECT_FLAGS] = flags_of(args),
                                          [RVIT_SELECT_LONG] = args->max_len > RVIT_NEAR_KEYS,
                                          [RVIT_VK_SPEC_BF16] = rvit_vk_bf16(args->dtype, args->fuse_dtype)}}};
    if (args->n_heads > 0)
        s.push.inverse_heads = 1.0f / (float)args->n_heads;
    /* A workgroup processes several images if there are more images than workgroups in one dimension. */
    const uint32_t max_groups = recorder->device->physical.limits.maxComputeWorkGroupCount[0];
    const int64_t n_groups = args->n_images < 1 ? 1 : args->n_images < (int64_t)max_groups ? args->n_images : (int64_t)max_groups;
    s.dispatch.groups = (rvit_vk_groups){.rows = n_groups};
    return s;
}

static int bind(selection *s, int slot, int unit)
{
    return rvit_vk_bind(s->recorder, &s->dispatch, slot, unit);
}

static void bind_common(selection *s)
{
    const int input = s->args->mode == RVIT_SELECT_MASK ? RVIT_SLOT(select, keep_in) : RVIT_SLOT(select, scores);
    s->push.cu_seqlens_at = bind(s, RVIT_SLOT(select, cu_seqlens), 4);
    s->push.input_at = bind(s, input, 4);
}

static void bind_selection(selection *s)
{
    s->push.keep_at = bind(s, RVIT_SLOT(select, keep), 4);
    s->push.out_cu_seqlens_at = bind(s, RVIT_SLOT(select, out_cu_seqlens), 4);
    s->push.src_rows_at = bind(s, RVIT_SLOT(select, src_rows), 4);
    s->push.counts_at = bind(s, RVIT_SLOT(select, counts), 4);
    s->push.error_at = bind(s, RVIT_SLOT(select, error), 4);
    (void)bind(s, RVIT_N_SLOTS_select, 4);
    const rvit_vk_dispatch_size_list own = rvit_vk_find_own_dispatch_sizes(s->recorder);
    s->push.n_dispatch_sizes = own.n;
    s->push.dispatch_sizes_at = own.sizes_at;
    s->push.rules_at = own.rules_at;
}

static void bind_score(selection *s)
{
    const int vector = rvit_vk_is_half(s->args->dtype) ? 8 : 16;
    s->push.x_at = bind(s, RVIT_SLOT(select, x), vector);
    if (s->args->score == RVIT_SCORE_PREDICTOR)
        s->push.table_at = bind(s, RVIT_SLOT(select, weight), vector);
    else
        s->push.table_at =
            bind(s, s->args->score == RVIT_SCORE_POSITION ? RVIT_SLOT(select, position_scores) : RVIT_SLOT(select, cls_probs), 4);
    const int has_anchors = s->args->anchors.buffer != NULL;
    s->push.bias_at = bind(s, has_anchors ? RVIT_SLOT(select, anchors) : RVIT_SLOT(select, bias), 4);
}

/* Without fuse_x, binds an array that the op writes, because the shader declares it as writable. */
static void bind_fuse(selection *s)
{
    if (s->args->fuse_x.buffer != NULL)
        s->push.fuse_x_at = bind(s, RVIT_SLOT(select, fuse_x), rvit_vk_is_half(s->args->fuse_dtype) ? 8 : 16);
    else
        (void)bind(s, RVIT_SLOT(select, keep), 4);
}

static rvit_status dispatch(rvit_vk_recorder *recorder, const selection *s)
{
    return rvit_vk_record_dispatch(recorder, &s->dispatch, &s->push, sizeof s->push);
}

static rvit_status record_whole(rvit_vk_recorder *recorder, const rvit_select_args *args)
{
    selection s = begin(recorder, args, scored_shaders[rvit_vk_uses_subgroups(recorder->device)]);
    bind_common(&s);
    bind_selection(&s);
    bind_score(&s);
    bind_fuse(&s);
    return dispatch(recorder, &s);
}

static rvit_status record_parts(rvit_vk_recorder *recorder, const rvit_select_args *args, int scored, int fused)
{
    const int subgroup = rvit_vk_uses_subgroups(recorder->device);
    if (scored) {
        selection score = begin(recorder, args, RVIT_VK_SELECT_SCORE_VK);
        bind_common(&score);
        bind_score(&score);
        RVIT_TRY(dispatch(recorder, &score));
        rvit_vk_record_barrier(recorder);
    }
    selection s = begin(recorder, args, plain_shaders[subgroup]);
    s.dispatch.specs[RVIT_SELECT_SCORE] = RVIT_SELECT_GIVEN;
    bind_common(&s);
    bind_selection(&s);
    RVIT_TRY(dispatch(recorder, &s));
    if (!fused)
        return RVIT_OK;
    rvit_vk_record_barrier(recorder);
    selection fuse = begin(recorder, args, fuse_shaders[subgroup]);
    bind_common(&fuse);
    fuse.push.keep_at = bind(&fuse, RVIT_SLOT(select, keep), 4);
    bind_fuse(&fuse);
    return dispatch(recorder, &fuse);
}

rvit_status rvit_vk_record_select(rvit_vk_recorder *recorder, const rvit_select_args *args)
{
    const int scored = args->mode != RVIT_SELECT_MASK && args->score != RVIT_SCORE_GIVEN;
    const int fused = args->fuse_x.buffer != NULL;
    const uint32_t max_bindings = rvit_vk_max_bindings(recorder->device);
    if ((scored || fused) && max_bindings >= RVIT_SELECT_N_SCORED_BINDINGS)
        return record_whole(recorder, args);
    return record_parts(recorder, args, scored, fused);
}

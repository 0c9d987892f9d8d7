#include "drafts.h"

#include <string.h>

/* All members of the union have the same address. */
static void *args_of(rvit_op *op)
{
    return &op->copy;
}

static rvit_dtype dtype(choices *c)
{
    return (rvit_dtype)choose_int(c, 0, 2);
}

static rvit_dtype dtype_or_quantized(choices *c)
{
    return (rvit_dtype)choose_int(c, 0, 4);
}

static int is_quantized(rvit_dtype dtype)
{
    return dtype == RVIT_I8 || dtype == RVIT_E4M3;
}

/* A multiple of factor, or a number out of range. */
static int32_t multiple(choices *c, int32_t factor, int32_t least, int32_t most)
{
    const int32_t n = choose_int(c, least, most);
    return n >= least && n <= most ? factor * n : n;
}

/* Wraps around, because choose_int and multiple may return any int32. */
static int32_t plus(int32_t a, int32_t b)
{
    return (int32_t)((uint32_t)a + (uint32_t)b);
}

static int32_t dim(choices *c)
{
    return multiple(c, 4, 1, 24);
}

static void rows(choices *c, rvit_rows *r)
{
    r->capacity = choose_int(c, 0, 40);
    r->padded = choose_int(c, 0, 2);
}

static int64_t stride(choices *c, int64_t width)
{
    const int32_t kind = choose(c, 8);
    return kind < 4 ? 0 : kind == 4 ? (int64_t)(3 * (uint64_t)width) : kind == 5 ? width + 8 : choose_int(c, 0, 200);
}

static void draft_copy(rvit_op *op, choices *c)
{
    rvit_copy_args *a = &op->copy;
    a->size = 4 * (int64_t)choose_int(c, 0, 100) + (choose(c, 16) == 1);
}

static void draft_patchify(rvit_op *op, choices *c)
{
    rvit_patchify_args *a = &op->patchify;
    a->dtype = dtype(c);
    a->n_images = choose_int(c, 0, 4);
    a->channels = choose_int(c, 1, 4);
    a->patch_size = 2 * choose(c, 5) + (choose(c, 16) == 1);
    a->image_size = multiple(c, a->patch_size, 1, 4);
    if (choose(c, 2)) {
        a->image_size = 0;
        a->crop = choose_int(c, 0, 1);
        a->image_height = plus(multiple(c, a->patch_size, 1, 4), (int32_t)choose(c, 3));
        a->image_width = plus(multiple(c, a->patch_size, 1, 4), (int32_t)choose(c, 3));
    }
    a->n_prefix = choose_int(c, 0, 3);
    a->split = a->n_prefix; /* reads no further byte, so that the corpus keeps its meaning */
}

static void draft_preprocess(rvit_op *op, choices *c)
{
    rvit_preprocess_args *a = &op->preprocess;
    a->dtype = dtype(c);
    a->n_images = choose_int(c, 0, 3);
    a->rows = choose_int(c, 0, 12);
    a->patch_size = 2 * choose(c, 10) + (choose(c, 16) == 1);
    a->out_stride = choose(c, 2) ? 0 : (int32_t)(3u * (uint32_t)a->patch_size * (uint32_t)a->patch_size + choose(c, 5));
    a->source_size = 4096 + 16 * (int64_t)choose_int(c, 0, 200) + (choose(c, 16) == 1);
    a->pixels_size = choose_int(c, 0, 900);
    a->split = a->n_images;
}

static void draft_linear(rvit_op *op, choices *c)
{
    rvit_linear_args *a = &op->linear;
    a->dtype = dtype_or_quantized(c);
    a->out_dtype = choose(c, 2) && a->dtype != RVIT_I8 ? a->dtype : dtype(c);
    rows(c, &a->rows);
    a->in_features = is_quantized(a->dtype) ? multiple(c, 16, 1, 20) : dim(c);
    a->out_features = is_quantized(a->out_dtype) ? multiple(c, 16, 1, 20) : dim(c);
    a->activation = (rvit_activation)choose_int(c, RVIT_ACTIVATION_NONE, RVIT_ACTIVATION_SILU);
    a->residual_period = choose(c, 2) ? 0 : choose_int(c, 0, 10);
    a->gated = choose_int(c, 0, 1);
}

static void draft_layernorm(rvit_op *op, choices *c)
{
    rvit_layernorm_args *a = &op->layernorm;
    a->dtype = dtype(c);
    a->out_dtype = dtype_or_quantized(c);
    rows(c, &a->rows);
    a->x_rows = choose_int(c, 0, 50);
    a->dim = is_quantized(a->out_dtype) ? multiple(c, 16, 1, 20) : dim(c);
    a->eps = choose(c, 8) ? 1e-6f : choose_float(c);
    a->norm = choose(c, 4) == 1 ? RVIT_NORM_RMS : RVIT_NORM_LAYER;
    a->features = choose(c, 4) == 1 ? choose_int(c, 0, 16) : 0;
}

static void draft_quantize(rvit_op *op, choices *c)
{
    rvit_quantize_args *a = &op->quantize;
    a->dtype = dtype(c);
    a->out_dtype = (rvit_dtype)choose_int(c, RVIT_I8, RVIT_E4M3);
    rows(c, &a->rows);
    a->columns = multiple(c, 16, 1, 20);
    a->activation = (rvit_activation)choose_int(c, RVIT_ACTIVATION_NONE, RVIT_ACTIVATION_SILU);
    a->gated = choose_int(c, 0, 1);
}

static void draft_attention(rvit_op *op, choices *c)
{
    rvit_attention_args *a = &op->attention;
    a->dtype = dtype(c);
    a->n_images = choose_int(c, 0, 6);
    a->n_heads = choose_int(c, 1, 3);
    a->head_dim = multiple(c, 8, 1, 16);
    a->max_len = choose_int(c, 0, 40);
    a->rows = choose_int(c, 0, 60);
    a->scale = choose(c, 4) ? 0 : choose_float(c);
    const int64_t width = (int64_t)a->n_heads * a->head_dim;
    a->q_stride = stride(c, width);
    a->k_stride = stride(c, width);
    a->v_stride = stride(c, width);
    a->out_stride = stride(c, width);
}

static void draft_attention_backward(rvit_op *op, choices *c)
{
    rvit_attention_backward_args *a = &op->attention_backward;
    a->dtype = dtype(c);
    a->n_images = choose_int(c, 0, 6);
    a->n_heads = choose_int(c, 1, 3);
    a->head_dim = multiple(c, 8, 1, 16);
    a->max_len = choose_int(c, 0, 40);
    a->rows = choose_int(c, 0, 60);
    a->scale = choose(c, 4) ? 0 : choose_float(c);
    const int64_t width = (int64_t)a->n_heads * a->head_dim;
    int64_t *const strides[] = {&a->q_stride,     &a->k_stride,   &a->v_stride,   &a->out_stride,
                                &a->d_out_stride, &a->d_q_stride, &a->d_k_stride, &a->d_v_stride};
    for (int i = 0; i < 8; i++)
        *strides[i] = stride(c, width);
}

static void draft_attention_received(rvit_op *op, choices *c)
{
    rvit_attention_received_args *a = &op->attention_received;
    a->dtype = dtype(c);
    a->n_images = choose_int(c, 0, 6);
    a->n_heads = choose_int(c, 1, 3);
    a->head_dim = multiple(c, 8, 1, 16);
    a->max_len = choose_int(c, 0, 40);
    a->rows = choose_int(c, 0, 60);
    a->scale = choose(c, 4) ? 0 : choose_float(c);
    a->q_stride = stride(c, (int64_t)a->n_heads * a->head_dim);
    a->k_stride = stride(c, (int64_t)a->n_heads * a->head_dim);
}

static void draft_rope(rvit_op *op, choices *c)
{
    rvit_rope_args *a = &op->rope;
    a->dtype = dtype(c);
    rows(c, &a->rows);
    a->n_heads = choose_int(c, 1, 3);
    a->head_dim = multiple(c, 8, 1, 16);
    a->n_positions = choose_int(c, 1, 40);
    a->n_prefix = choose_int(c, 0, 3);
    a->q_stride = stride(c, (int64_t)a->n_heads * a->head_dim);
    a->k_stride = stride(c, (int64_t)a->n_heads * a->head_dim);
}

static void draft_positions(rvit_op *op, choices *c)
{
    rvit_positions_args *a = &op->positions;
    rows(c, &a->rows);
    a->source_rows = choose_int(c, 0, 50);
    a->n_positions = choose_int(c, 1, 40);
}

static void draft_select(rvit_op *op, choices *c)
{
    rvit_select_args *a = &op->select;
    a->mode = (rvit_select_mode)choose_int(c, 0, 4);
    a->score = (rvit_score_type)choose_int(c, 0, 5);
    a->n_images = choose_int(c, 0, 6);
    a->max_len = choose_int(c, 0, 40);
    a->rows = choose_int(c, 0, 60);
    a->n_prefix = choose_int(c, 0, 3);
    a->prefix_competes = choose_int(c, 0, 1);
    a->threshold = choose_float(c);
    a->k_min = choose_int(c, 0, 5);
    a->n_samples = choose_int(c, 1, 60);
    a->mass = choose_double(c);
    a->dtype = dtype(c);
    a->dim = dim(c);
    a->n_heads = choose_int(c, 1, 3);
    a->x_stride = stride(c, a->dim);
    a->fuse_dtype = dtype(c);
    a->fuse_dim = dim(c);
    a->error_stays = choose_int(c, 0, 1);
    a->anchor_columns = plus(a->k_min, 1);
    if (a->n_prefix == 0 && a->mode <= RVIT_SELECT_THRESHOLD && (a->score == RVIT_SCORE_L2 || a->score == RVIT_SCORE_CLS_ATTENTION))
        a->group_size = a->k_min;
}

static void draft_mean(rvit_op *op, choices *c)
{
    rvit_mean_args *a = &op->mean;
    a->dtype = dtype(c);
    a->n_images = choose_int(c, 0, 6);
    a->max_len = choose_int(c, 0, 40);
    a->rows = choose_int(c, 0, 60);
    a->n_prefix = choose_int(c, 0, 3);
    a->dim = dim(c);
    a->first_column = multiple(c, 4, 0, 10);
}

static void draft_bipartite_match(rvit_op *op, choices *c)
{
    rvit_bipartite_match_args *a = &op->bipartite_match;
    a->dtype = dtype(c);
    a->n_images = choose_int(c, 0, 6);
    a->max_len = choose_int(c, 0, 40);
    a->rows = choose_int(c, 0, 60);
    a->n_prefix = choose_int(c, 1, 3);
    a->n_heads = choose_int(c, 1, 3);
    a->head_dim = multiple(c, 8, 1, 16);
    a->merges = choose_int(c, 0, 20);
    a->k_stride = stride(c, (int64_t)a->n_heads * a->head_dim);
    a->group_size = choose_int(c, 0, 4);
    a->n_windows = a->group_size > 1 ? choose_int(c, 0, 12) : 0;
    if (a->group_size > 1)
        a->n_prefix = 0;
}

static void draft_merge(rvit_op *op, choices *c)
{
    rvit_merge_args *a = &op->merge;
    a->dtype = dtype(c);
    rows(c, &a->rows);
    a->x_rows = choose_int(c, 0, 50);
    a->dim = dim(c);
}

static void draft_pack(rvit_op *op, choices *c)
{
    rvit_pack_args *a = &op->pack;
    rows(c, &a->rows);
    a->source_rows = choose_int(c, 0, 50);
    a->row_size = dim(c);
}

static void draft_unpack(rvit_op *op, choices *c)
{
    rvit_unpack_args *a = &op->unpack;
    a->dtype = dtype(c);
    rows(c, &a->rows);
    rows(c, &a->destination_rows);
    a->dim = dim(c);
    a->fill = choose_float(c);
}

static void draft_head(rvit_op *op, choices *c)
{
    rvit_head_args *a = &op->head;
    a->dtype = dtype(c);
    a->weight_dtype = dtype(c);
    a->n_images = choose_int(c, 0, 6);
    a->rows = choose_int(c, 0, 60);
    a->dim = dim(c);
    a->n_tokens = choose_int(c, 1, 2);
    a->n_classes = choose_int(c, 1, 12);
    a->eps = choose(c, 8) ? 1e-6f : choose_float(c);
    a->norm = choose(c, 4) == 1 ? RVIT_NORM_RMS : RVIT_NORM_LAYER;
}

static void draft_pool(rvit_op *op, choices *c)
{
    rvit_pool_args *a = &op->pool;
    a->dtype = dtype(c);
    a->out_dtype = dtype(c);
    a->mode = (rvit_pool_mode)choose_int(c, 0, 1);
    a->n_images = choose_int(c, 0, 6);
    a->max_len = choose_int(c, 0, 40);
    a->n_prefix = choose_int(c, 0, 3);
    a->rows = choose_int(c, 0, 60);
    a->dim = dim(c);
    a->norm = choose(c, 4) == 1 ? RVIT_NORM_RMS : RVIT_NORM_LAYER;
    a->eps = choose(c, 8) ? 1e-6f : choose_float(c);
    a->out_stride = stride(c, a->dim);
}

static void draft_attention_pool(rvit_op *op, choices *c)
{
    rvit_attention_pool_args *a = &op->attention_pool;
    a->dtype = dtype(c);
    a->out_dtype = dtype(c);
    a->n_images = choose_int(c, 0, 6);
    a->n_heads = choose_int(c, 1, 3);
    a->head_dim = multiple(c, 4, 1, 48);
    a->max_len = choose_int(c, 0, 40);
    a->rows = choose_int(c, 0, 60);
    a->dim = dim(c);
    a->logits_stride = stride(c, a->n_heads);
}

static void draft_grid_layout(rvit_op *op, choices *c)
{
    rvit_grid_layout_args *a = &op->grid_layout;
    a->n_images = choose_int(c, 0, 6);
    a->n_prefix = choose_int(c, 0, 3);
    a->max_len = choose_int(c, 0, 40);
    a->merge = choose_int(c, 0, 2);
    a->rows = choose_int(c, 0, 60);
    a->patch_rows = choose(c, 2) ? 0 : choose_int(c, 0, 60);
    a->patch_merge = choose_int(c, 0, 1);
    a->window = choose(c, 2) ? 0 : choose_int(c, 0, 5);
    a->max_windows = choose_int(c, 0, 40);
    if (choose(c, 2)) /* merge groups and windows allow no prefix */
        a->n_prefix = 0;
}

static void draft_pixelprune(rvit_op *op, choices *c)
{
    rvit_pixelprune_args *a = &op->pixelprune;
    a->n_images = choose_int(c, 0, 6);
    a->n_prefix = choose_int(c, 0, 3);
    a->max_len = choose_int(c, 0, 40);
    a->merge = choose_int(c, 0, 2);
    a->rows = choose_int(c, 0, 60);
    a->patch_rows = choose(c, 2) ? 0 : choose_int(c, 0, 60);
    a->channels = choose_int(c, 0, 4);
    a->columns = multiple(c, 12, 1, 5);
    a->interleaved = choose_int(c, 0, 1);
    a->patch_merge = choose_int(c, 0, 1);
    a->stride = stride(c, a->columns);
    for (int32_t i = 0; i < 4; i++)
        a->limits[i] = i >= a->channels || choose(c, 2) ? 0 : choose_float(c);
}

static void draft_grid_relayout(rvit_op *op, choices *c)
{
    rvit_grid_relayout_args *a = &op->grid_relayout;
    a->n_images = choose_int(c, 0, 6);
    a->n_windows = choose_int(c, 0, 12);
    a->max_len = choose_int(c, 0, 40);
    a->group_size = choose_int(c, 1, 5);
    a->rows = choose_int(c, 0, 60);
}

static void draft_embed(rvit_op *op, choices *c)
{
    rvit_embed_args *a = &op->embed;
    a->dtype = dtype(c);
    rows(c, &a->rows);
    a->patch_rows = choose_int(c, 0, 40);
    a->dim = dim(c);
    a->n_prefix = choose_int(c, 0, 3);
    a->resample = (rvit_resample)choose_int(c, RVIT_RESAMPLE_BICUBIC, RVIT_RESAMPLE_NEAREST);
    a->table_height = choose_int(c, 1, 9);
    a->table_width = choose_int(c, 1, 9);
}

static void draft_grid_rope(rvit_op *op, choices *c)
{
    rvit_grid_rope_args *a = &op->grid_rope;
    rows(c, &a->rows);
    a->head_dim = multiple(c, 8, 1, 16);
    a->coordinates = (rvit_rope_coordinates)choose_int(c, RVIT_ROPE_INDEX, RVIT_ROPE_CENTRED);
    a->order = (rvit_rope_order)choose_int(c, RVIT_ROPE_YX, RVIT_ROPE_XY);
    a->offset = choose(c, 2) ? 0 : choose_float(c);
    a->reference_height = choose(c, 2) ? 0 : choose_float(c);
    a->reference_width = choose(c, 2) ? 0 : choose_float(c);
}

/* For all other ops: fills everything except the views with mostly small integers. */
static void draft_any(rvit_op *op, choices *c)
{
    for (size_t at = sizeof(size_t); at + sizeof(int32_t) <= op_table[op->type].size; at += sizeof(int32_t)) {
        int in_view = 0;
        for (int i = 0; i < op_table[op->type].n_views; i++)
            in_view |= at >= op_table[op->type].offsets[i] && at < op_table[op->type].offsets[i] + sizeof(rvit_view);
        const int32_t word = choose_int(c, 0, 60);
        if (!in_view)
            memcpy((uint8_t *)args_of(op) + at, &word, sizeof word);
    }
}

static void (*const drafts[RVIT_OP_COUNT])(rvit_op *, choices *) = {
    [RVIT_OP_COPY] = draft_copy,
    [RVIT_OP_PATCHIFY] = draft_patchify,
    [RVIT_OP_PREPROCESS] = draft_preprocess,
    [RVIT_OP_LINEAR] = draft_linear,
    [RVIT_OP_LAYERNORM] = draft_layernorm,
    [RVIT_OP_QUANTIZE] = draft_quantize,
    [RVIT_OP_ATTENTION] = draft_attention,
    [RVIT_OP_SELECT] = draft_select,
    [RVIT_OP_MEAN] = draft_mean,
    [RVIT_OP_BIPARTITE_MATCH] = draft_bipartite_match,
    [RVIT_OP_MERGE] = draft_merge,
    [RVIT_OP_PACK] = draft_pack,
    [RVIT_OP_UNPACK] = draft_unpack,
    [RVIT_OP_HEAD] = draft_head,
    [RVIT_OP_ATTENTION_BACKWARD] = draft_attention_backward,
    [RVIT_OP_ATTENTION_RECEIVED] = draft_attention_received,
    [RVIT_OP_ROPE] = draft_rope,
    [RVIT_OP_POSITIONS] = draft_positions,
    [RVIT_OP_POOL] = draft_pool,
    [RVIT_OP_ATTENTION_POOL] = draft_attention_pool,
    [RVIT_OP_GRID_LAYOUT] = draft_grid_layout,
    [RVIT_OP_PIXELPRUNE] = draft_pixelprune,
    [RVIT_OP_GRID_RELAYOUT] = draft_grid_relayout,
    [RVIT_OP_EMBED] = draft_embed,
    [RVIT_OP_GRID_ROPE] = draft_grid_rope,
};

/* Ops refuse scales for values that are not quantized. */
static int may_have(const rvit_op *op, int slot)
{
    if (op->type == RVIT_OP_LINEAR && (slot == RVIT_SLOT(linear, x_scales) || slot == RVIT_SLOT(linear, weight_scales)))
        return is_quantized(op->linear.dtype);
    if (op->type == RVIT_OP_LINEAR &&
        (slot == RVIT_SLOT(linear, static_scale) || slot == RVIT_SLOT(linear, out_scales) || slot == RVIT_SLOT(linear, saturated)))
        return is_quantized(op->linear.out_dtype);
    if (op->type == RVIT_OP_LINEAR && slot == RVIT_SLOT(linear, residual))
        return !is_quantized(op->linear.out_dtype);
    if (op->type == RVIT_OP_LAYERNORM &&
        (slot == RVIT_SLOT(layernorm, out_scales) || slot == RVIT_SLOT(layernorm, static_scale) || slot == RVIT_SLOT(layernorm, saturated)))
        return is_quantized(op->layernorm.out_dtype);
    return 1;
}

void draft_op(draft *d, rvit_op_type type, choices *c)
{
    const size_t size = op_table[type].size;
    d->op = (rvit_op){.type = type};
    memcpy(args_of(&d->op), &size, sizeof size);
    (drafts[type] != NULL ? drafts[type] : draft_any)(&d->op, c);
    d->n_views = 0;
    for (int i = 0; i < op_table[type].n_views; i++)
        if (may_have(&d->op, i) || choose(c, 16) == 1)
            d->views[d->n_views++] = (rvit_view *)(void *)((uint8_t *)args_of(&d->op) + op_table[type].offsets[i]);
}

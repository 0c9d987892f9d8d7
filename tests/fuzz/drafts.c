#include "drafts.h"

static rvit_dtype dtype(choices *c)
{
    return (rvit_dtype)choose_int(c, 0, 2);
}

/* A multiple, or a number out of range. */
static int32_t multiple(choices *c, int32_t factor, int32_t least, int32_t most)
{
    const int32_t n = choose_int(c, least, most);
    return n >= least && n <= most ? factor * n : n;
}

static int32_t dim(choices *c)
{
    return multiple(c, 4, 1, 24);
}

static void view(draft *d, rvit_view *v)
{
    d->views[d->n_views++] = v;
}

static void rows(draft *d, choices *c, rvit_rows *r)
{
    r->capacity = choose_int(c, 0, 40);
    r->padded = choose_int(c, 0, 2);
    view(d, &r->live);
}

static int64_t stride(choices *c, int64_t width)
{
    const int32_t kind = choose(c, 8);
    return kind < 4 ? 0 : kind == 4 ? (int64_t)(3 * (uint64_t)width) : kind == 5 ? width + 8 : choose_int(c, 0, 200);
}

static void draft_copy(draft *d, choices *c)
{
    rvit_copy_args *a = &d->op.copy;
    *a = (rvit_copy_args)RVIT_COPY_ARGS_INIT;
    a->size = 4 * (int64_t)choose_int(c, 0, 100) + (choose(c, 16) == 1);
    view(d, &a->source);
    view(d, &a->destination);
}

static void draft_patchify(draft *d, choices *c)
{
    rvit_patchify_args *a = &d->op.patchify;
    *a = (rvit_patchify_args)RVIT_PATCHIFY_ARGS_INIT;
    a->dtype = dtype(c);
    a->n_images = choose_int(c, 0, 4);
    a->channels = choose_int(c, 1, 4);
    a->patch_size = 2 * choose(c, 5) + (choose(c, 16) == 1);
    a->image_size = multiple(c, a->patch_size, 1, 4);
    a->n_prefix = choose_int(c, 0, 3);
    view(d, &a->live_images);
    view(d, &a->images);
    view(d, &a->out);
    view(d, &a->cu_seqlens);
}

static void draft_linear(draft *d, choices *c)
{
    rvit_linear_args *a = &d->op.linear;
    *a = (rvit_linear_args)RVIT_LINEAR_ARGS_INIT;
    a->dtype = dtype(c);
    a->out_dtype = choose(c, 2) ? a->dtype : dtype(c);
    rows(d, c, &a->rows);
    a->in_features = dim(c);
    a->out_features = dim(c);
    a->activation = (rvit_activation)choose_int(c, 0, 1);
    a->residual_period = choose(c, 2) ? 0 : choose_int(c, 0, 10);
    view(d, &a->x);
    view(d, &a->weight);
    view(d, &a->bias);
    view(d, &a->residual);
    view(d, &a->out);
}

static void draft_layernorm(draft *d, choices *c)
{
    rvit_layernorm_args *a = &d->op.layernorm;
    *a = (rvit_layernorm_args)RVIT_LAYERNORM_ARGS_INIT;
    a->dtype = dtype(c);
    a->out_dtype = dtype(c);
    rows(d, c, &a->rows);
    a->x_rows = choose_int(c, 0, 50);
    a->dim = dim(c);
    a->eps = choose(c, 8) ? 1e-6f : choose_float(c);
    view(d, &a->x);
    view(d, &a->src_rows);
    view(d, &a->gamma);
    view(d, &a->beta);
    view(d, &a->out);
    view(d, &a->out_x);
}

static void draft_attention(draft *d, choices *c)
{
    rvit_attention_args *a = &d->op.attention;
    *a = (rvit_attention_args)RVIT_ATTENTION_ARGS_INIT;
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
    view(d, &a->q);
    view(d, &a->k);
    view(d, &a->v);
    view(d, &a->cu_seqlens);
    view(d, &a->key_bias);
    view(d, &a->out);
    view(d, &a->cls_probs);
    view(d, &a->lse);
}

static void draft_select(draft *d, choices *c)
{
    rvit_select_args *a = &d->op.select;
    *a = (rvit_select_args)RVIT_SELECT_ARGS_INIT;
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
    rvit_view *views[] = {&a->x,       &a->cls_probs,  &a->weight, &a->bias, &a->position_scores, &a->counts,   &a->scores,
                          &a->keep_in, &a->cu_seqlens, &a->fuse_x, &a->keep, &a->out_cu_seqlens,  &a->src_rows, &a->error};
    for (size_t i = 0; i < sizeof views / sizeof *views; i++)
        view(d, views[i]);
    a->error_stays = choose_int(c, 0, 1);
}

static void draft_mean(draft *d, choices *c)
{
    rvit_mean_args *a = &d->op.mean;
    *a = (rvit_mean_args)RVIT_MEAN_ARGS_INIT;
    a->dtype = dtype(c);
    a->n_images = choose_int(c, 0, 6);
    a->max_len = choose_int(c, 0, 40);
    a->rows = choose_int(c, 0, 60);
    a->n_prefix = choose_int(c, 0, 3);
    a->dim = dim(c);
    a->first_column = multiple(c, 4, 0, 10);
    view(d, &a->cu_seqlens);
    view(d, &a->x);
}

static void draft_match(draft *d, choices *c)
{
    rvit_match_args *a = &d->op.match;
    *a = (rvit_match_args)RVIT_MATCH_ARGS_INIT;
    a->dtype = dtype(c);
    a->n_images = choose_int(c, 0, 6);
    a->max_len = choose_int(c, 0, 40);
    a->rows = choose_int(c, 0, 60);
    a->n_prefix = choose_int(c, 1, 3);
    a->n_heads = choose_int(c, 1, 3);
    a->head_dim = multiple(c, 8, 1, 16);
    a->merges = choose_int(c, 0, 20);
    a->k_stride = stride(c, (int64_t)a->n_heads * a->head_dim);
    rvit_view *views[] = {&a->k, &a->cu_seqlens, &a->metric, &a->keep, &a->out_cu_seqlens, &a->src_rows, &a->next_rows};
    for (size_t i = 0; i < sizeof views / sizeof *views; i++)
        view(d, views[i]);
}

static void draft_merge(draft *d, choices *c)
{
    rvit_merge_args *a = &d->op.merge;
    *a = (rvit_merge_args)RVIT_MERGE_ARGS_INIT;
    a->dtype = dtype(c);
    rows(d, c, &a->rows);
    a->x_rows = choose_int(c, 0, 50);
    a->dim = dim(c);
    rvit_view *views[] = {&a->x, &a->sizes, &a->src_rows, &a->next_rows, &a->out_x, &a->out_sizes, &a->out_key_bias};
    for (size_t i = 0; i < sizeof views / sizeof *views; i++)
        view(d, views[i]);
}

static void draft_pack(draft *d, choices *c)
{
    rvit_pack_args *a = &d->op.pack;
    *a = (rvit_pack_args)RVIT_PACK_ARGS_INIT;
    rows(d, c, &a->rows);
    a->source_rows = choose_int(c, 0, 50);
    a->row_size = dim(c);
    view(d, &a->source);
    view(d, &a->src_rows);
    view(d, &a->destination);
}

static void draft_unpack(draft *d, choices *c)
{
    rvit_unpack_args *a = &d->op.unpack;
    *a = (rvit_unpack_args)RVIT_UNPACK_ARGS_INIT;
    a->dtype = dtype(c);
    rows(d, c, &a->rows);
    rows(d, c, &a->destination_rows);
    a->dim = dim(c);
    a->fill = choose_float(c);
    view(d, &a->source);
    view(d, &a->src_rows);
    view(d, &a->base);
    view(d, &a->destination);
}

static void draft_head(draft *d, choices *c)
{
    rvit_head_args *a = &d->op.head;
    *a = (rvit_head_args)RVIT_HEAD_ARGS_INIT;
    a->dtype = dtype(c);
    a->weight_dtype = dtype(c);
    a->n_images = choose_int(c, 0, 6);
    a->rows = choose_int(c, 0, 60);
    a->dim = dim(c);
    a->n_tokens = choose_int(c, 1, 2);
    a->n_classes = choose_int(c, 1, 12);
    a->eps = choose(c, 8) ? 1e-6f : choose_float(c);
    rvit_view *views[] = {&a->x, &a->cu_seqlens, &a->gamma, &a->beta, &a->weight, &a->bias, &a->logits};
    for (size_t i = 0; i < sizeof views / sizeof *views; i++)
        view(d, views[i]);
}

static void (*const drafts[RVIT_OP_COUNT])(draft *, choices *) = {
    draft_copy, draft_patchify, draft_linear, draft_layernorm, draft_attention, draft_select,
    draft_mean, draft_match,    draft_merge,  draft_pack,      draft_unpack,    draft_head,
};

void draft_op(draft *d, rvit_op_type type, choices *c)
{
    d->n_views = 0;
    d->op.type = type;
    drafts[type](d, c);
}

rvit_status draft_call(rvit_stream *stream, const rvit_op *op)
{
    switch (op->type) {
    case RVIT_OP_COPY:
        return rvit_copy(stream, &op->copy);
    case RVIT_OP_PATCHIFY:
        return rvit_patchify(stream, &op->patchify);
    case RVIT_OP_LINEAR:
        return rvit_linear(stream, &op->linear);
    case RVIT_OP_LAYERNORM:
        return rvit_layernorm(stream, &op->layernorm);
    case RVIT_OP_ATTENTION:
        return rvit_attention(stream, &op->attention);
    case RVIT_OP_SELECT:
        return rvit_select(stream, &op->select);
    case RVIT_OP_MEAN:
        return rvit_mean(stream, &op->mean);
    case RVIT_OP_MATCH:
        return rvit_match(stream, &op->match);
    case RVIT_OP_MERGE:
        return rvit_merge(stream, &op->merge);
    case RVIT_OP_PACK:
        return rvit_pack(stream, &op->pack);
    case RVIT_OP_UNPACK:
        return rvit_unpack(stream, &op->unpack);
    case RVIT_OP_HEAD:
        return rvit_head(stream, &op->head);
    case RVIT_OP_COUNT:
        break;
    }
    return RVIT_OK;
}

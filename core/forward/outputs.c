/* The outputs of a forward: rows, pooled rows, attention, logits. */
#include "core/forward/forward.h"
#include "core/forward/windows.h"

/* The rows after the last norm, if there is one. */
static rvit_status features(forward *f)
{
    const rvit_model *model = f->model;
    const rvit_view out = view(f, f->plan->features);
    if (model->info.final_norm)
        return rvit_forward_layernorm(f, model->norm_gamma, model->norm_beta, model->info.eps, RVIT_F32, out);
    RVIT_TRY(rvit_forward_finish_gather(f));
    return rvit_forward_output_rows(f, f->x, 4 * (int64_t)model->info.dim, f->plan->features);
}

/* Whether the head normalises the rows that it reads, by fc_norm or the norm after the last block. */
static int head_normalises(const rvit_model *model)
{
    return model->info.pooling == RVIT_POOLING_CLS || model->info.pooling == RVIT_POOLING_MEAN_NORM;
}

static const rvit_view *head_gamma(const rvit_model *model)
{
    return model->fc_norm_gamma.buffer != NULL ? &model->fc_norm_gamma : &model->norm_gamma;
}

static const rvit_view *head_beta(const rvit_model *model)
{
    return model->fc_norm_gamma.buffer != NULL ? &model->fc_norm_beta : &model->norm_beta;
}

static rvit_head_args head_of(const forward *f)
{
    const rvit_model *model = f->model;
    rvit_head_args args = RVIT_HEAD_ARGS_INIT;
    args.dtype = model->x_dtype;
    args.weight_dtype = model->dtype;
    args.n_images = f->plan->desc.max_images;
    args.rows = f->rows.capacity;
    args.dim = model->info.dim;
    args.n_tokens = model->info.distilled || model->info.pooling == RVIT_POOLING_CLS_MEAN ? 2 : 1;
    args.n_classes = model->info.n_classes;
    args.eps = model->info.eps;
    if (model->info.pooling == RVIT_POOLING_CLS) {
        args.x = f->x;
        args.cu_seqlens = f->cu_seqlens;
    } else {
        args.x = view(f, f->plan->head_rows);
        args.rows = (int64_t)args.n_images * args.n_tokens;
    }
    if (head_normalises(model)) {
        args.gamma = *head_gamma(model);
        args.beta = *head_beta(model);
        args.norm = norm_of(args.beta);
    }
    args.weight = model->head_weight;
    args.bias = model->head_bias;
    args.logits = f->plan->desc.logits.buffer != NULL ? f->plan->desc.logits : view(f, f->plan->logits);
    return args;
}

/* Outputs the first rows of each image, as a head on the CLS row reads them. */
static rvit_status output_first_rows(const forward *f)
{
    const rvit_model *model = f->model;
    const int64_t dim = model->info.dim;
    for (int32_t token = 0; token < 1 + model->info.distilled; token++) {
        rvit_pool_args args = rvit_forward_pool_of(f, RVIT_POOL_FIRST);
        /* The second row of each image is the first row of a batch that begins one row later. */
        args.x = at(args.x, token * dim * rvit_dtype_size(model->x_dtype));
        args.rows -= token;
        args.out_dtype = RVIT_F32;
        args.gamma = *head_gamma(model);
        args.beta = *head_beta(model);
        args.norm = norm_of(args.beta);
        args.out = at(view(f, f->plan->pooled), 4 * token * dim);
        args.out_stride = rvit_pooled_width(&model->info);
        RVIT_TRY(rvit_pool(f->stream, &args));
    }
    return RVIT_OK;
}

static rvit_status output_pooled(const forward *f)
{
    const rvit_model *model = f->model;
    if (model->info.pooling == RVIT_POOLING_CLS)
        return output_first_rows(f);
    if (!head_normalises(model) || head_gamma(model)->buffer == NULL)
        return rvit_forward_copy(f, view(f, f->plan->head_rows), f->plan->pooled.size, view(f, f->plan->pooled));
    const rvit_rows rows = {.capacity = f->plan->desc.max_images};
    return rvit_forward_norm(f, rows, model->info.dim, view(f, f->plan->head_rows), *head_gamma(model), *head_beta(model), RVIT_F32,
                             view(f, f->plan->pooled));
}

static rvit_status head(const forward *f)
{
    rvit_op op = {.type = RVIT_OP_HEAD, .head = head_of(f)};
    f->session->head = op.head;
    RVIT_TRY(rvit_forward_add_outer(f, &op));
    if (f->plan->projected.arena == RVIT_ARENA_NONE)
        return RVIT_OK;
    /* The logits are in the caller's memory, so compute them again for the session's output. */
    op.by_launch = 0;
    op.head.logits = view(f, f->plan->projected);
    return rvit_stream_add(f->stream, &op);
}

rvit_status rvit_forward_attention_received(const forward *f, rvit_view out)
{
    const rvit_model *model = f->model;
    rvit_attention_received_args args = RVIT_ATTENTION_RECEIVED_ARGS_INIT;
    args.dtype = model->dtype;
    const rvit_attention_ranges ranges = rvit_forward_attention_ranges(f);
    args.n_images = ranges.n;
    args.n_heads = model->info.n_heads;
    args.head_dim = model->info.head_dim;
    args.max_len = ranges.max_len;
    args.rows = f->rows.capacity;
    args.q = f->wide;
    args.k = at(f->wide, model->info.dim * rvit_dtype_size(model->dtype));
    args.q_stride = args.k_stride = 3 * (int64_t)model->info.dim;
    args.cu_seqlens = ranges.cu_seqlens;
    args.key_bias = f->key_bias;
    args.lse = f->lse;
    args.out = out;
    return rvit_attention_received(f->stream, &args);
}

rvit_status rvit_forward_block_features(const forward *f)
{
    return rvit_forward_output_rows(f, f->x, 4 * (int64_t)f->model->info.dim, f->plan->block_features);
}

rvit_status rvit_forward_outputs(forward *f)
{
    const rvit_model_info *info = &f->model->info;
    const int pooled = rvit_forward_wants(f, RVIT_OUTPUT_POOLED, 1);
    if (f->plan->desc.outputs & RVIT_OUTPUT_FEATURES)
        RVIT_TRY(features(f));
    if (info->n_classes == 0 || info->pooling != RVIT_POOLING_MAP)
        RVIT_TRY(rvit_forward_finish_gather(f));
    if (rvit_forward_wants(f, RVIT_OUTPUT_MERGED, 1))
        RVIT_TRY(rvit_forward_merge_groups(f, -1));
    if (info->n_classes > 0 || pooled)
        RVIT_TRY(rvit_forward_pool_rows(f));
    if (pooled)
        RVIT_TRY(output_pooled(f));
    return info->n_classes > 0 ? head(f) : RVIT_OK;
}

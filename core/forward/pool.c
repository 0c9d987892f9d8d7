/* Pools the rows of each image to one row. */
#include "core/forward/forward.h"

/* The number of tokens merged into each row; absent unless rows were merged. */
static rvit_view sizes_of(const forward *f)
{
    return f->stage > 0 ? view(f, f->plan->stages[f->stage - 1].sizes) : absent;
}

rvit_pool_args rvit_forward_pool_of(const forward *f, rvit_pool_mode mode)
{
    const rvit_model *model = f->model;
    rvit_pool_args args = RVIT_POOL_ARGS_INIT;
    args.dtype = model->x_dtype;
    args.mode = mode;
    args.n_images = f->plan->desc.max_images;
    args.max_len = f->max_len;
    args.n_prefix = model->info.n_prefix;
    args.rows = f->rows.capacity;
    args.dim = model->info.dim;
    args.eps = model->info.eps;
    args.x = f->x;
    args.cu_seqlens = f->cu_seqlens;
    if (mode == RVIT_POOL_MEAN)
        args.sizes = sizes_of(f);
    return args;
}

/* Pools to the columns of the head's rows from `column` on. */
static rvit_status pool(const forward *f, rvit_pool_mode mode, int norms, int64_t column, int64_t stride)
{
    const rvit_model *model = f->model;
    rvit_pool_args args = rvit_forward_pool_of(f, mode);
    args.out_dtype = model->x_dtype;
    if (norms) {
        args.gamma = model->norm_gamma;
        args.beta = model->norm_beta;
        args.norm = norm_of(args.beta);
    }
    args.out = at(view(f, f->plan->head_rows), column * rvit_dtype_size(model->x_dtype));
    args.out_stride = stride;
    return rvit_pool(f->stream, &args);
}

rvit_status rvit_forward_attention_pool(const forward *f, rvit_view probs)
{
    const rvit_model *model = f->model;
    const rvit_map_weights *w = &model->map;
    rvit_linear_args linear = rvit_forward_linear_of(f, f->normed, model->info.dim, w->query_weight, absent, w->logits);
    linear.out_dtype = RVIT_F32;
    linear.out = view(f, f->plan->map_logits);
    RVIT_TRY(rvit_forward_add_linear(f, &linear));
    rvit_attention_pool_args args = RVIT_ATTENTION_POOL_ARGS_INIT;
    args.dtype = args.out_dtype = model->dtype;
    args.n_images = f->plan->desc.max_images;
    args.n_heads = w->n_heads;
    args.head_dim = w->head_dim;
    args.max_len = f->max_len;
    args.rows = f->rows.capacity;
    args.dim = model->info.dim;
    args.x = f->normed;
    args.logits = linear.out;
    args.logits_stride = w->logits;
    args.sizes = sizes_of(f);
    args.cu_seqlens = f->cu_seqlens;
    args.weight = w->value_weight;
    args.bias = w->value_bias;
    args.out = f->wide;
    args.probs = probs;
    return rvit_attention_pool(f->stream, &args);
}

/* Attention pooling, followed by its MLP on one row per image. */
static rvit_status attention_pool(forward *f)
{
    const rvit_model *model = f->model;
    const rvit_map_weights *w = &model->map;
    RVIT_TRY(rvit_forward_layernorm(f, model->norm_gamma, model->norm_beta, model->info.eps, model->dtype, f->normed));
    RVIT_TRY(rvit_forward_attention_pool(f, absent));
    forward images = *f;
    images.rows = (rvit_rows){.capacity = f->plan->desc.max_images};
    images.padding_rows = 0;
    images.x = view(f, f->plan->head_rows);
    rvit_linear_args args = rvit_forward_linear_of(&images, f->wide, model->info.dim, w->proj_weight, w->proj_bias, model->info.dim);
    args.out_dtype = model->x_dtype;
    args.out = images.x;
    RVIT_TRY(rvit_forward_add_linear(&images, &args));
    if (w->mlp_dim == 0)
        return RVIT_OK;
    RVIT_TRY(rvit_forward_layernorm(&images, w->norm_gamma, w->norm_beta, model->info.eps, model->dtype, images.normed));
    RVIT_TRY(rvit_forward_linear(&images, w->activation, f->normed, w->fc1_weight, w->fc1_bias, f->wide, model->info.dim, w->mlp_width));
    return rvit_forward_add_to_x(&images, f->wide, w->fc2_weight, w->fc2_bias, w->mlp_width);
}

rvit_status rvit_forward_pool_rows(forward *f)
{
    const int64_t dim = f->model->info.dim;
    const int final_norm = f->model->info.final_norm;
    switch (f->model->info.pooling) {
    case RVIT_POOLING_MEAN:
        return pool(f, RVIT_POOL_MEAN, final_norm, 0, dim);
    case RVIT_POOLING_MEAN_NORM:
    case RVIT_POOLING_MEAN_RAW:
        return pool(f, RVIT_POOL_MEAN, 0, 0, dim);
    case RVIT_POOLING_CLS_MEAN:
        RVIT_TRY(pool(f, RVIT_POOL_FIRST, final_norm, 0, 2 * dim));
        return pool(f, RVIT_POOL_MEAN, final_norm, dim, 2 * dim);
    case RVIT_POOLING_MAP:
        return attention_pool(f);
    default:
        return RVIT_OK;
    }
}

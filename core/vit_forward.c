/* The forward of a ViT as ops. */
#include "core/vit_session.h"

/* The state that travels from op to op. */
typedef struct forward {
    rvit_session *session;
    const rvit_session_plan *plan;
    const rvit_model *model;
    rvit_stream *stream;
    rvit_view normed, wide; /* arrays of the plan, which say what they hold */
    rvit_view x, spare;     /* the residual stream, and the other array it moves to when rows are gathered */
    int32_t stage;          /* the next; also the number of the segment that rows, max_len and cu_seqlens are of */
    rvit_rows rows;
    int32_t spare_rows; /* of the segment */
    int32_t max_len;
    rvit_view cu_seqlens;
    int32_t gathers;     /* 1: the last stage has selected, but x still holds the rows before it; the next layernorm gathers */
    rvit_view cls_probs; /* of this block's attention, where they are asked for */
    rvit_view key_bias;  /* of merged tokens; absent until some are */
    rvit_view positions; /* of the rows, where queries and keys are rotated; absent before the first stage */
} forward;

static const rvit_view absent = {NULL, 0};

static rvit_status add_linear(const forward *f, const rvit_linear_args *args, rvit_view narrow_bias)
{
    rvit_op op = {.type = RVIT_OP_LINEAR, .hints = {.narrow_bias = narrow_bias, .spare_rows = f->spare_rows}, .linear = *args};
    return rvit_stream_add(f->stream, &op);
}

static rvit_view at(rvit_view view, int64_t bytes)
{
    view.offset += bytes;
    return view;
}

static rvit_view view(const forward *f, rvit_session_array array)
{
    return rvit_session_view(f->session, array);
}

static rvit_status linear_activated(const forward *f, rvit_activation activation, rvit_view x, rvit_view weight, rvit_view bias,
                                    rvit_view out, int32_t in_features, int32_t out_features)
{
    rvit_linear_args args = RVIT_LINEAR_ARGS_INIT;
    args.dtype = args.out_dtype = f->model->dtype;
    args.rows = f->rows;
    args.in_features = in_features;
    args.out_features = out_features;
    args.activation = activation;
    args.x = x;
    args.weight = weight;
    args.bias = bias;
    args.out = out;
    return add_linear(f, &args, absent);
}

/* A layer of a predictor, which has the exact GELU whatever the blocks have. */
static rvit_status linear_gelu(const forward *f, rvit_view x, rvit_view weight, rvit_view bias, rvit_view out, int32_t in_features,
                               int32_t out_features)
{
    return linear_activated(f, RVIT_ACTIVATION_GELU, x, weight, bias, out, in_features, out_features);
}

/* The hidden layer of an MLP, in the wide array. */
static rvit_status hidden(const forward *f, const rvit_block_weights *w)
{
    const rvit_model *model = f->model;
    rvit_linear_args args = RVIT_LINEAR_ARGS_INIT;
    args.dtype = args.out_dtype = model->dtype;
    args.rows = f->rows;
    args.in_features = model->info.dim;
    args.out_features = model->mlp_width;
    args.activation = model->info.activation;
    args.gated = model->info.gated;
    args.x = f->normed;
    args.weight = w->fc1_weight;
    args.bias = w->fc1_bias;
    args.out = f->wide;
    return add_linear(f, &args, absent);
}

static rvit_status qkv(const forward *f, const rvit_block_weights *w)
{
    rvit_linear_args args = RVIT_LINEAR_ARGS_INIT;
    args.dtype = args.out_dtype = f->model->dtype;
    args.rows = f->rows;
    args.in_features = f->model->info.dim;
    args.out_features = 3 * f->model->info.dim;
    args.x = f->normed;
    args.weight = w->qkv_weight;
    args.bias = w->qkv_bias;
    args.out = f->wide;
    return add_linear(f, &args, w->qkv_bias_narrow);
}

/* x += input weight^T + bias */
static rvit_status linear_to_x(const forward *f, rvit_view input, rvit_view weight, rvit_view bias, int32_t in_features)
{
    rvit_linear_args args = RVIT_LINEAR_ARGS_INIT;
    args.dtype = f->model->dtype;
    args.out_dtype = f->model->x_dtype;
    args.rows = f->rows;
    args.in_features = in_features;
    args.out_features = f->model->info.dim;
    args.x = input;
    args.weight = weight;
    args.bias = bias;
    args.residual = args.out = f->x;
    return add_linear(f, &args, absent);
}

/* Norms without a beta are RMS norms: others are refused. */
static rvit_norm norm_of(rvit_view beta)
{
    return beta.buffer == NULL ? RVIT_NORM_RMS : RVIT_NORM_LAYER;
}

/* Normalises x; if rows are to be gathered, does that in the same pass. */
static rvit_status layernorm_to(forward *f, rvit_view gamma, rvit_view beta, float eps, rvit_dtype out_dtype, rvit_view out)
{
    rvit_layernorm_args args = RVIT_LAYERNORM_ARGS_INIT;
    args.dtype = f->model->x_dtype;
    args.out_dtype = out_dtype;
    args.rows = f->rows;
    args.dim = f->model->info.dim;
    args.eps = eps;
    args.x = f->x;
    args.gamma = gamma;
    args.beta = beta;
    args.norm = norm_of(beta);
    args.out = out;
    if (f->gathers) {
        args.x_rows = f->plan->segments[f->stage - 1].rows;
        args.src_rows = view(f, f->plan->stages[f->stage - 1].src_rows);
        args.out_x = f->spare;
    }
    RVIT_TRY(rvit_layernorm(f->stream, &args));
    if (f->gathers) {
        f->spare = f->x;
        f->x = args.out_x;
        f->gathers = 0;
    }
    return RVIT_OK;
}

static rvit_status layernorm(forward *f, rvit_view gamma, rvit_view beta)
{
    return layernorm_to(f, gamma, beta, f->model->info.eps, f->model->dtype, f->normed);
}

/* Normalises rows of the model's type, to an array behind the first `columns` columns of wide. */
static rvit_status inner_norm(const forward *f, rvit_view x, int32_t dim, int32_t features, rvit_view gamma, rvit_view beta,
                              int64_t columns, rvit_view *out)
{
    rvit_layernorm_args args = RVIT_LAYERNORM_ARGS_INIT;
    args.dtype = args.out_dtype = f->model->dtype;
    args.rows = f->rows;
    args.dim = dim;
    args.features = features;
    args.eps = f->model->info.eps;
    args.x = x;
    args.gamma = gamma;
    args.beta = beta;
    args.norm = norm_of(beta);
    args.out = *out = at(f->wide, f->rows.capacity * columns * rvit_dtype_size(f->model->dtype));
    return rvit_layernorm(f->stream, &args);
}

/* Turns the queries and keys in the wide array. */
static rvit_status rotate(const forward *f)
{
    const rvit_model *model = f->model;
    rvit_rope_args args = RVIT_ROPE_ARGS_INIT;
    if (!rvit_model_rotates(model))
        return RVIT_OK;
    args.dtype = model->dtype;
    args.rows = f->rows;
    args.n_heads = model->info.n_heads;
    args.head_dim = model->info.head_dim;
    args.n_positions = model->info.tokens;
    args.n_prefix = model->info.n_prefix;
    args.q = f->wide;
    args.k = at(f->wide, model->info.dim * rvit_dtype_size(model->dtype));
    args.q_stride = args.k_stride = 3 * (int64_t)model->info.dim;
    args.table = model->rope_table;
    args.positions = f->positions;
    return rvit_rope(f->stream, &args);
}

static rvit_status attention(const forward *f)
{
    const rvit_model *model = f->model;
    const int64_t dim = model->info.dim, element = rvit_dtype_size(model->dtype);
    rvit_attention_args args = RVIT_ATTENTION_ARGS_INIT;
    args.dtype = model->dtype;
    args.n_images = f->plan->desc.max_images;
    args.n_heads = model->info.n_heads;
    args.head_dim = model->info.head_dim;
    args.max_len = f->max_len;
    args.rows = f->rows.capacity;
    args.q = f->wide;
    args.k = at(f->wide, dim * element);
    args.v = at(f->wide, 2 * dim * element);
    args.q_stride = args.k_stride = args.v_stride = 3 * dim;
    args.cu_seqlens = f->cu_seqlens;
    args.key_bias = f->key_bias;
    args.out = f->normed;
    args.cls_probs = f->cls_probs;
    return rvit_attention(f->stream, &args);
}

static rvit_status trace(const forward *f, rvit_view source, int64_t size, rvit_view destination)
{
    if (!f->plan->desc.trace)
        return RVIT_OK;
    rvit_copy_args args = RVIT_COPY_ARGS_INIT;
    args.source = source;
    args.destination = destination;
    args.size = size;
    return rvit_copy(f->stream, &args);
}

static rvit_status trace_x(const forward *f, int32_t index)
{
    const rvit_model *model = f->model;
    return trace(f, f->x, f->rows.capacity * model->info.dim * rvit_dtype_size(model->x_dtype),
                 at(view(f, f->plan->trace_blocks), index * f->plan->trace_stride));
}

static void enter_segment(forward *f, int32_t index)
{
    const rvit_segment *segment = &f->plan->segments[index];
    f->stage = index;
    f->max_len = segment->max_len;
    f->cu_seqlens = view(f, index == 0 ? f->plan->cu_seqlens : f->plan->stages[index - 1].cu_seqlens);
    f->rows = (rvit_rows){.capacity = segment->rows, .padded = segment->padded};
    f->spare_rows = segment->spare_rows;
    if (segment->reads_live)
        f->rows.live = at(f->cu_seqlens, (int64_t)f->plan->desc.max_images * 4);
}

/* The rows that the stage before this segment has left keep their positions. */
static rvit_status carry_positions(forward *f)
{
    const rvit_stage_plan *stage = &f->plan->stages[f->stage - 1];
    rvit_positions_args args = RVIT_POSITIONS_ARGS_INIT;
    if (!rvit_model_rotates(f->model))
        return RVIT_OK;
    args.rows = f->rows;
    args.source_rows = f->plan->segments[f->stage - 1].rows;
    args.n_positions = f->model->info.tokens;
    args.src_rows = view(f, stage->src_rows);
    if (f->plan->schedule.policy->fuses)
        args.keep = view(f, stage->keep);
    args.positions = f->positions;
    args.out = view(f, stage->positions);
    RVIT_TRY(rvit_positions(f->stream, &args));
    f->positions = args.out;
    return RVIT_OK;
}

/* The layers of a DynamicViT predictor but the last, over all rows; *out_hidden: [rows, dim / 4]. */
static rvit_status predict(forward *f, const rvit_predictor_weights *w, rvit_view *out_hidden)
{
    const rvit_model *model = f->model;
    const int32_t dim = model->info.dim;
    const int64_t row_size = f->rows.capacity * rvit_dtype_size(model->dtype);
    const rvit_view features = f->wide, half = at(features, row_size * dim), quarter = at(half, row_size * (dim / 2));
    RVIT_TRY(layernorm_to(f, w->norm_gamma, w->norm_beta, RVIT_PREDICTOR_EPS, model->dtype, f->normed));
    RVIT_TRY(linear_gelu(f, f->normed, w->in_weight, w->in_bias, features, dim, dim));
    rvit_mean_args mean = RVIT_MEAN_ARGS_INIT;
    mean.dtype = model->dtype;
    mean.n_images = f->plan->desc.max_images;
    mean.max_len = f->max_len;
    mean.rows = f->rows.capacity;
    mean.n_prefix = model->info.n_prefix;
    mean.dim = dim;
    mean.first_column = dim / 2;
    mean.cu_seqlens = f->cu_seqlens;
    mean.x = features;
    RVIT_TRY(rvit_mean(f->stream, &mean));
    RVIT_TRY(linear_gelu(f, features, w->out_weight[0], w->out_bias[0], half, dim, dim / 2));
    RVIT_TRY(linear_gelu(f, half, w->out_weight[1], w->out_bias[1], quarter, dim / 2, dim / 4));
    *out_hidden = quarter;
    return RVIT_OK;
}

/* The arrays that the policy's score is made from. */
static rvit_status fill_score(forward *f, const rvit_stage_plan *stage, rvit_select_args *args)
{
    const rvit_model *model = f->model;
    const rvit_policy *policy = f->plan->schedule.policy;
    args->scores = view(f, stage->scores);
    args->cls_probs = f->cls_probs;
    args->position_scores = view(f, stage->position_scores);
    args->x = f->x;
    if (policy->score == RVIT_SCORE_CLS_NORM && policy->site == RVIT_SITE_AFTER_ATTENTION)
        args->x = at(f->wide, 2 * (int64_t)model->info.dim * rvit_dtype_size(model->dtype));
    if (policy->score == RVIT_SCORE_PREDICTOR) {
        const rvit_predictor_weights *weights = &model->predictors[f->stage];
        RVIT_TRY(predict(f, weights, &args->x));
        args->weight = weights->keep_weight;
        args->bias = weights->keep_bias;
    }
    return RVIT_OK;
}

/* Scores and selects; the rows are gathered later. */
static rvit_status prune(forward *f)
{
    const rvit_stage_plan *stage = &f->plan->stages[f->stage];
    rvit_select_args args = stage->select;
    if (args.mode != RVIT_SELECT_MASK)
        RVIT_TRY(fill_score(f, stage, &args));
    if (f->plan->schedule.policy->fuses)
        args.fuse_x = f->x;
    args.counts = view(f, stage->counts);
    args.keep_in = view(f, stage->keep_in);
    args.cu_seqlens = f->cu_seqlens;
    args.keep = view(f, stage->keep);
    args.out_cu_seqlens = view(f, stage->cu_seqlens);
    args.src_rows = view(f, stage->src_rows);
    args.error = view(f, stage->error);
    args.error_stays = 1;
    RVIT_TRY(rvit_select(f->stream, &args));
    if (args.mode != RVIT_SELECT_MASK)
        RVIT_TRY(trace(f, args.scores, stage->scores.size, view(f, stage->trace_scores)));
    f->gathers = 1;
    enter_segment(f, f->stage + 1);
    return carry_positions(f);
}

/* Merges rows whose keys, still in the wide array, are alike. */
static rvit_status merge(forward *f)
{
    const rvit_model *model = f->model;
    const rvit_segment *before = &f->plan->segments[f->stage];
    const rvit_stage_plan *stage = &f->plan->stages[f->stage];
    rvit_match_args match = RVIT_MATCH_ARGS_INIT;
    match.dtype = model->dtype;
    match.n_images = f->plan->desc.max_images;
    match.max_len = before->max_len;
    match.rows = before->rows;
    match.n_prefix = model->info.n_prefix;
    match.n_heads = model->info.n_heads;
    match.head_dim = model->info.head_dim;
    match.merges = f->plan->schedule.merges;
    match.k = at(f->wide, (int64_t)model->info.dim * rvit_dtype_size(model->dtype));
    match.k_stride = 3 * (int64_t)model->info.dim;
    match.cu_seqlens = f->cu_seqlens;
    match.metric = view(f, f->plan->metric);
    match.keep = view(f, stage->keep);
    match.out_cu_seqlens = view(f, stage->cu_seqlens);
    match.src_rows = view(f, stage->src_rows);
    match.next_rows = view(f, stage->next_rows);
    RVIT_TRY(rvit_match(f->stream, &match));

    rvit_merge_args args = RVIT_MERGE_ARGS_INIT;
    args.dtype = model->x_dtype;
    args.x_rows = before->rows;
    args.dim = model->info.dim;
    args.x = f->x;
    if (f->stage > 0)
        args.sizes = view(f, f->plan->stages[f->stage - 1].sizes);
    args.src_rows = match.src_rows;
    args.next_rows = match.next_rows;
    args.out_x = f->spare;
    args.out_sizes = view(f, stage->sizes);
    args.out_key_bias = view(f, stage->key_bias);
    enter_segment(f, f->stage + 1);
    args.rows = f->rows;
    RVIT_TRY(rvit_merge(f->stream, &args));
    f->spare = f->x;
    f->x = args.out_x;
    f->key_bias = args.out_key_bias;
    return carry_positions(f);
}

static int prunes_at(const forward *f, int32_t block, rvit_prune_site site)
{
    const rvit_prune_schedule *schedule = &f->plan->schedule;
    return f->stage < schedule->n_stages && schedule->blocks[f->stage] == block && schedule->policy->site == site;
}

static rvit_patchify_args patchify_of(const forward *f)
{
    const rvit_session_plan *plan = f->plan;
    const rvit_model *model = f->model;
    rvit_patchify_args patchify = RVIT_PATCHIFY_ARGS_INIT;
    patchify.dtype = model->dtype;
    patchify.n_images = plan->desc.max_images;
    if (!plan->desc.fixed_batch)
        patchify.live_images = view(f, plan->desc.run_views ? plan->live_counts : plan->live_images);
    patchify.channels = model->info.channels;
    patchify.image_height = model->info.image_height;
    patchify.image_width = model->info.image_width;
    patchify.patch_size = model->info.patch_size;
    patchify.crop = 1;
    patchify.n_prefix = model->info.n_prefix;
    patchify.out_stride = rvit_model_patch_width(model);
    patchify.images = plan->desc.images.buffer != NULL ? plan->desc.images : view(f, plan->images);
    patchify.out = f->wide;
    patchify.cu_seqlens = f->cu_seqlens;
    return patchify;
}

/* The op that reads the images, or writes the logits. */
static rvit_status add_outer(const forward *f, rvit_op *op)
{
    op->by_launch = f->plan->desc.run_views;
    return op->by_launch && !f->stream->device->takes_ops ? RVIT_OK : rvit_stream_add(f->stream, op);
}

/* From the spare array to x. */
static rvit_status normalise_embedding(const forward *f)
{
    const rvit_model *model = f->model;
    rvit_layernorm_args args = RVIT_LAYERNORM_ARGS_INIT;
    args.dtype = args.out_dtype = model->x_dtype;
    args.rows = f->rows;
    args.dim = model->info.dim;
    args.eps = model->info.eps;
    args.x = f->spare;
    args.gamma = model->norm_pre_gamma;
    args.beta = model->norm_pre_beta;
    args.norm = norm_of(args.beta);
    args.out = f->x;
    return rvit_layernorm(f->stream, &args);
}

static rvit_status embed(forward *f)
{
    const rvit_model *model = f->model;
    rvit_op patchify = {.type = RVIT_OP_PATCHIFY, .patchify = patchify_of(f)};
    f->session->patchify = patchify.patchify;
    RVIT_TRY(add_outer(f, &patchify));

    rvit_linear_args args = RVIT_LINEAR_ARGS_INIT;
    args.dtype = model->dtype;
    args.out_dtype = model->x_dtype;
    args.rows = f->rows;
    args.in_features = rvit_model_patch_width(model);
    args.out_features = model->info.dim;
    args.x = f->wide;
    args.weight = model->patch_weight;
    args.residual = model->embedding;
    args.residual_period = model->info.tokens;
    args.out = model->info.norm_pre ? f->spare : f->x;
    RVIT_TRY(add_linear(f, &args, absent));
    if (model->info.norm_pre)
        RVIT_TRY(normalise_embedding(f));
    return trace_x(f, 0);
}

static rvit_status block(forward *f, int32_t index)
{
    const rvit_model_info *info = &f->model->info;
    const rvit_block_weights *w = &f->model->blocks[index];
    if (prunes_at(f, index, RVIT_SITE_BEFORE_BLOCK))
        RVIT_TRY(prune(f));
    RVIT_TRY(layernorm(f, w->norm1_gamma, w->norm1_beta));
    RVIT_TRY(qkv(f, w));
    RVIT_TRY(rotate(f));
    const int inside = prunes_at(f, index, RVIT_SITE_AFTER_ATTENTION), after = prunes_at(f, index, RVIT_SITE_AFTER_BLOCK);
    f->cls_probs = inside || after ? view(f, f->plan->cls_probs) : (rvit_view){NULL, 0};
    if (index == info->depth - 1 && (f->plan->desc.outputs & RVIT_OUTPUT_CLS_ATTENTION))
        f->cls_probs = view(f, f->plan->cls_attention);
    RVIT_TRY(attention(f));
    rvit_view attended = f->normed, products = f->wide;
    if (f->model->attention_norm)
        RVIT_TRY(inner_norm(f, f->normed, info->dim, info->dim, w->attention_norm_gamma, w->attention_norm_beta, 3 * (int64_t)info->dim,
                            &attended));
    RVIT_TRY(linear_to_x(f, attended, w->proj_weight, w->proj_bias, info->dim));
    if (inside)
        RVIT_TRY(f->plan->schedule.policy->merges ? merge(f) : prune(f));
    RVIT_TRY(layernorm(f, w->norm2_gamma, w->norm2_beta));
    RVIT_TRY(hidden(f, w));
    if (f->model->mlp_norm)
        RVIT_TRY(inner_norm(f, f->wide, f->model->mlp_width, info->mlp_dim, w->mlp_norm_gamma, w->mlp_norm_beta, f->model->mlp_width,
                            &products));
    RVIT_TRY(linear_to_x(f, products, w->fc2_weight, w->fc2_bias, f->model->mlp_width));
    RVIT_TRY(trace_x(f, index + 1));
    return after ? prune(f) : RVIT_OK;
}

/* A stage after the last block has no layernorm to gather for it. */
static rvit_status finish_gather(forward *f)
{
    if (!f->gathers)
        return RVIT_OK;
    const rvit_model *model = f->model;
    rvit_pack_args args = RVIT_PACK_ARGS_INIT;
    args.rows = f->rows;
    args.source_rows = f->plan->segments[f->stage - 1].rows;
    args.row_size = model->info.dim * rvit_dtype_size(model->x_dtype);
    args.source = f->x;
    args.src_rows = view(f, f->plan->stages[f->stage - 1].src_rows);
    args.destination = f->spare;
    RVIT_TRY(rvit_pack(f->stream, &args));
    f->x = f->spare;
    f->gathers = 0;
    return RVIT_OK;
}

/* How many tokens the rows stand for; absent unless some were merged. */
static rvit_view sizes_of(const forward *f)
{
    return f->stage > 0 ? view(f, f->plan->stages[f->stage - 1].sizes) : absent;
}

/* One row of each image, from column `column` of the pooled rows on. */
static rvit_status pool(const forward *f, rvit_pool_mode mode, int norms, int64_t column, int64_t stride)
{
    const rvit_model *model = f->model;
    rvit_pool_args args = RVIT_POOL_ARGS_INIT;
    args.dtype = args.out_dtype = model->x_dtype;
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
    if (norms) {
        args.gamma = model->norm_gamma;
        args.beta = model->norm_beta;
        args.norm = norm_of(args.beta);
    }
    args.out = at(view(f, f->plan->pooled), column * rvit_dtype_size(model->x_dtype));
    args.out_stride = stride;
    return rvit_pool(f->stream, &args);
}

/* The rows of each image, attended to by the one query of the model: to the wide array. */
static rvit_status probe(const forward *f, const rvit_map_weights *w)
{
    const rvit_model *model = f->model;
    rvit_linear_args linear = RVIT_LINEAR_ARGS_INIT;
    linear.dtype = model->dtype;
    linear.out_dtype = RVIT_F32;
    linear.rows = f->rows;
    linear.in_features = model->info.dim;
    linear.out_features = w->logits;
    linear.x = f->normed;
    linear.weight = w->query_weight;
    linear.out = view(f, f->plan->map_logits);
    RVIT_TRY(add_linear(f, &linear, absent));
    rvit_probe_args args = RVIT_PROBE_ARGS_INIT;
    args.dtype = args.out_dtype = model->dtype;
    args.n_images = f->plan->desc.max_images;
    args.n_heads = model->info.n_heads;
    args.head_dim = model->info.head_dim;
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
    return rvit_probe(f->stream, &args);
}

/* Attention pooling, then its MLP on the one row of each image. */
static rvit_status attention_pool(forward *f)
{
    const rvit_model *model = f->model;
    const rvit_map_weights *w = &model->map;
    RVIT_TRY(layernorm(f, model->norm_gamma, model->norm_beta));
    RVIT_TRY(probe(f, w));
    forward images = *f;
    images.rows = (rvit_rows){.capacity = f->plan->desc.max_images};
    images.spare_rows = 0;
    images.x = view(f, f->plan->pooled);
    rvit_linear_args args = RVIT_LINEAR_ARGS_INIT;
    args.dtype = model->dtype;
    args.out_dtype = model->x_dtype;
    args.rows = images.rows;
    args.in_features = args.out_features = model->info.dim;
    args.x = f->wide;
    args.weight = w->proj_weight;
    args.bias = w->proj_bias;
    args.out = images.x;
    RVIT_TRY(add_linear(&images, &args, absent));
    RVIT_TRY(layernorm(&images, w->norm_gamma, w->norm_beta));
    RVIT_TRY(
        linear_activated(&images, model->info.activation, f->normed, w->fc1_weight, w->fc1_bias, f->wide, model->info.dim, w->mlp_width));
    return linear_to_x(&images, f->wide, w->fc2_weight, w->fc2_bias, w->mlp_width);
}

/* What the head reads, unless that is the CLS row. */
static rvit_status pool_rows(forward *f)
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

/* The rows after the last norm, if there is one. */
static rvit_status features(forward *f)
{
    const rvit_model *model = f->model;
    const rvit_view out = view(f, f->plan->features);
    if (model->info.final_norm)
        return layernorm_to(f, model->norm_gamma, model->norm_beta, model->info.eps, RVIT_F32, out);
    RVIT_TRY(finish_gather(f));
    rvit_copy_args args = RVIT_COPY_ARGS_INIT;
    args.source = f->x;
    args.destination = out;
    args.size = f->plan->features.size;
    return rvit_copy(f->stream, &args);
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
        args.x = view(f, f->plan->pooled);
        args.rows = (int64_t)args.n_images * args.n_tokens;
    }
    if (model->info.pooling == RVIT_POOLING_CLS || model->info.pooling == RVIT_POOLING_MEAN_NORM) {
        const int own = model->fc_norm_gamma.buffer != NULL;
        args.gamma = own ? model->fc_norm_gamma : model->norm_gamma;
        args.beta = own ? model->fc_norm_beta : model->norm_beta;
        args.norm = norm_of(args.beta);
    }
    args.weight = model->head_weight;
    args.bias = model->head_bias;
    args.logits = f->plan->desc.logits.buffer != NULL ? f->plan->desc.logits : view(f, f->plan->logits);
    return args;
}

static rvit_status head(const forward *f)
{
    rvit_op op = {.type = RVIT_OP_HEAD, .head = head_of(f)};
    f->session->head = op.head;
    return add_outer(f, &op);
}

rvit_status rvit_forward_record(rvit_session *session)
{
    const rvit_session_plan *plan = session->plan;
    const rvit_model *model = session->model;
    const rvit_model_info *info = &model->info;
    forward f = {.session = session, .plan = plan, .model = model, .stream = session->stream};
    f.x = view(&f, plan->x);
    f.spare = view(&f, plan->spare);
    f.normed = view(&f, plan->normed);
    f.wide = view(&f, plan->wide);
    enter_segment(&f, 0);
    RVIT_TRY(embed(&f));
    for (int32_t b = 0; b < info->depth; b++)
        RVIT_TRY(block(&f, b));
    if (plan->desc.outputs & RVIT_OUTPUT_FEATURES)
        RVIT_TRY(features(&f));
    if (info->n_classes == 0 || info->pooling != RVIT_POOLING_MAP)
        RVIT_TRY(finish_gather(&f));
    if (info->n_classes > 0) {
        RVIT_TRY(pool_rows(&f));
        RVIT_TRY(head(&f));
    }
    if (plan->schedule.n_stages == 0)
        return RVIT_OK;
    rvit_copy_args args = RVIT_COPY_ARGS_INIT;
    args.source = view(&f, plan->results);
    args.destination = view(&f, plan->results_readback);
    args.size = plan->results.size;
    return rvit_copy(f.stream, &args);
}

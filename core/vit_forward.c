/* The forward of a ViT as ops. */
#include "core/vit_session.h"

/* The state that travels from op to op. */
typedef struct forward {
    rvit_session *session;
    rvit_stream *stream;
    rvit_view x, spare;   /* the residual stream, and the other buffer it moves to when rows are gathered */
    rvit_view cu_seqlens; /* of the rows as they are now, or will be after the pending gather */
    rvit_rows rows;
    int32_t max_len;
    const rvit_stage *gather; /* selected, but x still holds the rows before it; the next layernorm gathers */
    int32_t n_stages;
    rvit_view cls_probs; /* of this block's attention, where they are asked for */
    rvit_view key_bias;  /* of merged tokens; absent until some are */
} forward;

static rvit_view at(rvit_view view, int64_t bytes)
{
    view.offset += bytes;
    return view;
}

static rvit_status linear_gelu(const forward *f, rvit_view x, rvit_view weight, rvit_view bias, rvit_view out, int32_t in_features,
                               int32_t out_features)
{
    rvit_linear_args args = RVIT_LINEAR_ARGS_INIT;
    args.dtype = args.out_dtype = f->session->model->dtype;
    args.rows = f->rows;
    args.in_features = in_features;
    args.out_features = out_features;
    args.activation = RVIT_ACTIVATION_GELU;
    args.x = x;
    args.weight = weight;
    args.bias = bias;
    args.out = out;
    return rvit_linear(f->stream, &args);
}

static rvit_status qkv(const forward *f, const rvit_block_weights *w)
{
    const rvit_session *session = f->session;
    rvit_linear_args args = RVIT_LINEAR_ARGS_INIT;
    args.dtype = args.out_dtype = session->model->dtype;
    args.rows = f->rows;
    args.in_features = session->model->info.dim;
    args.out_features = 3 * session->model->info.dim;
    args.x = session->normed;
    args.weight = w->qkv_weight;
    args.bias = w->qkv_bias;
    args.bias_narrow = w->qkv_bias_narrow;
    args.out = session->wide;
    return rvit_linear(f->stream, &args);
}

/* x += input weight^T + bias */
static rvit_status linear_to_x(const forward *f, rvit_view input, rvit_view weight, rvit_view bias, int32_t in_features)
{
    rvit_linear_args args = RVIT_LINEAR_ARGS_INIT;
    args.dtype = f->session->model->dtype;
    args.out_dtype = f->session->model->x_dtype;
    args.rows = f->rows;
    args.in_features = in_features;
    args.out_features = f->session->model->info.dim;
    args.x = input;
    args.weight = weight;
    args.bias = bias;
    args.residual = args.out = f->x;
    return rvit_linear(f->stream, &args);
}

/* Normalises x; if rows are to be gathered, does that in the same pass. */
static rvit_status layernorm_to(forward *f, rvit_view gamma, rvit_view beta, float eps, rvit_dtype out_dtype, rvit_view out)
{
    rvit_session *session = f->session;
    rvit_layernorm_args args = RVIT_LAYERNORM_ARGS_INIT;
    args.dtype = session->model->x_dtype;
    args.out_dtype = out_dtype;
    args.rows = f->rows;
    args.dim = session->model->info.dim;
    args.eps = eps;
    args.x = f->x;
    args.gamma = gamma;
    args.beta = beta;
    args.out = out;
    if (f->gather != NULL) {
        args.x_rows = f->gather->rows;
        args.src_rows = f->gather->src_rows;
        args.out_x = f->spare;
    }
    RVIT_TRY(rvit_layernorm(f->stream, &args));
    if (f->gather != NULL) {
        f->spare = f->x;
        f->x = args.out_x;
        f->gather = NULL;
    }
    return RVIT_OK;
}

static rvit_status layernorm(forward *f, rvit_view gamma, rvit_view beta)
{
    const rvit_session *session = f->session;
    return layernorm_to(f, gamma, beta, session->model->info.eps, session->model->dtype, session->normed);
}

static rvit_status attention(const forward *f)
{
    const rvit_session *session = f->session;
    const rvit_model *model = session->model;
    const int64_t dim = model->info.dim, element = rvit_dtype_size(model->dtype);
    rvit_attention_args args = RVIT_ATTENTION_ARGS_INIT;
    args.dtype = model->dtype;
    args.n_images = session->max_images;
    args.n_heads = model->info.n_heads;
    args.head_dim = model->info.head_dim;
    args.max_len = f->max_len;
    args.rows = f->rows.capacity;
    args.q = session->wide;
    args.k = at(session->wide, dim * element);
    args.v = at(session->wide, 2 * dim * element);
    args.q_stride = args.k_stride = args.v_stride = 3 * dim;
    args.cu_seqlens = f->cu_seqlens;
    args.key_bias = f->key_bias;
    args.out = session->normed;
    args.cls_probs = f->cls_probs;
    return rvit_attention(f->stream, &args);
}

static rvit_status trace(const forward *f, rvit_view source, int64_t size, rvit_view destination)
{
    if (!f->session->desc.trace)
        return RVIT_OK;
    rvit_copy_args args = RVIT_COPY_ARGS_INIT;
    args.source = source;
    args.destination = destination;
    args.size = size;
    return rvit_copy(f->stream, &args);
}

static rvit_status trace_x(const forward *f, int32_t index)
{
    const rvit_model *model = f->session->model;
    return trace(f, f->x, f->rows.capacity * model->info.dim * rvit_dtype_size(model->x_dtype),
                 at(f->session->trace_blocks, index * f->session->trace_stride));
}

/* After a stage, rows, cu_seqlens and max_len are those of what it leaves. */
static void enter_stage(forward *f, const rvit_stage *stage)
{
    const rvit_session *session = f->session;
    f->cu_seqlens = stage->cu_seqlens;
    f->rows.capacity = stage->rows_after;
    f->rows.live = at(stage->cu_seqlens, (int64_t)session->max_images * 4);
    f->rows.padded = RVIT_ROWS_SPARE;
    if (session->desc.fixed_batch) {
        /* Nearly as many rows as there can be are worth a dense product over all of them. */
        if (session->schedule.select == RVIT_SELECT_TOP_K)
            f->rows.padded = RVIT_ROWS_PADDED;
        if (stage->exact)
            f->rows.live = (rvit_view){NULL, 0};
    }
    f->max_len = stage->max_len_after;
    f->n_stages++;
}

/* The layers of a DynamicViT predictor but the last, over all rows; *out_hidden: [rows, dim / 4]. */
static rvit_status predict(forward *f, const rvit_predictor_weights *w, rvit_view *out_hidden)
{
    const rvit_session *session = f->session;
    const rvit_model *model = session->model;
    const int32_t dim = model->info.dim;
    const int64_t row_size = f->rows.capacity * rvit_dtype_size(model->dtype);
    const rvit_view features = session->wide, half = at(features, row_size * dim), quarter = at(half, row_size * (dim / 2));
    RVIT_TRY(layernorm_to(f, w->norm_gamma, w->norm_beta, RVIT_PREDICTOR_EPS, model->dtype, session->normed));
    RVIT_TRY(linear_gelu(f, session->normed, w->in_weight, w->in_bias, features, dim, dim));
    rvit_mean_args mean = RVIT_MEAN_ARGS_INIT;
    mean.dtype = model->dtype;
    mean.n_images = session->max_images;
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

/* What the policy's score is made from. */
static rvit_status fill_score(forward *f, const rvit_stage *stage, rvit_select_args *args)
{
    const rvit_session *session = f->session;
    const rvit_model *model = session->model;
    const rvit_policy *policy = session->schedule.policy;
    args->score = policy->score;
    args->scores = stage->scores;
    args->dtype = model->x_dtype;
    args->dim = model->info.dim;
    args->n_heads = model->info.n_heads;
    args->cls_probs = f->cls_probs;
    args->position_scores = stage->position_scores;
    args->x = f->x;
    if (policy->score == RVIT_SCORE_CLS_NORM && policy->site == RVIT_SITE_AFTER_ATTENTION) {
        args->dtype = model->dtype;
        args->x = at(session->wide, 2 * (int64_t)model->info.dim * rvit_dtype_size(model->dtype));
        args->x_stride = 3 * (int64_t)model->info.dim;
    }
    if (policy->score == RVIT_SCORE_PREDICTOR) {
        const rvit_predictor_weights *weights = &model->predictors[f->n_stages];
        RVIT_TRY(predict(f, weights, &args->x));
        args->dtype = model->dtype;
        args->dim = model->info.dim / 4;
        args->weight = weights->keep_weight;
        args->bias = weights->keep_bias;
    }
    return RVIT_OK;
}

/* Scores and selects; the rows are gathered later. */
static rvit_status prune(forward *f)
{
    rvit_session *session = f->session;
    const rvit_prune_schedule *schedule = &session->schedule;
    const rvit_policy *policy = schedule->policy;
    rvit_stage *stage = &session->stages[f->n_stages];
    rvit_select_args args = RVIT_SELECT_ARGS_INIT;
    args.mode = schedule->select;
    args.n_images = session->max_images;
    args.max_len = stage->max_len;
    args.rows = stage->rows;
    args.n_prefix = session->model->info.n_prefix;
    args.prefix_competes = policy->prefix_competes;
    args.threshold = schedule->threshold;
    args.k_min = schedule->k_min;
    args.n_samples = schedule->n_samples;
    args.mass = schedule->mass;
    if (args.mode != RVIT_SELECT_MASK)
        RVIT_TRY(fill_score(f, stage, &args));
    if (policy->fuses) {
        args.fuse_dtype = session->model->x_dtype;
        args.fuse_dim = session->model->info.dim;
        args.fuse_x = f->x;
    }
    args.counts = stage->counts;
    args.keep_in = stage->keep_in;
    args.cu_seqlens = f->cu_seqlens;
    args.keep = stage->keep;
    args.out_cu_seqlens = stage->cu_seqlens;
    args.src_rows = stage->src_rows;
    args.error = stage->error;
    args.error_stays = 1;
    RVIT_TRY(rvit_select(f->stream, &args));
    stage->select = args;
    if (args.mode != RVIT_SELECT_MASK)
        RVIT_TRY(trace(f, stage->scores, stage->rows * 4, session->trace_scores[f->n_stages]));
    f->gather = stage;
    enter_stage(f, stage);
    return RVIT_OK;
}

/* Merges rows whose keys, still in the wide array, are alike. */
static rvit_status merge(forward *f)
{
    const rvit_session *session = f->session;
    const rvit_model *model = session->model;
    const rvit_stage *stage = &session->stages[f->n_stages];
    rvit_match_args match = RVIT_MATCH_ARGS_INIT;
    match.dtype = model->dtype;
    match.n_images = session->max_images;
    match.max_len = stage->max_len;
    match.rows = stage->rows;
    match.n_prefix = model->info.n_prefix;
    match.n_heads = model->info.n_heads;
    match.head_dim = model->info.head_dim;
    match.merges = session->schedule.merges;
    match.k = at(session->wide, (int64_t)model->info.dim * rvit_dtype_size(model->dtype));
    match.k_stride = 3 * (int64_t)model->info.dim;
    match.cu_seqlens = f->cu_seqlens;
    match.metric = session->metric;
    match.keep = stage->keep;
    match.out_cu_seqlens = stage->cu_seqlens;
    match.src_rows = stage->src_rows;
    match.next_rows = stage->next_rows;
    RVIT_TRY(rvit_match(f->stream, &match));

    rvit_merge_args args = RVIT_MERGE_ARGS_INIT;
    args.dtype = model->x_dtype;
    args.x_rows = stage->rows;
    args.dim = model->info.dim;
    args.x = f->x;
    if (f->n_stages > 0)
        args.sizes = session->stages[f->n_stages - 1].sizes;
    args.src_rows = stage->src_rows;
    args.next_rows = stage->next_rows;
    args.out_x = f->spare;
    args.out_sizes = stage->sizes;
    args.out_key_bias = stage->key_bias;
    enter_stage(f, stage);
    args.rows = f->rows;
    RVIT_TRY(rvit_merge(f->stream, &args));
    f->spare = f->x;
    f->x = args.out_x;
    f->key_bias = stage->key_bias;
    return RVIT_OK;
}

static int prunes_at(const forward *f, int32_t block, rvit_prune_site site)
{
    const rvit_prune_schedule *schedule = &f->session->schedule;
    return f->n_stages < schedule->n_stages && schedule->blocks[f->n_stages] == block && schedule->policy->site == site;
}

static rvit_status embed(forward *f)
{
    const rvit_session *session = f->session;
    const rvit_model *model = session->model;
    rvit_patchify_args patchify = RVIT_PATCHIFY_ARGS_INIT;
    patchify.dtype = model->dtype;
    patchify.n_images = session->max_images;
    if (!session->desc.fixed_batch)
        patchify.live_images = session->live_images;
    patchify.channels = model->info.channels;
    patchify.image_size = model->info.image_size;
    patchify.patch_size = model->info.patch_size;
    patchify.n_prefix = model->info.n_prefix;
    patchify.images = session->images;
    patchify.out = session->wide;
    patchify.cu_seqlens = session->cu_seqlens;
    RVIT_TRY(rvit_patchify(f->stream, &patchify));

    rvit_linear_args args = RVIT_LINEAR_ARGS_INIT;
    args.dtype = model->dtype;
    args.out_dtype = model->x_dtype;
    args.rows = f->rows;
    args.in_features = model->info.channels * model->info.patch_size * model->info.patch_size;
    args.out_features = model->info.dim;
    args.x = session->wide;
    args.weight = model->patch_weight;
    args.residual = model->embedding;
    args.residual_period = model->info.tokens;
    args.out = f->x;
    RVIT_TRY(rvit_linear(f->stream, &args));
    return trace_x(f, 0);
}

static rvit_status block(forward *f, int32_t index)
{
    rvit_session *session = f->session;
    const rvit_model_info *info = &session->model->info;
    const rvit_block_weights *w = &session->model->blocks[index];
    if (prunes_at(f, index, RVIT_SITE_BEFORE_BLOCK))
        RVIT_TRY(prune(f));
    RVIT_TRY(layernorm(f, w->norm1_gamma, w->norm1_beta));
    RVIT_TRY(qkv(f, w));
    const int inside = prunes_at(f, index, RVIT_SITE_AFTER_ATTENTION), after = prunes_at(f, index, RVIT_SITE_AFTER_BLOCK);
    f->cls_probs = (inside || after) && rvit_session_scores_cls(session) ? session->cls_probs : (rvit_view){NULL, 0};
    if (index == info->depth - 1 && (session->desc.outputs & RVIT_OUTPUT_CLS_ATTENTION))
        f->cls_probs = session->cls_attention;
    RVIT_TRY(attention(f));
    RVIT_TRY(linear_to_x(f, session->normed, w->proj_weight, w->proj_bias, info->dim));
    if (inside)
        RVIT_TRY(session->schedule.policy->merges ? merge(f) : prune(f));
    RVIT_TRY(layernorm(f, w->norm2_gamma, w->norm2_beta));
    RVIT_TRY(linear_gelu(f, session->normed, w->fc1_weight, w->fc1_bias, session->wide, info->dim, info->mlp_dim));
    RVIT_TRY(linear_to_x(f, session->wide, w->fc2_weight, w->fc2_bias, info->mlp_dim));
    RVIT_TRY(trace_x(f, index + 1));
    return after ? prune(f) : RVIT_OK;
}

/* A stage after the last block has no layernorm to gather for it. */
static rvit_status finish_gather(forward *f)
{
    if (f->gather == NULL)
        return RVIT_OK;
    const rvit_model *model = f->session->model;
    rvit_pack_args args = RVIT_PACK_ARGS_INIT;
    args.rows = f->rows;
    args.source_rows = f->gather->rows;
    args.row_size = model->info.dim * rvit_dtype_size(model->x_dtype);
    args.source = f->x;
    args.src_rows = f->gather->src_rows;
    args.destination = f->spare;
    RVIT_TRY(rvit_pack(f->stream, &args));
    f->x = f->spare;
    f->gather = NULL;
    return RVIT_OK;
}

static rvit_status head(const forward *f)
{
    const rvit_session *session = f->session;
    const rvit_model *model = session->model;
    rvit_head_args args = RVIT_HEAD_ARGS_INIT;
    args.dtype = model->x_dtype;
    args.weight_dtype = model->dtype;
    args.n_images = session->max_images;
    args.rows = f->rows.capacity;
    args.dim = model->info.dim;
    args.n_tokens = model->info.distilled ? 2 : 1;
    args.n_classes = model->info.n_classes;
    args.eps = model->info.eps;
    args.x = f->x;
    args.cu_seqlens = f->cu_seqlens;
    args.gamma = model->norm_gamma;
    args.beta = model->norm_beta;
    args.weight = model->head_weight;
    args.bias = model->head_bias;
    args.logits = session->logits;
    return rvit_head(f->stream, &args);
}

rvit_status rvit_forward_record(rvit_session *session)
{
    const rvit_model *model = session->model;
    const rvit_model_info *info = &model->info;
    forward f = {.session = session, .stream = session->stream, .x = session->x[0], .spare = session->x[1]};
    f.cu_seqlens = session->cu_seqlens;
    f.max_len = info->tokens;
    f.rows.capacity = (int64_t)session->max_images * info->tokens;
    if (!session->desc.fixed_batch) {
        f.rows.live = at(session->cu_seqlens, (int64_t)session->max_images * 4);
        f.rows.padded = RVIT_ROWS_SPARE;
    }
    RVIT_TRY(embed(&f));
    for (int32_t b = 0; b < info->depth; b++)
        RVIT_TRY(block(&f, b));
    if (session->desc.outputs & RVIT_OUTPUT_FEATURES)
        RVIT_TRY(layernorm_to(&f, model->norm_gamma, model->norm_beta, info->eps, RVIT_F32, session->features));
    RVIT_TRY(finish_gather(&f));
    if (info->n_classes > 0)
        RVIT_TRY(head(&f));
    if (session->schedule.n_stages == 0)
        return RVIT_OK;
    rvit_copy_args args = RVIT_COPY_ARGS_INIT;
    args.source = session->results;
    args.destination = session->host_results;
    args.size = session->results_size;
    return rvit_copy(f.stream, &args);
}

/* Records prune stages: they score rows, then select or merge them. */
#include "core/forward/forward.h"
#include "core/forward/windows.h"

/* A layer of a predictor, which always has exact GELU. */
static rvit_status linear_gelu(const forward *f, rvit_view x, rvit_view weight, rvit_view bias, rvit_view out, int32_t in_features,
                               int32_t out_features)
{
    return rvit_forward_linear(f, RVIT_ACTIVATION_GELU, x, weight, bias, out, in_features, out_features);
}

/* Gathers the positions of the rows that the last stage kept. */
static rvit_status carry_positions(forward *f)
{
    const rvit_stage_plan *stage = &f->plan->stages[f->stage - 1];
    rvit_positions_args args = RVIT_POSITIONS_ARGS_INIT;
    if (!rvit_model_rotates(f->model))
        return RVIT_OK;
    args.rows = f->rows;
    args.source_rows = f->plan->segments[f->stage - 1].rows;
    args.n_positions = f->plan->desc.variable_resolution ? (int32_t)f->plan->segments[0].rows : f->model->info.tokens;
    args.src_rows = view(f, stage->src_rows);
    if (f->plan->schedule.policy->fuses)
        args.keep = view(f, stage->keep);
    args.positions = f->positions;
    args.out = view(f, stage->positions);
    RVIT_TRY(rvit_positions(f->stream, &args));
    f->positions = args.out;
    return RVIT_OK;
}

/* All layers of a DynamicViT predictor except the last, over all rows; *out_hidden: [rows, dim / 4]. */
static rvit_status predict(forward *f, const rvit_predictor_weights *w, rvit_view *out_hidden)
{
    const rvit_model *model = f->model;
    const int32_t dim = model->info.dim;
    const int64_t row_size = f->rows.capacity * rvit_dtype_size(model->dtype);
    const rvit_view features = f->wide, half = at(features, row_size * dim), quarter = at(half, row_size * (dim / 2));
    RVIT_TRY(rvit_forward_layernorm(f, w->norm_gamma, w->norm_beta, RVIT_PREDICTOR_EPS, model->dtype, f->normed));
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

/* The attention of the pooling's query to each row, as if this were the last block. */
static rvit_status probe(forward *f, rvit_view out)
{
    const rvit_model *model = f->model;
    RVIT_TRY(rvit_forward_layernorm(f, model->norm_gamma, model->norm_beta, model->info.eps, model->dtype, f->normed));
    return rvit_forward_attention_pool(f, out);
}

/* The attention that the policy scores by. */
static rvit_status fill_probs(forward *f, rvit_view *out)
{
    const rvit_policy *policy = f->plan->schedule.policy;
    *out = f->cls_probs;
    if (policy->probs == RVIT_PROBS_CLS)
        return RVIT_OK;
    *out = view(f, f->plan->probs);
    return policy->probs == RVIT_PROBS_MAP ? probe(f, *out) : RVIT_OK; /* received attention was computed after attention */
}

/* Fills in the arrays that the policy's score is computed from. */
static rvit_status fill_score(forward *f, const rvit_stage_plan *stage, rvit_select_args *args)
{
    const rvit_model *model = f->model;
    const rvit_policy *policy = f->plan->schedule.policy;
    args->scores = view(f, stage->scores);
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
    return fill_probs(f, &args->cls_probs);
}

/* The select args of a stage without its score, counts and marks. */
static rvit_select_args select_of(const forward *f, const rvit_stage_plan *stage)
{
    rvit_select_args args = stage->select;
    args.cu_seqlens = f->cu_seqlens;
    args.out_cu_seqlens = view(f, stage->cu_seqlens);
    args.src_rows = view(f, stage->src_rows);
    args.error = view(f, stage->error);
    args.error_stays = args.image_errors = 1;
    return args;
}

rvit_status rvit_forward_find_anchors(forward *f)
{
    const rvit_stage_plan *stage = &f->plan->stages[f->stage];
    rvit_select_args args = select_of(f, stage); /* the stage overwrites its arrays later */
    RVIT_TRY(fill_score(f, stage, &args));
    args.counts = view(f, f->plan->anchor_counts);
    args.keep = view(f, f->plan->anchors);
    RVIT_TRY(rvit_select(f->stream, &args));
    RVIT_TRY(rvit_forward_trace(f, args.scores, stage->scores.size, view(f, f->plan->trace_anchor_scores)));
    return rvit_forward_trace(f, args.keep, f->plan->trace_anchors.size, view(f, f->plan->trace_anchors));
}

/* Marks the rows to keep by the pixels of their patches. */
static rvit_status mark_by_pixels(const forward *f)
{
    const rvit_session_plan *plan = f->plan;
    rvit_pixelprune_args args = plan->pixelprune;
    args.cu_seqlens = f->cu_seqlens;
    args.token_map = view(f, plan->token_map);
    args.pixels = view(f, plan->patch_pixels);
    args.keep = view(f, plan->pixel_marks);
    args.sources = view(f, plan->pixel_sources);
    args.group_rows = f->group_rows;
    return rvit_pixelprune(f->stream, &args);
}

/* Traces the policy's own decision, before the caller's mask replaces it. */
static rvit_status decide_separately(const forward *f, const rvit_stage_plan *stage, rvit_select_args *args)
{
    RVIT_TRY(rvit_select(f->stream, args));
    RVIT_TRY(rvit_forward_trace(f, args->keep, stage->trace_decided.size, view(f, stage->trace_decided)));
    RVIT_TRY(rvit_forward_trace(f, args->scores, stage->scores.size, view(f, stage->trace_scores)));
    args->mode = RVIT_SELECT_MASK;
    return RVIT_OK;
}

/* Scores and selects. The next layernorm gathers the rows. */
static rvit_status select_rows(forward *f)
{
    const rvit_stage_plan *stage = &f->plan->stages[f->stage];
    rvit_select_args args = select_of(f, stage);
    if (f->plan->schedule.policy->by_pixels)
        RVIT_TRY(mark_by_pixels(f));
    if (args.mode != RVIT_SELECT_MASK)
        RVIT_TRY(fill_score(f, stage, &args));
    if (f->plan->schedule.policy->fuses)
        args.fuse_x = f->x;
    args.counts = view(f, stage->counts);
    args.keep_in = view(f, f->plan->schedule.policy->by_pixels ? f->plan->pixel_marks : stage->keep_in);
    args.keep = view(f, stage->keep);
    args.anchors = view(f, f->plan->anchors);
    if (f->plan->schedule.given)
        RVIT_TRY(decide_separately(f, stage, &args));
    if (args.mode == RVIT_SELECT_MASK)
        args.anchors = absent;
    RVIT_TRY(rvit_select(f->stream, &args));
    if (args.mode != RVIT_SELECT_MASK)
        RVIT_TRY(rvit_forward_trace(f, args.scores, stage->scores.size, view(f, stage->trace_scores)));
    f->gathers = 1;
    rvit_forward_enter_segment(f, f->stage + 1);
    RVIT_TRY(rvit_forward_grid_relayout(f));
    return carry_positions(f);
}

/* Merges rows with similar keys, which are still in the wide array. */
static rvit_status merge(forward *f)
{
    const rvit_model *model = f->model;
    const rvit_segment *before = &f->plan->segments[f->stage];
    const rvit_stage_plan *stage = &f->plan->stages[f->stage];
    rvit_bipartite_match_args match = RVIT_BIPARTITE_MATCH_ARGS_INIT;
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
    match.group_size = f->plan->schedule.group_size;
    match.n_windows = f->plan->max_windows;
    match.window_cu_seqlens = f->window_cu_seqlens;
    match.src_rows = view(f, stage->src_rows);
    match.next_rows = view(f, stage->next_rows);
    RVIT_TRY(rvit_bipartite_match(f->stream, &match));
    RVIT_TRY(rvit_forward_trace(f, match.metric, stage->trace_metric.size, view(f, stage->trace_metric)));

    rvit_merge_args args = RVIT_MERGE_ARGS_INIT;
    args.dtype = model->x_dtype;
    args.x_rows = before->rows;
    args.dim = model->info.dim;
    args.x = f->x;
    if (f->stage > 0)
        args.sizes = view(f, f->plan->stages[f->stage - 1].sizes);
    args.src_rows = match.src_rows;
    args.next_rows = match.next_rows;
    args.out_x = f->other_x;
    args.out_sizes = view(f, stage->sizes);
    args.out_key_bias = view(f, stage->key_bias);
    rvit_forward_enter_segment(f, f->stage + 1);
    args.rows = f->rows;
    RVIT_TRY(rvit_merge(f->stream, &args));
    f->other_x = f->x;
    f->x = args.out_x;
    f->key_bias = args.out_key_bias;
    RVIT_TRY(rvit_forward_grid_relayout(f));
    return carry_positions(f);
}

rvit_status rvit_forward_prune(forward *f)
{
    return f->plan->schedule.policy->merges ? merge(f) : select_rows(f);
}

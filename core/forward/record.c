/* Records a whole forward as ops: embedding, blocks and stages, outputs. */
#include "core/forward/record.h"

#include <raggedvit/experimental.h>

#include "core/forward/forward.h"
#include "core/forward/windows.h"

/* The quantized input of a block's linear layer. */
static rvit_view quantized_for(const forward *f, rvit_block_linear linear)
{
    return linear == RVIT_BLOCK_FC2 ? f->hidden_quantized : f->quantized;
}

static rvit_status trace_input(const forward *f, rvit_block_linear linear, rvit_view x)
{
    const rvit_model *m = f->model;
    const int64_t row = rvit_dtype_size(m->dtype) * f->rows.capacity, dim = m->info.dim;
    const int64_t columns = f->block * (3 * dim + m->mlp_width) + linear * dim; /* of the inputs before it; fc2's is a block's last */
    if (f->plan->desc.trace != RVIT_TRACE_INPUTS)
        return RVIT_OK;
    return rvit_forward_copy(f, x, row * rvit_block_inputs(m, linear), at(view(f, f->plan->trace_inputs), row * columns));
}

/* A block's linear layer. Its input is x or, if it is quantized, the quantized array. args: the other args. */
static rvit_op block_linear_op(const forward *f, rvit_block_linear linear, rvit_view x, rvit_linear_args args)
{
    const rvit_linear_weights *w = &f->model->blocks[f->block].linears[linear];
    rvit_op op = {.type = RVIT_OP_LINEAR,
                  .hints = {.narrow_bias = w->narrow_bias, .padding_rows = f->padding_rows, .arranged = w->arranged}};
    args.dtype = w->dtype;
    args.rows = f->rows;
    args.in_features = rvit_block_inputs(f->model, linear);
    if (args.out_features == 0)
        args.out_features = rvit_block_outputs(f->model, linear);
    args.x = rvit_is_quantized(w->dtype) ? quantized_for(f, linear) : x;
    args.weight = w->weight;
    if (rvit_is_quantized(w->dtype)) {
        args.x_scales = f->scales;
        args.weight_scales = w->scales;
    }
    if (w->one_scale)
        op.hints.one_scale = w->input_scale;
    op.linear = args;
    op.passes_on = linear == RVIT_BLOCK_FC1;
    return op;
}

static rvit_status block_linear(const forward *f, rvit_block_linear linear, rvit_view x, rvit_linear_args args)
{
    RVIT_TRY(trace_input(f, linear, x));
    rvit_op op = block_linear_op(f, linear, x, args);
    return rvit_stream_add(f->stream, &op);
}

static int takes_quantized(const forward *f, rvit_block_linear linear)
{
    return rvit_is_quantized(f->model->blocks[f->block].linears[linear].dtype);
}

/* Whether the MLP's activation is applied during quantization instead of in fc1. */
static int activates_in_quantize(const forward *f)
{
    return takes_quantized(f, RVIT_BLOCK_FC2) && !f->model->mlp_norm;
}

static rvit_status hidden(const forward *f)
{
    const rvit_model *model = f->model;
    rvit_linear_args args = RVIT_LINEAR_ARGS_INIT;
    args.out_dtype = model->dtype;
    args.out = f->hidden;
    if (activates_in_quantize(f)) {
        args.out_features = (model->info.gated ? 2 : 1) * model->mlp_width; /* gates and values */
    } else {
        args.activation = model->info.activation;
        args.gated = model->info.gated;
        args.bias = model->blocks[f->block].linears[RVIT_BLOCK_FC1].bias;
    }
    return block_linear(f, RVIT_BLOCK_FC1, f->normed, args);
}

static rvit_status qkv(const forward *f)
{
    rvit_linear_args args = RVIT_LINEAR_ARGS_INIT;
    args.out_dtype = f->model->dtype;
    args.bias = f->model->blocks[f->block].linears[RVIT_BLOCK_QKV].bias;
    args.out = f->wide;
    return block_linear(f, RVIT_BLOCK_QKV, f->normed, args);
}

/* x += a block's linear layer applied to rows. */
static rvit_status add_block_linear(const forward *f, rvit_block_linear linear, rvit_view rows)
{
    rvit_linear_args args = RVIT_LINEAR_ARGS_INIT;
    args.out_dtype = f->model->x_dtype;
    args.bias = f->model->blocks[f->block].linears[linear].bias;
    args.residual = args.out = f->x;
    return block_linear(f, linear, rows, args);
}

/* Quantizes rows of the model's type. args: the bias, activation and gate before that. */
static rvit_status quantize(const forward *f, rvit_block_linear linear, rvit_view x, rvit_quantize_args args)
{
    const rvit_linear_weights *w = &f->model->blocks[f->block].linears[linear];
    args.dtype = f->model->dtype;
    args.out_dtype = w->dtype;
    args.rows = f->rows;
    args.columns = rvit_block_inputs(f->model, linear);
    args.x = x;
    args.static_scale = w->input_scale;
    args.out = quantized_for(f, linear);
    args.out_scales = f->scales;
    if (w->input_scale.buffer != NULL && !w->bounded)
        args.saturated = f->saturated;
    return rvit_quantize(f->stream, &args);
}

/* Makes a norm write quantized rows if the linear layer after it takes them, else rows of the model's type to `otherwise`. */
static void norm_for(const forward *f, rvit_block_linear linear, rvit_view otherwise, rvit_layernorm_args *args)
{
    const rvit_linear_weights *w = &f->model->blocks[f->block].linears[linear];
    args->out_dtype = w->dtype;
    args->out = otherwise;
    if (!rvit_is_quantized(w->dtype))
        return;
    args->out = quantized_for(f, linear);
    args->out_scales = f->scales;
    args->static_scale = w->input_scale;
    if (w->input_scale.buffer != NULL && !w->bounded)
        args->saturated = f->saturated;
}

/* The norm before a block's linear layer. */
static rvit_status outer_norm(forward *f, rvit_view gamma, rvit_view beta, rvit_block_linear linear)
{
    rvit_layernorm_args args = RVIT_LAYERNORM_ARGS_INIT;
    norm_for(f, linear, f->normed, &args);
    return rvit_forward_norm_x(f, gamma, beta, f->model->info.eps, args);
}

/* Normalises rows of the model's type for a linear layer. If the result is not quantized, it goes after the first `columns` columns of
   wide or of hidden. */
static rvit_status inner_norm(const forward *f, rvit_view x, int32_t features, rvit_view gamma, rvit_view beta, int64_t columns,
                              rvit_block_linear linear, rvit_view *out)
{
    rvit_layernorm_args args = RVIT_LAYERNORM_ARGS_INIT;
    args.dtype = f->model->dtype;
    args.rows = f->rows;
    args.dim = rvit_block_inputs(f->model, linear);
    args.features = features;
    args.eps = f->model->info.eps;
    args.x = x;
    args.gamma = gamma;
    args.beta = beta;
    args.norm = norm_of(beta);
    norm_for(f, linear, at(linear == RVIT_BLOCK_FC2 ? f->hidden : f->wide, f->rows.capacity * columns * rvit_dtype_size(f->model->dtype)),
             &args);
    *out = args.out;
    return rvit_layernorm(f->stream, &args);
}

/* x += proj of attention's output, which is in normed. */
static rvit_status project(const forward *f, const rvit_block_weights *w)
{
    const int32_t dim = f->model->info.dim;
    rvit_view rows = f->normed;
    if (f->model->attention_norm)
        RVIT_TRY(inner_norm(f, rows, dim, w->attention_norm_gamma, w->attention_norm_beta, 3 * (int64_t)dim, RVIT_BLOCK_PROJ, &rows));
    else if (takes_quantized(f, RVIT_BLOCK_PROJ))
        RVIT_TRY(quantize(f, RVIT_BLOCK_PROJ, rows, (rvit_quantize_args)RVIT_QUANTIZE_ARGS_INIT));
    return add_block_linear(f, RVIT_BLOCK_PROJ, rows);
}

/* Whether fc1 should write fc2's quantized input itself: the device supports it and is faster, the MLP is not gated and inputs are not
   traced. The output and its scales go to the wide array, so that fc1's own input and scales stay intact. */
static int writes_quantized(const forward *f, rvit_op *op)
{
    const rvit_model *model = f->model;
    const rvit_backend_api *api = f->stream->device->api;
    const rvit_linear_weights *fc1 = &model->blocks[f->block].linears[RVIT_BLOCK_FC1], *fc2 = fc1 + (RVIT_BLOCK_FC2 - RVIT_BLOCK_FC1);
    if (f->plan->desc.trace == RVIT_TRACE_INPUTS || api->prefers_quantized == NULL || !activates_in_quantize(f) || model->info.gated ||
        fc1->dtype != RVIT_E4M3 || fc2->dtype != RVIT_E4M3 || fc2->input_scale.buffer == NULL)
        return 0;
    rvit_linear_args args = RVIT_LINEAR_ARGS_INIT;
    args.out_dtype = RVIT_E4M3;
    args.activation = model->info.activation;
    args.bias = fc1->bias;
    args.static_scale = fc2->input_scale;
    args.out = f->hidden;
    args.out_scales = at(f->hidden, f->rows.capacity * (int64_t)model->mlp_width);
    if (!fc2->bounded)
        args.saturated = f->saturated;
    *op = block_linear_op(f, RVIT_BLOCK_FC1, f->normed, args);
    return api->supports(f->stream->device, op) == NULL && api->prefers_quantized(f->stream->device, op);
}

/* x += the MLP of normed rows. */
static rvit_status mlp(const forward *f, const rvit_block_weights *w)
{
    const rvit_model *model = f->model;
    rvit_view rows = f->hidden;
    rvit_op op;
    if (writes_quantized(f, &op)) {
        forward after = *f;
        after.hidden_quantized = op.linear.out;
        after.scales = op.linear.out_scales;
        RVIT_TRY(rvit_stream_add(f->stream, &op));
        return add_block_linear(&after, RVIT_BLOCK_FC2, rows);
    }
    RVIT_TRY(hidden(f));
    if (model->mlp_norm) {
        RVIT_TRY(inner_norm(f, rows, model->info.mlp_dim, w->mlp_norm_gamma, w->mlp_norm_beta, model->mlp_width, RVIT_BLOCK_FC2, &rows));
    } else if (takes_quantized(f, RVIT_BLOCK_FC2)) {
        rvit_quantize_args args = RVIT_QUANTIZE_ARGS_INIT;
        args.activation = model->info.activation;
        args.gated = model->info.gated;
        args.bias = w->linears[RVIT_BLOCK_FC1].bias;
        RVIT_TRY(quantize(f, RVIT_BLOCK_FC2, rows, args));
    }
    return add_block_linear(f, RVIT_BLOCK_FC2, rows);
}

/* Rotates queries and keys in the wide array. */
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
    args.n_positions = f->plan->desc.variable_resolution ? (int32_t)f->plan->segments[0].rows : model->info.tokens;
    /* With variable resolution the table has a row for prefix tokens too, without rotation. */
    args.n_prefix = f->plan->desc.variable_resolution ? 0 : model->info.n_prefix;
    args.q = f->wide;
    args.k = at(f->wide, model->info.dim * rvit_dtype_size(model->dtype));
    args.q_stride = args.k_stride = 3 * (int64_t)model->info.dim;
    args.table = f->plan->desc.variable_resolution ? view(f, f->plan->rope_table) : model->rope_table;
    args.positions = f->positions;
    return rvit_rope(f->stream, &args);
}

static rvit_status attention(const forward *f)
{
    const rvit_model *model = f->model;
    const int64_t dim = model->info.dim, element = rvit_dtype_size(model->dtype);
    rvit_attention_args args = RVIT_ATTENTION_ARGS_INIT;
    args.dtype = model->dtype;
    const rvit_attention_ranges ranges = rvit_forward_attention_ranges(f);
    args.n_images = ranges.n;
    args.n_heads = model->info.n_heads;
    args.head_dim = model->info.head_dim;
    args.max_len = ranges.max_len;
    args.rows = f->rows.capacity;
    args.q = f->wide;
    args.k = at(f->wide, dim * element);
    args.v = at(f->wide, 2 * dim * element);
    args.q_stride = args.k_stride = args.v_stride = 3 * dim;
    args.cu_seqlens = ranges.cu_seqlens;
    args.key_bias = f->key_bias;
    args.out = f->normed;
    args.cls_probs = f->cls_probs;
    args.lse = f->lse;
    rvit_op op = {.type = RVIT_OP_ATTENTION, .hints = {.fixed_images = 1}, .attention = args};
    return rvit_stream_add(f->stream, &op);
}

static rvit_status trace_x(const forward *f, int32_t index)
{
    const rvit_model *model = f->model;
    return rvit_forward_trace(f, f->x, f->rows.capacity * model->info.dim * rvit_dtype_size(model->x_dtype),
                              at(view(f, f->plan->trace_blocks), index * f->plan->trace_stride));
}

static rvit_patchify_args patchify_of(const forward *f)
{
    const rvit_session_plan *plan = f->plan;
    const rvit_model *model = f->model;
    rvit_patchify_args patchify = RVIT_PATCHIFY_ARGS_INIT;
    patchify.dtype = model->dtype;
    patchify.n_images = plan->desc.max_images;
    if (!plan->desc.fixed_batch)
        patchify.live_images = view(f, plan->desc.input_memory == RVIT_INPUT_RUN ? plan->live_counts : plan->live_images);
    patchify.channels = model->info.channels;
    patchify.image_height = model->info.image_height;
    patchify.image_width = model->info.image_width;
    patchify.patch_size = model->info.patch_size;
    patchify.crop = 1;
    patchify.n_prefix = model->info.n_prefix;
    patchify.split = rvit_model_patch_split(model);
    patchify.out_stride = patchify.split * rvit_model_patch_width(model);
    patchify.images = plan->desc.input_memory == RVIT_INPUT_FIXED ? plan->desc.input_view : view(f, plan->input);
    patchify.out = f->wide;
    patchify.cu_seqlens = f->cu_seqlens;
    return patchify;
}

/* The patch embedding GEMM and the patch norm. */
static rvit_status embed_normed(const forward *f, rvit_linear_args args)
{
    const rvit_model *model = f->model;
    args.bias = model->patch_bias;
    args.out = f->other_x;
    RVIT_TRY(rvit_forward_add_linear(f, &args));
    return rvit_forward_norm(f, f->rows, model->info.dim, f->other_x, model->patch_norm_gamma, model->patch_norm_beta, model->dtype,
                             f->normed);
}

static rvit_status embed(forward *f)
{
    const rvit_model *model = f->model;
    if (f->plan->desc.input == RVIT_INPUT_IMAGES) {
        RVIT_TRY(rvit_forward_preprocess(f, f->cu_seqlens));
    } else {
        rvit_op patchify = {.type = RVIT_OP_PATCHIFY, .passes_on = 1, .patchify = patchify_of(f)};
        f->session->patchify = patchify.patchify;
        RVIT_TRY(rvit_forward_add_outer(f, &patchify));
    }

    const int32_t width = rvit_model_patch_split(model) * rvit_model_patch_width(model);
    rvit_linear_args args = rvit_forward_linear_of(f, f->wide, width, model->patch_weight, absent, model->info.dim);
    args.out_dtype = model->x_dtype;
    if (model->identity_weight.buffer != NULL) {
        RVIT_TRY(embed_normed(f, args));
        args.in_features = model->info.dim;
        args.x = f->normed;
        args.weight = model->identity_weight;
    }
    args.residual = model->embedding;
    args.residual_period = model->info.tokens;
    args.out = model->info.norm_pre ? f->other_x : f->x;
    RVIT_TRY(rvit_forward_add_linear(f, &args));
    if (model->info.norm_pre)
        RVIT_TRY(
            rvit_forward_norm(f, f->rows, model->info.dim, f->other_x, model->norm_pre_gamma, model->norm_pre_beta, model->x_dtype, f->x));
    return RVIT_OK;
}

/* If rows are in window order, the result goes through an array of the device. */
static rvit_status output_received(const forward *f)
{
    if (f->plan->received_rows.arena == RVIT_ARENA_NONE)
        return rvit_forward_attention_received(f, view(f, f->plan->received));
    const rvit_view rows = view(f, f->plan->received_rows);
    RVIT_TRY(rvit_forward_attention_received(f, rows));
    return rvit_forward_output_rows(f, rows, 4 * (int64_t)f->model->info.n_heads, f->plan->received);
}

/* Whether the next stage is at this site. */
static int prunes_at(const forward *f, int32_t block, rvit_prune_site site)
{
    const rvit_prune_schedule *schedule = &f->plan->schedule;
    return f->stage < schedule->n_stages && schedule->blocks[f->stage] == block && schedule->policy->site == site;
}

static rvit_status block(forward *f, int32_t index)
{
    const rvit_model_info *info = &f->model->info;
    const rvit_block_weights *w = &f->model->blocks[index];
    const int32_t deepstack = rvit_block_position(&f->model->merge.deepstack, index);
    f->block = index;
    if (prunes_at(f, index, RVIT_SITE_BEFORE_BLOCK))
        RVIT_TRY(rvit_forward_prune(f));
    RVIT_TRY(outer_norm(f, w->norm1_gamma, w->norm1_beta, RVIT_BLOCK_QKV));
    RVIT_TRY(qkv(f));
    RVIT_TRY(rotate(f));
    const int inside = prunes_at(f, index, RVIT_SITE_AFTER_ATTENTION), after = prunes_at(f, index, RVIT_SITE_AFTER_BLOCK);
    f->cls_probs = inside || after ? view(f, f->plan->cls_probs) : absent;
    if (index == info->depth - 1 && (f->plan->desc.outputs & RVIT_OUTPUT_CLS_ATTENTION))
        f->cls_probs = view(f, f->plan->cls_attention);
    const int outputs_received = rvit_forward_wants(f, RVIT_OUTPUT_RECEIVED_ATTENTION, f->plan->desc.received_block == index),
              anchors = f->plan->schedule.object_block == index,
              scores_received = anchors || ((inside || after) && rvit_policy_reads(f->plan->schedule.policy, RVIT_PROBS_RECEIVED));
    f->lse = scores_received || outputs_received ? view(f, f->plan->lse) : absent;
    RVIT_TRY(attention(f));
    if (scores_received)
        RVIT_TRY(rvit_forward_attention_received(f, view(f, f->plan->probs)));
    if (outputs_received)
        RVIT_TRY(output_received(f));
    if (anchors)
        RVIT_TRY(rvit_forward_find_anchors(f));
    RVIT_TRY(project(f, w));
    if (inside)
        RVIT_TRY(rvit_forward_prune(f));
    RVIT_TRY(outer_norm(f, w->norm2_gamma, w->norm2_beta, RVIT_BLOCK_FC1));
    RVIT_TRY(mlp(f, w));
    RVIT_TRY(trace_x(f, index + 1));
    if (rvit_forward_wants(f, RVIT_OUTPUT_BLOCK_FEATURES, f->plan->desc.features_block == index))
        RVIT_TRY(rvit_forward_block_features(f));
    if (rvit_forward_wants(f, RVIT_OUTPUT_DEEPSTACK, deepstack >= 0))
        RVIT_TRY(rvit_forward_merge_groups(f, deepstack));
    return after ? rvit_forward_prune(f) : RVIT_OK;
}

rvit_status rvit_forward_record(rvit_session *session)
{
    const rvit_session_plan *plan = session->plan;
    const rvit_model *model = session->model;
    const rvit_model_info *info = &model->info;
    forward f = {.session = session, .plan = plan, .model = model, .stream = session->stream};
    f.x = view(&f, plan->x);
    f.other_x = view(&f, plan->other_x);
    f.normed = view(&f, plan->normed);
    f.wide = view(&f, plan->wide);
    f.hidden = at(f.wide, plan->segments[0].rows * rvit_model_hidden_begin(model) * rvit_dtype_size(model->dtype));
    f.quantized = view(&f, plan->quantized);
    f.hidden_quantized = at(f.quantized, plan->segments[0].rows * model->info.dim);
    f.scales = view(&f, plan->scales);
    f.saturated = view(&f, plan->saturated);
    f.group_cu_seqlens = view(&f, plan->group_cu_seqlens);
    f.window_cu_seqlens = view(&f, plan->window_cu_seqlens);
    f.group_rows = view(&f, plan->schedule.n_stages > 0 ? plan->first_group_rows : plan->group_rows);
    rvit_forward_enter_segment(&f, 0);
    RVIT_TRY(plan->desc.variable_resolution ? rvit_forward_embed_variable(&f) : embed(&f));
    RVIT_TRY(trace_x(&f, 0));
    for (int32_t b = 0; b < info->depth; b++)
        RVIT_TRY(block(&f, b));
    RVIT_TRY(rvit_forward_outputs(&f));
    if (plan->schedule.n_stages == 0)
        return RVIT_OK;
    return rvit_forward_copy(&f, view(&f, plan->results), plan->results.size, view(&f, plan->results_readback));
}

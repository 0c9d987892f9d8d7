/* Makes the plan of a session. */
#include "core/plan/plan.h"

#include <raggedvit/experimental.h>

#include "core/base/args.h"
#include "core/base/status.h"
#include "core/image/image_axes.h"
#include "core/image/image_recipe.h"
#include "core/plan/variable_resolution.h"
#include "core/weights/quantize.h"

int32_t rvit_stage_of_output(const rvit_prune_schedule *schedule, int32_t block)
{
    int32_t stage = -1;
    for (int32_t i = 0; i < schedule->n_stages; i++)
        if (schedule->blocks[i] < block || (schedule->blocks[i] == block && schedule->policy->site != RVIT_SITE_AFTER_BLOCK))
            stage = i;
    return stage;
}

int32_t rvit_stage_of_attention(const rvit_prune_schedule *schedule, int32_t block)
{
    const int32_t stage = rvit_stage_of_output(schedule, block);
    return stage - (stage >= 0 && schedule->policy->site == RVIT_SITE_AFTER_ATTENTION && schedule->blocks[stage] == block);
}

/* Functions for the expressions of arrays.def. */

static int prunes(const rvit_session_plan *p)
{
    return p->schedule.n_stages > 0;
}

static int merges(const rvit_session_plan *p)
{
    return prunes(p) && p->schedule.policy->merges;
}

static int masks(const rvit_session_plan *p)
{
    return rvit_prune_takes_mask(&p->schedule);
}

static int reads_pixels(const rvit_session_plan *p)
{
    return rvit_prune_by_pixels(&p->schedule);
}

static int scores(const rvit_session_plan *p)
{
    return prunes(p) && !merges(p) && p->schedule.select != RVIT_SELECT_MASK;
}

static int scores_by(const rvit_session_plan *p, rvit_policy_probs probs)
{
    return scores(p) && rvit_policy_reads(p->schedule.policy, probs);
}

static int keeps_fixed_number(const rvit_prune_schedule *schedule)
{
    return schedule->n_stages > 0 && schedule->select == RVIT_SELECT_TOP_K && !schedule->policy->merges;
}

static int ranks(const rvit_session_plan *p)
{
    return keeps_fixed_number(&p->schedule);
}

static int scores_positions(const rvit_session_plan *p)
{
    return ranks(p) && p->schedule.policy->score == RVIT_SCORE_POSITION;
}

static int finds_anchors(const rvit_session_plan *p)
{
    return p->schedule.object_block >= 0;
}

/* Rows of the unpruned batch; last_rows: after the last stage. */
static int64_t rows(const rvit_session_plan *p)
{
    return p->segments[0].rows;
}

/* With variable resolution max_images may exceed max_tokens. */
static int64_t rows_or_images(const rvit_session_plan *p)
{
    return rows(p) > p->desc.max_images ? rows(p) : p->desc.max_images;
}

static int64_t merge_groups(const rvit_session_plan *p, const rvit_model *m)
{
    return m->info.merge == 0 ? 0 : rows(p) / (m->info.merge * m->info.merge);
}

static int64_t last_rows(const rvit_session_plan *p)
{
    return p->segments[p->schedule.n_stages].rows;
}

/* Elements of cu_seqlens. */
static int64_t layout(const rvit_session_plan *p)
{
    return (int64_t)p->desc.max_images + 1;
}

/* Whether the embedding is computed in two steps, the first one to other_x. */
static int embeds_twice(const rvit_session_plan *p, const rvit_model *m)
{
    return m->info.norm_pre || m->identity_weight.buffer != NULL || p->desc.variable_resolution;
}

/* Whether each row of the batch has its own row in a table of rotary positions. */
static int has_rope_table(const rvit_session_plan *p, const rvit_model *m)
{
    return p->desc.variable_resolution && rvit_model_rotates(m);
}

static int outputs(const rvit_session_plan *p, rvit_output output)
{
    return (p->desc.outputs & (int32_t)output) != 0;
}

static int pools(const rvit_session_plan *p, const rvit_model *m)
{
    return (m->info.n_classes > 0 || outputs(p, RVIT_OUTPUT_POOLED)) && m->info.pooling != RVIT_POOLING_CLS;
}

static int64_t pooled_rows(const rvit_session_plan *p, const rvit_model *m)
{
    return (int64_t)p->desc.max_images * (m->info.pooling == RVIT_POOLING_CLS_MEAN ? 2 : 1);
}

/* Values of the input of a run. */
static int64_t input_values(const rvit_session_plan *p, const rvit_model *m)
{
    if (p->desc.variable_resolution)
        return p->segments[0].rows * rvit_model_row_values(m);
    return (int64_t)p->desc.max_images * m->info.channels * m->info.image_height * m->info.image_width;
}

static int takes_images(const rvit_session_plan *p)
{
    return p->desc.input == RVIT_INPUT_IMAGES;
}

static int64_t image_bytes(const rvit_session_plan *p)
{
    return (p->desc.input_bytes + 15) / 16 * 16;
}

static int64_t larger(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

static int64_t widest(const rvit_model *m)
{
    const int64_t patch = rvit_model_patch_split(m) * (int64_t)rvit_model_row_width(m), qkv = rvit_model_qkv_width(m);
    const int late_gate = rvit_model_quantizes(m) && m->info.gated; /* applied during quantization */
    /* A norm writes its rows after those that it reads; a late gate reads fc1's gates and values. */
    const int64_t own = (m->mlp_norm || late_gate ? 2 : 1) * (int64_t)m->mlp_width;
    return larger(larger(patch, qkv), larger(m->map.mlp_width, rvit_model_hidden_begin(m) + own));
}

/* The types of elements, in bytes. */
#define BYTE 1
#define INT32 4
#define F32 4
#define DTYPE rvit_dtype_size(m->dtype)
#define X_DTYPE rvit_dtype_size(m->x_dtype)

static int64_t rounded(int64_t size)
{
    return (size + 255) / 256 * 256;
}

static rvit_session_array take(rvit_session_plan *p, rvit_arena arena, int64_t size)
{
    const rvit_session_array array = {arena, p->sizes[arena], size};
    p->sizes[arena] += rounded(size);
    return array;
}

static void place_arrays(const rvit_model *m, rvit_session_plan *p)
{
#define RVIT_SESSION_ARRAY(arena, name, type, when, n) \
    if (when)                                          \
        p->name = take(p, RVIT_ARENA_##arena, (n) * (type));
#include "core/plan/arrays.def"
    for (int32_t i = 0; i < p->schedule.n_stages; i++) {
        const rvit_segment *before = &p->segments[i], *after = before + 1;
        rvit_stage_plan *stage = &p->stages[i];
#define RVIT_STAGE_ARRAY(arena, name, type, when, n) \
    if (when)                                        \
        stage->name = take(p, RVIT_ARENA_##arena, (n) * (type));
#include "core/plan/arrays.def"
    }
    p->tables = take(p, RVIT_ARENA_DEVICE, p->sizes[RVIT_ARENA_TABLES]);
    p->tables_upload = take(p, RVIT_ARENA_UPLOAD, p->sizes[RVIT_ARENA_TABLES]);
    p->results = take(p, RVIT_ARENA_DEVICE, p->sizes[RVIT_ARENA_RESULTS]);
    p->results_readback = take(p, RVIT_ARENA_READBACK, p->sizes[RVIT_ARENA_RESULTS]);
    /* A session without head, outputs and stages reads nothing back, but a buffer cannot be empty. */
    if (p->sizes[RVIT_ARENA_READBACK] == 0)
        p->sizes[RVIT_ARENA_READBACK] = 1;
}

/* The most tokens that a stage can leave of an image with `len` tokens. Clears *exact if it may leave fewer. */
static int32_t tokens_left(const rvit_prune_schedule *schedule, const int32_t *counts, int32_t n_prefix, int32_t len, int32_t *exact)
{
    const rvit_policy *policy = schedule->policy;
    const int32_t patches = len > n_prefix ? len - n_prefix : 0;
    if (policy->merges) {
        const int32_t pairs = patches / schedule->group_size / 2;
        *exact &= !schedule->windowed; /* a window may have too few pairs, or none */
        return schedule->windowed ? len : len - schedule->group_size * (schedule->merges < pairs ? schedule->merges : pairs);
    }
    if (schedule->select == RVIT_SELECT_TOP_K) {
        const int32_t competing = policy->prefix_competes ? len : patches;
        const int32_t k = counts[competing];
        if (k == competing)
            return len;
        const int32_t left = k + n_prefix + policy->fuses;
        *exact &= !policy->prefix_competes;
        return left < len ? left : len;
    }
    *exact = 0;
    if (schedule->select == RVIT_SELECT_SAMPLE && patches > 1)
        return n_prefix + (schedule->n_samples < patches - 1 ? schedule->n_samples : patches - 1);
    return len;
}

/* With variable resolution: the most rows that a stage can leave of a batch; *out_len: the most tokens of an image. With f(n) tokens left
   of n, f(n) <= (slope * n + above) / longest for each image; the sum over the images bounds the rows. */
static int64_t rows_left(const rvit_prune_schedule *schedule, const int32_t *counts, int32_t n_prefix, int64_t n_images,
                         const rvit_segment *before, int32_t *out_len)
{
    int32_t exact, max = 0;
    int64_t above = 0;
    const int64_t longest = before->max_len, slope = tokens_left(schedule, counts, n_prefix, before->max_len, &exact);
    for (int32_t n = 1; n <= before->max_len; n++) {
        const int32_t left = tokens_left(schedule, counts, n_prefix, n, &exact);
        max = left > max ? left : max;
        above = longest * left - slope * n > above ? longest * left - slope * n : above;
    }
    const int64_t by_tokens = (slope * before->rows + n_images * above) / longest, by_images = n_images * max;
    int64_t rows = before->rows < by_tokens ? before->rows : by_tokens;
    *out_len = max;
    return rows < by_images ? rows : by_images;
}

/* With a fixed batch the host knows the number of rows if all stages so far are exact. After stages that keep the k best, the rows nearly
   fill the capacity, so one dense GEMM over all rows is faster. */
static rvit_segment segment_of(const rvit_session_plan *p, int32_t index, int32_t len, int64_t max_rows, int32_t exact)
{
    rvit_segment segment = {.max_len = len, .rows = max_rows, .reads_live = 1, .padding_rows = 1};
    if (p->desc.fixed_batch) {
        segment.reads_live = !exact;
        segment.padding_rows = index > 0 && p->schedule.select != RVIT_SELECT_TOP_K;
        if (index > 0 && !segment.padding_rows)
            segment.padded = RVIT_ROWS_PADDED;
    }
    return segment;
}

/* The most tokens of an unpruned image. */
static int32_t unpruned_len(const rvit_model *m, const rvit_session_desc *desc)
{
    return desc->variable_resolution ? desc->max_len : m->info.tokens;
}

/* Computes the capacities after each stage, which depend only on the schedule. */
static rvit_status plan_segments(const rvit_model *m, rvit_session_plan *p)
{
    const int32_t longest = unpruned_len(m, &p->desc);
    int32_t len = longest, exact = 1, *next_table = (void *)&p->stages[p->schedule.n_stages];
    int64_t max_rows = p->desc.variable_resolution ? p->desc.max_tokens : (int64_t)p->desc.max_images * len;
    p->segments[0] = segment_of(p, 0, len, max_rows, exact);
    for (int32_t i = 0; i < p->schedule.n_stages; i++) {
        if (ranks(p)) {
            RVIT_TRY(rvit_prune_counts(&p->schedule, i, len, next_table));
            p->stages[i].count_table = next_table;
            next_table += longest + 1;
        }
        if (p->desc.variable_resolution) {
            max_rows = rows_left(&p->schedule, p->stages[i].count_table, m->info.n_prefix, p->desc.max_images, &p->segments[i], &len);
        } else {
            len = tokens_left(&p->schedule, p->stages[i].count_table, m->info.n_prefix, len, &exact);
            max_rows = (int64_t)p->desc.max_images * len;
        }
        p->segments[i + 1] = segment_of(p, i + 1, len, max_rows, exact);
    }
    return RVIT_OK;
}

/* The inputs of the policy's score. */
static void plan_score(const rvit_model *m, const rvit_policy *policy, int32_t group_size, rvit_select_args *args)
{
    args->score = policy->score;
    args->dtype = m->x_dtype;
    args->dim = m->info.dim;
    args->n_heads = m->info.n_heads;
    if (policy->score == RVIT_SCORE_L2 || policy->score == RVIT_SCORE_CLS_ATTENTION)
        args->group_size = group_size;
    if (policy->score == RVIT_SCORE_CLS_NORM && policy->site == RVIT_SITE_AFTER_ATTENTION) {
        args->dtype = m->dtype;
        args->x_stride = 3 * (int64_t)m->info.dim;
    }
    if (policy->score == RVIT_SCORE_PREDICTOR) {
        args->dtype = m->dtype;
        args->dim = m->info.dim / 4;
    }
}

/* At least one patch must remain if the head reads more than the CLS row. */
static int32_t fewest(const rvit_model *m, const rvit_prune_schedule *schedule)
{
    const int reads_patches = !rvit_has_cls(&m->info) || m->info.pooling != RVIT_POOLING_CLS;
    return schedule->k_min > 0 || !reads_patches ? schedule->k_min : 1;
}

static rvit_select_args select_of(const rvit_model *m, const rvit_session_plan *p, int32_t stage)
{
    const rvit_prune_schedule *schedule = &p->schedule;
    rvit_select_args args = RVIT_SELECT_ARGS_INIT;
    args.mode = schedule->select;
    args.n_images = p->desc.max_images;
    args.max_len = p->segments[stage].max_len;
    args.rows = p->segments[stage].rows;
    args.n_prefix = m->info.n_prefix;
    args.prefix_competes = schedule->policy->prefix_competes;
    args.threshold = schedule->threshold;
    args.k_min = fewest(m, schedule);
    args.n_samples = schedule->n_samples;
    args.mass = schedule->mass;
    args.anchor_columns = m->info.image_width / m->info.patch_size;
    if (args.mode != RVIT_SELECT_MASK)
        plan_score(m, schedule->policy, schedule->group_size, &args);
    if (schedule->policy->fuses) {
        args.fuse_dtype = m->x_dtype;
        args.fuse_dim = m->info.dim;
    }
    return args;
}

static rvit_status check_predictors(const rvit_model *model, const rvit_prune_schedule *schedule)
{
    if (schedule->n_stages == 0 || schedule->policy->merges || schedule->policy->score != RVIT_SCORE_PREDICTOR ||
        schedule->n_stages <= model->files.n_predictors)
        return RVIT_OK;
    if (model->files.n_predictors == RVIT_MAX_PREDICTORS)
        return rvit_fail(RVIT_UNSUPPORTED, "%s needs %d predictors, at most %d of a checkpoint are read",
                         rvit_policy_name(schedule->policy), (int)schedule->n_stages, RVIT_MAX_PREDICTORS);
    return rvit_fail(RVIT_UNSUPPORTED, "%s needs %d predictors, the checkpoint has %d: tensor '%s' is missing",
                     rvit_policy_name(schedule->policy), (int)schedule->n_stages, (int)model->files.n_predictors, model->missing_predictor);
}

/* The model must have the attention that patches are scored by. */
static rvit_status check_probs(const rvit_model *model, const rvit_prune_schedule *schedule)
{
    const rvit_policy *policy = schedule->policy;
    if (schedule->n_stages == 0 || schedule->select == RVIT_SELECT_MASK || policy->merges)
        return RVIT_OK;
    if (rvit_policy_reads(policy, RVIT_PROBS_CLS) && !rvit_has_cls(&model->info))
        return rvit_fail(RVIT_UNSUPPORTED, "%s scores patches by the attention of the CLS token, but the model has none",
                         rvit_policy_name(policy));
    if (rvit_policy_reads(policy, RVIT_PROBS_MAP) && model->info.pooling != RVIT_POOLING_MAP)
        return rvit_fail(RVIT_UNSUPPORTED,
                         "%s scores patches by the attention of the model's pooling, but the model does not pool by attention",
                         rvit_policy_name(policy));
    return RVIT_OK;
}

/* The index from 0 of a block that may be counted from the end. */
static int32_t block_of(const rvit_model *m, int32_t block)
{
    return block < 0 ? block + m->info.depth : block;
}

rvit_status rvit_session_recipe(const rvit_model *model, const rvit_session_desc *desc, rvit_image_recipe *out_recipe)
{
    *out_recipe = model->recipe;
    if (model->info.channels != 3)
        return rvit_fail(RVIT_UNSUPPORTED, "session desc: input is IMAGES, but the model takes %d channels, images have 3",
                         (int)model->info.channels);
    if (desc->recipe != NULL)
        RVIT_TRY(rvit_args_copy(out_recipe, sizeof *out_recipe, desc->recipe, "image recipe"));
    RVIT_TRY(rvit_image_recipe_check(out_recipe));
    if (out_recipe->height != model->info.image_height || out_recipe->width != model->info.image_width)
        return rvit_fail(RVIT_INVALID_ARGUMENT, "image recipe: height and width are %d and %d, but the model takes %d and %d",
                         (int)out_recipe->height, (int)out_recipe->width, (int)model->info.image_height, (int)model->info.image_width);
    return RVIT_OK;
}

/* Sets the limits: tau in the units of normalised pixels, times 1 + 2^-10 because normalised 8-bit values are rounded. */
static rvit_status plan_limits(const rvit_model *m, const rvit_session_plan *p, rvit_pixelprune_args *args)
{
    const int32_t max_channels = sizeof args->limits / sizeof *args->limits;
    const double tau = p->schedule.tau;
    const float *std = takes_images(p) ? p->recipe.std : m->recipe.std;
    args->channels = 1;
    if (tau == 0.0)
        return RVIT_OK;
    args->channels = m->info.channels;
    if (args->channels > max_channels)
        return rvit_fail(RVIT_UNSUPPORTED, "prune desc: tau is %g, but the model takes %d channels, above 0 there may be %d", tau,
                         (int)args->channels, (int)max_channels);
    for (int32_t c = 0; c < args->channels; c++) {
        const float of_channel = c < 3 ? std[c] : 0.0f;
        if (!(of_channel > 0.0f))
            return rvit_fail(RVIT_UNSUPPORTED,
                             "prune desc: tau is %g, but no file beside the model has the std of its pixels, which tau "
                             "needs: set tau to 0, or use images and a recipe",
                             tau);
        args->limits[c] = (float)(tau * (1.0 + 1.0 / 1024.0) / (double)of_channel);
    }
    return RVIT_OK;
}

static rvit_status plan_pixelprune(const rvit_model *m, rvit_session_plan *p)
{
    rvit_pixelprune_args args = RVIT_PIXELPRUNE_ARGS_INIT;
    args.n_images = p->desc.max_images;
    args.n_prefix = m->info.n_prefix;
    args.max_len = p->segments[0].max_len;
    args.rows = p->segments[0].rows;
    args.columns = takes_images(p) ? rvit_model_patch_values(m) : rvit_model_row_values(m);
    args.interleaved = !takes_images(p) && m->info.merge == 0; /* in rows of models that merge, the channels are separate */
    args.merge = m->info.merge;
    args.patch_merge = takes_images(p);
    RVIT_TRY(plan_limits(m, p, &args));
    p->pixelprune = args;
    return RVIT_OK;
}

/* The message names the capacity that determines the array's size, and a value that fits. */
static rvit_status too_large(const rvit_model *m, const rvit_session_plan *p, const char *name, const rvit_session_array *array)
{
    const int is_images = array == &p->staged_images || array == &p->device_images;
    const char *field = is_images ? "input_bytes" : p->desc.variable_resolution ? "max_tokens" : "max_images";
    const int64_t value = is_images ? p->desc.input_bytes : p->desc.variable_resolution ? p->desc.max_tokens : p->desc.max_images;
    return rvit_fail(RVIT_UNSUPPORTED,
                     "session desc: %s is %lld, which makes an array (%s) of %lld bytes, and %s takes arrays of at most %lld: a %s of "
                     "about %lld fits",
                     field, (long long)value, name, (long long)array->size, m->device->info.name, (long long)m->device->max_array, field,
                     (long long)(m->device->max_array / ((array->size + value - 1) / value)));
}

/* Checks the largest of the arrays that ops use as a whole. Those that are only copied, or hold several arrays, may have any size. */
static rvit_status check_arrays(const rvit_model *m, const rvit_session_plan *p)
{
    static const rvit_session_array none;
    const rvit_session_array *largest = &none;
    const char *its_name = "";
#define RVIT_SESSION_ARRAY(arena, name, type, when, n)                                                                  \
    if (RVIT_ARENA_##arena != RVIT_ARENA_TRACE && RVIT_ARENA_##arena != RVIT_ARENA_HOST && &p->name != &p->deepstack && \
        p->name.size > largest->size)                                                                                   \
        largest = &p->name, its_name = #name;
#include "core/plan/arrays.def"
    return m->device->max_array > 0 && largest->size > m->device->max_array ? too_large(m, p, its_name, largest) : RVIT_OK;
}

/* Sets the capacities of attention windows. The segments must be set. */
static void plan_windows(const rvit_model *model, rvit_session_plan *plan)
{
    const int64_t window = model->merge.window, side = model->merge.side, area = side * side;
    if (window == 0)
        return;
    /* An image of n merge groups has most windows, (n + window - 1) / window, if it is one line of groups. */
    const int64_t groups = plan->segments[0].rows / area, max = (groups + (window - 1) * plan->desc.max_images) / window;
    const int64_t len = window * window * area, longest = plan->segments[0].max_len;
    plan->max_windows = (int32_t)(max < groups ? max : groups);
    plan->window_len = (int32_t)(len < longest ? len : longest);
}

/* p must be zeroed. */
static rvit_status fill(const rvit_model *m, const rvit_session_desc *desc, const rvit_prune_schedule *schedule, rvit_session_plan *p)
{
    p->desc = *desc;
    p->desc.features_block = block_of(m, desc->features_block);
    p->desc.received_block = block_of(m, desc->received_block);
    p->schedule = *schedule;
    if (takes_images(p))
        RVIT_TRY(rvit_session_recipe(m, desc, &p->recipe));
    p->desc.recipe = NULL; /* the caller's */
    p->desc.prune = NULL;
    RVIT_TRY(plan_segments(m, p));
    for (int32_t i = 0; i < schedule->n_stages && !merges(p); i++)
        p->stages[i].select = select_of(m, p, i);
    plan_windows(m, p);
    if (reads_pixels(p))
        RVIT_TRY(plan_pixelprune(m, p));
    p->trace_stride = rounded(rows(p) * m->info.dim * X_DTYPE);
    place_arrays(m, p);
    return check_arrays(m, p);
}

/* RVIT_TRACE_GIVEN: each stage must be able to decide about the rows that the given masks leave. */
static rvit_status check_given(const rvit_prune_schedule *schedule)
{
    const rvit_policy *policy = schedule->policy;
    if (schedule->n_stages == 0)
        return rvit_fail(RVIT_UNSUPPORTED, "session desc: trace is 2, but the session does not prune");
    if (policy->merges || policy->fuses || schedule->select == RVIT_SELECT_MASK)
        return rvit_fail(RVIT_UNSUPPORTED, "session desc: trace is 2, but the stages of %s cannot decide about given rows",
                         rvit_policy_name(policy));
    return RVIT_OK;
}

rvit_status rvit_session_plan_create(const rvit_model *model, const rvit_session_desc *desc, const rvit_session_plan **out_plan)
{
    rvit_prune_schedule schedule;
    RVIT_TRY(rvit_prune_resolve(desc->prune, model->info.depth, model->info.tokens - model->info.n_prefix, &schedule));
    if (!desc->variable_resolution && rvit_prune_by_pixels(&schedule))
        return rvit_fail(RVIT_UNSUPPORTED, "session desc: variable_resolution is 0, but %s needs it: set variable_resolution to 1",
                         rvit_policy_name(schedule.policy));
    if (desc->variable_resolution) {
        RVIT_TRY(rvit_variable_check_policy(desc->prune, &schedule));
        schedule.n_patches = 0; /* each image has its own */
    }
    RVIT_TRY(rvit_variable_check_groups(model, &schedule));
    if (model->info.merge > 0)
        schedule.group_size = model->info.merge * model->info.merge;
    schedule.windowed = model->info.window > 0;
    if (desc->trace == RVIT_TRACE_GIVEN)
        RVIT_TRY(check_given(&schedule));
    if (desc->trace == RVIT_TRACE_INPUTS && (schedule.n_stages > 0 || rvit_model_quantizes(model)))
        return rvit_fail(RVIT_UNSUPPORTED, "session desc: trace is 3, but the %s",
                         schedule.n_stages > 0 ? "session prunes" : "model is quantised");
    schedule.given = desc->trace == RVIT_TRACE_GIVEN;
    RVIT_TRY(check_predictors(model, &schedule));
    RVIT_TRY(check_probs(model, &schedule));
    const size_t table_size = keeps_fixed_number(&schedule) ? ((size_t)unpruned_len(model, desc) + 1) * sizeof(int32_t) : 0;
    const size_t size = sizeof(rvit_session_plan) + (size_t)schedule.n_stages * (sizeof(rvit_stage_plan) + table_size);
    rvit_session_plan *plan = rvit_alloc_new(&model->device->alloc, size);
    RVIT_TRY_MEMORY(plan);
    plan->plan_size = (int64_t)size;
    const rvit_status status = fill(model, desc, &schedule, plan);
    if (status != RVIT_OK) {
        rvit_session_plan_destroy(model, plan);
        return status;
    }
    *out_plan = plan;
    return RVIT_OK;
}

void rvit_session_plan_destroy(const rvit_model *model, const rvit_session_plan *plan)
{
    rvit_alloc_free(&model->device->alloc, (void *)(uintptr_t)plan);
}

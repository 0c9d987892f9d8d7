/* What a session gives back. */
#include <math.h>
#include <string.h>

#include <raggedvit/experimental.h>

#include "core/base/args.h"
#include "core/base/entry.h"
#include "core/session/memory.h"
#include "core/session/native.h"
#include "core/session/results.h"

float *rvit_session_input(rvit_session *session)
{
    return session == NULL ? NULL : rvit_session_host(session, session->plan->images);
}

const float *rvit_session_logits(const rvit_session *session)
{
    if (session == NULL || !session->has_results || session->model->info.n_classes == 0)
        return NULL;
    return rvit_session_host(session, session->plan->logits);
}

int32_t rvit_session_n_stages(const rvit_session *session)
{
    return session == NULL ? 0 : session->plan->schedule.n_stages;
}

static int has_stage(const rvit_session *session, int32_t stage)
{
    return session != NULL && session->has_results && stage >= -1 && stage < session->plan->schedule.n_stages;
}

static const int32_t *cu_seqlens_of(const rvit_session *s, int32_t stage)
{
    return rvit_session_host(s, stage < 0 ? s->plan->host_cu_seqlens : s->plan->stages[stage].cu_seqlens);
}

/* Of the unpruned image. */
static int32_t tokens_of(const rvit_session *s, int32_t image)
{
    const int32_t *cu = cu_seqlens_of(s, -1);
    return cu[image + 1] - cu[image];
}

/* Lengths: each image has room in what the stage leaves, and no more rows than before. */
static rvit_status check_layout(const rvit_session *s, int32_t stage)
{
    const rvit_segment *left = &s->plan->segments[stage + 1];
    const int32_t *before = cu_seqlens_of(s, stage - 1), *cu = cu_seqlens_of(s, stage), unit = s->plan->schedule.unit;
    for (int32_t i = 0; i < s->n_images; i++) {
        const int64_t len = (int64_t)cu[i + 1] - cu[i], len_before = before[i + 1] - before[i];
        const int32_t most = len_before < left->max_len ? (int32_t)len_before : left->max_len;
        if (cu[0] != 0 || len < 0 || len > most || len % unit != 0 || cu[i + 1] > left->rows)
            return rvit_fail(RVIT_INTERNAL,
                             "prune stage %d leaves image %d rows %d to %d, where it has room for %d and the batch for %lld: the device "
                             "has computed wrongly, and the run has no results",
                             (int)stage, (int)i, (int)cu[i], (int)cu[i + 1], (int)most, (long long)left->rows);
    }
    return RVIT_OK;
}

/* What select has reported: of the batch and of each image, numbers that it documents. */
static rvit_status check_errors(const rvit_session *s, int32_t stage)
{
    enum { KINDS = 3 };
    const int32_t *reported = rvit_session_host(s, s->plan->stages[stage].error), most_images = s->plan->desc.max_images;
    if (reported == NULL || reported[0] == 0)
        return RVIT_OK;
    int in_range = reported[0] > 0 && reported[0] <= (int64_t)KINDS * most_images;
    for (int32_t i = 0; i < most_images; i++)
        in_range &= reported[1 + i] >= 0 && reported[1 + i] <= KINDS;
    if (!in_range)
        return rvit_fail(RVIT_INTERNAL,
                         "prune stage %d reports errors that there are not: the device has computed wrongly, and the run has no results",
                         (int)stage);
    return RVIT_OK;
}

rvit_status rvit_session_check_results(const rvit_session *session)
{
    rvit_status status = RVIT_OK;
    for (int32_t i = 0; i < session->plan->schedule.n_stages && status == RVIT_OK; i++) {
        status = check_layout(session, i);
        if (status == RVIT_OK)
            status = check_errors(session, i);
    }
    if (status != RVIT_OK)
        rvit_session_forget_errors(session);
    return status;
}

const int32_t *rvit_session_cu_seqlens(const rvit_session *session, int32_t stage)
{
    if (!has_stage(session, stage))
        return NULL;
    return cu_seqlens_of(session, stage);
}

/* Calls for each row of an image before a stage that is in a row afterwards, both counted from the image's first: rows that stay, in the
   order that they have afterwards, and rows that were merged into them. */
typedef void (*follow_fn)(void *context, int32_t before, int32_t after, int32_t itself);

typedef struct followed {
    int32_t begin, n, left, area; /* left: rows that stay; area: rows of a unit; 0: there are none */
    const uint8_t *keep;
    const int32_t *next_rows; /* NULL: nothing is merged */
    const int32_t *unit_rows; /* NULL: rows are in the order of what a session gives, not of windows */
    int32_t *given;           /* with both: the row that a session gives each row as */
} followed;

/* Marks, links and places come from the device and are trusted in nothing: a row of another image is -1. */
static int32_t row_of_image(const followed *f, int64_t row)
{
    return row >= f->begin && row < (int64_t)f->begin + f->n ? (int32_t)row - f->begin : -1;
}

/* A row that stays, and those merged into it: fewer than there are rows. */
static void follow_kept(const followed *f, int32_t row, int32_t at, int32_t after, follow_fn call, void *context)
{
    if (after >= f->left)
        return;
    call(context, row, after, 1);
    int32_t next = at;
    for (int32_t merged = 1; f->next_rows != NULL && merged < f->n; merged++) {
        next = row_of_image(f, f->next_rows[f->begin + next]);
        if (next < 0)
            return;
        call(context, f->given == NULL ? next : f->given[next], after, 0);
    }
}

static int32_t place_of(const followed *f, int32_t row)
{
    return f->unit_rows == NULL ? row : row_of_image(f, (int64_t)f->unit_rows[(f->begin + row) / f->area] * f->area + row % f->area);
}

static void follow(const rvit_session *s, int32_t index, int32_t image, follow_fn call, void *context)
{
    const rvit_stage_plan *stage = &s->plan->stages[index];
    const int32_t *cu = cu_seqlens_of(s, index - 1), *cu_after = cu_seqlens_of(s, index);
    const int32_t n_prefix = s->model->info.n_prefix, side = s->model->info.merge;
    followed f = {.begin = cu[image], .n = cu[image + 1] - cu[image], .left = cu_after[image + 1] - cu_after[image], .area = side * side};
    f.keep = (const uint8_t *)rvit_session_host(s, stage->keep) + f.begin;
    f.next_rows = rvit_session_host(s, stage->next_rows);
    f.unit_rows = rvit_session_host(s, index == 0 ? s->plan->first_unit_rows : stage[-1].unit_rows);
    f.given = rvit_session_host(s, s->plan->given_rows);
    int32_t after = 0;
    for (int32_t row = 0; f.given != NULL && row < f.n; row++)
        f.given[row] = row;
    for (int32_t row = 0; f.given != NULL && row < f.n; row++)
        if (place_of(&f, row) >= 0)
            f.given[place_of(&f, row)] = row;
    if (f.next_rows == NULL || f.area > 0) {
        for (int32_t row = 0; row < f.n; row++) {
            const int32_t at = place_of(&f, row);
            if (at >= 0 && f.keep[at])
                follow_kept(&f, row, at, after++, call, context);
        }
        return;
    }
    /* The prefix, then what is left of the rows of even place, then of odd place (rvit_match). */
    for (int32_t pass = 0; pass < 3; pass++)
        for (int32_t row = 0; row < f.n; row++)
            if ((row < n_prefix ? 0 : 1 + row % 2) == pass && f.keep[row])
                follow_kept(&f, row, row, after++, call, context);
}

typedef struct composition {
    const int32_t *tokens_before;
    const float *sizes_before; /* NULL: all 1 */
    int32_t *tokens;
    float *sizes; /* NULL: not asked for */
} composition;

static void compose_row(void *context, int32_t before, int32_t after, int32_t itself)
{
    const composition *c = context;
    if (itself)
        c->tokens[after] = c->tokens_before == NULL ? before : c->tokens_before[before];
    if (c->sizes != NULL)
        c->sizes[after] += c->sizes_before == NULL ? 1.0f : c->sizes_before[before];
}

/* Follows each kept row back to the unpruned image, stage by stage. */
static void compose_kept(const rvit_session *s)
{
    const int32_t *tokens_before = NULL, *cu_before = cu_seqlens_of(s, -1);
    const float *sizes_before = NULL;
    for (int32_t i = 0; i < s->plan->schedule.n_stages; i++) {
        const int32_t *cu = cu_seqlens_of(s, i);
        int32_t *kept = rvit_session_host(s, s->plan->stages[i].kept);
        float *sizes = rvit_session_host(s, s->plan->stages[i].kept_sizes);
        for (int32_t image = 0; image < s->n_images; image++) {
            const int32_t begin = cu[image], n = cu[image + 1] - begin;
            composition c = {.tokens = kept + begin};
            if (tokens_before != NULL)
                c.tokens_before = tokens_before + cu_before[image];
            if (sizes != NULL) {
                c.sizes = sizes + begin;
                memset(c.sizes, 0, (size_t)n * sizeof *c.sizes);
                if (sizes_before != NULL)
                    c.sizes_before = sizes_before + cu_before[image];
            }
            memset(c.tokens, 0xff, (size_t)n * sizeof *c.tokens); /* -1, which a fused row keeps */
            follow(s, i, image, compose_row, &c);
        }
        tokens_before = kept;
        sizes_before = sizes;
        cu_before = cu;
    }
}

/* A result computed when first asked for: the session belongs to one thread at a time. */
static void need_kept(const rvit_session *session)
{
    if (session->has_kept)
        return;
    compose_kept(session);
    ((rvit_session *)(uintptr_t)session)->has_kept = 1;
}

static int has_image(const rvit_session *session, int32_t stage, int32_t image)
{
    return has_stage(session, stage) && stage >= 0 && image >= 0 && image < session->n_images;
}

const int32_t *rvit_session_kept(const rvit_session *session, int32_t stage, int32_t image)
{
    if (!has_image(session, stage, image))
        return NULL;
    need_kept(session);
    const int32_t *kept = rvit_session_host(session, session->plan->stages[stage].kept);
    return kept + cu_seqlens_of(session, stage)[image];
}

const float *rvit_session_sizes(const rvit_session *session, int32_t stage, int32_t image)
{
    if (!has_image(session, stage, image) || session->plan->stages[stage].kept_sizes.place == RVIT_PLACE_NONE)
        return NULL;
    need_kept(session);
    const float *sizes = rvit_session_host(session, session->plan->stages[stage].kept_sizes);
    return sizes + cu_seqlens_of(session, stage)[image];
}

rvit_status rvit_session_mask(const rvit_session *session, int32_t stage, int32_t image, uint8_t *out_mask)
{
    RVIT_ENTRY;
    if (out_mask == NULL)
        return rvit_fail(RVIT_INVALID_ARGUMENT, "rvit_session_mask: out_mask is NULL");
    const int32_t *kept = rvit_session_kept(session, stage, image);
    if (kept == NULL)
        return rvit_fail(RVIT_INVALID_ARGUMENT, "rvit_session_mask: there is no result of stage %d, image %d", (int)stage, (int)image);
    const int32_t *cu = cu_seqlens_of(session, stage);
    memset(out_mask, 0, (size_t)tokens_of(session, image));
    for (int32_t row = 0; row < cu[image + 1] - cu[image]; row++)
        if (kept[row] >= 0)
            out_mask[kept[row]] = 1;
    return RVIT_OK;
}

const float *rvit_session_features(const rvit_session *session)
{
    return session == NULL || !session->has_results ? NULL : rvit_session_host(session, session->plan->features);
}

static void note_row(void *context, int32_t before, int32_t after, int32_t itself)
{
    (void)itself;
    ((int32_t *)context)[before] = after;
}

rvit_status rvit_session_grid(const rvit_session *session, int32_t image, float fill, float *out_grid)
{
    RVIT_ENTRY;
    if (session == NULL || out_grid == NULL)
        return rvit_fail(RVIT_INVALID_ARGUMENT, "rvit_session_grid: session or out_grid is NULL");
    if (!(session->plan->desc.outputs & RVIT_OUTPUT_FEATURES))
        return rvit_fail(RVIT_UNSUPPORTED, "rvit_session_grid: the session was created without RVIT_OUTPUT_FEATURES");
    if (!session->has_results || image < 0 || image >= session->n_images)
        return rvit_fail(RVIT_INVALID_ARGUMENT, "rvit_session_grid: there is no result of image %d", (int)image);
    const rvit_model_info *info = &session->model->info;
    /* For each token, the row it is in: first of the unpruned image, then after each stage. */
    const int32_t tokens = tokens_of(session, image);
    int32_t *row = rvit_session_host(session, session->plan->token_row), *to = row + tokens;
    for (int32_t t = 0; t < tokens; t++)
        row[t] = t;
    for (int32_t i = 0; i < session->plan->schedule.n_stages; i++) {
        memset(to, 0xff, (size_t)tokens * sizeof *to); /* -1: dropped */
        follow(session, i, image, note_row, to);
        for (int32_t t = 0; t < tokens; t++)
            row[t] = row[t] < 0 ? -1 : to[row[t]];
    }
    const int32_t begin = cu_seqlens_of(session, session->plan->schedule.n_stages - 1)[image];
    const float *features = rvit_session_features(session) + (int64_t)begin * info->dim;
    for (int32_t t = info->n_prefix; t < tokens; t++) {
        float *out = out_grid + (int64_t)rvit_native_place(session, image, t - info->n_prefix) * info->dim;
        if (row[t] >= 0)
            memcpy(out, features + (int64_t)row[t] * info->dim, (size_t)info->dim * sizeof *out);
        for (int32_t d = 0; d < info->dim && row[t] < 0; d++)
            out[d] = fill;
    }
    return RVIT_OK;
}

/* A result that takes a place to say more of it. */
static int gives(const rvit_session *session, const int32_t *out, rvit_output output)
{
    return session != NULL && out != NULL && session->has_results && (session->plan->desc.outputs & (int32_t)output) != 0;
}

const float *rvit_session_cls_attention(const rvit_session *session, int32_t *out_stage)
{
    if (!gives(session, out_stage, RVIT_OUTPUT_CLS_ATTENTION))
        return NULL;
    *out_stage = rvit_stage_of_attention(&session->plan->schedule, session->model->info.depth - 1);
    return rvit_session_host(session, session->plan->cls_attention);
}

const float *rvit_session_received_attention(const rvit_session *session, int32_t *out_stage)
{
    if (!gives(session, out_stage, RVIT_OUTPUT_RECEIVED_ATTENTION))
        return NULL;
    *out_stage = rvit_stage_of_attention(&session->plan->schedule, session->plan->desc.received_block);
    return rvit_session_host(session, session->plan->received);
}

const float *rvit_session_block_features(const rvit_session *session, int32_t *out_stage)
{
    if (!gives(session, out_stage, RVIT_OUTPUT_BLOCK_FEATURES))
        return NULL;
    *out_stage = rvit_stage_of_output(&session->plan->schedule, session->plan->desc.features_block);
    return rvit_session_host(session, session->plan->block_features);
}

const float *rvit_session_merged(const rvit_session *session)
{
    return session == NULL || !session->has_results ? NULL : rvit_session_host(session, session->plan->merged);
}

const float *rvit_session_deepstack(const rvit_session *session, int32_t index, int32_t *out_stage)
{
    if (!gives(session, out_stage, RVIT_OUTPUT_DEEPSTACK) || index < 0 || index >= session->model->info.n_deepstack)
        return NULL;
    *out_stage = rvit_stage_of_output(&session->plan->schedule, session->model->merge.deepstack.blocks[index]);
    const float *all = rvit_session_host(session, session->plan->deepstack);
    return all == NULL ? NULL : all + session->plan->deepstack.size / 4 / session->model->info.n_deepstack * index;
}

const float *rvit_session_pooled(const rvit_session *session, int32_t *out_width)
{
    if (!gives(session, out_width, RVIT_OUTPUT_POOLED))
        return NULL;
    *out_width = rvit_pooled_width(&session->model->info);
    return rvit_session_host(session, session->plan->pooled);
}

static void normalize(const float *x, int32_t dim, float *out)
{
    double sum = 0;
    for (int32_t d = 0; d < dim; d++)
        sum += (double)x[d] * (double)x[d];
    const double norm = sum == 0 ? 1 : sqrt(sum);
    for (int32_t d = 0; d < dim; d++)
        out[d] = (float)((double)x[d] / norm);
}

const float *rvit_session_projected(const rvit_session *session)
{
    const int32_t outputs = session == NULL || !session->has_results ? 0 : session->plan->desc.outputs;
    if (!(outputs & RVIT_OUTPUT_PROJECTED))
        return NULL;
    const rvit_session_plan *plan = session->plan;
    const int32_t dim = session->model->info.n_classes;
    const float *projected = rvit_session_host(session, plan->projected.place == RVIT_PLACE_NONE ? plan->logits : plan->projected);
    float *normalized = rvit_session_host(session, plan->normalized);
    if (normalized == NULL)
        return projected;
    for (int64_t i = 0; i < session->n_images && !session->has_normalized; i++)
        normalize(projected + i * dim, dim, normalized + i * dim);
    ((rvit_session *)(uintptr_t)session)->has_normalized = 1;
    return normalized;
}

rvit_status rvit_session_get_stats(const rvit_session *session, rvit_stats *out_stats)
{
    RVIT_ENTRY;
    if (session == NULL)
        return rvit_fail(RVIT_INVALID_ARGUMENT, "rvit_session_get_stats: session is NULL");
    rvit_stats stats = RVIT_STATS_INIT;
    RVIT_TRY(rvit_stream_get_stats(session->stream, &stats));
    stats.saturated = session->saturated;
    return rvit_args_return(out_stats, &stats, sizeof stats, "stats");
}

rvit_status rvit_session_get_select(const rvit_session *session, int32_t stage, rvit_select_args *out_args)
{
    RVIT_ENTRY;
    if (session == NULL || stage < 0 || stage >= session->plan->schedule.n_stages)
        return rvit_fail(RVIT_INVALID_ARGUMENT, "rvit_session_get_select: there is no stage %d", (int)stage);
    const rvit_session_plan *plan = session->plan;
    if (plan->schedule.policy->merges)
        return rvit_fail(RVIT_UNSUPPORTED, "rvit_session_get_select: the policy %s merges tokens, it does not select",
                         rvit_policy_name(plan->schedule.policy));
    return rvit_args_return(out_args, &plan->stages[stage].select, sizeof plan->stages[stage].select, "select args");
}

const int32_t *rvit_session_counts(const rvit_session *session, int32_t stage)
{
    return session == NULL || stage < 0 || stage >= session->plan->schedule.n_stages ? NULL : session->plan->stages[stage].count_table;
}

const uint8_t *rvit_session_decided(const rvit_session *session, int32_t stage)
{
    const int32_t n_stages = session == NULL ? 0 : session->plan->schedule.n_stages;
    if (session == NULL || !session->has_results || stage < 0 || stage > n_stages)
        return NULL;
    const rvit_session_array *decided = stage == n_stages ? &session->plan->trace_anchors : &session->plan->stages[stage].trace_decided;
    return decided->place == RVIT_PLACE_NONE ? NULL : rvit_session_host(session, *decided);
}

static int64_t rows_of(const rvit_session *s, int32_t stage)
{
    return cu_seqlens_of(s, stage)[s->n_images];
}

rvit_status rvit_session_trace(const rvit_session *session, rvit_trace what, int32_t index, const void **out_data, rvit_dtype *out_dtype,
                               int64_t *out_rows)
{
    RVIT_ENTRY;
    if (session == NULL || out_data == NULL || out_dtype == NULL || out_rows == NULL)
        return rvit_fail(RVIT_INVALID_ARGUMENT, "rvit_session_trace: an argument is NULL");
    const rvit_session_plan *plan = session->plan;
    if (!plan->desc.trace)
        return rvit_fail(RVIT_UNSUPPORTED, "rvit_session_trace: the session was created without trace");
    if (!session->has_results)
        return rvit_fail(RVIT_INVALID_ARGUMENT, "rvit_session_trace: there is no finished run");
    if (what == RVIT_TRACE_EMBEDDING || what == RVIT_TRACE_BLOCK) {
        const int32_t block = what == RVIT_TRACE_EMBEDDING ? -1 : index;
        if (what == RVIT_TRACE_BLOCK && (index < 0 || index >= session->model->info.depth))
            return rvit_fail(RVIT_INVALID_ARGUMENT, "rvit_session_trace: block %d, the model has blocks 0..%d", (int)index,
                             (int)session->model->info.depth - 1);
        *out_data = (const uint8_t *)rvit_session_host(session, plan->trace_blocks) + (block + 1) * plan->trace_stride;
        *out_dtype = session->model->x_dtype;
        *out_rows = rows_of(session, rvit_stage_of_output(&plan->schedule, block));
        return RVIT_OK;
    }
    if (what == RVIT_TRACE_INPUT) {
        const rvit_model *m = session->model;
        const int64_t row = plan->segments[0].rows * rvit_dtype_size(m->dtype), dim = m->info.dim;
        if (plan->desc.trace != RVIT_TRACE_INPUTS || index < 0 || index >= m->info.depth * RVIT_N_BLOCK_LINEARS)
            return rvit_fail(RVIT_INVALID_ARGUMENT, "rvit_session_trace: the session has no input of layer %d", (int)index);
        const int32_t block = index / RVIT_N_BLOCK_LINEARS, linear = index % RVIT_N_BLOCK_LINEARS;
        *out_data =
            (const uint8_t *)rvit_session_host(session, plan->trace_inputs) + row * (block * (3 * dim + m->mlp_width) + linear * dim);
        *out_dtype = m->dtype;
        *out_rows = rows_of(session, -1);
        return RVIT_OK;
    }
    if (what == RVIT_TRACE_SCORES && index == plan->schedule.n_stages && plan->trace_anchor_scores.place != RVIT_PLACE_NONE) {
        *out_data = rvit_session_host(session, plan->trace_anchor_scores);
        *out_dtype = RVIT_F32;
        *out_rows = rows_of(session, -1);
        return RVIT_OK;
    }
    const int is_stage = index >= 0 && index < plan->schedule.n_stages, merges = is_stage && plan->schedule.policy->merges;
    if (what == RVIT_TRACE_METRIC && !merges)
        return rvit_fail(RVIT_INVALID_ARGUMENT, "rvit_session_trace: the session has no metric of stage %d", (int)index);
    if (what != RVIT_TRACE_METRIC && (what != RVIT_TRACE_SCORES || !is_stage || plan->stages[index].scores.place == RVIT_PLACE_NONE))
        return rvit_fail(RVIT_INVALID_ARGUMENT, "rvit_session_trace: the session has no scores of stage %d", (int)index);
    *out_data = rvit_session_host(session, merges ? plan->stages[index].trace_metric : plan->stages[index].trace_scores);
    *out_dtype = RVIT_F32;
    *out_rows = rows_of(session, index - 1);
    return RVIT_OK;
}

/* The results of experimental.h: recorded select ops and traced values. */
#include "core/session/trace.h"

#include <raggedvit/experimental.h>

#include "core/base/args.h"
#include "core/base/entry.h"
#include "core/base/status.h"

/* An array with one row per token after a stage (-1: of the unpruned images). data is NULL if the session does not have it. */
static void set_rows(const rvit_session *s, rvit_session_array array, int32_t stage, int32_t width, rvit_dtype dtype, rvit_result_view *out)
{
    out->data = array.arena == RVIT_ARENA_NONE ? NULL : rvit_session_host(s, array);
    out->dtype = dtype;
    out->width = width;
    out->stage = stage;
    out->rows = rvit_session_cu_seqlens(s, stage)[s->n_images];
}

/* The output of a block; -1: the embedding. */
static void set_block(const rvit_session *s, int32_t block, rvit_result_view *out)
{
    const rvit_session_plan *plan = s->plan;
    set_rows(s, plan->trace_blocks, rvit_stage_of_output(&plan->schedule, block), s->model->info.dim, s->model->x_dtype, out);
    out->data = (const uint8_t *)out->data + (block + 1) * plan->trace_stride;
}

static void set_input(const rvit_session *s, int32_t layer, rvit_result_view *out)
{
    const rvit_model *m = s->model;
    const int64_t row = s->plan->segments[0].rows * rvit_dtype_size(m->dtype), dim = m->info.dim;
    const int32_t block = layer / RVIT_N_BLOCK_LINEARS, linear = layer % RVIT_N_BLOCK_LINEARS;
    set_rows(s, s->plan->trace_inputs, -1, linear == RVIT_BLOCK_FC2 ? m->mlp_width : m->info.dim, m->dtype, out);
    out->data = (const uint8_t *)out->data + row * (block * (3 * dim + m->mlp_width) + linear * dim);
}

/* The tables are written when the session is created, so no run is needed. */
static rvit_status set_counts(const rvit_session *s, int32_t stage, rvit_result_view *out)
{
    const rvit_session_plan *plan = s->plan;
    if (stage < 0 || stage >= plan->schedule.n_stages || plan->stages[stage].count_table == NULL)
        return rvit_fail(RVIT_UNSUPPORTED, "rvit_session_get: the session has no counts of stage %d", (int)stage);
    out->data = plan->stages[stage].count_table;
    out->dtype = RVIT_I32;
    out->width = 1;
    out->stage = stage - 1;
    out->rows = plan->segments[stage].max_len + (int64_t)1;
    return RVIT_OK;
}

static rvit_status set_select(const rvit_session *s, int32_t stage, rvit_result_view *out)
{
    const rvit_session_plan *plan = s->plan;
    if (stage < 0 || stage >= plan->schedule.n_stages)
        return rvit_fail(RVIT_INVALID_ARGUMENT, "rvit_session_get: there is no stage %d", (int)stage);
    if (plan->schedule.policy->merges)
        return rvit_fail(RVIT_UNSUPPORTED, "rvit_session_get: the policy %s merges tokens, it does not select",
                         plan->schedule.policy->info.name);
    out->data = &plan->stages[stage].select;
    out->dtype = RVIT_U8;
    out->width = (int32_t)sizeof plan->stages[stage].select;
    out->stage = stage - 1;
    out->rows = 1;
    return RVIT_OK;
}

rvit_status rvit_session_get_traced(const rvit_session *s, rvit_result what, int32_t index, rvit_result_view *out)
{
    const rvit_session_plan *plan = s->plan;
    const int32_t n_stages = plan->schedule.n_stages, depth = s->model->info.depth, is_stage = index >= 0 && index < n_stages;
    const int is_anchors = index == n_stages && plan->trace_anchors.arena != RVIT_ARENA_NONE;
    const rvit_stage_plan *stage = is_stage ? &plan->stages[index] : NULL;
    const char *lacks = NULL;
    if (what == RVIT_TRACE_COUNTS)
        return set_counts(s, index, out);
    if (what == RVIT_TRACE_SELECT)
        return set_select(s, index, out);
    if (!plan->desc.trace)
        return rvit_fail(RVIT_UNSUPPORTED, "rvit_session_get: the session was created without trace");
    if (!s->has_results)
        return rvit_fail(RVIT_INVALID_ARGUMENT, "rvit_session_get: there is no finished run");
    if (what == RVIT_TRACE_EMBEDDING && index == 0)
        set_block(s, -1, out);
    else if (what == RVIT_TRACE_BLOCK && index >= 0 && index < depth)
        set_block(s, index, out);
    else if (what == RVIT_TRACE_INPUT && plan->desc.trace == RVIT_TRACE_INPUTS && index >= 0 && index < depth * RVIT_N_BLOCK_LINEARS)
        set_input(s, index, out);
    else if (what == RVIT_TRACE_SCORES && is_anchors)
        set_rows(s, plan->trace_anchor_scores, -1, 1, RVIT_F32, out);
    else if (what == RVIT_TRACE_SCORES && is_stage && stage->scores.arena != RVIT_ARENA_NONE)
        set_rows(s, stage->trace_scores, index - 1, 1, RVIT_F32, out);
    else if (what == RVIT_TRACE_METRIC && is_stage && plan->schedule.policy->merges)
        set_rows(s, stage->trace_metric, index - 1, s->model->info.head_dim, RVIT_F32, out);
    else if (what == RVIT_TRACE_DECISIONS && is_anchors)
        set_rows(s, plan->trace_anchors, -1, 1, RVIT_U8, out);
    else if (what == RVIT_TRACE_DECISIONS && is_stage && stage->trace_decided.arena != RVIT_ARENA_NONE)
        set_rows(s, stage->trace_decided, index - 1, 1, RVIT_U8, out);
    else
        lacks = what == RVIT_TRACE_EMBEDDING   ? "embedding"
                : what == RVIT_TRACE_BLOCK     ? "output of block"
                : what == RVIT_TRACE_INPUT     ? "input of layer"
                : what == RVIT_TRACE_SCORES    ? "scores of stage"
                : what == RVIT_TRACE_METRIC    ? "metric of stage"
                : what == RVIT_TRACE_DECISIONS ? "decisions of stage"
                                               : "result of kind";
    return lacks == NULL ? RVIT_OK : rvit_fail(RVIT_INVALID_ARGUMENT, "rvit_session_get: the session has no %s %d", lacks, (int)index);
}

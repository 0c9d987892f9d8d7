/* The results of a session. */
#include "core/session/results.h"

#include <math.h>
#include <stddef.h>

#include "core/base/args.h"
#include "core/base/entry.h"
#include "core/base/status.h"
#include "core/session/kept.h"
#include "core/session/memory.h"
#include "core/session/trace.h"

/* Checks the lengths after a stage: each image fits the planned capacity and has not grown. */
static rvit_status check_layout(const rvit_session *s, int32_t stage)
{
    const rvit_segment *left = &s->plan->segments[stage + 1];
    const int32_t *before = rvit_session_cu_seqlens(s, stage - 1), *cu = rvit_session_cu_seqlens(s, stage),
                  group_size = s->plan->schedule.group_size;
    for (int32_t i = 0; i < s->n_images; i++) {
        const int64_t len = (int64_t)cu[i + 1] - cu[i], len_before = before[i + 1] - before[i];
        const int32_t max = len_before < left->max_len ? (int32_t)len_before : left->max_len;
        if (cu[0] != 0 || len < 0 || len > max || len % group_size != 0 || cu[i + 1] > left->rows)
            return rvit_fail(RVIT_INTERNAL,
                             "prune stage %d leaves image %d rows %d to %d, where it has room for %d and the batch for %lld: the device "
                             "has computed wrongly, and the run has no results",
                             (int)stage, (int)i, (int)cu[i], (int)cu[i + 1], (int)max, (long long)left->rows);
    }
    return RVIT_OK;
}

/* Checks that rvit_select wrote only documented errors for the batch and for each image. */
static rvit_status check_errors(const rvit_session *s, int32_t stage)
{
    enum { KINDS = 3 };
    const int32_t *reported = rvit_session_host(s, s->plan->stages[stage].error), max_images = s->plan->desc.max_images;
    if (reported == NULL || reported[0] == 0)
        return RVIT_OK;
    int in_range = reported[0] > 0 && reported[0] <= (int64_t)KINDS * max_images;
    for (int32_t i = 0; i < max_images; i++)
        in_range &= reported[1 + i] >= 0 && reported[1 + i] <= KINDS;
    if (!in_range)
        return rvit_fail(RVIT_INTERNAL,
                         "prune stage %d reports an unknown error: the device has computed wrongly, and the run has no results",
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

/* The columns of a result. */
typedef enum result_width { ONE, DIM, HEADS, CLASSES, POOLED, MERGED } result_width;
/* The rows of a result: images, or the tokens after a stage. */
typedef enum result_layout {
    IMAGES,
    OF_INDEX, /* the stage that index selects */
    LAST_STAGE,
    LAST_ATTENTION,
    RECEIVED_BLOCK,
    FEATURES_BLOCK,
    DEEPSTACK_BLOCK
} result_layout;

/* array: its offset in rvit_session_plan; with OF_INDEX, in rvit_stage_plan. */
static const struct {
    const char *name;
    int32_t output; /* 0: every session has it */
    const char *output_name;
    size_t array;
    rvit_dtype dtype;
    result_width width;
    result_layout layout;
} kinds[] = {
#define ARRAY(name) offsetof(rvit_session_plan, name)
#define STAGE_ARRAY(name) offsetof(rvit_stage_plan, name)
#define OUTPUT(name) RVIT_OUTPUT_##name, "RVIT_OUTPUT_" #name
    [RVIT_RESULT_LOGITS] = {"logits", 0, "", ARRAY(logits), RVIT_F32, CLASSES, IMAGES},
    [RVIT_RESULT_CU_SEQLENS] = {"cu_seqlens", 0, "", STAGE_ARRAY(cu_seqlens), RVIT_I32, ONE, OF_INDEX},
    [RVIT_RESULT_KEPT] = {"kept tokens", 0, "", STAGE_ARRAY(kept), RVIT_I32, ONE, OF_INDEX},
    [RVIT_RESULT_SIZES] = {"sizes of tokens", 0, "", STAGE_ARRAY(kept_sizes), RVIT_F32, ONE, OF_INDEX},
    [RVIT_RESULT_FEATURES] = {"features", OUTPUT(FEATURES), ARRAY(features), RVIT_F32, DIM, LAST_STAGE},
    [RVIT_RESULT_CLS_ATTENTION] = {"attention weights of the CLS token", OUTPUT(CLS_ATTENTION), ARRAY(cls_attention), RVIT_F32, HEADS,
                                   LAST_ATTENTION},
    [RVIT_RESULT_POOLED] = {"pooled rows", OUTPUT(POOLED), ARRAY(pooled), RVIT_F32, POOLED, IMAGES},
    [RVIT_RESULT_PROJECTED] = {"projected rows", OUTPUT(PROJECTED), ARRAY(projected), RVIT_F32, CLASSES, IMAGES},
    [RVIT_RESULT_BLOCK_FEATURES] = {"block features", OUTPUT(BLOCK_FEATURES), ARRAY(block_features), RVIT_F32, DIM, FEATURES_BLOCK},
    [RVIT_RESULT_RECEIVED_ATTENTION] = {"received attention weights", OUTPUT(RECEIVED_ATTENTION), ARRAY(received), RVIT_F32, HEADS,
                                        RECEIVED_BLOCK},
    [RVIT_RESULT_MERGED] = {"merged rows", OUTPUT(MERGED), ARRAY(merged), RVIT_F32, MERGED, LAST_STAGE},
    [RVIT_RESULT_DEEPSTACK] = {"deepstack rows", OUTPUT(DEEPSTACK), ARRAY(deepstack), RVIT_F32, MERGED, DEEPSTACK_BLOCK},
};
enum { N_KINDS = sizeof kinds / sizeof *kinds };

const char *rvit_result_name(rvit_result what)
{
    return kinds[what].name;
}

static int32_t width_of(const rvit_session *s, result_width width)
{
    const rvit_model_info *info = &s->model->info;
    switch (width) {
    case ONE:
        break;
    case DIM:
        return info->dim;
    case HEADS:
        return info->n_heads;
    case CLASSES:
        return info->n_classes;
    case POOLED:
        return rvit_pooled_width(info);
    case MERGED:
        return info->merged_dim;
    }
    return 1;
}

static int32_t stage_of(const rvit_session *s, result_layout layout, int32_t index)
{
    const rvit_prune_schedule *schedule = &s->plan->schedule;
    switch (layout) {
    case IMAGES:
        break;
    case OF_INDEX:
        return index;
    case LAST_STAGE:
        return schedule->n_stages - 1;
    case LAST_ATTENTION:
        return rvit_stage_of_attention(schedule, s->model->info.depth - 1);
    case RECEIVED_BLOCK:
        return rvit_stage_of_attention(schedule, s->plan->desc.received_block);
    case FEATURES_BLOCK:
        return rvit_stage_of_output(schedule, s->plan->desc.features_block);
    case DEEPSTACK_BLOCK:
        return rvit_stage_of_output(schedule, s->model->merge.deepstack.blocks[index]);
    }
    return -1;
}

rvit_result_view rvit_session_values(const rvit_session *s, rvit_result what, int32_t index)
{
    const rvit_session_plan *plan = s->plan;
    const int32_t stage = stage_of(s, kinds[what].layout, index), side = s->model->info.merge;
    const void *plans = kinds[what].layout == OF_INDEX ? (const void *)&plan->stages[stage < 0 ? 0 : stage] : plan;
    const rvit_session_array *array = (const void *)((const char *)plans + kinds[what].array);
    rvit_result_view view = RVIT_RESULT_VIEW_INIT;
    view.dtype = kinds[what].dtype;
    view.width = width_of(s, kinds[what].width);
    view.stage = stage;
    view.rows = kinds[what].layout == IMAGES ? s->n_images : rvit_session_cu_seqlens(s, stage)[s->n_images];
    if (what == RVIT_RESULT_CU_SEQLENS) {
        view.rows = s->n_images + (int64_t)1;
        view.data = rvit_session_cu_seqlens(s, stage);
        return view;
    }
    if (kinds[what].width == MERGED)
        view.rows /= side * side;
    const char *data = rvit_session_host(s, *array);
    if (what == RVIT_RESULT_DEEPSTACK && data != NULL)
        data += array->size / s->model->info.n_deepstack * index;
    view.data = data;
    return view;
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

/* The logits are the projected rows if they come from CLIP's projection or from attention pooling without a head. */
static const void *projected_of(const rvit_session *s)
{
    const rvit_session_plan *plan = s->plan;
    const int32_t dim = s->model->info.n_classes;
    const float *projected = rvit_session_host(s, plan->projected.arena == RVIT_ARENA_NONE ? plan->logits : plan->projected);
    float *normalized = rvit_session_host(s, plan->normalized);
    if (normalized == NULL)
        return projected;
    for (int64_t i = 0; i < s->n_images && !s->has_normalized; i++)
        normalize(projected + i * dim, dim, normalized + i * dim);
    ((rvit_session *)(uintptr_t)s)->has_normalized = 1;
    return normalized;
}

/* Checks that the session has the result and that index is in range. */
static rvit_status check_result(const rvit_session *s, rvit_result what, int32_t index)
{
    const int32_t n_stages = s->plan->schedule.n_stages, of_stage = kinds[what].layout == OF_INDEX;
    if (what == RVIT_RESULT_LOGITS && s->model->info.n_classes == 0)
        return rvit_fail(RVIT_UNSUPPORTED, "rvit_session_get: logits: the model has no head");
    if ((s->plan->desc.outputs & kinds[what].output) != kinds[what].output)
        return rvit_fail(RVIT_UNSUPPORTED, "rvit_session_get: %s: the session was created without %s", kinds[what].name,
                         kinds[what].output_name);
    if (what == RVIT_RESULT_SIZES && !(n_stages > 0 && s->plan->schedule.policy->merges))
        return rvit_fail(RVIT_UNSUPPORTED, "rvit_session_get: sizes of tokens: the session merges none");
    const int32_t first = what == RVIT_RESULT_CU_SEQLENS ? -1 : 0;
    const int32_t last = of_stage ? n_stages - 1 : what == RVIT_RESULT_DEEPSTACK ? s->model->info.n_deepstack - 1 : 0;
    if (index < first || index > last)
        return rvit_fail(RVIT_INVALID_ARGUMENT, "rvit_session_get: %s: index is %d, expected %d..%d", kinds[what].name, (int)index,
                         (int)first, (int)last);
    return s->has_results ? RVIT_OK : rvit_fail(RVIT_INVALID_ARGUMENT, "rvit_session_get: %s: there is no finished run", kinds[what].name);
}

rvit_status rvit_session_get(const rvit_session *session, rvit_result what, int32_t index, rvit_result_view *out_view)
{
    RVIT_ENTRY;
    if (session == NULL || out_view == NULL)
        return rvit_fail(RVIT_INVALID_ARGUMENT, "rvit_session_get: session or out_view is NULL");
    rvit_result_view view = RVIT_RESULT_VIEW_INIT;
    if ((uint32_t)what >= RVIT_TRACE_FIRST) {
        RVIT_TRY(rvit_session_get_traced(session, what, index, &view));
        return rvit_args_return(out_view, &view, sizeof view, "result view");
    }
    if ((uint32_t)what >= N_KINDS)
        return rvit_fail(RVIT_INVALID_ARGUMENT, "rvit_session_get: what: %d is not a valid result", (int)what);
    RVIT_TRY(check_result(session, what, index));
    if (what == RVIT_RESULT_KEPT || what == RVIT_RESULT_SIZES)
        rvit_session_need_kept(session);
    view = rvit_session_values(session, what, index);
    if (what == RVIT_RESULT_PROJECTED)
        view.data = projected_of(session);
    return rvit_args_return(out_view, &view, sizeof view, "result view");
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

/* What a session gives back. */
#include <string.h>

#include <raggedvit/experimental.h>

#include "core/args.h"
#include "core/entry.h"
#include "core/vit_session.h"

float *rvit_session_input(rvit_session *session)
{
    if (session == NULL || session->desc.images.buffer != NULL)
        return NULL;
    return (float *)((uint8_t *)session->upload->host + session->images.offset);
}

static const float *in_readback(const rvit_session *session, rvit_view view)
{
    return (const float *)((const uint8_t *)session->readback->host + view.offset);
}

const float *rvit_session_logits(const rvit_session *session)
{
    if (session == NULL || !session->has_results || session->desc.logits.buffer != NULL || session->model->info.n_classes == 0)
        return NULL;
    return in_readback(session, session->logits);
}

int32_t rvit_session_n_stages(const rvit_session *session)
{
    return session == NULL ? 0 : session->schedule.n_stages;
}

static int has_stage(const rvit_session *session, int32_t stage)
{
    return session != NULL && session->has_results && stage >= -1 && stage < session->schedule.n_stages;
}

const int32_t *rvit_session_cu_seqlens(const rvit_session *session, int32_t stage)
{
    if (!has_stage(session, stage))
        return NULL;
    return stage < 0 ? session->host_cu_seqlens : session->stages[stage].host_cu_seqlens;
}

/* Calls for each row of an image before a stage, in order, with the row it is in afterwards, both counted from the image's first; -1:
   dropped. A merged row is in the row of the one it was merged into. */
typedef void (*follow_fn)(void *context, int32_t before, int32_t after, int32_t itself);

static void follow(const rvit_session *s, int32_t index, int32_t image, follow_fn call, void *context)
{
    const rvit_stage *stage = &s->stages[index];
    const int32_t *cu = rvit_session_cu_seqlens(s, index - 1);
    const int32_t begin = cu[image], n = cu[image + 1] - begin, n_prefix = s->model->info.n_prefix;
    const uint8_t *keep = stage->host_keep + begin;
    int32_t after = 0;
    if (!s->schedule.policy->merges) {
        for (int32_t row = 0; row < n; row++)
            call(context, row, keep[row] ? after++ : -1, keep[row]);
        return;
    }
    /* The prefix, then what is left of the rows of even place, then of odd place (rvit_match). */
    for (int32_t pass = 0; pass < 3; pass++) {
        for (int32_t row = 0; row < n; row++) {
            const int32_t belongs = row < n_prefix ? 0 : 1 + row % 2;
            if (belongs != pass || !keep[row])
                continue;
            call(context, row, after, 1);
            for (int32_t next = stage->host_next_rows[begin + row]; next >= 0; next = stage->host_next_rows[next])
                call(context, next - begin, after, 0);
            after++;
        }
    }
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
    if (after < 0)
        return;
    if (itself)
        c->tokens[after] = c->tokens_before == NULL ? before : c->tokens_before[before];
    if (c->sizes != NULL)
        c->sizes[after] += c->sizes_before == NULL ? 1.0f : c->sizes_before[before];
}

/* Follows each kept row back to the unpruned image, stage by stage. */
static void compose_kept(rvit_session *s)
{
    for (int32_t i = 0; i < s->schedule.n_stages; i++) {
        const rvit_stage *stage = &s->stages[i], *before = i == 0 ? NULL : &s->stages[i - 1];
        for (int32_t image = 0; image < s->n_images; image++) {
            const int32_t begin = stage->host_cu_seqlens[image], n = stage->host_cu_seqlens[image + 1] - begin;
            composition c = {.tokens = stage->kept + begin};
            if (before != NULL)
                c.tokens_before = before->kept + before->host_cu_seqlens[image];
            if (stage->kept_sizes != NULL) {
                c.sizes = stage->kept_sizes + begin;
                memset(c.sizes, 0, (size_t)n * sizeof *c.sizes);
                if (before != NULL)
                    c.sizes_before = before->kept_sizes + before->host_cu_seqlens[image];
            }
            if (n > 0)
                c.tokens[n - 1] = -1; /* of a fused row, unless a kept one comes here */
            follow(s, i, image, compose_row, &c);
        }
    }
}

/* A result computed when first asked for: the session belongs to one thread at a time. */
static void need_kept(const rvit_session *session)
{
    if (session->has_kept)
        return;
    rvit_session *writable = (rvit_session *)(uintptr_t)session;
    compose_kept(writable);
    writable->has_kept = 1;
}

const int32_t *rvit_session_kept(const rvit_session *session, int32_t stage, int32_t image)
{
    if (!has_stage(session, stage) || stage < 0 || image < 0 || image >= session->n_images)
        return NULL;
    need_kept(session);
    return session->stages[stage].kept + session->stages[stage].host_cu_seqlens[image];
}

const float *rvit_session_sizes(const rvit_session *session, int32_t stage, int32_t image)
{
    if (!has_stage(session, stage) || stage < 0 || image < 0 || image >= session->n_images || session->stages[stage].kept_sizes == NULL)
        return NULL;
    need_kept(session);
    return session->stages[stage].kept_sizes + session->stages[stage].host_cu_seqlens[image];
}

rvit_status rvit_session_mask(const rvit_session *session, int32_t stage, int32_t image, uint8_t *out_mask)
{
    RVIT_ENTRY;
    if (out_mask == NULL)
        return rvit_fail(RVIT_INVALID_ARGUMENT, "rvit_session_mask: out_mask is NULL");
    const int32_t *kept = rvit_session_kept(session, stage, image);
    if (kept == NULL)
        return rvit_fail(RVIT_INVALID_ARGUMENT, "rvit_session_mask: there is no result of stage %d, image %d", (int)stage, (int)image);
    const int32_t *cu = session->stages[stage].host_cu_seqlens;
    memset(out_mask, 0, (size_t)session->model->info.tokens);
    for (int32_t row = 0; row < cu[image + 1] - cu[image]; row++)
        if (kept[row] >= 0)
            out_mask[kept[row]] = 1;
    return RVIT_OK;
}

const float *rvit_session_features(const rvit_session *session)
{
    if (session == NULL || !session->has_results || !(session->desc.outputs & RVIT_OUTPUT_FEATURES))
        return NULL;
    return in_readback(session, session->features);
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
    if (!(session->desc.outputs & RVIT_OUTPUT_FEATURES))
        return rvit_fail(RVIT_UNSUPPORTED, "rvit_session_grid: the session was created without RVIT_OUTPUT_FEATURES");
    if (!session->has_results || image < 0 || image >= session->n_images)
        return rvit_fail(RVIT_INVALID_ARGUMENT, "rvit_session_grid: there is no result of image %d", (int)image);
    const rvit_model_info *info = &session->model->info;
    /* For each token, the row it is in: first of the unpruned image, then after each stage. */
    int32_t *row = session->token_row, *to = session->token_row + info->tokens;
    for (int32_t t = 0; t < info->tokens; t++)
        row[t] = t;
    for (int32_t i = 0; i < session->schedule.n_stages; i++) {
        follow(session, i, image, note_row, to);
        for (int32_t t = 0; t < info->tokens; t++)
            row[t] = row[t] < 0 ? -1 : to[row[t]];
    }
    const int32_t begin = rvit_session_cu_seqlens(session, session->schedule.n_stages - 1)[image];
    const float *features = rvit_session_features(session) + (int64_t)begin * info->dim;
    for (int32_t t = info->n_prefix; t < info->tokens; t++) {
        float *out = out_grid + (int64_t)(t - info->n_prefix) * info->dim;
        if (row[t] >= 0)
            memcpy(out, features + (int64_t)row[t] * info->dim, (size_t)info->dim * sizeof *out);
        for (int32_t d = 0; d < info->dim && row[t] < 0; d++)
            out[d] = fill;
    }
    return RVIT_OK;
}

/* The last stage before the rows of block `block` (-1: the embedding) come out: one inside a block or before it shows in its output, one
   after it does not. */
static int32_t stage_of_output(const rvit_session *s, int32_t block)
{
    int32_t stage = -1;
    for (int32_t i = 0; i < s->schedule.n_stages; i++)
        if (s->schedule.blocks[i] < block || (s->schedule.blocks[i] == block && s->schedule.policy->site != RVIT_SITE_AFTER_BLOCK))
            stage = i;
    return stage;
}

const float *rvit_session_cls_attention(const rvit_session *session, int32_t *out_stage)
{
    if (session == NULL || out_stage == NULL || !session->has_results || !(session->desc.outputs & RVIT_OUTPUT_CLS_ATTENTION))
        return NULL;
    const int32_t last = session->model->info.depth - 1;
    *out_stage = stage_of_output(session, last);
    if (*out_stage >= 0 && session->schedule.policy->site == RVIT_SITE_AFTER_ATTENTION && session->schedule.blocks[*out_stage] == last)
        (*out_stage)--;
    return in_readback(session, session->cls_attention);
}

rvit_status rvit_session_get_stats(const rvit_session *session, rvit_stats *out_stats)
{
    RVIT_ENTRY;
    if (session == NULL)
        return rvit_fail(RVIT_INVALID_ARGUMENT, "rvit_session_get_stats: session is NULL");
    return rvit_stream_get_stats(session->stream, out_stats);
}

rvit_status rvit_session_get_select(const rvit_session *session, int32_t stage, rvit_select_args *out_args)
{
    RVIT_ENTRY;
    if (session == NULL || stage < 0 || stage >= session->schedule.n_stages)
        return rvit_fail(RVIT_INVALID_ARGUMENT, "rvit_session_get_select: there is no stage %d", (int)stage);
    if (session->schedule.policy->merges)
        return rvit_fail(RVIT_UNSUPPORTED, "rvit_session_get_select: the policy %s merges tokens, it does not select",
                         session->schedule.policy->info.name);
    rvit_select_args args = session->stages[stage].select;
    const rvit_view none = {NULL, 0};
    args.x = args.cls_probs = args.weight = args.bias = args.position_scores = args.counts = args.scores = args.keep_in = none;
    args.cu_seqlens = args.fuse_x = args.keep = args.out_cu_seqlens = args.src_rows = args.error = none;
    args.error_stays = 0;
    return rvit_args_return(out_args, &args, sizeof args, "select args");
}

const int32_t *rvit_session_counts(const rvit_session *session, int32_t stage)
{
    return session == NULL || stage < 0 || stage >= session->schedule.n_stages ? NULL : session->stages[stage].host_counts;
}

static int64_t rows_of(const rvit_session *s, int32_t stage)
{
    return stage < 0 ? (int64_t)s->n_images * s->model->info.tokens : s->stages[stage].host_cu_seqlens[s->max_images];
}

rvit_status rvit_session_trace(const rvit_session *session, rvit_trace what, int32_t index, const void **out_data, rvit_dtype *out_dtype,
                               int64_t *out_rows)
{
    RVIT_ENTRY;
    if (session == NULL || out_data == NULL || out_dtype == NULL || out_rows == NULL)
        return rvit_fail(RVIT_INVALID_ARGUMENT, "rvit_session_trace: an argument is NULL");
    if (!session->desc.trace)
        return rvit_fail(RVIT_UNSUPPORTED, "rvit_session_trace: the session was created without trace");
    if (!session->has_results)
        return rvit_fail(RVIT_INVALID_ARGUMENT, "rvit_session_trace: there is no finished run");
    const rvit_prune_schedule *schedule = &session->schedule;
    const uint8_t *host = session->traced->host;
    if (what == RVIT_TRACE_EMBEDDING || what == RVIT_TRACE_BLOCK) {
        const int32_t block = what == RVIT_TRACE_EMBEDDING ? -1 : index;
        if (what == RVIT_TRACE_BLOCK && (index < 0 || index >= session->model->info.depth))
            return rvit_fail(RVIT_INVALID_ARGUMENT, "rvit_session_trace: block %d, the model has blocks 0..%d", (int)index,
                             (int)session->model->info.depth - 1);
        *out_data = host + session->trace_blocks.offset + (block + 1) * session->trace_stride;
        *out_dtype = session->model->x_dtype;
        *out_rows = rows_of(session, stage_of_output(session, block));
        return RVIT_OK;
    }
    if (what != RVIT_TRACE_SCORES || index < 0 || index >= schedule->n_stages || schedule->policy->merges ||
        schedule->select == RVIT_SELECT_MASK)
        return rvit_fail(RVIT_INVALID_ARGUMENT, "rvit_session_trace: the session has no scores of stage %d", (int)index);
    *out_data = host + session->trace_scores[index].offset;
    *out_dtype = RVIT_F32;
    *out_rows = rows_of(session, index - 1);
    return RVIT_OK;
}

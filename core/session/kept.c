/* Traces the rows of a run's results back to the tokens of the unpruned images, stage by stage. */
#include "core/session/kept.h"

#include <string.h>

#include "core/base/entry.h"
#include "core/base/status.h"
#include "core/session/variable_resolution.h"

/* The length of the unpruned image. */
static int32_t tokens_of(const rvit_session *s, int32_t image)
{
    const int32_t *cu = rvit_session_cu_seqlens(s, -1);
    return cu[image + 1] - cu[image];
}

/* Called for each row of an image that a stage keeps (itself = 1, in the order of the rows after the stage), and for each row that it
   merges into one of these (itself = 0). before and after: the row before and after the stage, from 0 within the image. */
typedef void (*follow_fn)(void *context, int32_t before, int32_t after, int32_t itself);

typedef struct followed {
    int32_t begin, n, left, area; /* left: rows after the stage; area: rows of a merge group, or 0 */
    const uint8_t *keep;
    const int32_t *next_rows;  /* NULL: nothing is merged */
    const int32_t *group_rows; /* NULL: rows are in raster order; otherwise in the order of the windows */
    int32_t *raster_rows;      /* with both: the row in raster order of each row in the order of the windows */
} followed;

/* Values from the device are not trusted: a row outside the image becomes -1. */
static int32_t row_of_image(const followed *f, int64_t row)
{
    return row >= f->begin && row < (int64_t)f->begin + f->n ? (int32_t)row - f->begin : -1;
}

/* Calls for a kept row and the rows merged into it. The bound on merged ends the loop if next_rows has a cycle. */
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
        call(context, f->raster_rows == NULL ? next : f->raster_rows[next], after, 0);
    }
}

/* -1: the device gave a row outside the image. */
static int32_t window_row(const followed *f, int32_t row)
{
    return f->group_rows == NULL ? row : row_of_image(f, (int64_t)f->group_rows[(f->begin + row) / f->area] * f->area + row % f->area);
}

static void follow(const rvit_session *s, int32_t index, int32_t image, follow_fn call, void *context)
{
    const rvit_stage_plan *stage = &s->plan->stages[index];
    const int32_t *cu = rvit_session_cu_seqlens(s, index - 1), *cu_after = rvit_session_cu_seqlens(s, index);
    const int32_t n_prefix = s->model->info.n_prefix, side = s->model->info.merge;
    followed f = {.begin = cu[image], .n = cu[image + 1] - cu[image], .left = cu_after[image + 1] - cu_after[image], .area = side * side};
    f.keep = (const uint8_t *)rvit_session_host(s, stage->keep) + f.begin;
    f.next_rows = rvit_session_host(s, stage->next_rows);
    f.group_rows = rvit_session_host(s, index == 0 ? s->plan->first_group_rows : stage[-1].group_rows);
    f.raster_rows = rvit_session_host(s, s->plan->raster_rows);
    int32_t after = 0;
    for (int32_t row = 0; f.raster_rows != NULL && row < f.n; row++)
        f.raster_rows[row] = row;
    for (int32_t row = 0; f.raster_rows != NULL && row < f.n; row++)
        if (window_row(&f, row) >= 0)
            f.raster_rows[window_row(&f, row)] = row;
    if (f.next_rows == NULL || f.area > 0) {
        for (int32_t row = 0; row < f.n; row++) {
            const int32_t at = window_row(&f, row);
            if (at >= 0 && f.keep[at])
                follow_kept(&f, row, at, after++, call, context);
        }
        return;
    }
    /* The order of bipartite matching: the prefix, then the kept even rows, then the kept odd rows. */
    for (int32_t pass = 0; pass < 3; pass++)
        for (int32_t row = 0; row < f.n; row++)
            if ((row < n_prefix ? 0 : 1 + row % 2) == pass && f.keep[row])
                follow_kept(&f, row, row, after++, call, context);
}

typedef struct composition {
    const int32_t *tokens_before;
    const float *sizes_before; /* NULL: all 1 */
    int32_t *tokens;
    float *sizes; /* NULL: not needed */
} composition;

static void compose_row(void *context, int32_t before, int32_t after, int32_t itself)
{
    const composition *c = context;
    if (itself)
        c->tokens[after] = c->tokens_before == NULL ? before : c->tokens_before[before];
    if (c->sizes != NULL)
        c->sizes[after] += c->sizes_before == NULL ? 1.0f : c->sizes_before[before];
}

static void compose_kept(const rvit_session *s)
{
    const int32_t *tokens_before = NULL, *cu_before = rvit_session_cu_seqlens(s, -1);
    const float *sizes_before = NULL;
    for (int32_t i = 0; i < s->plan->schedule.n_stages; i++) {
        const int32_t *cu = rvit_session_cu_seqlens(s, i);
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
            memset(c.tokens, 0xff, (size_t)n * sizeof *c.tokens); /* -1: a fused row */
            follow(s, i, image, compose_row, &c);
        }
        tokens_before = kept;
        sizes_before = sizes;
        cu_before = cu;
    }
}

/* Only one thread at a time may use a session, so the cast from const is safe. */
void rvit_session_need_kept(const rvit_session *session)
{
    if (session->has_kept)
        return;
    compose_kept(session);
    ((rvit_session *)(uintptr_t)session)->has_kept = 1;
}

rvit_status rvit_session_keep_mask(const rvit_session *session, int32_t stage, int32_t image, uint8_t *out_mask)
{
    RVIT_ENTRY;
    if (session == NULL || out_mask == NULL)
        return rvit_fail(RVIT_INVALID_ARGUMENT, "rvit_session_keep_mask: session or out_mask is NULL");
    if (!session->has_results || stage < 0 || stage >= session->plan->schedule.n_stages || image < 0 || image >= session->n_images)
        return rvit_fail(RVIT_INVALID_ARGUMENT, "rvit_session_keep_mask: there is no result of stage %d, image %d", (int)stage, (int)image);
    rvit_session_need_kept(session);
    const int32_t *cu = rvit_session_cu_seqlens(session, stage), *kept = rvit_session_host(session, session->plan->stages[stage].kept);
    memset(out_mask, 0, (size_t)tokens_of(session, image));
    for (int32_t row = cu[image]; row < cu[image + 1]; row++)
        if (kept[row] >= 0)
            out_mask[kept[row]] = 1;
    return RVIT_OK;
}

static void note_row(void *context, int32_t before, int32_t after, int32_t itself)
{
    (void)itself;
    ((int32_t *)context)[before] = after;
}

rvit_status rvit_session_feature_grid(const rvit_session *session, int32_t image, float fill, float *out_grid)
{
    RVIT_ENTRY;
    if (session == NULL || out_grid == NULL)
        return rvit_fail(RVIT_INVALID_ARGUMENT, "rvit_session_feature_grid: session or out_grid is NULL");
    if (!(session->plan->desc.outputs & RVIT_OUTPUT_FEATURES))
        return rvit_fail(RVIT_UNSUPPORTED, "rvit_session_feature_grid: the session was created without RVIT_OUTPUT_FEATURES");
    if (!session->has_results || image < 0 || image >= session->n_images)
        return rvit_fail(RVIT_INVALID_ARGUMENT, "rvit_session_feature_grid: there is no result of image %d", (int)image);
    const rvit_model_info *info = &session->model->info;
    /* The row of each token: in the unpruned image, then after each stage. */
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
    const int32_t begin = rvit_session_cu_seqlens(session, session->plan->schedule.n_stages - 1)[image];
    const float *features = (const float *)rvit_session_host(session, session->plan->features) + (int64_t)begin * info->dim;
    for (int32_t t = info->n_prefix; t < tokens; t++) {
        float *out = out_grid + (int64_t)rvit_variable_raster_index(session, image, t - info->n_prefix) * info->dim;
        if (row[t] >= 0)
            memcpy(out, features + (int64_t)row[t] * info->dim, (size_t)info->dim * sizeof *out);
        for (int32_t d = 0; d < info->dim && row[t] < 0; d++)
            out[d] = fill;
    }
    return RVIT_OK;
}

#include "verify_parts.h"

#include <stdlib.h>
#include <string.h>

#include <raggedvit/experimental.h>
#include "session_results.h"

/* A stage of the batch. Its index is the number of stages for the anchors of hiprune. */
struct judged_stage {
    const rvit_session *a, *b;
    int32_t index;
    struct judge_rule rule;
    bool merges;
    struct judge_rows batch; /* arrays of the whole batch; without keep_a and keep_b for a policy that merges */
    const int32_t *layout_a, *layout_b;
};

/* The kind of the session's scores. */
static enum judge_kind kind_of(const rvit_session *session)
{
    const rvit_select_args *select = session_select(session, 0);
    if (!select)
        return JUDGE_SUMS; /* a policy that merges by cosines */
    if (select->score == RVIT_SCORE_CLS_ATTENTION || select->score == RVIT_SCORE_CLS_NORM)
        return JUDGE_ATTENTION;
    return select->score == RVIT_SCORE_PREDICTOR ? JUDGE_PREDICTOR : JUDGE_SUMS;
}

int decisions_open(struct verify *self)
{
    struct decisions *d = &self->decisions;
    const int32_t n_stages = self->figures.n_stages;
    d->merges = n_stages > 0 && strcmp(self->prune.policy.name, "tome") == 0;
    d->can_judge = d->merges || self->figures.knows_rule;
    d->can_give = self->figures.knows_rule && !self->fused;
    self->figures.judged = d->can_judge;
    if (!d->can_judge)
        return EXIT_OK;
    const rvit_precision of_a = self->a.choice.precision, of_b = self->b.choice.precision;
    self->figures.judge_tolerance = judge_tolerance(kind_of(self->run_b), of_a > of_b ? of_a : of_b);
    const size_t tokens = (size_t)self->tokens;
    d->ranks = allocate(tokens, sizeof *d->ranks);
    d->equal = allocate((size_t)self->batch, sizeof *d->equal);
    for (int i = 0; i < 2; i++)
        d->keep[i] = allocate(tokens, 1);
    if (!d->ranks || !d->equal || !d->keep[0] || !d->keep[1])
        return EXIT_FAULT;
    return d->can_give ? engine_session(&self->a, &self->prune.desc, self->batch, RVIT_TRACE_GIVEN, 0, &d->given_a) : EXIT_OK;
}

void decisions_close(struct verify *self)
{
    struct decisions *d = &self->decisions;
    rvit_session_destroy(d->given_a);
    free(d->ranks);
    free(d->equal);
    for (int i = 0; i < 2; i++)
        free(d->keep[i]);
}

static int trace(const rvit_session *session, rvit_result what, int32_t stage, const float **out)
{
    rvit_result_view view = RVIT_RESULT_VIEW_INIT;
    const rvit_status status = rvit_session_get(session, what, stage, &view);
    *out = view.data;
    return status == RVIT_OK ? EXIT_OK : complain_status(NULL, status);
}

/* Marks the rows of an image that the sessions kept, for a policy that merges. */
static void mark_kept(const struct verify *self, const struct judged_stage *stage, int32_t image, struct judge_rows *rows)
{
    const struct decisions *d = &self->decisions;
    struct kept_row *const *kept = self->figures.kept;
    const rvit_session *sessions[2] = {stage->a, stage->b};
    int32_t n[2];
    for (int side = 0; side < 2; side++) {
        const int32_t *before = stage->index > 0 ? session_kept(sessions[side], stage->index - 1, image) : NULL;
        n[side] = kept_rows(sessions[side], stage->index, image, kept[side]);
        for (int32_t row = 0; row < rows->len; row++) {
            const int32_t token = before ? before[row] : row;
            int32_t low = 0, high = n[side];
            while (low < high) {
                const int32_t middle = (low + high) / 2;
                if (kept[side][middle].token < token)
                    low = middle + 1;
                else
                    high = middle;
            }
            d->keep[side][row] = low < n[side] && kept[side][low].token == token;
        }
    }
    rows->keep_a = d->keep[0];
    rows->keep_b = d->keep[1];
    rows->same = n[0] == n[1] && memcmp(kept[0], kept[1], (size_t)n[0] * sizeof *kept[0]) == 0;
}

static void judge_images(struct verify *self, const struct judged_stage *stage, int32_t n_images)
{
    struct decisions *d = &self->decisions;
    struct judgement *judgement = &self->figures.judgements[stage->index];
    for (int32_t i = 0; i < n_images; i++) {
        const int64_t at_a = stage->layout_a[i], at_b = stage->layout_b[i];
        struct judge_rows rows = stage->batch;
        if (!d->equal[i]) {
            judgement->n_skipped++;
            continue;
        }
        rows.len = (int32_t)(stage->layout_b[i + 1] - at_b);
        if (stage->merges) {
            rows.metric_a += at_a * rows.dim;
            rows.metric_b += at_b * rows.dim;
            mark_kept(self, stage, i, &rows);
        } else {
            rows.scores_a += at_a;
            rows.scores_b += at_b;
            rows.keep_a += at_a;
            rows.keep_b += at_b;
            rows.same = memcmp(rows.keep_a, rows.keep_b, (size_t)rows.len) == 0;
        }
        judge_image(judgement, &stage->rule, &rows, self->figures.judge_tolerance, d->ranks);
        d->equal[i] = d->can_give && stage->index < self->figures.n_stages ? true : rows.same;
    }
}

static int judge_metrics(struct verify *self, struct judged_stage *stage, int32_t n_images)
{
    const rvit_model_info *info = &self->a.model_info;
    stage->merges = true;
    const int32_t given = self->prune.desc.merges, merges = given >= 0 ? given : self->prune.policy.default_merges;
    stage->rule = (struct judge_rule){.n_prefix = info->n_prefix, .merges = merges, .min_scale = 1};
    stage->batch.dim = info->head_dim;
    int code = trace(stage->a, RVIT_TRACE_METRIC, stage->index, &stage->batch.metric_a);
    if (code == EXIT_OK)
        code = trace(stage->b, RVIT_TRACE_METRIC, stage->index, &stage->batch.metric_b);
    if (code == EXIT_OK)
        judge_images(self, stage, n_images);
    return code;
}

static int judge_scores(struct verify *self, struct judged_stage *stage, int32_t n_images)
{
    const rvit_select_args *select = session_select(stage->b, stage->index);
    struct selection chosen_a, chosen_b;
    if (!select)
        return fail_with(EXIT_FAULT, NULL, "%s", rvit_status_detail());
    stage->rule = (struct judge_rule){.mode = select->mode,
                                      .n_prefix = select->n_prefix,
                                      .prefix_competes = select->prefix_competes,
                                      .k_min = select->k_min,
                                      .n_samples = select->n_samples,
                                      .counts = session_result(stage->b, RVIT_TRACE_COUNTS, stage->index).data,
                                      .threshold = (double)select->threshold,
                                      .mass = select->mass,
                                      .min_scale = select->score == RVIT_SCORE_PREDICTOR ? 1 : 0};
    int code = trace(stage->a, RVIT_TRACE_SCORES, stage->index, &stage->batch.scores_a);
    if (code == EXIT_OK)
        code = trace(stage->b, RVIT_TRACE_SCORES, stage->index, &stage->batch.scores_b);
    if (code == EXIT_OK)
        code = selector_run(&self->select_a, stage->a, stage->index, stage->batch.scores_a, stage->layout_a, n_images, &chosen_a);
    if (code == EXIT_OK)
        code = selector_run(&self->select_b, stage->b, stage->index, stage->batch.scores_b, stage->layout_b, n_images, &chosen_b);
    if (code != EXIT_OK)
        return code;
    stage->batch.keep_a = chosen_a.keep;
    stage->batch.keep_b = chosen_b.keep;
    /* Checks that the selection equals the decisions of the session. */
    const uint8_t *decided = session_result(stage->a, RVIT_TRACE_DECISIONS, stage->index).data;
    for (int64_t row = 0; decided && row < stage->layout_a[n_images]; row++)
        self->figures.stages[stage->index].replay_differ += !decided[row] != !chosen_a.keep[row];
    judge_images(self, stage, n_images);
    return EXIT_OK;
}

/* Judges the anchors of hiprune. If they differ, the rest of the selection may differ too. */
static int judge_anchors(struct verify *self, struct judged_stage *stage, int32_t n_images)
{
    stage->index = self->figures.n_stages;
    stage->batch.keep_a = session_result(stage->a, RVIT_TRACE_DECISIONS, stage->index).data;
    stage->batch.keep_b = session_result(stage->b, RVIT_TRACE_DECISIONS, stage->index).data;
    if (!stage->batch.keep_a || !stage->batch.keep_b)
        return EXIT_OK;
    self->figures.anchors = true;
    stage->rule = (struct judge_rule){.mode = RVIT_SELECT_TOP_K, .n_prefix = self->a.model_info.n_prefix};
    stage->layout_a = session_cu_seqlens(stage->a, -1);
    stage->layout_b = session_cu_seqlens(stage->b, -1);
    int code = trace(stage->a, RVIT_TRACE_SCORES, stage->index, &stage->batch.scores_a);
    if (code == EXIT_OK)
        code = trace(stage->b, RVIT_TRACE_SCORES, stage->index, &stage->batch.scores_b);
    if (code == EXIT_OK)
        judge_images(self, stage, n_images);
    return code;
}

int decisions_judge(struct verify *self, int32_t n_images, bool differs)
{
    struct decisions *d = &self->decisions;
    const rvit_session *a = self->run_a;
    int code = EXIT_OK;
    if (!d->can_judge)
        return EXIT_OK;
    if (differs && d->can_give) {
        session_masks(self->run_b, n_images, self->tokens, self->masks);
        code = session_run(d->given_a, &self->a, self->images, self->masks, n_images);
        a = d->given_a;
    }
    for (int32_t i = 0; i < n_images; i++)
        d->equal[i] = true;
    struct judged_stage anchors = {.a = a, .b = self->run_b};
    if (code == EXIT_OK)
        code = judge_anchors(self, &anchors, n_images);
    for (int32_t s = 0; s < self->figures.n_stages && code == EXIT_OK; s++) {
        struct judged_stage stage = {.a = a, .b = self->run_b, .index = s};
        stage.layout_a = session_cu_seqlens(a, s - 1);
        stage.layout_b = session_cu_seqlens(self->run_b, s - 1);
        code = d->merges ? judge_metrics(self, &stage, n_images) : judge_scores(self, &stage, n_images);
    }
    return code;
}

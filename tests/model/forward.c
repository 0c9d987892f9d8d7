/* Compares forwards with float64. The float64 forward uses the device's pruning decisions, which are checked separately: if two scores
   differ only by rounding, either token may be kept. */
#include "model.h"

#include <math.h>
#include "tools/cli/session_results.h"

static const toy_spec small = {
    .dim = 64, .depth = 4, .mlp = 128, .image_size = 64, .patch_size = 16, .n_classes = 7, .stored = RVIT_F32, .seed = 1};
static const toy_spec two_heads = {
    .dim = 128, .depth = 5, .mlp = 256, .image_size = 64, .patch_size = 8, .n_classes = 10, .stored = RVIT_F32, .seed = 2};
static const toy_spec distilled = {
    .dim = 128, .depth = 4, .mlp = 512, .image_size = 48, .patch_size = 16, .n_classes = 7, .distilled = 1, .stored = RVIT_F32, .seed = 3};
static const toy_spec stored_f16 = {
    .dim = 64, .depth = 4, .mlp = 256, .image_size = 32, .patch_size = 8, .n_classes = 9, .stored = RVIT_F16, .seed = 4};
static const toy_spec stored_bf16 = {
    .dim = 192, .depth = 4, .mlp = 256, .image_size = 32, .patch_size = 8, .n_classes = 9, .distilled = 1, .stored = RVIT_BF16, .seed = 5};
static const toy_spec deep = {
    .dim = 64, .depth = 12, .mlp = 128, .image_size = 64, .patch_size = 8, .n_classes = 5, .stored = RVIT_F32, .seed = 6};
static const toy_spec rotary = {
    .dim = 128, .depth = 4, .mlp = 256, .image_size = 48, .patch_size = 8, .n_classes = 7, .stored = RVIT_F32, .seed = 7, .rotary = 1};
static const toy_spec *const specs[] = {&small, &two_heads, &distilled, &stored_f16, &stored_bf16, &deep, &rotary};
#define N_SPECS ((int)(sizeof specs / sizeof specs[0]))

static const rvit_dtype types[] = {RVIT_F32, RVIT_F16, RVIT_BF16};
/* 16-bit types: twice the error on the CPU (3.0e-3 and 4.2e-2), which sums in float32 and rounds only stored values. Other backends also
   round the attention weights. */
static const double tolerances[] = {1e-4, 6e-3, 8.4e-2};

static void expect_logits(const toy *m, const float *got, const double *wanted, double tolerance, const char *what)
{
    for (int32_t c = 0; c < m->spec.n_classes; c++)
        if (!(fabs(got[c] - wanted[c]) <= tolerance))
            fail_msg("%s, dim %d: logit %d is %.9g, should be %.9g (off by %.2g)", what, m->spec.dim, c, (double)got[c], wanted[c],
                     fabs(got[c] - wanted[c]));
}

static void dense(void **state)
{
    (void)state;
    for (int i = 0; i < N_SPECS; i++)
        for (int t = 0; t < n_types(); t++) {
            const toy *m = toy_new(specs[i]);
            const float *images = toy_images(m, 3, 11);
            const rvit_session_desc desc = session_desc(3, RVIT_PRUNE_NONE, -1, NULL, 0);
            const float *logits = run_session(open_session(open_model(m, types[t]), &desc), m, images, 3, NULL);
            for (int32_t n = 0; n < 3; n++) {
                double *wanted = scratch((size_t)m->spec.n_classes * sizeof *wanted);
                toy_forward(m, images + (int64_t)n * m->pixels, NULL, 0, wanted, NULL);
                expect_logits(m, logits + (int64_t)n * m->spec.n_classes, wanted, tolerances[t], rvit_enum_name(RVIT_ENUM_DTYPE, types[t]));
            }
            model_teardown(NULL);
        }
}

/* The session's decisions for an image. */
static void stages_of(const rvit_session *session, const rvit_session_desc *desc, int32_t image, toy_stage *stages)
{
    for (int32_t s = 0; s < desc->prune->n_blocks; s++) {
        memset(&stages[s], 0, sizeof stages[s]);
        const int32_t *cu = session_cu_seqlens(session, s);
        assert_non_null(cu);
        stages[s].block = desc->prune->blocks[s];
        stages[s].inside_block = desc->prune->type == RVIT_PRUNE_EVIT || desc->prune->type == RVIT_PRUNE_RECEIVED;
        stages[s].n_kept = cu[image + 1] - cu[image];
        stages[s].kept = session_kept(session, s, image);
        assert_non_null(stages[s].kept);
    }
}

static int descending(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return x > y ? -1 : x < y;
}

static int is_kept(const toy_stage *s, int32_t token)
{
    for (int32_t i = 0; i < s->n_kept; i++)
        if (s->kept[i] == token)
            return 1;
    return 0;
}

static const double *scores_of(const toy_stage *s, rvit_prune_type type)
{
    switch (type) {
    case RVIT_PRUNE_L2:
        return s->l2;
    case RVIT_PRUNE_RECEIVED:
        return s->received;
    case RVIT_PRUNE_MAP_PROBE:
        return s->map_probe;
    default:
        return s->cls_attention;
    }
}

void expect_decision(const toy *m, const toy_stage *s, rvit_prune_type type, double keep, double margin)
{
    const int l2 = type == RVIT_PRUNE_L2;
    const double *scores = scores_of(s, type);
    const int32_t first = l2 ? 0 : m->n_prefix, n = s->n_before - first;
    int32_t k = (int32_t)(type == RVIT_PRUNE_EVIT ? ceil(keep * n) : trunc(n * keep));
    k = k < 1 ? 1 : k;
    k = k > n ? n : k;
    for (int32_t i = 0; i < m->n_prefix; i++)
        assert_int_equal(s->kept[i], i);
    if (l2)
        assert_in_range(s->n_kept, k, k + m->n_prefix);
    else
        assert_int_equal(s->n_kept, k + m->n_prefix);
    double *sorted = scratch((size_t)n * sizeof *sorted);
    memcpy(sorted, scores + first, (size_t)n * sizeof *sorted);
    qsort(sorted, (size_t)n, sizeof *sorted, descending);
    const double least = sorted[k - 1], most = k < n ? sorted[k] : -1;
    int32_t n_in_prefix = 0;
    for (int32_t t = m->n_prefix; t < s->n_before; t++) {
        const int kept = is_kept(s, s->before[t]);
        if (scores[t] > least * (1 + margin) && !kept)
            fail_msg("token %d has score %g and was dropped; the %d-th best score is %g", s->before[t], scores[t], k, least);
        if (scores[t] < most * (1 - margin) && kept)
            fail_msg("token %d has score %g and was kept; the best score to be dropped is %g", s->before[t], scores[t], most);
    }
    for (int32_t t = first; t < m->n_prefix; t++)
        n_in_prefix += scores[t] >= least * (1 - margin);
    if (l2)
        assert_true(s->n_kept >= k + m->n_prefix - n_in_prefix);
}

static void prune(const toy_spec *spec, rvit_dtype dtype, double tolerance, double margin, const rvit_session_desc *desc)
{
    enum { N_IMAGES = 3 };
    const toy *m = toy_new(spec);
    const float *images = toy_images(m, N_IMAGES, 12);
    rvit_session *session = open_session(open_model(m, dtype), desc);
    const float *logits = run_session(session, m, images, N_IMAGES, NULL);
    assert_int_equal(session_n_stages(session), desc->prune->n_blocks);
    for (int32_t n = 0; n < N_IMAGES; n++) {
        toy_stage stages[RVIT_PRUNE_MAX_STAGES];
        stages_of(session, desc, n, stages);
        double *wanted = scratch((size_t)m->spec.n_classes * sizeof *wanted);
        toy_forward(m, images + (int64_t)n * m->pixels, stages, desc->prune->n_blocks, wanted, NULL);
        for (int32_t s = 0; s < desc->prune->n_blocks; s++)
            expect_decision(m, &stages[s], desc->prune->type, desc->prune->keep, margin);
        char what[64];
        snprintf(what, sizeof what, "%s, policy %d, keep %g", rvit_enum_name(RVIT_ENUM_DTYPE, dtype), desc->prune->type, desc->prune->keep);
        expect_logits(m, logits + (int64_t)n * m->spec.n_classes, wanted, tolerance, what);
    }
    model_teardown(NULL);
}

static void pruned_by_a_policy(void **state)
{
    (void)state;
    static const int32_t blocks[][3] = {{1}, {0, 2}, {0, 1, 3}};
    static const double keeps[] = {0.5, 0.2, 0.7, 0};
    static const double margins[] = {1e-4, 1e-2, 8e-2};
    static const rvit_prune_type policies[] = {RVIT_PRUNE_L2, RVIT_PRUNE_EVIT, RVIT_PRUNE_RECEIVED, RVIT_PRUNE_FASTERVLM};
    for (int i = 0; i < N_SPECS; i++)
        for (int t = 0; t < n_types(); t++)
            for (int policy = 0; policy < 4; policy++)
                for (int k = (i + policy) % 2; k < 4; k += 2) {
                    if (leaves_out(i + t + policy + k / 2, 2))
                        continue;
                    const int n = (i + k) % 3;
                    const rvit_session_desc desc = session_desc(4, policies[policy], keeps[k], blocks[n], n + 1);
                    prune(specs[i], types[t], tolerances[t], margins[t], &desc);
                }
}

/* The defaults of blocks and keep: l2 after block 3 with keep 0.5, evit in blocks 3, 6 and 9 with keep 0.7. */
static void policy_defaults(void **state)
{
    (void)state;
    const toy *m = toy_new(&deep);
    const float *images = toy_images(m, 2, 13);
    rvit_model *model = open_model(m, RVIT_F32);
    static const int32_t l2_block[] = {3}, evit_blocks[] = {3, 6, 9};
    const rvit_session_desc pairs[][2] = {
        {session_desc(2, RVIT_PRUNE_L2, -1, NULL, 0), session_desc(2, RVIT_PRUNE_L2, 0.5, l2_block, 1)},
        {session_desc(2, RVIT_PRUNE_EVIT, -1, NULL, 0), session_desc(2, RVIT_PRUNE_EVIT, 0.7, evit_blocks, 3)}};
    for (int i = 0; i < 2; i++) {
        const float *defaults = run_session(open_session(model, &pairs[i][0]), m, images, 2, NULL);
        const float *explicit = run_session(open_session(model, &pairs[i][1]), m, images, 2, NULL);
        assert_memory_equal(defaults, explicit, 2 * 5 * sizeof(float));
    }
    /* The comparison can fail: other decisions give other logits. */
    const float *l2 = run_session(open_session(model, &pairs[0][0]), m, images, 2, NULL);
    const float *evit = run_session(open_session(model, &pairs[1][0]), m, images, 2, NULL);
    assert_memory_not_equal(l2, evit, 2 * 5 * sizeof(float));
}

/* Keep masks with one stage and with two. A later stage cannot restore tokens that an earlier stage dropped. */
static void pruned_by_a_mask(void **state)
{
    (void)state;
    enum { N_IMAGES = 3 };
    static const int32_t blocks[] = {0, 2};
    for (int i = 0; i < N_SPECS; i++)
        for (int t = 0; t < n_types(); t++)
            for (int32_t n_stages = 1; n_stages <= 2; n_stages++) {
                if (leaves_out(i + t + n_stages, 2))
                    continue;
                const toy *m = toy_new(specs[i]);
                const float *images = toy_images(m, N_IMAGES, 14);
                uint8_t *keep = scratch((size_t)(n_stages * N_IMAGES * m->tokens));
                for (int32_t j = 0; j < n_stages * N_IMAGES * m->tokens; j++)
                    keep[j] = (uint8_t)(j % m->tokens < m->n_prefix ? 1 : random_below(3) ? 200 : 0);
                /* After the last stage, one image has only its prefix. */
                memset(keep + ((n_stages - 1) * N_IMAGES + 1) * m->tokens + m->n_prefix, 0, (size_t)(m->tokens - m->n_prefix));
                const rvit_session_desc desc = session_desc(N_IMAGES, RVIT_PRUNE_MASK, -1, blocks, n_stages);
                rvit_session *session = open_session(open_model(m, types[t]), &desc);
                const float *logits = run_session(session, m, images, N_IMAGES, keep);
                for (int32_t n = 0; n < N_IMAGES; n++) {
                    toy_stage stages[2];
                    stages_of(session, &desc, n, stages);
                    for (int32_t s = 0; s < n_stages; s++)
                        for (int32_t token = 0, at = 0; token < m->tokens; token++) {
                            int kept = 1;
                            for (int32_t before = 0; before <= s; before++)
                                kept &= keep[(before * N_IMAGES + n) * m->tokens + token] != 0;
                            if (kept)
                                assert_int_equal(stages[s].kept[at++], token);
                            if (token == m->tokens - 1)
                                assert_int_equal(stages[s].n_kept, at);
                        }
                    double *wanted = scratch((size_t)m->spec.n_classes * sizeof *wanted);
                    toy_forward(m, images + (int64_t)n * m->pixels, stages, n_stages, wanted, NULL);
                    expect_logits(m, logits + (int64_t)n * m->spec.n_classes, wanted, tolerances[t],
                                  rvit_enum_name(RVIT_ENUM_DTYPE, types[t]));
                }
                model_teardown(NULL);
            }
}

/* A merged row has the position of the row that others were merged into. */
static void merged(void **state)
{
    (void)state;
    enum { N_IMAGES = 3, STAGES = 3 };
    static const toy_spec *const tome_specs[] = {&rotary, &two_heads};
    static const int32_t blocks[STAGES] = {0, 1, 2};
    for (int i = 0; i < 2; i++) {
        const toy *m = toy_new(tome_specs[i]);
        const float *images = toy_images(m, N_IMAGES, 16);
        rvit_session_desc desc = session_desc(N_IMAGES, RVIT_PRUNE_TOME, -1, blocks, STAGES);
        prune_in(&desc)->merges = 6;
        const float *logits = run_session(open_session(open_model(m, RVIT_F32), &desc), m, images, N_IMAGES, NULL);
        for (int32_t n = 0; n < N_IMAGES; n++) {
            toy_stage stages[STAGES] = {{.block = 0, .merges = 6}, {.block = 1, .merges = 6}, {.block = 2, .merges = 6}};
            double *wanted = scratch((size_t)m->spec.n_classes * sizeof *wanted);
            toy_forward(m, images + (int64_t)n * m->pixels, stages, STAGES, wanted, NULL);
            expect_logits(m, logits + (int64_t)n * m->spec.n_classes, wanted, tolerances[0], "tome");
        }
        model_teardown(NULL);
    }
}

/* Without fusing, pruning between attention and MLP equals pruning after the block, because the MLP works on each token separately. */
static void evit_equals_a_mask_after_the_block(void **state)
{
    (void)state;
    enum { N_IMAGES = 4 };
    static const int32_t block[] = {1};
    const toy *m = toy_new(&two_heads);
    const float *images = toy_images(m, N_IMAGES, 15);
    rvit_model *model = open_model(m, RVIT_F32);
    const rvit_session_desc evit = session_desc(N_IMAGES, RVIT_PRUNE_EVIT, 0.4, block, 1);
    const rvit_session_desc mask = session_desc(N_IMAGES, RVIT_PRUNE_MASK, -1, block, 1);
    rvit_session *session = open_session(model, &evit);
    const float *logits = run_session(session, m, images, N_IMAGES, NULL);
    uint8_t *keep = scratch((size_t)(N_IMAGES * m->tokens));
    for (int32_t n = 0; n < N_IMAGES; n++) {
        toy_stage stage;
        stages_of(session, &evit, n, &stage);
        for (int32_t i = 0; i < stage.n_kept; i++)
            keep[n * m->tokens + stage.kept[i]] = 1;
    }
    const float *masked = run_session(open_session(model, &mask), m, images, N_IMAGES, keep);
    assert_true(largest_difference(logits, masked, N_IMAGES * m->spec.n_classes) < 1e-5);
}

SUITE(forward_suite, MODEL_TEST(dense), MODEL_TEST(pruned_by_a_policy), MODEL_TEST(policy_defaults), MODEL_TEST(pruned_by_a_mask),
      MODEL_TEST(merged), MODEL_TEST(evit_equals_a_mask_after_the_block));

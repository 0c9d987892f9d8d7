/* Compares pruning with float64 in models with register tokens, without a CLS token, without prefix tokens, with rotary positions, and with
   each pooling. Prefix tokens must be kept, and positions must move with their rows. */
#include "model.h"

#include <math.h>
#include "tools/cli/session_results.h"

enum { N_IMAGES = 3, MERGES = 5, STAGES = 2 };

#define SIZES .dim = 128, .depth = 4, .mlp = 256, .image_size = 48, .patch_size = 8, .n_classes = 7, .stored = RVIT_F32
static const toy_spec registers = {SIZES, .seed = 91, .n_registers = 4};
static const toy_spec registers_mean = {SIZES, .seed = 92, .n_registers = 4, .no_cls = 1, .pool = TOY_MEAN};
static const toy_spec patches_mean = {SIZES, .seed = 93, .rotary = 1, .no_cls = 1, .pool = TOY_MEAN};
static const toy_spec patches_map = {SIZES, .seed = 94, .no_cls = 1, .pool = TOY_MAP};
static const toy_spec registers_map = {SIZES, .seed = 95, .n_registers = 4, .pool = TOY_MAP};
static const toy_spec registers_rotary = {SIZES, .seed = 96, .n_registers = 4, .rotary = 1, .pool = TOY_MEAN};
static const toy_spec *const specs[] = {&registers, &registers_mean, &patches_mean, &patches_map, &registers_map, &registers_rotary};
enum { N_SPECS = sizeof specs / sizeof specs[0] };

static const int32_t blocks[STAGES] = {0, 2};

/* Part of the error message if the model lacks something that the policy needs, else NULL. */
static const char *lacking(const toy_spec *spec, int policy)
{
    switch (policy) {
    case RVIT_PRUNE_EVIT:
    case RVIT_PRUNE_EVIT_FUSED:
    case RVIT_PRUNE_EVIT_PAPER:
    case RVIT_PRUNE_ATS:
    case RVIT_PRUNE_ATS_PAPER:
    case RVIT_PRUNE_FASTERVLM:
        return spec->no_cls ? "the CLS token, but the model has none" : NULL;
    case RVIT_PRUNE_MAP_PROBE:
        return spec->pool != TOY_MAP ? "the model does not pool by attention" : NULL;
    case RVIT_PRUNE_DYNAMICVIT:
    case RVIT_PRUNE_DYNAMICVIT_GATE:
        return "tensor 'score_predictor.0";
    default:
        return NULL;
    }
}

static rvit_session_desc desc_of(int policy)
{
    rvit_session_desc desc = policy_desc(policy, N_IMAGES);
    memcpy(prune_in(&desc)->blocks, blocks, sizeof blocks);
    if (policy == RVIT_PRUNE_TOME)
        prune_in(&desc)->merges = MERGES;
    return desc;
}

/* The session's decisions for an image. */
static void stages_of(const rvit_session *session, int policy, int32_t image, toy_stage *stages)
{
    for (int32_t s = 0; s < STAGES; s++) {
        const int32_t *cu = session_cu_seqlens(session, s);
        stages[s] = (toy_stage){.block = blocks[s],
                                .inside_block = policy == RVIT_PRUNE_EVIT || policy == RVIT_PRUNE_ATS || policy == RVIT_PRUNE_RECEIVED,
                                .kept = session_kept(session, s, image),
                                .n_kept = cu[image + 1] - cu[image],
                                .merges = policy == RVIT_PRUNE_TOME ? MERGES : 0};
        assert_non_null(stages[s].kept);
    }
}

static void expect_prefix(const toy *m, const toy_stage *stage, int policy)
{
    if (stage->n_kept < m->n_prefix)
        fail_msg("policy %d, %d prefix tokens: only %d tokens are kept", policy, m->n_prefix, stage->n_kept);
    for (int32_t t = 0; t < m->n_prefix; t++)
        if (stage->kept[t] != t)
            fail_msg("policy %d: row %d is token %d, should be a prefix token", policy, t, stage->kept[t]);
    if (stage->n_kept <= (m->spec.pool == TOY_CLS ? 0 : m->n_prefix))
        fail_msg("policy %d: no token is left that the head reads", policy);
}

/* Whether the policy keeps the tokens of the best scores, and toy_forward computes these. */
static int keeps_the_best(int policy)
{
    return policy == RVIT_PRUNE_L2 || policy == RVIT_PRUNE_EVIT || policy == RVIT_PRUNE_EVIT_PAPER || policy == RVIT_PRUNE_RECEIVED ||
           policy == RVIT_PRUNE_FASTERVLM || policy == RVIT_PRUNE_MAP_PROBE;
}

/* Checks that a run neither allocates nor synchronises in enqueue. */
static void expect_no_allocation(rvit_session *session, const float *images)
{
    rvit_stats before = RVIT_STATS_INIT, enqueued = RVIT_STATS_INIT;
    rvit_run_args args = RVIT_RUN_ARGS_INIT;
    args.n_images = N_IMAGES;
    args.input.data = images;
    expect_ok(rvit_session_get_stats(session, &before));
    expect_ok(rvit_session_enqueue(session, &args));
    expect_ok(rvit_session_get_stats(session, &enqueued));
    expect_ok(rvit_session_wait(session));
    assert_int_equal(enqueued.synchronizations, before.synchronizations);
    assert_int_equal(enqueued.host_allocations, before.host_allocations);
    assert_int_equal(enqueued.device_allocations, before.device_allocations);
}

static void check(const toy *m, rvit_model *model, int policy, const rvit_session_desc *desc)
{
    const float *images = toy_images(m, N_IMAGES, 3);
    rvit_session *session = open_session(model, desc);
    const float *logits = run_session(session, m, images, N_IMAGES, NULL);
    expect_no_allocation(session, images);
    for (int32_t n = 0; n < N_IMAGES; n++) {
        toy_stage stages[STAGES];
        stages_of(session, policy, n, stages);
        for (int s = 0; s < STAGES; s++)
            expect_prefix(m, &stages[s], policy);
        if (policy == RVIT_PRUNE_EVIT_FUSED)
            continue; /* toy_forward does not fuse tokens */
        double wanted[16];
        toy_forward(m, images + (int64_t)n * m->pixels, stages, STAGES, wanted, NULL);
        for (int s = 0; s < STAGES && keeps_the_best(policy); s++)
            expect_decision(m, &stages[s], (rvit_prune_type)policy, desc->prune->keep, 1e-4);
        for (int32_t c = 0; c < m->spec.n_classes; c++) {
            const double got = (double)logits[n * m->spec.n_classes + c];
            if (!(fabs(got - wanted[c]) <= 1e-4))
                fail_msg("policy %d, model %d, image %d: logit %d is %.9g, should be %.9g", policy, (int)m->spec.seed, n, c, got,
                         wanted[c]);
        }
    }
}

/* Each policy in each model is refused, or matches float64. */
static void every_policy(void **state)
{
    (void)state;
    for (int i = 0; i < N_SPECS; i++) {
        const toy *m = toy_new(specs[i]);
        rvit_model *model = open_model(m, RVIT_F32);
        for (int policy = RVIT_PRUNE_L2; policy <= RVIT_PRUNE_MAP_PROBE; policy++) {
            const rvit_session_desc desc = desc_of(policy);
            const char *without = lacking(specs[i], policy);
            rvit_session *session = NULL;
            if (policy == RVIT_PRUNE_MASK || leaves_out(i + policy, 3))
                continue;
            if (without != NULL)
                expect_status(rvit_session_create(model, &desc, &session), RVIT_UNSUPPORTED, without);
            else
                check(m, model, policy, &desc);
        }
        model_teardown(NULL);
    }
}

/* Default blocks that count from the end of the model. After the last block, map-probe uses the scores of the head. */
static void check_last_blocks(rvit_dtype dtype, double tolerance, double margin)
{
    static const int policies[] = {RVIT_PRUNE_FASTERVLM, RVIT_PRUNE_MAP_PROBE};
    const toy *m = toy_new(&registers_map);
    const float *images = toy_images(m, N_IMAGES, 4);
    rvit_model *model = open_model(m, dtype);
    for (int p = 0; p < 2; p++) {
        const int32_t block = 2 + p;
        const rvit_session_desc defaults = session_desc(N_IMAGES, (rvit_prune_type)policies[p], -1, NULL, 0);
        const rvit_session_desc explicit = session_desc(N_IMAGES, (rvit_prune_type)policies[p], 0.5, &block, 1);
        rvit_session *session = open_session(model, &defaults);
        const float *a = run_session(session, m, images, N_IMAGES, NULL);
        const float *b = run_session(open_session(model, &explicit), m, images, N_IMAGES, NULL);
        assert_memory_equal(a, b, (size_t)(N_IMAGES * m->spec.n_classes) * sizeof *a);
        for (int32_t n = 0; n < N_IMAGES; n++) {
            const int32_t *cu = session_cu_seqlens(session, 0);
            toy_stage stage = {.block = block, .kept = session_kept(session, 0, n), .n_kept = cu[n + 1] - cu[n]};
            double wanted[16];
            toy_forward(m, images + (int64_t)n * m->pixels, &stage, 1, wanted, NULL);
            expect_decision(m, &stage, (rvit_prune_type)policies[p], 0.5, margin);
            for (int32_t c = 0; c < m->spec.n_classes; c++)
                assert_true(fabs((double)a[n * m->spec.n_classes + c] - wanted[c]) <= tolerance);
        }
    }
    const int32_t before_the_first = -1;
    const rvit_session_desc bad = session_desc(N_IMAGES, RVIT_PRUNE_FASTERVLM, -1, &before_the_first, 1);
    rvit_session *session = NULL;
    expect_status(rvit_session_create(model, &bad, &session), RVIT_INVALID_ARGUMENT, "fastervlm prunes in block -1");
}

static void last_blocks(void **state)
{
    (void)state;
    check_last_blocks(RVIT_F32, 1e-4, 1e-4);
    model_teardown(NULL);
    check_last_blocks(RVIT_F16, 6e-3, 1e-2); /* tolerances of forward.c */
}

static int64_t launches_of(rvit_model *model, const toy *m, int policy)
{
    static const int32_t block = 2;
    const rvit_session_desc desc = session_desc(1, (rvit_prune_type)policy, 0.5, &block, 1);
    rvit_session *session = open_session(model, &desc);
    const float *images = toy_images(m, 1, 5);
    rvit_stats before = RVIT_STATS_INIT, after = RVIT_STATS_INIT;
    run_session(session, m, images, 1, NULL);
    expect_ok(rvit_session_get_stats(session, &before));
    run_session(session, m, images, 1, NULL);
    expect_ok(rvit_session_get_stats(session, &after));
    return after.launches - before.launches;
}

/* Received attention costs one launch. hiprune adds two of them and a select of anchors; map-probe adds a norm, a GEMM and the scores of
 * the pooling. */
static void launches(void **state)
{
    (void)state;
    const toy *m = toy_new(&registers_map);
    rvit_model *model = open_model(m, RVIT_F32);
    const int64_t evit = launches_of(model, m, RVIT_PRUNE_EVIT), after_the_block = launches_of(model, m, RVIT_PRUNE_EVIT_PAPER);
    assert_int_equal(launches_of(model, m, RVIT_PRUNE_RECEIVED), evit + 1);
    assert_int_equal(launches_of(model, m, RVIT_PRUNE_FASTERVLM), after_the_block);
    assert_int_equal(launches_of(model, m, RVIT_PRUNE_HIPRUNE), after_the_block + 3);
    assert_in_range(launches_of(model, m, RVIT_PRUNE_MAP_PROBE), after_the_block + 3,
                    after_the_block + 4); /* a GEMM may take two launches */
}

/* Settings that would drop every token keep the prefix, and also the best patch if the head does not read the CLS token. */
static void keep_nothing(void **state)
{
    (void)state;
    static const int policies[] = {RVIT_PRUNE_L2, RVIT_PRUNE_L2_THRESHOLD, RVIT_PRUNE_RANDOM};
    for (int i = 0; i < N_SPECS; i++) {
        const toy *m = toy_new(specs[i]);
        rvit_model *model = open_model(m, RVIT_F32);
        for (int p = 0; p < 3; p++) {
            rvit_session_desc desc = desc_of(policies[p]);
            prune_in(&desc)->keep = policies[p] == RVIT_PRUNE_L2_THRESHOLD ? -1 : 0;
            if (policies[p] == RVIT_PRUNE_L2_THRESHOLD)
                prune_in(&desc)->threshold = 1e9;
            if (policies[p] == RVIT_PRUNE_L2 && m->n_prefix > 0)
                continue; /* l2 may keep a prefix token as the best token */
            check(m, model, policies[p], &desc);
        }
        model_teardown(NULL);
    }
}

SUITE(families_suite, MODEL_TEST(every_policy), MODEL_TEST(last_blocks), MODEL_TEST(launches), MODEL_TEST(keep_nothing));

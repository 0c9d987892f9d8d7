/* Property tests of whole forwards. */
#include "model.h"

#include <math.h>
#include "tools/cli/session_results.h"

static const toy_spec spec = {.dim = 128,
                              .depth = 5,
                              .mlp = 256,
                              .image_size = 64,
                              .patch_size = 8,
                              .n_classes = 7,
                              .stored = RVIT_F32,
                              .seed = 31,
                              .n_predictors = 2};
static const toy_spec distilled = {.dim = 64,
                                   .depth = 4,
                                   .mlp = 128,
                                   .image_size = 64,
                                   .patch_size = 16,
                                   .n_classes = 7,
                                   .distilled = 1,
                                   .stored = RVIT_F32,
                                   .seed = 32,
                                   .n_predictors = 2,
                                   .rotary = 1};
static const toy_spec *const specs[] = {&spec, &distilled};
static const rvit_dtype types[] = {RVIT_F32, RVIT_F16, RVIT_BF16};

enum { N_IMAGES = 5, CLASSES = 7 };

static rvit_session_desc desc_of(int policy)
{
    return policy_desc(policy, N_IMAGES);
}

/* Keep masks [2 stages, n, tokens] for images order[0..n). */
static uint8_t *masks(const toy *m, const int32_t *order, int32_t n)
{
    uint8_t *keep = scratch((size_t)(2 * n * m->tokens));
    for (int32_t s = 0; s < 2; s++)
        for (int32_t i = 0; i < n; i++)
            for (int32_t t = 0; t < m->tokens; t++)
                keep[(s * n + i) * m->tokens + t] = t < m->n_prefix || (t * 7 + order[i] * 3 + s) % 5 < 3;
    return keep;
}

static const int32_t in_order[N_IMAGES] = {0, 1, 2, 3, 4};

static void permuting_images_permutes_logits(void **state)
{
    (void)state;
    static const int32_t order[N_IMAGES] = {3, 0, 4, 2, 1};
    for (int i = 0; i < 2; i++)
        for (int t = 0; t < n_types(); t++)
            for (int policy = RVIT_PRUNE_NONE; policy <= LAST_POLICY; policy = next_policy(policy)) {
                if (leaves_out(i + 2 * t + policy, 4))
                    continue;
                const toy *m = toy_new(specs[i]);
                const float *images = toy_images(m, N_IMAGES, 1);
                float *permuted = scratch((size_t)(N_IMAGES * m->pixels) * sizeof *permuted);
                for (int n = 0; n < N_IMAGES; n++)
                    memcpy(permuted + n * m->pixels, images + order[n] * m->pixels, (size_t)m->pixels * sizeof *images);
                const rvit_session_desc desc = desc_of(policy);
                rvit_session *session = open_session(open_model(m, types[t]), &desc);
                const int masked = policy == RVIT_PRUNE_MASK;
                const float *a = run_session(session, m, images, N_IMAGES, masked ? masks(m, in_order, N_IMAGES) : NULL);
                const float *b = run_session(session, m, permuted, N_IMAGES, masked ? masks(m, order, N_IMAGES) : NULL);
                for (int n = 0; n < N_IMAGES; n++)
                    assert_memory_equal(b + n * CLASSES, a + order[n] * CLASSES, CLASSES * sizeof(float));
                model_teardown(NULL);
            }
}

/* An image has the same bits in a batch of one if the capacities are equal. A smaller session gives the same results up to rounding. */
static void batch_of_one_equals_batch(void **state)
{
    (void)state;
    for (int i = 0; i < 2; i++)
        for (int t = 0; t < n_types(); t++)
            for (int policy = RVIT_PRUNE_NONE; policy <= LAST_POLICY; policy = next_policy(policy)) {
                if (leaves_out(i + 2 * t + policy, 4))
                    continue;
                const toy *m = toy_new(specs[i]);
                const float *images = toy_images(m, N_IMAGES, 2);
                const rvit_session_desc desc = desc_of(policy);
                rvit_session_desc single = desc;
                single.max_images = 1;
                rvit_model *model = open_model(m, types[t]);
                rvit_session *session = open_session(model, &desc), *small = open_session(model, &single);
                const int masked = policy == RVIT_PRUNE_MASK;
                const float *all = run_session(session, m, images, N_IMAGES, masked ? masks(m, in_order, N_IMAGES) : NULL);
                for (int32_t n = 0; n < N_IMAGES; n++) {
                    if (leaves_out(n + policy, 3))
                        continue;
                    const uint8_t *keep = masked ? masks(m, &n, 1) : NULL;
                    const float *one = run_session(session, m, images + n * m->pixels, 1, keep);
                    assert_memory_equal(one, all + n * CLASSES, CLASSES * sizeof(float));
                    const float *of_small = run_session(small, m, images + n * m->pixels, 1, keep);
                    if (policy == RVIT_PRUNE_NONE || masked) /* other policies may decide near-ties differently */
                        assert_true(largest_difference(of_small, all + n * CLASSES, CLASSES) < (t ? 4e-3 : 1e-5));
                }
                model_teardown(NULL);
            }
}

/* desc_of with parameters that keep all tokens. */
static rvit_session_desc all_kept(int policy)
{
    rvit_session_desc desc = desc_of(policy);
    if (desc.prune->keep >= 0.0)
        prune_in(&desc)->keep = 1.0;
    if (desc.prune->threshold >= 0.0)
        prune_in(&desc)->threshold = 0.0;
    if (desc.prune->mass >= 0.0)
        prune_in(&desc)->mass = 1.0;
    if (desc.prune->merges >= 0)
        prune_in(&desc)->merges = 0;
    return desc;
}

static void keeping_all_equals_none(void **state)
{
    (void)state;
    for (int i = 0; i < 2; i++)
        for (int t = 0; t < n_types(); t++) {
            const toy *m = toy_new(specs[i]);
            const float *images = toy_images(m, N_IMAGES, 3);
            rvit_model *model = open_model(m, types[t]);
            const rvit_session_desc none = desc_of(RVIT_PRUNE_NONE);
            const float *dense = run_session(open_session(model, &none), m, images, N_IMAGES, NULL);
            uint8_t *ones = scratch((size_t)(2 * N_IMAGES * m->tokens));
            memset(ones, 1, (size_t)(2 * N_IMAGES * m->tokens));
            for (int policy = RVIT_PRUNE_L2; policy <= LAST_POLICY; policy = next_policy(policy)) {
                if (policy == RVIT_PRUNE_ATS || leaves_out(i + 2 * t + policy, 4))
                    continue; /* ATS always drops the token with the lowest score */
                const rvit_session_desc desc = all_kept(policy);
                rvit_session *session = open_session(model, &desc);
                const float *kept = run_session(session, m, images, N_IMAGES, policy == RVIT_PRUNE_MASK ? ones : NULL);
                assert_memory_equal(kept, dense, N_IMAGES * CLASSES * sizeof(float));
                if (policy == RVIT_PRUNE_TOME)
                    assert_int_equal(session_n_stages(session), 0);
                else
                    assert_int_equal(session_cu_seqlens(session, session_n_stages(session) - 1)[N_IMAGES], N_IMAGES * m->tokens);
            }
            model_teardown(NULL);
        }
}

/* A run has the same bits again, whatever ran in between. */
static void runs_repeat(void **state)
{
    (void)state;
    const toy *m = toy_new(&spec);
    const rvit_session_desc desc = desc_of(RVIT_PRUNE_EVIT);
    rvit_session *session = open_session(open_model(m, RVIT_F32), &desc);
    const float *images = toy_images(m, N_IMAGES, 4), *others = toy_images(m, N_IMAGES, 5);
    const float *first = run_session(session, m, images, N_IMAGES, NULL);
    for (int32_t i = 0; i < 12; i++) {
        if (leaves_out(i, 2))
            continue;
        run_session(session, m, others, i % (N_IMAGES + 1), NULL);
        const float *again = run_session(session, m, images, N_IMAGES, NULL);
        assert_memory_equal(again, first, N_IMAGES * CLASSES * sizeof(float));
    }
}

/* A run is one dispatch, allocates nothing, and waits only in rvit_session_wait. */
static void runs_allocate_nothing(void **state)
{
    (void)state;
    for (int policy = RVIT_PRUNE_NONE; policy <= LAST_POLICY; policy = next_policy(policy)) {
        const toy *m = toy_new(&distilled);
        const rvit_session_desc desc = desc_of(policy);
        rvit_session *session = open_session(open_model(m, RVIT_F32), &desc);
        rvit_run_args args = RVIT_RUN_ARGS_INIT;
        args.n_images = N_IMAGES;
        args.input.data = toy_images(m, N_IMAGES, 6);
        args.keep = policy == RVIT_PRUNE_MASK ? masks(m, in_order, N_IMAGES) : NULL;
        float logits[N_IMAGES * CLASSES];
        expect_ok(rvit_session_run(session, &args, logits));
        for (int i = 0; i < 4; i++) {
            rvit_stats before = RVIT_STATS_INIT, enqueued = RVIT_STATS_INIT, after = RVIT_STATS_INIT;
            expect_ok(rvit_session_get_stats(session, &before));
            expect_ok(rvit_session_enqueue(session, &args));
            expect_ok(rvit_session_get_stats(session, &enqueued));
            expect_ok(rvit_session_wait(session));
            expect_ok(rvit_session_get_stats(session, &after));
            assert_int_equal(enqueued.synchronizations, before.synchronizations);
            assert_int_equal(enqueued.host_allocations, before.host_allocations);
            assert_int_equal(enqueued.device_allocations, before.device_allocations);
            assert_int_equal(enqueued.submits, before.submits + 1);
            assert_true(enqueued.launches > before.launches);
            assert_int_equal(after.synchronizations, before.synchronizations + 1);
            assert_int_equal(after.host_allocations, before.host_allocations);
            assert_int_equal(after.device_allocations, before.device_allocations);
            assert_int_equal(after.submits, before.submits + 1);
        }
        model_teardown(NULL);
    }
}

SUITE(session_properties_suite, MODEL_TEST(permuting_images_permutes_logits), MODEL_TEST(batch_of_one_equals_batch),
      MODEL_TEST(keeping_all_equals_none), MODEL_TEST(runs_repeat), MODEL_TEST(runs_allocate_nothing));

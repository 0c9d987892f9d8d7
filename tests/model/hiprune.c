/* Compares the policy hiprune with float64, in models with a CLS token and without. */
#include "model.h"

#include "core/plan/policy.h"
#include "reference/hiprune.h"
#include "tools/cli/session_results.h"

enum { N_IMAGES = 4, LAST = 3 }; /* the second to last block */

#define SIZES .dim = 128, .depth = 5, .mlp = 256, .patch_size = 8, .n_classes = 7, .stored = RVIT_F32
static const toy_spec cls = {SIZES, .image_size = 64, .seed = 101};
static const toy_spec map = {SIZES, .image_size = 64, .seed = 102, .no_cls = 1, .pool = TOY_MAP};
static const toy_spec mean = {SIZES, .image_size = 48, .seed = 103, .no_cls = 1, .pool = TOY_MEAN, .rotary = 1};
static const toy_spec registers = {SIZES, .image_size = 48, .seed = 104, .n_registers = 4, .rotary = 1};
static const toy_spec *const specs[] = {&cls, &map, &mean, &registers};
enum { N_SPECS = sizeof specs / sizeof specs[0] };

static const rvit_dtype types[] = {RVIT_F32, RVIT_F16, RVIT_BF16};
static const double tolerances[] = {1e-4, 6e-3, 8.4e-2}, margins[] = {1e-4, 1e-2, 8e-2}; /* the same as in forward.c */

typedef struct setting {
    double keep, alpha;
    int32_t block, object_block;
} setting;

static rvit_session_desc desc_of(const setting *s)
{
    rvit_session_desc desc = session_desc(N_IMAGES, RVIT_PRUNE_HIPRUNE, s->keep, &s->block, 1);
    prune_in(&desc)->alpha = s->alpha;
    prune_in(&desc)->object_block = s->object_block;
    return desc;
}

/* Computes the patches that float64 keeps, and returns the margin of the decision. */
static double choose(const toy *m, const setting *s, const float *image, const toy_stage *left, uint8_t *taken, double *logits)
{
    const int32_t n = m->tokens - m->n_prefix;
    int32_t *all = scratch((size_t)m->tokens * sizeof *all);
    for (int32_t t = 0; t < m->tokens; t++)
        all[t] = t;
    toy_stage stages[] = {{.block = s->object_block, .kept = all, .n_kept = m->tokens}, *left};
    const int same = s->object_block == s->block;
    toy_forward(m, image, stages + same, 2 - same, logits, NULL);
    const hiprune_problem p = {.n = n,
                               .columns = m->spec.image_size / m->spec.patch_size,
                               .keep = s->keep,
                               .alpha = s->alpha,
                               .object = stages[same].received + m->n_prefix,
                               .last = stages[1].received + m->n_prefix};
    uint8_t *anchors = scratch((size_t)n);
    memset(taken, 0, (size_t)n);
    return hiprune_plainly(&p, anchors, taken);
}

/* Returns the number of images with other decisions than float64, which is allowed only if the margin is small. */
static int check(const toy *m, int type, const setting *s)
{
    const int32_t n = m->tokens - m->n_prefix;
    const float *images = toy_images(m, N_IMAGES, 7);
    const rvit_session_desc desc = desc_of(s);
    rvit_session *session = open_session(open_model(m, types[type]), &desc);
    const float *logits = run_session(session, m, images, N_IMAGES, NULL);
    const int32_t *cu = session_cu_seqlens(session, 0);
    uint8_t *taken = scratch((size_t)n), *kept = scratch((size_t)n);
    int n_close = 0;
    for (int32_t i = 0; i < N_IMAGES; i++) {
        const toy_stage left = {.block = s->block, .kept = session_kept(session, 0, i), .n_kept = cu[i + 1] - cu[i]};
        double wanted[16];
        const double margin = choose(m, s, images + (int64_t)i * m->pixels, &left, taken, wanted);
        memset(kept, 0, (size_t)n);
        for (int32_t t = 0; t < left.n_kept; t++)
            if (t < m->n_prefix)
                assert_int_equal(left.kept[t], t);
            else
                kept[left.kept[t] - m->n_prefix] = 1;
        if (memcmp(kept, taken, (size_t)n) && margin > margins[type])
            fail_msg("model %d, %s, keep %g, alpha %g, image %d: the kept tokens differ from float64, with a margin of %g",
                     (int)m->spec.seed, rvit_enum_name(RVIT_ENUM_DTYPE, types[type]), s->keep, s->alpha, i, margin);
        n_close += memcmp(kept, taken, (size_t)n) != 0;
        for (int32_t c = 0; c < m->spec.n_classes; c++) {
            const double got = (double)logits[i * m->spec.n_classes + c];
            if (!(fabs(got - wanted[c]) <= tolerances[type]))
                fail_msg("model %d, %s: logit %d is %.9g, should be %.9g", (int)m->spec.seed, rvit_enum_name(RVIT_ENUM_DTYPE, types[type]),
                         c, got, wanted[c]);
        }
    }
    model_teardown(NULL);
    return n_close;
}

static void matches_float64(void **state)
{
    (void)state;
    /* One anchor; several; the most possible; none; the object block is the pruned block; an earlier block than the default. */
    static const setting settings[] = {{0.5, 0.1, LAST, 1}, {0.8, 0.5, LAST, 0},    {0.6, 1, LAST, 1},
                                       {0.5, 0, LAST, 2},   {0.4, 0.8, LAST, LAST}, {0.9, 0.4, 2, 1}};
    for (int t = 0; t < n_types(); t++) {
        int n = 0, n_close = 0;
        for (int i = 0; i < N_SPECS; i++)
            for (int k = 0; k < (int)(sizeof settings / sizeof settings[0]); k++) {
                if (leaves_out(i + t + k, 3))
                    continue;
                n_close += check(toy_new(specs[i]), t, &settings[k]);
                n += N_IMAGES;
            }
        print_message("%s: %d images, %d with a near-tie decided otherwise\n", rvit_enum_name(RVIT_ENUM_DTYPE, types[t]), n, n_close);
        assert_true(n_close * (t == 0 ? 20 : 2) <= n);
    }
}

static void defaults(void **state)
{
    (void)state;
    const toy *m = toy_new(&map);
    const float *images = toy_images(m, N_IMAGES, 8);
    rvit_model *model = open_model(m, RVIT_F32);
    const size_t size = (size_t)(N_IMAGES * m->spec.n_classes) * sizeof(float);
    static const setting values = {0.5, 0.1, LAST, 1}, others[] = {{0.5, 0, LAST, 1}, {0.5, 0.1, LAST, 0}};
    const rvit_session_desc plain = session_desc(N_IMAGES, RVIT_PRUNE_HIPRUNE, -1, NULL, 0), explicit = desc_of(&values);
    const float *wanted = run_session(open_session(model, &explicit), m, images, N_IMAGES, NULL);
    assert_memory_equal(run_session(open_session(model, &plain), m, images, N_IMAGES, NULL), wanted, size);
    for (int i = 0; i < 2; i++) {
        const rvit_session_desc other = desc_of(&others[i]);
        assert_memory_not_equal(run_session(open_session(model, &other), m, images, N_IMAGES, NULL), wanted, size);
    }
    /* If the stage is earlier than the default object block, the default follows it. */
    rvit_session_desc early = plain;
    prune_in(&early)->n_blocks = 1;
    (void)open_session(model, &early);
    assert_int_equal(session_n_stages(open_session(model, &early)), 1);
}

/* The number of anchors is rounded to nearest even, and limited to a fifth of the kept patches. */
static void counts(void **state)
{
    (void)state;
    static const struct {
        double keep, alpha;
        int32_t n, anchors;
    } cases[] = {{1, 0.1, 24, 0},   {1, 0.1, 25, 0},
                 {1, 0.1, 26, 1},   {1, 0.1, 75, 2},
                 {1, 0.1, 125, 2},  {1, 0.1, 175, 4},
                 {1, 1, 4, 0},      {1, 1, 8, 1},
                 {1, 1, 9, 1},      {1, 1, 10, 2},
                 {1, 0.9, 3, 0},    {0.5, 0.2, 50, 1},
                 {0.5, 0.2, 51, 1}, {192.5 / 576, 0.1, 576, 4},
                 {0, 1, 100, 0}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        rvit_prune_desc desc = RVIT_PRUNE_DESC_INIT;
        rvit_prune_schedule schedule;
        int32_t found[600];
        desc.type = RVIT_PRUNE_HIPRUNE;
        desc.keep = cases[i].keep;
        desc.alpha = cases[i].alpha;
        expect_ok(rvit_prune_resolve(&desc, 24, cases[i].n, &schedule));
        assert_int_equal(schedule.blocks[0], 22);
        assert_int_equal(schedule.object_block, 8);
        expect_ok(rvit_prune_anchor_counts(&schedule, cases[i].n, found));
        if (found[cases[i].n] != cases[i].anchors)
            fail_msg("keep %g, alpha %g: %d anchors for %d patches, expected %d", cases[i].keep, cases[i].alpha, found[cases[i].n],
                     cases[i].n, cases[i].anchors);
    }
}

static void object_blocks(void **state)
{
    (void)state;
    static const int32_t depths[][3] = {{2, 0, 0}, {3, 1, 0}, {4, 2, 1}, {12, 10, 4}, {24, 22, 8}, {27, 25, 9}, {32, 30, 11}, {40, 38, 14}};
    for (size_t i = 0; i < sizeof depths / sizeof depths[0]; i++) {
        rvit_prune_desc desc = RVIT_PRUNE_DESC_INIT;
        rvit_prune_schedule schedule;
        desc.type = RVIT_PRUNE_HIPRUNE;
        expect_ok(rvit_prune_resolve(&desc, depths[i][0], 576, &schedule));
        assert_int_equal(schedule.blocks[0], depths[i][1]);
        assert_int_equal(schedule.object_block, depths[i][2]);
        desc.alpha = 0;
        expect_ok(rvit_prune_resolve(&desc, depths[i][0], 576, &schedule));
        assert_int_equal(schedule.object_block, -1);
    }
}

static void bad_descs(void **state)
{
    (void)state;
    static const setting good = {0.5, 0.1, LAST, 1};
    rvit_model *model = open_model(toy_new(&map), RVIT_F32);
    rvit_session *session = NULL;
    rvit_session_desc desc = desc_of(&good);
    prune_in(&desc)->n_blocks = 2;
    prune_in(&desc)->blocks[1] = LAST + 1;
    expect_status(rvit_session_create(model, &desc, &session), RVIT_INVALID_ARGUMENT, "hiprune prunes in one block, n_blocks is 2");
    desc = desc_of(&good);
    prune_in(&desc)->object_block = LAST + 1;
    expect_status(rvit_session_create(model, &desc, &session), RVIT_INVALID_ARGUMENT, "object_block is 4, expected 0..3");
    static const double alphas[] = {1.0 + 0x1p-52, NAN, INFINITY};
    for (int i = 0; i < 3; i++) {
        desc = desc_of(&good);
        prune_in(&desc)->alpha = alphas[i];
        expect_status(rvit_session_create(model, &desc, &session), RVIT_INVALID_ARGUMENT, "alpha is");
    }
    desc = session_desc(N_IMAGES, RVIT_PRUNE_RECEIVED, -1, NULL, 0);
    prune_in(&desc)->alpha = 0;
    expect_status(rvit_session_create(model, &desc, &session), RVIT_INVALID_ARGUMENT, "alpha is given, but the policy received");
    prune_in(&desc)->alpha = -1;
    prune_in(&desc)->object_block = 0;
    expect_status(rvit_session_create(model, &desc, &session), RVIT_INVALID_ARGUMENT, "object_block is given, but the policy received");
    assert_null(session);
}

SUITE(hiprune_suite, MODEL_TEST(matches_float64), MODEL_TEST(defaults), MODEL_TEST(counts), MODEL_TEST(object_blocks),
      MODEL_TEST(bad_descs));

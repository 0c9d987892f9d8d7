/* Selections of published methods, known by hand: EViT with its fused token, ATS, and selection by cumulative mass. */
#include "select_run.h"

#include <math.h>

/* The rows of the first image that the running case must keep. */
static const uint8_t *wanted_keep;
static const float *wanted_fused; /* NULL: none */

static void expect_wanted(const select_case *c, side s, const selection *found, const float *scores, const float *fuse_x)
{
    (void)scores;
    const int32_t length = c->b.cu[1];
    int32_t n = 0, dropped = -1;
    for (int32_t i = 0; i < length; i++) {
        if (found->keep[i] != wanted_keep[i])
            fail_msg("row %d is %s (side %d)", i, found->keep[i] ? "kept" : "dropped", (int)s);
        n += wanted_keep[i];
        if (!wanted_keep[i] && dropped < 0)
            dropped = i;
    }
    assert_int_equal(found->cu[1], n + (wanted_fused != NULL));
    if (wanted_fused) {
        assert_int_equal(found->src_rows[n], dropped);
        for (int i = 0; i < c->fuse_dim; i++)
            assert_true(fuse_x[dropped * c->fuse_dim + i] == wanted_fused[i]);
    } else if (fuse_x)
        assert_memory_equal(fuse_x, c->fuse_x, (size_t)(c->b.live * c->fuse_dim) * 4);
}

static void expect_case(const select_case *c, const uint8_t *keep, const float *fused)
{
    wanted_keep = keep;
    wanted_fused = fused;
    select_check_and_observe(c, expect_wanted);
}

/* 5.7. The CLS row of two heads, row by row; the sum that is not divided by the weights; ties to the lower index. */
static void evit(void **state)
{
    (void)state;
    static const float probs[5][2] = {{.375f, .25f}, {.125f, .25f}, {.25f, .125f}, {.0625f, .25f}, {.1875f, .125f}};
    static const float x[5][4] = {{7, 7, 7, 7}, {1, 1, 0, 0}, {2, 0, 0, 0}, {0, 3, 0, 0}, {4, 4, 0, 0}};
    static const float half[] = {.625f, 1.09375f, 0, 0}, three_quarters[] = {.625f, .625f, 0, 0};
    static const struct {
        double keep;
        uint8_t wanted[5];
        const float *fused;
    } cases[] = {
        {.5, {1, 1, 1, 0, 0}, half}, {.75, {1, 1, 1, 1, 0}, three_quarters}, {1, {1, 1, 1, 1, 1}, NULL}, {.8, {1, 1, 1, 1, 1}, NULL}};
    static const int32_t wanted_counts[] = {2, 3, 4, 4}, length = 5;
    for (int fused = 0; fused < 2; fused++)
        for (int i = 0; i < 4; i++) {
            int32_t counts[6];
            expect_ok(rvit_count_table(RVIT_COUNT_CEIL, cases[i].keep, 1, 5, counts));
            assert_int_equal(counts[4], wanted_counts[i]);
            select_case c = {.mode = RVIT_SELECT_TOP_K, .score = RVIT_SCORE_CLS_ATTENTION, .n_prefix = 1, .n_heads = 2, .counts = counts};
            c.b = batch_of(&length, 1, 2);
            c.cls_probs = &probs[0][0];
            if (fused) {
                c.fuse_dim = 4;
                c.fuse_x = &x[0][0];
            }
            expect_case(&c, cases[i].wanted, fused ? cases[i].fused : NULL);
        }
}

/* The second stage scores the fused token as any other: here it is dropped and fused again. */
static void evit_two_stages(void **state)
{
    (void)state;
    static const float first_scores[] = {0, .5f, .25f, .125f, .125f}, second_scores[] = {0, .5f, .25f, .125f};
    static const float first[] = {9, 9, 9, 9, 1, 0, 0, 0, 0, 1, 0, 0, 0, 0, 8, 0, 0, 0, 0, 16}, first_fused[] = {0, 0, 1, 2};
    static const float second[] = {9, 9, 9, 9, 1, 0, 0, 0, 0, 1, 0, 0, 0, 0, 1, 2}, second_fused[] = {0, .25f, .125f, .25f};
    static const uint8_t first_keep[] = {1, 1, 1, 0, 0}, second_keep[] = {1, 1, 0, 0};
    static const int32_t first_length = 5, second_length = 4, first_counts[] = {0, 1, 1, 2, 2, 2}, second_counts[] = {0, 1, 1, 1, 1};
    select_case c = {.mode = RVIT_SELECT_TOP_K, .n_prefix = 1, .counts = first_counts, .scores = first_scores, .fuse_dim = 4};
    c.b = batch_of(&first_length, 1, 0);
    c.fuse_x = first;
    expect_case(&c, first_keep, first_fused);
    c.counts = second_counts;
    c.scores = second_scores;
    c.fuse_x = second;
    c.b = batch_of(&second_length, 1, 1);
    expect_case(&c, second_keep, second_fused);
}

#define ATS_MOST 6

typedef struct ats_vector {
    int32_t n, n_samples;
    float attention[ATS_MOST], norm[ATS_MOST];
    uint8_t keep[ATS_MOST + 1]; /* the CLS row first */
} ats_vector;

static const ats_vector ats_vectors[] = {
    {.n = 4, .n_samples = 4, .attention = {.1f, .2f, .3f, .4f}, .norm = {1, 1, 1, 1}, .keep = {1, 0, 1, 1, 1}},
    {.n = 4, .n_samples = 4, .attention = {.4f, .1f, .3f, .2f}, .norm = {1, 4, 1, 1}, .keep = {1, 1, 1, 1, 0}},
    {.n = 5, .n_samples = 3, .attention = {.02f, .02f, .02f, .02f, .92f}, .norm = {1, 1, 1, 1, 1}, .keep = {1, 0, 1, 0, 1, 1}},
    {.n = 5, .n_samples = 8, .attention = {.1f, .15f, .2f, .25f, .3f}, .norm = {1, 1, 1, 1, 1}, .keep = {1, 0, 1, 1, 1, 1}},
    {.n = 4, .n_samples = 4, .attention = {.25f, .25f, .25f, .25f}, .norm = {1, 1, 1, 1}, .keep = {1, 0, 1, 1, 1}},
    {.n = 2, .n_samples = 196, .attention = {.3f, .7f}, .norm = {1, 1}, .keep = {1, 0, 1}},
    {.n = 1, .n_samples = 196, .attention = {1}, .norm = {1}, .keep = {1, 1}},
};

/* 5.9, with the image alone and beside one of 6 patches. A value row has its norm in one element, of either of two heads. */
static void ats(void **state)
{
    (void)state;
    for (size_t v = 0; v < sizeof ats_vectors / sizeof ats_vectors[0]; v++)
        for (int given = 0; given < 2; given++)
            for (int beside = 0; beside < 2; beside++) {
                const ats_vector *a = &ats_vectors[v];
                const int32_t lengths[] = {1 + a->n, 7};
                select_case c = {.mode = RVIT_SELECT_SAMPLE, .n_prefix = 1, .n_samples = a->n_samples, .n_heads = 1, .dim = 8};
                c.score = given ? RVIT_SCORE_GIVEN : RVIT_SCORE_CLS_NORM;
                c.b = batch_of(lengths, 1 + beside, 2);
                float *probs = make_probs(c.b.live), *x = make_normal(c.b.live * 8, 1), *scores = make_probs(c.b.live);
                memset(x, 0, (size_t)(1 + a->n) * 32);
                for (int i = 0; i < a->n; i++) {
                    probs[1 + i] = a->attention[i];
                    x[(1 + i) * 8 + i] = a->norm[i];
                    scores[1 + i] = a->attention[i] * a->norm[i];
                }
                c.cls_probs = probs;
                c.x = x;
                c.scores = scores;
                expect_case(&c, a->keep, NULL);
            }
}

/* Several heads: the mean over heads selects as their sum does. The values of two heads of 4 have norms over all 8 elements. */
static void ats_heads(void **state)
{
    (void)state;
    static const float probs[5][2] = {{.9f, .9f}, {.15f, .05f}, {.05f, .35f}, {.3f, .3f}, {.5f, .3f}};
    static const float x[5][8] = {
        {0}, {.6f, 0, 0, 0, .8f, 0, 0, 0}, {1, 0, 0, 0, 0, 0, 0, 0}, {0, 0, 0, 0, 0, 0, 1, 0}, {0, .8f, 0, 0, 0, 0, 0, .6f}};
    static const int32_t length = 5;
    select_case c = {.mode = RVIT_SELECT_SAMPLE, .score = RVIT_SCORE_CLS_NORM, .n_prefix = 1, .n_samples = 4, .n_heads = 2, .dim = 8};
    c.b = batch_of(&length, 1, 0);
    c.cls_probs = &probs[0][0];
    c.x = &x[0][0];
    expect_case(&c, ats_vectors[0].keep, NULL);
}

/* 5.10. The patch that crosses the mass is dropped; the CLS row is no part of it. */
static void mass(void **state)
{
    (void)state;
    static const struct {
        int32_t length;
        float scores[5];
        uint8_t keep[5];
    } cases[] = {{5, {7, .5f, .3f, .15f, .05f}, {1, 1, 1, 0, 0}},
                 {4, {7, .95f, .03f, .02f, 0}, {1, 1, 0, 0}},
                 {4, {7, .45f, .45f, .1f, 0}, {1, 1, 1, 0}},
                 {4, {7, .1f, .45f, .45f, 0}, {1, 0, 1, 1}},
                 {4, {7, .02f, .03f, .95f, 0}, {1, 0, 0, 1}}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        select_case c = {.mode = RVIT_SELECT_MASS, .n_prefix = 1, .mass = 0.9, .scores = cases[i].scores};
        c.b = batch_of(&cases[i].length, 1, 1);
        expect_case(&c, cases[i].keep, NULL);
    }
}

SUITE(prune_vectors_suite, TEST(evit), TEST(evit_two_stages), TEST(ats), TEST(ats_heads), TEST(mass));

/* The fused token: one extra row, the sum of an image's dropped rows weighted by their scores. */
#include "select_run.h"

#include <math.h>

static void fuse_variants(void **state)
{
    (void)state;
    static const int32_t dims[] = {4, 36, 64, 192, 260};
    static const double keeps[] = {0, 0.3, 0.7, 0.97, 1};
    static const int32_t lengths[] = {0, 1, 2, 3, 63, 64, 65, 5, 130};
    for (int t = 0; t < N_STORED_TYPES; t++)
        for (size_t d = 0; d < sizeof dims / sizeof dims[0]; d++)
            for (size_t k = 0; k < sizeof keeps / sizeof keeps[0]; k++) {
                select_case c = {.mode = RVIT_SELECT_TOP_K, .n_prefix = 1 + (int32_t)d % 2, .prefix_competes = d == 3};
                c.b = batch_of(lengths, 9, (int64_t)d);
                c.fuse_dtype = stored_types[t];
                c.fuse_dim = dims[d];
                c.counts = count_table(keeps[k], c.b.max_len);
                c.scores = make_probs(c.b.live);
                c.fuse_x = make_normal(c.b.live * c.fuse_dim, 1);
                select_check(&c);
            }
}

static void fuse_lengths(void **state)
{
    (void)state;
    for (int t = 0; t < 2; t++)
        for (int given = 0; given < 2; given++) {
            select_case c = {.mode = RVIT_SELECT_TOP_K, .score = given ? RVIT_SCORE_GIVEN : RVIT_SCORE_CLS_ATTENTION, .n_prefix = 1};
            c.b = full_batch(3);
            c.n_heads = 3;
            c.fuse_dtype = stored_types[t];
            c.fuse_dim = 32;
            c.counts = count_table(0.6, c.b.max_len);
            c.scores = make_scores(c.b.live, NORMAL);
            c.cls_probs = make_probs(c.b.live * 3);
            c.fuse_x = make_normal(c.b.live * c.fuse_dim, 1);
            select_check(&c);
        }
    static const int32_t lengths[] = {1369, 0, 2050};
    select_case c = {.mode = RVIT_SELECT_TOP_K, .n_prefix = 2, .fuse_dim = 20};
    c.b = batch_of(lengths, 3, 1);
    c.counts = count_table(0.5, c.b.max_len);
    c.scores = make_probs(c.b.live);
    c.fuse_x = make_normal(c.b.live * c.fuse_dim, 1);
    select_check(&c);
}

/* A NaN in a row that stays, or that another image drops, does not reach the fused token; a NaN score does, and is reported. */
static void fuse_special_values(void **state)
{
    (void)state;
    static const int32_t lengths[] = {9, 9, 9};
    select_case c = {.mode = RVIT_SELECT_TOP_K, .n_prefix = 1, .fuse_dim = 8};
    c.b = batch_of(lengths, 3, 4);
    c.counts = count_table(0.5, 9);
    float *scores = scratch((size_t)c.b.live * 4), *x = make_normal(c.b.live * 8, 1);
    for (int32_t t = 0; t < c.b.live; t++)
        scores[t] = (float)(t % 9) * 0.125f;
    x[8 * 8 + 3] = NAN;      /* the best of image 0 stays */
    x[0] = x[9 * 8] = -NAN;  /* so does a prefix */
    scores[9] = NAN;         /* of a prefix */
    scores[2 * 9 + 7] = NAN; /* ranks lowest, is dropped */
    x[(2 * 9 + 1) * 8] = 1e30f;
    c.scores = scores;
    c.fuse_x = x;
    select_check(&c);
}

/* Many images, short ones. */
static void fuse_many_images(void **state)
{
    (void)state;
    int32_t lengths[1025];
    for (int i = 0; i < 1025; i++)
        lengths[i] = random_below(9);
    select_case c = {.mode = RVIT_SELECT_TOP_K, .n_prefix = 1, .fuse_dim = 8, .fuse_dtype = RVIT_F16};
    c.b = batch_of(lengths, 1025, 7);
    c.counts = count_table(0.5, c.b.max_len);
    c.scores = make_scores(c.b.live, COARSE);
    c.fuse_x = make_normal(c.b.live * c.fuse_dim, 1);
    select_check(&c);
}

SUITE(fuse_suite, TEST(fuse_variants), TEST(fuse_lengths), TEST(fuse_special_values), TEST(fuse_many_images));

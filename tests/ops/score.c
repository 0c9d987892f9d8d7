/* Scoring inside select. Scores have the same bits on every backend where prune.h fixes the order; other scores are within rounding, and
   the selection must follow from the scores of the backend. */
#include "select_run.h"

#include <math.h>

static batch some_images(int64_t padding_rows)
{
    static const int32_t lengths[] = {7, 0, 1, 33, 2, 24};
    return batch_of(lengths, 6, padding_rows);
}

static void l2_case(rvit_dtype dtype, int32_t dim, batch b, float magnitude, int64_t gap)
{
    select_case c = {.mode = RVIT_SELECT_TOP_K, .score = RVIT_SCORE_L2, .b = b, .n_prefix = 1, .prefix_competes = dim % 8 == 0};
    c.dtype = dtype;
    c.dim = dim;
    c.x_stride = gap ? dim + gap : 0;
    c.x_column = gap / 2;
    c.x = make_normal(b.live * dim, magnitude);
    c.counts = count_table(0.5, b.max_len);
    select_check(&c);
}

static void score_l2(void **state)
{
    (void)state;
    static const int32_t dims[] = {4, 8, 28, 32, 36, 64, 100, 192, 384, 768, 1000};
    for (int t = 0; t < N_STORED_TYPES; t++)
        for (size_t i = 0; i < sizeof dims / sizeof dims[0]; i++)
            l2_case(stored_types[t], dims[i], some_images((int64_t)(i % 2 * 5)), 1, i % 3 == 2 ? 8 : 0);
    for (int32_t n = 0; n < 3; n++)
        l2_case(RVIT_F32, 192, batch_of(&n, 1, 3), 1, 0);
    l2_case(RVIT_F32, 64, some_images(0), 1e-3f, 0);
    l2_case(RVIT_F32, 64, some_images(0), 1e10f, 0);
    l2_case(RVIT_F32, 12, full_batch(9), 1, 0);
    l2_case(RVIT_F16, 64, full_batch(0), 1, 0);
}

static void score_cls_attention(void **state)
{
    (void)state;
    static const int32_t heads[] = {1, 2, 3, 6, 7, 12, 16, 25};
    for (size_t h = 0; h < sizeof heads / sizeof heads[0]; h++)
        for (int mode = 0; mode < 5; mode++) {
            if (mode == RVIT_SELECT_MASK)
                continue;
            select_case c = {.mode = (rvit_select_mode)mode, .score = RVIT_SCORE_CLS_ATTENTION, .n_prefix = 1 + (int32_t)h % 2};
            c.b = h % 4 == 0 ? full_batch(4) : some_images(10);
            c.n_heads = heads[h];
            c.cls_probs = make_probs(c.b.live * c.n_heads);
            c.counts = count_table(0.7, c.b.max_len);
            c.threshold = 0.5f;
            c.n_samples = 20;
            c.mass = 0.6;
            select_check(&c);
        }
}

/* No anchors, few, and all; grids that are wider than an image, too. Rows of the prefix and of other images are no neighbours. */
static void score_near_anchors(void **state)
{
    (void)state;
    static const int32_t columns[] = {1, 2, 5, 7, 24, 1000, INT32_MAX - 1};
    for (size_t i = 0; i < sizeof columns / sizeof columns[0]; i++)
        for (int32_t share = 0; share < 4; share++)
            for (int32_t prefix = 0; prefix < 3; prefix++) {
                if (leaves_out((int)i + share + prefix, 3))
                    continue;
                select_case c = {.mode = RVIT_SELECT_TOP_K, .score = RVIT_SCORE_CLS_ATTENTION, .n_prefix = prefix, .n_heads = 2};
                c.b = (i + (size_t)prefix) % 3 == 0 ? full_batch(3) : some_images(6);
                c.prefix_competes = prefix == 2 && share % 2;
                c.cls_probs = make_probs(c.b.live * c.n_heads);
                uint8_t *anchors = scratch((size_t)c.b.live + 1);
                for (int64_t t = 0; t < c.b.live; t++)
                    anchors[t] = share == 3 || (share > 0 && random_below(share == 1 ? 20 : 4) == 0) ? (uint8_t)(1 + random_below(255)) : 0;
                c.anchors = anchors;
                c.anchor_columns = columns[i];
                c.counts = count_table(0.6, c.b.max_len);
                select_check(&c);
            }
}

/* The value part of a packed [rows, 3, heads, head_dim], and values that lie alone. */
static void score_cls_norm(void **state)
{
    (void)state;
    static const int32_t dims[] = {4, 32, 64, 100, 192, 768};
    static const rvit_select_mode modes[] = {RVIT_SELECT_SAMPLE, RVIT_SELECT_MASS, RVIT_SELECT_TOP_K};
    for (int t = 0; t < N_STORED_TYPES; t++)
        for (size_t i = 0; i < sizeof dims / sizeof dims[0]; i++)
            for (int packed = 0; packed < 2; packed++) {
                if (leaves_out(t + (int)i + packed, 2))
                    continue;
                select_case c = {.mode = modes[(i + (size_t)packed) % 3], .score = RVIT_SCORE_CLS_NORM, .n_prefix = 1};
                c.b = dims[i] == 64 ? full_batch(3) : some_images(5);
                c.dtype = stored_types[t];
                c.dim = dims[i];
                c.n_heads = 1 + (int32_t)i;
                if (packed) {
                    c.x_stride = 3 * c.dim;
                    c.x_column = 2 * c.dim;
                }
                c.x = make_normal(c.b.live * c.dim, 0.7f);
                c.cls_probs = make_probs(c.b.live * c.n_heads);
                c.counts = count_table(0.5, c.b.max_len);
                c.n_samples = 40;
                c.mass = 0.9;
                select_check(&c);
            }
}

static void score_predictor(void **state)
{
    (void)state;
    static const int32_t dims[] = {4, 8, 16, 48, 96, 192, 260};
    for (int t = 0; t < N_STORED_TYPES; t++)
        for (size_t i = 0; i < sizeof dims / sizeof dims[0]; i++)
            for (int gate = 0; gate < 2; gate++) {
                if (leaves_out(t + (int)i + gate, 2))
                    continue;
                select_case c = {.mode = gate ? RVIT_SELECT_THRESHOLD : RVIT_SELECT_TOP_K, .score = RVIT_SCORE_PREDICTOR, .n_prefix = 1};
                c.b = dims[i] == 48 ? full_batch(3) : some_images(5);
                c.dtype = stored_types[t];
                c.dim = dims[i];
                c.x = make_normal(c.b.live * c.dim, 1);
                c.weight = make_normal(2 * c.dim, 1 / sqrtf((float)c.dim));
                c.bias = make_normal(2, 1);
                c.counts = count_table(0.7, c.b.max_len);
                c.threshold = logf(0.5f);
                c.k_min = 1;
                select_check(&c);
            }
}

/* The larger of two far apart logits must not overflow, nor the smaller vanish into NaN. */
static void expect_far_apart(const select_case *c, side s, const selection *found, const float *scores, const float *fuse_x)
{
    (void)c, (void)s, (void)found, (void)fuse_x;
    assert_true(fabsf(scores[0]) < 1e-30f);
    assert_true(fabsf(scores[1] + 400) < 1e-3f);
    assert_true(fabsf(scores[2] + 0.69314718f) < 1e-6f);
}

static void predictor_of_large_logits(void **state)
{
    (void)state;
    static const float x[] = {200, -200, 0, 0, -200, 200, 0, 0, 1000, 1000, 0, 0}, weight[] = {1, 0, 0, 0, 0, 1, 0, 0}, bias[] = {0, 0};
    static const int32_t length = 3;
    select_case c = {.mode = RVIT_SELECT_TOP_K, .score = RVIT_SCORE_PREDICTOR, .dim = 4, .x = x, .weight = weight, .bias = bias};
    c.b = batch_of(&length, 1, 1);
    c.counts = count_table(0.3, 3);
    select_check_and_observe(&c, expect_far_apart);
}

static void score_position(void **state)
{
    (void)state;
    for (int kind = 0; kind < N_SCORE_KINDS; kind++)
        for (int threshold = 0; threshold < 2; threshold++) {
            select_case c = {.mode = threshold ? RVIT_SELECT_THRESHOLD : RVIT_SELECT_TOP_K, .score = RVIT_SCORE_POSITION};
            c.n_prefix = kind % 3;
            c.b = full_batch(7);
            c.max_len = c.b.max_len + kind;
            c.position_scores = make_scores(c.max_len, (score_kind)kind);
            c.counts = count_table(0.4, c.max_len);
            c.threshold = 0.5f;
            select_check(&c);
        }
}

/* A NaN or an infinity in a row marks that row and no other, and the image with the NaN is named, unless it stands in a prefix row that
   does not compete. */
static void score_special_values(void **state)
{
    (void)state;
    enum { DIM = 64, LENGTH = 6, IMAGES = 4 };
    static const int32_t lengths[IMAGES] = {LENGTH, LENGTH, LENGTH, LENGTH};
    for (int score = RVIT_SCORE_L2; score <= RVIT_SCORE_PREDICTOR; score++)
        for (int mode = 0; mode < 5; mode++)
            for (int row = 0; row < 2; row++) {
                if (mode == RVIT_SELECT_MASK || leaves_out(score + mode + row, 2))
                    continue;
                select_case c = {.mode = (rvit_select_mode)mode, .score = (rvit_score_type)score, .n_prefix = 1, .dim = DIM, .n_heads = 3};
                c.b = batch_of(lengths, IMAGES, 2);
                float *x = make_normal(c.b.live * DIM, 1), *probs = make_probs(c.b.live * 3);
                const int32_t at = 2 * LENGTH + row * 3;
                x[at * DIM + 40] = NAN;
                probs[at * 3 + 2] = NAN;
                if (score != RVIT_SCORE_PREDICTOR)
                    x[(LENGTH + 3) * DIM + 5] = INFINITY;
                c.x = x;
                c.cls_probs = probs;
                c.weight = make_normal(2 * DIM, 0.1f);
                c.bias = make_normal(2, 0.1f);
                c.counts = count_table(0.7, LENGTH);
                c.threshold = 0.5f;
                c.n_samples = 5;
                c.mass = 0.5;
                select_check(&c);
            }
}

/* Rows of zeros: the squared norm is 0, and so is what it multiplies. */
static void score_of_zeros(void **state)
{
    (void)state;
    enum { DIM = 64 };
    for (int score = RVIT_SCORE_L2; score <= RVIT_SCORE_CLS_NORM; score++)
        for (int mode = 0; mode < 5; mode++) {
            if (mode == RVIT_SELECT_MASK)
                continue;
            select_case c = {.mode = (rvit_select_mode)mode, .score = (rvit_score_type)score, .n_prefix = 1, .dim = DIM, .n_heads = 2};
            c.b = some_images(1);
            c.x = scratch((size_t)(c.b.live * DIM) * 4);
            c.cls_probs = scratch((size_t)(c.b.live * 2) * 4);
            c.counts = count_table(0.7, c.b.max_len);
            c.n_samples = 5;
            c.mass = 0.5;
            select_check(&c);
        }
}

/* Rows that belong together share the mean of their scores, and stay or go together. */
static void score_of_units(void **state)
{
    (void)state;
    static const int32_t lengths[] = {36, 0, 4, 1200, 8, 4, 256, 9};
    static const int32_t units[] = {4, 2, 3};
    for (int u = 0; u < 3; u++)
        for (int type = 0; type < N_STORED_TYPES; type++)
            for (int score = RVIT_SCORE_L2; score <= RVIT_SCORE_CLS_ATTENTION; score++)
                for (int mode = RVIT_SELECT_TOP_K; mode <= RVIT_SELECT_THRESHOLD; mode++) {
                    if (leaves_out(u + type + score + mode, 2))
                        continue;
                    select_case c = {.mode = (rvit_select_mode)mode, .score = (rvit_score_type)score, .unit = units[u], .n_heads = 3};
                    c.b = batch_of(lengths, 8 - (u < 2), 7 * u);
                    c.dtype = stored_types[type];
                    c.dim = 100;
                    c.x = make_normal(c.b.live * c.dim, 1);
                    c.cls_probs = make_probs(c.b.live * c.n_heads);
                    c.threshold = score == RVIT_SCORE_L2 ? 100 : 0.5f;
                    c.k_min = units[u];
                    int32_t *counts = scratch(((size_t)c.b.max_len + 1) * sizeof *counts);
                    for (int32_t n = 0; n <= c.b.max_len; n++)
                        counts[n] = units[u] * (int32_t)(0.6 * (n / units[u]));
                    c.counts = counts;
                    select_check(&c);
                }
}

SUITE(score_suite, TEST(score_of_units), TEST(score_l2), TEST(score_cls_attention), TEST(score_near_anchors), TEST(score_cls_norm),
      TEST(score_predictor), TEST(predictor_of_large_logits), TEST(score_position), TEST(score_special_values), TEST(score_of_zeros));

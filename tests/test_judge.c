/* Tests the margins that verify reports for a different decision: the relative change of the scores that would give the reference's
 * decision.
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "tools/cli/verify_judge.h"

enum { MOST = 16 };

static struct judgement judge(const struct judge_rule *rule, int32_t len, const float *scores, const uint8_t *keep_a, const uint8_t *keep_b)
{
    struct judgement judgement = {0};
    struct judge_rank ranks[MOST];
    const struct judge_rows rows = {.len = len, .scores_a = scores, .scores_b = scores, .keep_a = keep_a, .keep_b = keep_b};
    judge_image(&judgement, rule, &rows, 0.01, ranks);
    return judgement;
}

static void expect_margin(const struct judgement *j, int64_t within, int64_t beyond, double margin)
{
    assert_int_equal(j->within, within);
    assert_int_equal(j->beyond, beyond);
    if (isinf(margin))
        assert_true(isinf(j->largest_margin));
    else if (fabs(j->largest_margin - margin) > 1e-6 * (1 + margin))
        fail_msg("the margin is %.9g, expected %.9g", j->largest_margin, margin);
}

/* Scores 1.0 0.5 | 0.499 0.2: only tokens 2 and 3 may swap. Row 0 is a prefix token, which is always kept. */
static void top_k(void **state)
{
    (void)state;
    const struct judge_rule rule = {.mode = RVIT_SELECT_TOP_K, .n_prefix = 1};
    static const float scores[] = {9, 1, 0.5f, 0.499f, 0.2f};
    static const uint8_t right[] = {1, 1, 1, 0, 0}, close[] = {1, 1, 0, 1, 0}, far[] = {1, 0, 1, 0, 1};
    struct judgement j = judge(&rule, 5, scores, right, right);
    assert_int_equal(j.decisions, 4);
    expect_margin(&j, 0, 0, 0);
    j = judge(&rule, 5, scores, close, right);
    expect_margin(&j, 2, 0, 0.002);
    j = judge(&rule, 5, scores, far, right);
    expect_margin(&j, 0, 2, 0.6); /* 0.2 would have to exceed 0.5 */
}

/* A prefix token takes one of the two places. */
static void top_k_with_prefix(void **state)
{
    (void)state;
    static const int32_t counts[] = {0, 1, 1, 2, 2};
    const struct judge_rule rule = {.mode = RVIT_SELECT_TOP_K, .n_prefix = 1, .prefix_competes = 1, .counts = counts};
    static const float scores[] = {9, 8, 7.99f, 1};
    static const uint8_t right[] = {1, 1, 0, 0}, close[] = {1, 1, 1, 0}, far[] = {1, 1, 0, 1};
    struct judgement j = judge(&rule, 4, scores, close, right);
    expect_margin(&j, 1, 0, 0.01 / 8);
    j = judge(&rule, 4, scores, far, right);
    expect_margin(&j, 0, 1, 7.0 / 8);
}

/* A score below min_scale counts as min_scale. If no row is above the threshold, k_min rows are kept. */
static void score_threshold(void **state)
{
    (void)state;
    const struct judge_rule rule = {.mode = RVIT_SELECT_THRESHOLD, .threshold = -0.1, .min_scale = 1, .k_min = 1};
    static const float scores[] = {-0.01f, -0.104f, -0.5f}, low[] = {-0.4f, -0.402f, -3};
    static const uint8_t right[] = {1, 0, 0}, close[] = {1, 1, 0}, far[] = {1, 0, 1}, other[] = {0, 1, 0};
    struct judgement j = judge(&rule, 3, scores, close, right);
    expect_margin(&j, 1, 0, 0.004);
    j = judge(&rule, 3, scores, far, right);
    expect_margin(&j, 0, 1, 0.4);
    j = judge(&rule, 3, low, other, right);
    expect_margin(&j, 2, 0, 0.002);
}

/* The first two scores sum to 0.701 of 1, slightly above 0.7. */
static void cumulative_mass(void **state)
{
    (void)state;
    const struct judge_rule rule = {.mode = RVIT_SELECT_MASS, .mass = 0.7};
    static const float scores[] = {0.5f, 0.201f, 0.16f, 0.139f};
    static const uint8_t right[] = {1, 0, 0, 0}, close[] = {1, 1, 0, 0}, far[] = {1, 1, 1, 0};
    struct judgement j = judge(&rule, 4, scores, close, right);
    expect_margin(&j, 1, 0, 0.001 / 0.701);
    j = judge(&rule, 4, scores, far, right);
    expect_margin(&j, 1, 1, 0.161 / 0.861);
}

/* Ranks at 0, 0.2, 0.498, 1, samples at 0.2, 0.6, 1: rank 2 is 0.298 away from another choice, and rank 0 is far from being the nearest.
   With samples only at 0.2 and 1, rank 2 is 0.298 away from being chosen. Neighbours with equal scores may swap. */
static void samples(void **state)
{
    (void)state;
    struct judge_rule rule = {.mode = RVIT_SELECT_SAMPLE, .n_samples = 3};
    static const float scores[] = {0.1f, 0.2f, 0.298f, 0.502f};
    static const uint8_t right[] = {0, 1, 1, 1}, other[] = {0, 1, 0, 1};
    struct judgement j = judge(&rule, 4, scores, other, right);
    expect_margin(&j, 0, 1, fmin(0.4 - 0.102, (0.298 - 0.1) / 0.298));
    /* A sample at 0.6, midway between ranks at 0.2001 and 1, chooses the first. */
    static const float even[] = {0.1f, 0.2f, 0.4f, 0.4004f};
    static const uint8_t of_even[] = {0, 1, 1, 1}, not_even[] = {0, 1, 0, 1};
    j = judge(&rule, 4, even, not_even, of_even);
    assert_true(j.beyond == 1);
    rule.n_samples = 2;
    static const float near_midway[] = {0.1f, 0.001f, 0.4995f, 0.4995f};
    static const uint8_t ends[] = {0, 1, 0, 1}, swapped[] = {0, 1, 1, 0};
    j = judge(&rule, 4, near_midway, swapped, ends);
    expect_margin(&j, 2, 0, 0); /* two ranks with equal scores */
}

/* Even rows are merged into the nearest odd row: row 2 into row 1 (cosine 1); row 4 differs slightly or greatly. */
static void merges(void **state)
{
    (void)state;
    const struct judge_rule rule = {.n_prefix = 1, .merges = 1, .min_scale = 1};
    struct judge_rank ranks[MOST];
    const float near_one[] = {0, 0, 1, 0, 1, 0, 0, 1, 0.999f, 0.0447f};
    const float far_one[] = {0, 0, 1, 0, 1, 0, 0, 1, 0.6f, 0.8f};
    static const uint8_t right[] = {1, 1, 0, 1, 1}, other[] = {1, 1, 1, 1, 0};
    struct judge_rows rows = {.len = 5, .metric_a = near_one, .metric_b = near_one, .dim = 2, .keep_a = other, .keep_b = right};
    struct judgement j = {0};
    judge_image(&j, &rule, &rows, 0.01, ranks);
    assert_int_equal(j.decisions, 2);
    expect_margin(&j, 2, 0, 0.001);
    rows.metric_a = rows.metric_b = far_one;
    j = (struct judgement){0};
    judge_image(&j, &rule, &rows, 0.01, ranks);
    expect_margin(&j, 0, 2, 0.2);
    /* The same row is merged into another one. */
    const float into_other[] = {0, 0, 0, 1, 1, 0, 1, 0, 0.6f, 0.8f};
    rows.metric_a = into_other;
    rows.keep_a = right;
    j = (struct judgement){0};
    judge_image(&j, &rule, &rows, 0.01, ranks);
    expect_margin(&j, 0, 1, 1);
    rows.same = true;
    j = (struct judgement){0};
    judge_image(&j, &rule, &rows, 0.01, ranks);
    expect_margin(&j, 0, 0, 0);
}

static void score_errors(void **state)
{
    (void)state;
    const struct judge_rule rule = {.mode = RVIT_SELECT_TOP_K, .n_prefix = 1};
    static const float a[] = {5, 1, 2}, b[] = {1, 1, 1.96f};
    static const uint8_t keep[] = {1, 0, 1};
    struct judgement j = {0};
    struct judge_rank ranks[MOST];
    const struct judge_rows rows = {.len = 3, .scores_a = a, .scores_b = b, .keep_a = keep, .keep_b = keep};
    judge_image(&j, &rule, &rows, 0.01, ranks);
    assert_int_equal(j.n_scores, 2);
    assert_true(fabs(j.largest_error - 0.02) < 1e-6 && fabs(j.squares - 0.0004) < 1e-7);
}

/* Less precise types have larger tolerances. */
static void tolerances(void **state)
{
    (void)state;
    for (int precision = RVIT_PRECISION_F16; precision <= RVIT_PRECISION_FP8; precision++)
        for (int kind = JUDGE_ATTENTION; kind <= JUDGE_PREDICTOR; kind++)
            assert_true(judge_tolerance((enum judge_kind)kind, (rvit_precision)(precision - 1)) <
                        judge_tolerance((enum judge_kind)kind, (rvit_precision)precision));
    assert_true(judge_tolerance(JUDGE_SUMS, RVIT_PRECISION_F16) < judge_tolerance(JUDGE_ATTENTION, RVIT_PRECISION_F16));
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(top_k),           cmocka_unit_test(top_k_with_prefix),
                                       cmocka_unit_test(score_threshold), cmocka_unit_test(cumulative_mass),
                                       cmocka_unit_test(samples),         cmocka_unit_test(merges),
                                       cmocka_unit_test(score_errors),    cmocka_unit_test(tolerances)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}

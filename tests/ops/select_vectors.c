/* Selections known by hand, and the host's own layout functions. */
#include "select_run.h"

#include <math.h>

static uint32_t expected_mask;

static void expect_mask(const select_case *c, side s, const selection *found, const float *scores, const float *fuse_x)
{
    (void)s, (void)scores, (void)fuse_x;
    for (int32_t i = 0; i < c->b.cu[1]; i++)
        assert_int_equal(found->keep[i], expected_mask >> i & 1);
}

/* One image without a prefix: the k best of n scores. */
static void expect_top_k(const float *scores, int32_t n, int32_t k, uint32_t wanted)
{
    select_case c = {.mode = RVIT_SELECT_TOP_K};
    c.b = batch_of(&n, 1, 1);
    int32_t *counts = scratch((size_t)(n + 1) * 4);
    counts[n] = k;
    c.counts = counts;
    c.scores = scores;
    const selection r = select_wanted(&c, NULL);
    for (int32_t i = 0; i < n; i++)
        assert_int_equal(r.keep[i], wanted >> i & 1);
    select_check(&c);
}

/* S1 to S5 and S9. */
static void hand_made_selections(void **state)
{
    (void)state;
    static const float s1[] = {1, 3, 3, 2}, s2[] = {5, 5, 5, 5, 5}, s3[] = {-0.0f, 0.0f}, s4[] = {INFINITY, 1, -INFINITY};
    expect_top_k(s1, 4, 2, 0x6);
    expect_top_k(s1, 4, 1, 0x2);
    expect_top_k(s1, 4, 3, 0xe);
    expect_top_k(s2, 5, 2, 0x3);
    expect_top_k(s3, 2, 1, 0x1);
    expect_top_k(s4, 3, 2, 0x3);
    const float s5[] = {NAN, 1, -INFINITY, 2}, s9[] = {1, 1 + 0x1p-23f};
    expect_top_k(s5, 4, 3, 0xe);
    expect_top_k(s9, 2, 1, 0x2);
}

/* S8: the CLS token competes for k = 2 places and is kept whether it wins one or not. */
static void paper_mode(void **state)
{
    (void)state;
    static const float loses[] = {1, 25, 9, 16}, wins[] = {81, 25, 9, 16};
    static const int32_t length = 4;
    int32_t counts[5];
    expect_ok(rvit_count_table(RVIT_COUNT_FLOOR, 0.5, 1, 4, counts));
    assert_int_equal(counts[4], 2);
    const float *const scores[] = {loses, wins};
    static const uint32_t wanted[] = {0xb, 0x3};
    for (int i = 0; i < 2; i++) {
        select_case c = {.mode = RVIT_SELECT_TOP_K, .n_prefix = 1, .prefix_competes = 1, .counts = counts, .scores = scores[i]};
        c.b = batch_of(&length, 1, 0);
        const selection r = select_wanted(&c, NULL);
        for (int j = 0; j < 4; j++)
            assert_int_equal(r.keep[j], wanted[i] >> j & 1);
        select_check(&c);
    }
}

/* S8 again, with the norms taken from rows. S9: squared norms 1 and 1 + 2^-23 differ, their roots do not. */
static void paper_mode_of_rows(void **state)
{
    (void)state;
    static const float loses[] = {0, 1, 0, 0, 5, 0, 0, 0, 0, 0, 3, 0, 0, 0, 0, 4},
                       wins[] = {0, 9, 0, 0, 5, 0, 0, 0, 0, 0, 3, 0, 0, 0, 0, 4};
    static const float nearly[] = {1, 0, 0, 0, 1, 0x1.6a09e6p-12f, 0, 0};
    static const float *const rows[] = {loses, wins, nearly};
    static const uint32_t wanted[] = {0xb, 0x3, 0x2};
    static const int32_t lengths[] = {4, 4, 2};
    static const int32_t two_of_four[] = {0, 1, 1, 1, 2}, one[] = {0, 1, 1};
    for (int i = 0; i < 3; i++) {
        select_case c = {.mode = RVIT_SELECT_TOP_K, .score = RVIT_SCORE_L2, .n_prefix = i < 2, .prefix_competes = i < 2, .dim = 4};
        c.b = batch_of(&lengths[i], 1, 1);
        c.counts = i < 2 ? two_of_four : one;
        c.x = rows[i];
        expected_mask = wanted[i];
        select_check_and_observe(&c, expect_mask);
    }
    assert_true(sqrtf(1 + 0x1p-23f) == 1);
}

static int32_t count_of(rvit_count_rule rule, double keep, int32_t n)
{
    int32_t *counts = scratch((size_t)(n + 1) * 4);
    expect_ok(rvit_count_table(rule, keep, 0, n, counts));
    return counts[n];
}

/* S6 and S7: the doubles as written, with their surprises. */
static void count_rules(void **state)
{
    (void)state;
    assert_int_equal(count_of(RVIT_COUNT_CEIL, 0.07, 100), 8);
    assert_int_equal(count_of(RVIT_COUNT_CEIL, 0.55, 100), 56);
    assert_int_equal(count_of(RVIT_COUNT_CEIL, 0.28, 25), 8);
    assert_int_equal(count_of(RVIT_COUNT_CEIL, 0.7, 196), 138);
    assert_int_equal(count_of(RVIT_COUNT_CEIL, 0.7, 138), 97);
    assert_int_equal(count_of(RVIT_COUNT_CEIL, 0.7, 97), 68);
    assert_int_equal(count_of(RVIT_COUNT_CEIL, 0.5, 98), 49);
    assert_int_equal(count_of(RVIT_COUNT_CEIL, 0.5, 49), 25);
    /* EViT with the fused token, which later stages count; at 384 pixels; and for what is left of 196. */
    assert_int_equal(count_of(RVIT_COUNT_CEIL, 0.7, 139), 98);
    assert_int_equal(count_of(RVIT_COUNT_CEIL, 0.7, 99), 70);
    assert_int_equal(count_of(RVIT_COUNT_CEIL, 0.5, 196), 98);
    assert_int_equal(count_of(RVIT_COUNT_CEIL, 0.5, 99), 50);
    assert_int_equal(count_of(RVIT_COUNT_CEIL, 0.5, 51), 26);
    assert_int_equal(count_of(RVIT_COUNT_CEIL, 0.7, 576), 404);
    assert_int_equal(count_of(RVIT_COUNT_CEIL, 0.7, 405), 284);
    assert_int_equal(count_of(RVIT_COUNT_CEIL, 0.7, 285), 200);
    /* DynamicViT: powers of 0.7 of the unpruned image. */
    static const int32_t of_196[] = {137, 96, 67}, of_576[] = {403, 282, 197};
    for (int i = 0; i < 3; i++) {
        assert_int_equal(count_of(RVIT_COUNT_FLOOR, pow(0.7, i + 1), 196), of_196[i]);
        assert_int_equal(count_of(RVIT_COUNT_FLOOR, pow(0.7, i + 1), 576), of_576[i]);
    }
    assert_int_equal(count_of(RVIT_COUNT_FLOOR, 0.5, 196), 98);
    assert_int_equal(count_of(RVIT_COUNT_FLOOR, 0, 197), 0);
    static const double keeps[] = {0.9, 0.8, 0.75, 0.7, 0.6, 0.5, 0.4, 0.3, 0.25, 0.2, 0.1};
    static const int32_t wanted[] = {177, 157, 147, 137, 118, 98, 78, 59, 49, 39, 19};
    for (size_t i = 0; i < sizeof keeps / sizeof keeps[0]; i++)
        assert_int_equal(count_of(RVIT_COUNT_FLOOR, keeps[i], 197), wanted[i]);
    int32_t counts[6];
    expect_ok(rvit_count_table(RVIT_COUNT_FLOOR, 0, 1, 5, counts));
    static const int32_t least_one[] = {0, 1, 1, 1, 1, 1};
    assert_memory_equal(counts, least_one, sizeof counts);
    expect_ok(rvit_count_table(RVIT_COUNT_CEIL, 1, 3, 5, counts));
    for (int n = 0; n <= 5; n++)
        assert_int_equal(counts[n], n);
    expect_status(rvit_count_table(RVIT_COUNT_CEIL, 1.0000001, 0, 5, counts), RVIT_INVALID_ARGUMENT, "keep");
    expect_status(rvit_count_table(RVIT_COUNT_CEIL, -1e-9, 0, 5, counts), RVIT_INVALID_ARGUMENT, "keep");
    expect_status(rvit_count_table(RVIT_COUNT_CEIL, NAN, 0, 5, counts), RVIT_INVALID_ARGUMENT, "keep");
    expect_status(rvit_count_table(RVIT_COUNT_CEIL, 0.5, -1, 5, counts), RVIT_INVALID_ARGUMENT, "k_min");
    expect_status(rvit_count_table((rvit_count_rule)7, 0.5, 0, 5, counts), RVIT_INVALID_ARGUMENT, "rule: 7 is not a valid count rule");
    expect_status(rvit_count_table(RVIT_COUNT_CEIL, 0.5, 0, -1, counts), RVIT_INVALID_ARGUMENT, "max_n");
    expect_status(rvit_count_table(RVIT_COUNT_CEIL, 0.5, 0, 5, NULL), RVIT_INVALID_ARGUMENT, "out_counts");
}

/* P1 to P5, on the host. */
static void layouts_from_masks(void **state)
{
    (void)state;
    static const uint8_t p1[] = {1, 0, 1, 1, 1, 200, 0, 0}, drops[] = {1, 0, 1, 1, 0, 1, 0, 0};
    int32_t cu[3], rows[8];
    expect_ok(rvit_layout_from_mask(p1, 2, 4, 1, cu, rows));
    static const int32_t cu_wanted[] = {0, 3, 5}, rows_wanted[] = {0, 2, 3, 4, 5};
    assert_memory_equal(cu, cu_wanted, sizeof cu);
    assert_memory_equal(rows, rows_wanted, sizeof rows_wanted);
    uint8_t ones[8];
    memset(ones, 1, 8);
    expect_ok(rvit_layout_from_mask(ones, 2, 4, 1, cu, rows));
    for (int i = 0; i < 8; i++)
        assert_int_equal(rows[i], i);
    assert_int_equal(cu[2], 8);
    static const uint8_t cls[] = {1, 0, 0, 0, 1, 0, 0, 0};
    expect_ok(rvit_layout_from_mask(cls, 2, 4, 1, cu, rows));
    assert_int_equal(cu[1], 1);
    assert_int_equal(cu[2], 2);
    assert_int_equal(rows[1], 4);
    expect_ok(rvit_layout_from_mask(ones, 0, 4, 1, cu, rows));
    assert_int_equal(cu[0], 0);
    memset(cu, SENTINEL, sizeof cu);
    memset(rows, SENTINEL, sizeof rows);
    expect_status(rvit_layout_from_mask(drops, 2, 4, 1, cu, rows), RVIT_INVALID_ARGUMENT, "1");
    for (size_t i = 0; i < sizeof cu + sizeof rows; i++)
        assert_int_equal(i < sizeof cu ? ((uint8_t *)cu)[i] : ((uint8_t *)rows)[i - sizeof cu], SENTINEL);
    expect_status(rvit_layout_from_mask(NULL, 2, 4, 1, cu, rows), RVIT_INVALID_ARGUMENT, "keep");
    expect_status(rvit_layout_from_mask(p1, -1, 4, 1, cu, rows), RVIT_INVALID_ARGUMENT, "n_images");
    expect_status(rvit_layout_from_mask(p1, 2, -4, 1, cu, rows), RVIT_INVALID_ARGUMENT, "tokens");
    expect_status(rvit_layout_from_mask(p1, 2, 4, -1, cu, rows), RVIT_INVALID_ARGUMENT, "n_prefix");
    expect_status(rvit_layout_from_mask(p1, 2, 4, 1, NULL, rows), RVIT_INVALID_ARGUMENT, "out_cu_seqlens");
    expect_status(rvit_layout_from_mask(p1, 2, 4, 1, cu, NULL), RVIT_INVALID_ARGUMENT, "out_src_rows");
    expect_status(rvit_layout_from_mask(p1, 1 << 20, 1 << 20, 1, cu, rows), RVIT_INVALID_ARGUMENT, NULL);
}

/* P6: a second stage works on the first one's packed rows; the masks compose. */
static void two_stages(void **state)
{
    (void)state;
    static const uint8_t first[] = {1, 0, 1, 1, 1, 1, 0, 0}, second[] = {1, 0, 1, 1, 1};
    static const int32_t lengths[] = {4, 4};
    select_case c = {.mode = RVIT_SELECT_MASK, .n_prefix = 1, .keep_in = first};
    c.b = batch_of(lengths, 2, 0);
    const selection one = select_wanted(&c, NULL);
    static const int32_t after_first[] = {3, 2};
    select_case d = {.mode = RVIT_SELECT_MASK, .n_prefix = 1, .keep_in = second};
    d.b = batch_of(after_first, 2, 3);
    const selection two = select_wanted(&d, NULL);
    static const int32_t cu_wanted[] = {0, 2, 4}, rows_wanted[] = {0, 3, 4, 5};
    assert_memory_equal(two.cu, cu_wanted, sizeof cu_wanted);
    for (int i = 0; i < 4; i++)
        assert_int_equal(one.src_rows[two.src_rows[i]], rows_wanted[i]);
    select_check(&c);
    d.keep_in = second;
    d.b = batch_of(after_first, 2, 3);
    select_check(&d);
}

SUITE(select_vectors_suite, TEST(hand_made_selections), TEST(paper_mode), TEST(paper_mode_of_rows), TEST(count_rules),
      TEST(layouts_from_masks), TEST(two_stages));

#include "good_ops.h"
/* Pairs of token merging. Where products are exact the pairs must be those of the rule, ties and all; elsewhere they must be as good as
   the best but for rounding, and of equal rows the first. */
#include "match_run.h"
#include "select_run.h"

#include <math.h>

/* Keys along one axis: a product of metrics is -1, 0 or 1. 0: a key of zeros. */
typedef struct axis_keys {
    int32_t *axis; /* [live]: +-(1 + axis), or 0 */
    float *k;
} axis_keys;

static axis_keys make_axis_keys(const match_case *c, int32_t n_axes)
{
    const axis_keys keys = {scratch((size_t)c->b.live * 4), scratch((size_t)(c->b.live * c->n_heads * c->head_dim) * 4)};
    for (int64_t t = 0; t < c->b.live; t++) {
        const int32_t axis = random_below(n_axes + 1);
        keys.axis[t] = random_below(4) ? axis : -axis;
        /* Over all heads, which add up to 4. */
        for (int32_t h = 0; axis && h < c->n_heads; h++)
            keys.k[(t * c->n_heads + h) * c->head_dim + axis - 1] = (keys.axis[t] > 0 ? 4.0f : -4.0f) / (float)c->n_heads;
    }
    return keys;
}

static const int32_t *judged_axes;

static int product(int32_t a, int32_t b)
{
    return a == 0 || b == 0 ? 0 : a == b ? 1 : a == -b ? -1 : 0;
}

static void judge_exactly(const match_case *c, side s, const match_result *found)
{
    for (int32_t image = 0; image < c->b.n_images; image++) {
        const int32_t begin = c->b.cu[image], length = c->b.cu[image + 1] - begin;
        const int32_t *axis = judged_axes + begin, *targets = match_targets(c, image, found);
        const int32_t room = length > c->n_prefix ? (length - c->n_prefix) / 2 : 0;
        int32_t left = c->merges < room ? c->merges : room;
        int32_t *best = scratch((size_t)length * 4), *value = scratch((size_t)length * 4), *wanted = scratch((size_t)length * 4);
        for (int32_t a = 0; a < length; a++) {
            wanted[a] = best[a] = -1;
            value[a] = -2;
            for (int32_t b = 1; a >= c->n_prefix && a % 2 == 0 && b < length; b += 2)
                if (b >= c->n_prefix && product(axis[a], axis[b]) > value[a]) {
                    value[a] = product(axis[a], axis[b]);
                    best[a] = b;
                }
        }
        for (int level = 1; level >= -1; level--)
            for (int32_t a = 0; a < length && left > 0; a++)
                if (value[a] == level) {
                    wanted[a] = best[a];
                    left--;
                }
        for (int32_t a = 0; a < length; a++)
            if (targets[a] != wanted[a])
                fail_msg("match: image %d of %d rows: row %d goes to %d, should be %d (side %d)", image, length, a, targets[a], wanted[a],
                         (int)s);
    }
}

static void exact_case(match_case c, int32_t n_axes)
{
    const axis_keys keys = make_axis_keys(&c, n_axes);
    judged_axes = keys.axis;
    c.k = keys.k;
    match_check(&c, judge_exactly);
}

static void match_ties(void **state)
{
    (void)state;
    static const int32_t merges[] = {0, 1, 8, 50, INT32_MAX - 1};
    for (int t = 0; t < N_STORED_TYPES; t++)
        for (size_t m = 0; m < sizeof merges / sizeof merges[0]; m++)
            for (int n_prefix = 0; n_prefix < 4; n_prefix++) {
                if (leaves_out(t + (int)m + n_prefix, 3))
                    continue;
                match_case c = {.dtype = stored_types[t], .n_prefix = n_prefix, .n_heads = 1 << m % 3, .head_dim = 8 << m % 2};
                c.b = full_batch((int64_t)m * 3);
                c.merges = merges[m];
                c.max_len = m == 2 ? c.b.max_len + 5 : 0;
                exact_case(c, m == 3 ? 1 : 7);
            }
}

static int same_row(const match_case *c, const match_result *found, int32_t a, int32_t b)
{
    return !memcmp(found->metric + (int64_t)a * c->head_dim, found->metric + (int64_t)b * c->head_dim, (size_t)c->head_dim * 4);
}

static double dot(const match_case *c, const match_result *found, int32_t a, int32_t b)
{
    const float *x = found->metric + (int64_t)a * c->head_dim, *y = found->metric + (int64_t)b * c->head_dim;
    double sum = 0;
    for (int32_t i = 0; i < c->head_dim; i++)
        sum += (double)x[i] * y[i];
    return sum;
}

#define DOT_TOLERANCE 2e-5 /* of float32 sums of at most 128 products whose magnitudes add up to at most 1 */

static void judge_within_rounding(const match_case *c, side s, const match_result *found)
{
    (void)s;
    for (int32_t image = 0; image < c->b.n_images; image++) {
        const int32_t begin = c->b.cu[image], length = c->b.cu[image + 1] - begin;
        const int32_t *targets = match_targets(c, image, found);
        double *best = scratch((size_t)length * sizeof *best), worst_merged = INFINITY, best_left = -INFINITY;
        int32_t last_merged = -1;
        for (int32_t a = c->n_prefix + c->n_prefix % 2; a < length; a += 2) {
            best[a] = -INFINITY;
            for (int32_t b = c->n_prefix + 1 - c->n_prefix % 2; b < length; b += 2)
                best[a] = fmax(best[a], dot(c, found, begin + a, begin + b));
            if (targets[a] < 0) {
                best_left = fmax(best_left, best[a]);
                continue;
            }
            last_merged = a;
            worst_merged = fmin(worst_merged, best[a]);
            if (dot(c, found, begin + a, begin + targets[a]) < best[a] - DOT_TOLERANCE)
                fail_msg("match: image %d: row %d goes to %d, product %.9g, the best is %.9g", image, a, targets[a],
                         dot(c, found, begin + a, begin + targets[a]), best[a]);
            for (int32_t b = c->n_prefix + 1 - c->n_prefix % 2; b < targets[a]; b += 2)
                if (same_row(c, found, begin + b, begin + targets[a]))
                    fail_msg("match: image %d: row %d goes to %d, which equals row %d before it", image, a, targets[a], b);
        }
        if (worst_merged < best_left - DOT_TOLERANCE)
            fail_msg("match: image %d of %d rows: a product of %.9g is merged, one of %.9g is not", image, length, worst_merged, best_left);
        for (int32_t a = c->n_prefix + c->n_prefix % 2; a < last_merged; a += 2)
            for (int32_t later = a + 2; targets[a] < 0 && later <= last_merged; later += 2)
                if (targets[later] >= 0 && same_row(c, found, begin + a, begin + later))
                    fail_msg("match: image %d: row %d is merged, and row %d before it, which equals it, is not", image, later, a);
    }
}

/* Rows are drawn from a few, so that equal ones abound, or are all different. */
static float *make_keys(const match_case *c, int32_t n_different)
{
    const int64_t width = (int64_t)c->n_heads * c->head_dim;
    float *few = make_normal((n_different ? n_different : c->b.live) * width, 1), *k = scratch((size_t)(c->b.live * width) * 4);
    for (int64_t t = 0; t < c->b.live; t++)
        memcpy(k + t * width, few + (n_different ? random_below(n_different) : t) * width, (size_t)width * 4);
    return k;
}

static void match_random(void **state)
{
    (void)state;
    static const int32_t shapes[][2] = {{3, 64}, {1, 8}, {6, 64}, {2, 24}, {12, 32}, {1, 128}};
    static const int32_t lengths[] = {17, 0, 1, 2, 3, 4, 40, 65, 198};
    for (int t = 0; t < N_STORED_TYPES; t++)
        for (size_t i = 0; i < sizeof shapes / sizeof shapes[0]; i++)
            for (int packed = 0; packed < 2; packed++) {
                if (leaves_out(t + (int)i + packed, 2))
                    continue;
                match_case c = {
                    .dtype = stored_types[t], .n_prefix = 1 + (int32_t)i % 2, .n_heads = shapes[i][0], .head_dim = shapes[i][1]};
                c.b = batch_of(lengths, 9, (int64_t)i);
                c.merges = packed ? 8 : 16;
                if (packed) {
                    c.k_stride = 3 * c.n_heads * c.head_dim;
                    c.k_column = c.n_heads * c.head_dim;
                }
                c.k = make_keys(&c, packed ? 20 : 0);
                match_check(&c, judge_within_rounding);
            }
}

static void match_lengths(void **state)
{
    (void)state;
    match_case c = {.n_prefix = 1, .n_heads = 2, .head_dim = 16, .merges = 8};
    c.b = full_batch(2);
    c.k = make_keys(&c, 0);
    match_check(&c, judge_within_rounding);
    /* So many rows go that an image is listed where one before it began. */
    static const int32_t lengths[] = {1369, 0, 1100, 577, 1025};
    match_case d = {.dtype = RVIT_F16, .n_prefix = 1, .n_heads = 3, .head_dim = 64, .merges = 400};
    d.b = batch_of(lengths, 5, 2);
    d.k = make_keys(&d, 0);
    match_check(&d, judge_within_rounding);
}

static void match_shapes(void **state)
{
    (void)state;
    static const int32_t none[3] = {0, 0, 0};
    for (int32_t n_images = 0; n_images < 4; n_images++) {
        const match_case c = {.b = batch_of(none, n_images, n_images), .n_prefix = 1, .n_heads = 1, .head_dim = 8, .merges = 3};
        exact_case(c, 3);
    }
    int32_t lengths[3000];
    for (int i = 0; i < 3000; i++)
        lengths[i] = random_below(9);
    const match_case c = {.b = batch_of(lengths, 3000, 7), .n_prefix = 1, .n_heads = 1, .head_dim = 8, .merges = 2};
    exact_case(c, 3);
}

/* What is NaN in one image is no matter of another; the image itself is still laid out, which match_check sees to. */
static void judge_images_without_nan(const match_case *c, side s, const match_result *found)
{
    for (int32_t image = 0; image < c->b.n_images; image += 2) {
        match_case alone = *c;
        int32_t cu[2] = {c->b.cu[image], c->b.cu[image + 1]};
        alone.b.n_images = 1;
        alone.b.cu = cu;
        match_result part = *found;
        part.cu += image;
        judge_within_rounding(&alone, s, &part);
    }
}

static void match_nan(void **state)
{
    (void)state;
    static const int32_t lengths[] = {30, 30, 30, 30, 30};
    match_case c = {.n_prefix = 1, .n_heads = 2, .head_dim = 32, .merges = 6};
    c.b = batch_of(lengths, 5, 2);
    float *k = make_keys(&c, 0);
    for (int i = 0; i < 12; i++)
        k[(30 + random_below(30)) * 64 + random_below(64)] = NAN;
    for (int i = 0; i < 30 * 64; i++)
        k[90 * 64 + i] = NAN;
    c.k = k;
    match_check(&c, judge_images_without_nan);
}

/* A call that works. */
void good_match(rvit_match_args *a)
{
    a->n_images = GOOD_IMAGES;
    a->max_len = GOOD_MAX_LEN;
    a->rows = GOOD_ROWS;
    a->n_prefix = 1;
    a->n_heads = 2;
    a->head_dim = 8;
    a->merges = 2;
    a->k_stride = GOOD_DIM + 8;
    a->k = good_input("k", ((GOOD_ROWS - 1) * (GOOD_DIM + 8) + GOOD_DIM) * 4);
    a->cu_seqlens = good_lengths();
    a->metric = good_output("metric", GOOD_ROWS * 8 * 4);
    a->keep = good_output("keep", GOOD_ROWS);
    a->out_cu_seqlens = good_output("out_cu_seqlens", (GOOD_IMAGES + 1) * 4);
    a->src_rows = good_output("src_rows", GOOD_ROWS * 4);
    a->next_rows = good_output("next_rows", GOOD_ROWS * 4);
}

SUITE(match_suite, TEST(match_ties), TEST(match_random), TEST(match_lengths), TEST(match_shapes), TEST(match_nan));

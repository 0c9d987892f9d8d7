#include "good_ops.h"
/* Pairs of token merging. Where the dot product is exact, the pairs must follow the rule, including ties. Elsewhere they must be as good as
   the best within rounding, and the first of equal rows must be chosen. */
#include "bipartite_match_run.h"
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

static int32_t unit_of(const match_case *c)
{
    return c->unit == 0 ? 1 : c->unit;
}

/* Of units, row by row. */
static int32_t unit_product(const int32_t *axis, int32_t a, int32_t b, int32_t unit)
{
    int32_t sum = 0;
    for (int32_t j = 0; j < unit; j++)
        sum += product(axis[a * unit + j], axis[b * unit + j]);
    return sum;
}

static void judge_exactly(const match_case *c, side s, const match_result *found)
{
    const int32_t unit = unit_of(c);
    for (int32_t image = 0; image < c->b.n_images; image++) {
        const int32_t n = match_units(c, image);
        const int32_t *axis = judged_axes + c->b.cu[image], *targets = match_targets(c, image, found);
        int32_t left = match_merges(c, image);
        int32_t *best = scratch((size_t)n * 4), *value = scratch((size_t)n * 4), *wanted = scratch((size_t)n * 4);
        for (int32_t a = 0; a < n; a++) {
            wanted[a] = best[a] = -1;
            value[a] = -unit - 1;
            for (int32_t b = 1; a % 2 == 0 && b < n; b += 2)
                if (match_allows(c, image, a, b) && unit_product(axis, a, b, unit) > value[a]) {
                    value[a] = unit_product(axis, a, b, unit);
                    best[a] = b;
                }
        }
        for (int32_t level = unit; level >= -unit; level--)
            for (int32_t a = 0; a < n && left > 0; a++)
                if (value[a] == level) {
                    wanted[a] = best[a];
                    left--;
                }
        for (int32_t a = 0; a < n; a++)
            if (targets[a] != wanted[a])
                fail_msg("match: image %d of %d units: unit %d goes to %d, should be %d (side %d)", image, n, a, targets[a], wanted[a],
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

static int same_unit(const match_case *c, int32_t image, const match_result *found, int32_t a, int32_t b)
{
    const int64_t width = (int64_t)unit_of(c) * c->head_dim, first = (int64_t)c->b.cu[image] * c->head_dim;
    return !memcmp(found->metric + first + a * width, found->metric + first + b * width, (size_t)width * 4);
}

static double dot(const match_case *c, int32_t image, const match_result *found, int32_t a, int32_t b)
{
    const int64_t width = (int64_t)unit_of(c) * c->head_dim, first = (int64_t)c->b.cu[image] * c->head_dim;
    const float *x = found->metric + first + a * width, *y = found->metric + first + b * width;
    double sum = 0;
    for (int64_t i = 0; i < width; i++)
        sum += (double)x[i] * y[i];
    return sum;
}

#define DOT_TOLERANCE 2e-5 /* a row, of float32 sums of at most 128 terms with magnitudes that add up to at most 1 */

static void judge_within_rounding(const match_case *c, side s, const match_result *found)
{
    (void)s;
    const double tolerance = unit_of(c) * DOT_TOLERANCE;
    for (int32_t image = 0; image < c->b.n_images; image++) {
        const int32_t n = match_units(c, image);
        const int32_t *targets = match_targets(c, image, found);
        double *best = scratch((size_t)n * sizeof *best), worst_merged = INFINITY, best_left = -INFINITY;
        int32_t last_merged = -1;
        for (int32_t a = 0; a < n; a += 2) {
            best[a] = -INFINITY;
            for (int32_t b = 1; b < n; b += 2)
                if (match_allows(c, image, a, b))
                    best[a] = fmax(best[a], dot(c, image, found, a, b));
            if (targets[a] < 0) {
                best_left = fmax(best_left, best[a]);
                continue;
            }
            last_merged = a;
            worst_merged = fmin(worst_merged, best[a]);
            if (dot(c, image, found, a, targets[a]) < best[a] - tolerance)
                fail_msg("match: image %d: unit %d goes to %d, product %.9g, the best is %.9g", image, a, targets[a],
                         dot(c, image, found, a, targets[a]), best[a]);
            for (int32_t b = 1; b < targets[a]; b += 2)
                if (match_allows(c, image, a, b) && same_unit(c, image, found, b, targets[a]))
                    fail_msg("match: image %d: unit %d goes to %d, which equals unit %d before it", image, a, targets[a], b);
        }
        if (worst_merged < best_left - tolerance)
            fail_msg("match: image %d of %d units: a product of %.9g is merged, one of %.9g is not", image, n, worst_merged, best_left);
        /* Equal units that choose the same partner have equal scores. */
        for (int32_t a = c->n_prefix + c->n_prefix % 2; c->windows == NULL && a < last_merged; a += 2)
            for (int32_t later = a + 2; targets[a] < 0 && later <= last_merged; later += 2)
                if (targets[later] >= 0 && same_unit(c, image, found, a, later))
                    fail_msg("match: image %d: unit %d is merged, and unit %d before it, which equals it, is not", image, later, a);
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

/* Windows of 0 to `most` units each, within images; what is behind the last row is empty. */
static const int32_t *make_windows(match_case *c, int32_t most)
{
    const int32_t unit = unit_of(c);
    int32_t *windows = scratch((size_t)(2 * c->b.live + c->b.n_images + 4) * 4), n = 0;
    for (int32_t image = 0; image < c->b.n_images; image++)
        for (int32_t at = c->b.cu[image]; at < c->b.cu[image + 1]; at += unit * random_below(most + 1))
            windows[n++] = at;
    for (int i = 0; i < 3; i++)
        windows[n + i] = (int32_t)c->b.live;
    c->n_windows = n + 2;
    return c->windows = windows;
}

/* Whole units, in windows or not, where the dot product is exact and where it is not. */
static void match_in_units(void **state)
{
    (void)state;
    static const int32_t lengths[] = {4, 64, 0, 16, 8, 12, 132, 1600, 36, 20};
    static const int32_t shapes[][2] = {{2, 16}, {1, 72}, {3, 80}, {1, 128}}, merges[] = {0, 2, 9, INT32_MAX - 1};
    for (int t = 0; t < N_STORED_TYPES; t++)
        for (int i = 0; i < 4; i++)
            for (int m = 0; m < 4; m++)
                for (int windows = 0; windows < 3; windows++)
                    for (int exact = 0; exact < 2; exact++) {
                        if (leaves_out(t + i + m + windows + exact, 5))
                            continue;
                        match_case c = {.dtype = stored_types[t], .n_heads = exact ? 1 << i % 3 : shapes[i][0], .head_dim = shapes[i][1]};
                        c.unit = i == 3 ? 3 : 4;
                        c.merges = merges[m];
                        c.b = batch_of(lengths, 10, i);
                        if (windows)
                            make_windows(&c, windows == 1 ? 2 : 16);
                        if (exact) {
                            exact_case(c, m == 1 ? 2 : 7);
                            continue;
                        }
                        c.k = make_keys(&c, m == 2 ? 5 : 0);
                        match_check(&c, judge_within_rounding);
                    }
}

/* Longer than shared memory holds, on any device. */
static void match_long_in_windows(void **state)
{
    (void)state;
    static const int32_t lengths[] = {16, 2400, 4, 1700};
    for (int windows = 0; windows < 2; windows++) {
        match_case c = {.dtype = RVIT_F16, .n_heads = 2, .head_dim = 32, .unit = 2, .merges = windows ? 400 : 250};
        c.b = batch_of(lengths, 4, 0);
        if (windows)
            make_windows(&c, 16);
        c.k = make_keys(&c, 0);
        match_check(&c, judge_within_rounding);
    }
}

/* Only the layout: match_check has checked the rest. */
static void judge_nothing(const match_case *c, side s, const match_result *found)
{
    (void)c;
    (void)s;
    (void)found;
}

/* A unit without a partner is never merged in place of one with NaN scores. */
static void match_nan_in_windows(void **state)
{
    (void)state;
    static const int32_t lengths[] = {20}, windows[] = {0, 4, 12, 20}; /* units 0 | 1, 2 | 3, 4 */
    float k[20 * 8];
    for (int i = 0; i < 20 * 8; i++)
        k[i] = i / 32 == 2 || i / 32 == 4 ? NAN : 1;
    match_case c = {.n_heads = 1, .head_dim = 8, .unit = 4, .merges = 5, .n_windows = 3, .windows = windows, .k = k};
    c.b = batch_of(lengths, 1, 0);
    match_check(&c, judge_nothing);
}

static void match_refuses(void **state)
{
    (void)state;
    rvit_bipartite_match_args good = RVIT_BIPARTITE_MATCH_ARGS_INIT;
    good_bipartite_match(&good);
    arrays_upload();
    if (!supported(DEVICE, "match", rvit_bipartite_match(H.stream[DEVICE], &good)))
        return;
#define REFUSED(word, ...)                                                                         \
    do {                                                                                           \
        rvit_bipartite_match_args args = good;                                                     \
        __VA_ARGS__;                                                                               \
        expect_status(rvit_bipartite_match(H.stream[DEVICE], &args), RVIT_INVALID_ARGUMENT, word); \
    } while (0)
    REFUSED("group_size", args.group_size = -1);
    REFUSED("group_size", args.group_size = 5);
    REFUSED("group_size is 2, but n_prefix is 1", args.n_prefix = 1);
    REFUSED("window_cu_seqlens is given, but group_size is 1", args.group_size = 1);
    REFUSED("n_windows", args.n_windows = -1);
    REFUSED("overlaps", args.next_rows = args.src_rows);
#undef REFUSED
}

/* A call that works. */
void good_bipartite_match(rvit_bipartite_match_args *a)
{
    static const int32_t windows[] = {0, 4, 10};
    a->n_images = GOOD_IMAGES;
    a->max_len = GOOD_MAX_LEN;
    a->rows = GOOD_ROWS;
    a->group_size = 2;
    a->n_windows = 2;
    a->n_heads = 2;
    a->head_dim = 8;
    a->merges = 2;
    a->window_cu_seqlens = good_ints("window_cu_seqlens", windows, 3);
    a->k_stride = GOOD_DIM + 8;
    a->k = good_input("k", ((GOOD_ROWS - 1) * (GOOD_DIM + 8) + GOOD_DIM) * 4);
    a->cu_seqlens = good_lengths();
    a->metric = good_output("metric", GOOD_ROWS * 8 * 4);
    a->keep = good_output("keep", GOOD_ROWS);
    a->out_cu_seqlens = good_output("out_cu_seqlens", (GOOD_IMAGES + 1) * 4);
    a->src_rows = good_output("src_rows", GOOD_ROWS * 4);
    a->next_rows = good_output("next_rows", GOOD_ROWS * 4);
}

SUITE(bipartite_match_suite, TEST(match_ties), TEST(match_random), TEST(match_lengths), TEST(match_shapes), TEST(match_nan),
      TEST(match_in_units), TEST(match_long_in_windows), TEST(match_nan_in_windows), TEST(match_refuses));

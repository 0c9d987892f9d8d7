/* Selections that sum scores: SAMPLE and MASS. */
#include "select_run.h"

#include <math.h>

typedef enum sum_kind {
    UNIFORM,
    WIDE,
    TIES,
    MANY_ZEROS,
    SUBNORMAL,
    SMALLEST_NORMAL,
    HUGE_VALUES,
    ALL_EQUAL,
    ONE_ONLY,
    FULL_MANTISSA,
    MIXED_SIZES,
    N_SUM_KINDS
} sum_kind;

static float uniform(void)
{
    return (float)((random_bits() >> 8) + 1) * 0x1p-24f;
}

static float make_score(sum_kind kind)
{
    switch (kind) {
    case UNIFORM:
        return uniform();
    case WIDE:
        return ldexpf(uniform(), -random_below(60));
    case TIES:
        return (float)(1 + random_below(3)) * 0.25f;
    case MANY_ZEROS:
        return random_below(3) ? random_below(2) ? 0.0f : -0.0f : uniform();
    case SUBNORMAL:
        return (float)random_below(1000) * 0x1p-149f;
    case SMALLEST_NORMAL:
        return ldexpf(uniform(), random_below(8) - 130);
    case HUGE_VALUES:
        return uniform() * 0x1.fffffep127f;
    case ALL_EQUAL:
        return 0.3f;
    case ONE_ONLY:
        return random_below(200) ? 0.0f : 1;
    case FULL_MANTISSA:
        return 0x1.fffffep-3f;
    case MIXED_SIZES:
        return ldexpf(uniform(), random_below(250) - 126);
    case N_SUM_KINDS:
        break;
    }
    return 0;
}

/* A kind for all images, or with N_SUM_KINDS each image its own. NaN stands in the prefix. */
static float *make_sum_scores(const batch *b, sum_kind kind, int32_t n_prefix)
{
    float *scores = scratch((size_t)b->live * 4);
    for (int32_t image = 0; image < b->n_images; image++)
        for (int32_t t = b->cu[image]; t < b->cu[image + 1]; t++)
            scores[t] = t < b->cu[image] + n_prefix ? NAN : make_score(kind == N_SUM_KINDS ? (sum_kind)(image % N_SUM_KINDS) : kind);
    return scores;
}

/* prefix_competes is for TOP_K alone. */
static void select_sample(void **state)
{
    (void)state;
    static const int32_t n_samples[] = {1, 2, 3, 7, 196, 197, 577};
    for (int kind = 0; kind <= N_SUM_KINDS; kind++)
        for (size_t k = 0; k < sizeof n_samples / sizeof n_samples[0]; k++) {
            if (leaves_out(kind + 2 * (int)k, 3)) /* twice, or else n_prefix were always 0 */
                continue;
            select_case c = {
                .mode = RVIT_SELECT_SAMPLE, .n_prefix = (int32_t)(kind + k) % 3, .prefix_competes = k % 2, .n_samples = n_samples[k]};
            c.b = full_batch((int64_t)k);
            c.scores = make_sum_scores(&c.b, (sum_kind)kind, c.n_prefix);
            select_check(&c);
        }
}

static void select_mass(void **state)
{
    (void)state;
    static const double masses[] = {0, 0x1p-33, 0x1p-32, 0.1, 0.5, 0.9, 0.95, 1 - 0x1p-32, 1 - 0x1p-33, 1};
    for (int kind = 0; kind <= N_SUM_KINDS; kind++)
        for (size_t k = 0; k < sizeof masses / sizeof masses[0]; k++) {
            if (leaves_out(kind + (int)k, 4))
                continue;
            select_case c = {.mode = RVIT_SELECT_MASS, .n_prefix = (int32_t)(kind + k) % 3, .prefix_competes = k % 2, .mass = masses[k]};
            c.b = full_batch((int64_t)k);
            c.scores = make_sum_scores(&c.b, (sum_kind)kind, c.n_prefix);
            select_check(&c);
        }
}

/* Scores that cannot be added up, in some images of a batch or in all: those keep their rows, the first is named, the others go on. */
static void scores_that_cannot_be_added(void **state)
{
    (void)state;
    static const float bad[] = {NAN, -NAN, INFINITY, -INFINITY, -1, -0x1p-149f};
    for (int round = 0; round < 48; round++) {
        if (leaves_out(round / 16, 3)) /* the first 16 have each kind of value in each mode */
            continue;
        select_case c = {.mode = round % 2 ? RVIT_SELECT_MASS : RVIT_SELECT_SAMPLE, .n_prefix = round % 3, .n_samples = 9, .mass = 0.5};
        c.b = full_batch(2);
        float *scores = make_sum_scores(&c.b, round % 4 < 2 ? UNIFORM : MANY_ZEROS, c.n_prefix);
        for (int i = 0; i < 1 + round % 5 * 12; i++) {
            const int32_t image = random_below(c.b.n_images), begin = c.b.cu[image], length = c.b.cu[image + 1] - begin;
            if (length > 0 && (i + round) % 7 < 6)
                scores[begin + random_below(length)] = bad[(i + round) % 7];
            for (int32_t t = 0; (i + round) % 7 == 6 && t < length; t++)
                scores[begin + t] = t % 2 ? 0.0f : -0.0f;
        }
        c.scores = scores;
        c.image_errors = round % 3 > 0;
        select_check(&c);
    }
}

/* None, one or two competing rows of every kind of value, image by image so that each one's error is seen. One alone stays, and only NaN
   is named. */
static void few_rows(void **state)
{
    (void)state;
    static const float values[] = {0, -0.0f, 1, -1, INFINITY, -INFINITY, NAN, 0x1p-149f, 0x1.fffffep127f};
    enum { N = sizeof values / sizeof values[0] };
    for (int mode = 0; mode < 2; mode++)
        for (int n = 0; n < 3; n++)
            for (int i = 0; i < (n == 0 ? 1 : n == 1 ? N : N * N); i++) {
                select_case c = {.mode = mode ? RVIT_SELECT_MASS : RVIT_SELECT_SAMPLE, .n_prefix = i % 2, .n_samples = 4, .mass = 0.7};
                const int32_t length = n + c.n_prefix;
                const float scores[3] = {c.n_prefix ? NAN : values[i % N], values[c.n_prefix ? i % N : i / N], values[i / N]};
                c.b = batch_of(&length, 1, 1);
                c.scores = scores;
                select_check(&c);
            }
}

static void long_images(void **state)
{
    (void)state;
    static const int32_t lengths[] = {1369, 4097, 0, 2048, 1, 3000};
    for (int mode = 0; mode < 2; mode++)
        for (int kind = 0; kind < N_SUM_KINDS; kind += 3) {
            if (leaves_out(mode + kind / 3, 2))
                continue;
            select_case c = {.mode = mode ? RVIT_SELECT_MASS : RVIT_SELECT_SAMPLE, .n_prefix = 1, .n_samples = 1000, .mass = 0.9};
            c.b = batch_of(lengths, 6, 3);
            c.scores = make_sum_scores(&c.b, (sum_kind)kind, 1);
            select_check(&c);
        }
}

/* The longest image and the most samples that there may be, of the largest significands: the sums come as near 2^64 as they can. */
static void the_largest_sums(void **state)
{
    (void)state;
    static const int32_t length = 65536;
    for (int kind = 0; kind < 3; kind++) {
        select_case c = {.mode = kind == 2 ? RVIT_SELECT_MASS : RVIT_SELECT_SAMPLE, .n_samples = 65536, .mass = 1 - 0x1p-32};
        c.b = batch_of(&length, 1, 0);
        c.scores = make_sum_scores(&c.b, kind == 1 ? UNIFORM : FULL_MANTISSA, 0);
        select_check(&c);
    }
}

SUITE(sample_suite, TEST(select_sample), TEST(select_mass), TEST(scores_that_cannot_be_added), TEST(few_rows), TEST(long_images),
      TEST(the_largest_sums));

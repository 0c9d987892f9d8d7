#include "good_ops.h"
#include "select_run.h"

#include <math.h>

static void select_top_k(void **state)
{
    (void)state;
    static const double keeps[] = {0, 0.2, 0.5, 0.7, 1};
    for (int kind = 0; kind < N_SCORE_KINDS; kind++)
        for (int competes = 0; competes < 2; competes++)
            for (int k = 0; k < 5; k++) {
                if (leaves_out(kind + competes + k, 2))
                    continue;
                select_case c = {.mode = RVIT_SELECT_TOP_K, .n_prefix = (kind + k) % 3, .prefix_competes = competes};
                c.b = full_batch(k * 3);
                c.counts = count_table(keeps[k], c.b.max_len);
                c.scores = make_scores(c.b.live, (score_kind)kind);
                select_check(&c);
            }
}

/* Counts out of 0..n are clamped, and the table is free in form. */
static void select_free_counts(void **state)
{
    (void)state;
    for (int competes = 0; competes < 2; competes++) {
        select_case c = {.mode = RVIT_SELECT_TOP_K, .n_prefix = 1, .prefix_competes = competes};
        c.b = full_batch(1);
        int32_t *counts = scratch((size_t)(c.b.max_len + 1) * 4);
        for (int32_t n = 0; n <= c.b.max_len; n++)
            counts[n] = n % 7 == 0 ? -5 : n % 7 == 1 ? INT32_MAX : n % 7 == 2 ? INT32_MIN : random_below(n + 3);
        c.counts = counts;
        c.scores = make_scores(c.b.live, COARSE);
        select_check(&c);
    }
}

/* Subnormal scores and thresholds included: the comparison is one of bits, so a device that flushes them must not differ. */
static void select_threshold(void **state)
{
    (void)state;
    static const float thresholds[] = {0, -0.0f, 0.5f, 2, 1.5f, -INFINITY, INFINITY, 1e-45f};
    for (int kind = 0; kind < N_SCORE_KINDS; kind++)
        for (size_t t = 0; t < sizeof thresholds / sizeof thresholds[0]; t++) {
            if (leaves_out(kind + (int)t, 2))
                continue;
            select_case c = {.mode = RVIT_SELECT_THRESHOLD, .n_prefix = kind % 3, .threshold = thresholds[t]};
            c.b = full_batch(kind);
            c.scores = make_scores(c.b.live, (score_kind)kind);
            select_check(&c);
        }
}

static void select_mask(void **state)
{
    (void)state;
    for (int round = 0; round < 12; round++) {
        select_case c = {.mode = RVIT_SELECT_MASK, .n_prefix = round % 3, .image_errors = round % 4 > 0};
        c.b = full_batch(round % 5);
        uint8_t *keep = scratch((size_t)c.b.live);
        for (int64_t i = 0; i < c.b.live; i++)
            keep[i] = (uint8_t)(round == 0 ? 1 : round == 1 ? 0 : random_below(3) ? 0 : 1 + random_below(255));
        /* From round 6 on the prefix is given as it must be. */
        for (int32_t image = 0; round >= 6 && image < c.b.n_images; image++)
            for (int32_t i = c.b.cu[image]; i < c.b.cu[image + 1] && i < c.b.cu[image] + c.n_prefix; i++)
                keep[i] = 255;
        c.keep_in = keep;
        select_check(&c);
    }
}

/* NaN ranks lowest, is kept by no threshold, and the first image that has one is reported. In a prefix row that does not compete it is no
   score at all. */
static void select_nan(void **state)
{
    (void)state;
    for (int round = 0; round < 24; round++) {
        select_case c = {
            .mode = round % 3 == 2 ? RVIT_SELECT_THRESHOLD : RVIT_SELECT_TOP_K, .n_prefix = round % 2, .prefix_competes = round % 3 == 1};
        c.threshold = -1;
        c.error_stays = round % 5 < 2;
        c.image_errors = round % 2;
        c.b = full_batch(2);
        c.counts = count_table(round % 4 == 0 ? 1 : 0.6, c.b.max_len);
        float *scores = make_scores(c.b.live, (score_kind)(round % N_SCORE_KINDS));
        static const uint32_t nans[] = {0x7fc00000, 0xffc00000, 0x7f800001, 0xffffffff};
        for (int i = 0; i < 1 + round * 10; i++) {
            const int32_t image = random_below(c.b.n_images);
            const int32_t length = c.b.cu[image + 1] - c.b.cu[image];
            if (length > 0)
                memcpy(&scores[c.b.cu[image] + random_below(i % 5 ? length : 1)], &nans[i % 4], 4);
        }
        c.scores = scores;
        select_check(&c);
    }
}

static void select_shapes(void **state)
{
    (void)state;
    static const int32_t none[5] = {0}, one[1] = {577}, ones[5] = {1, 1, 1, 1, 1}, mixed[5] = {0, 300, 0, 2, 0};
    const int32_t *const lengths[] = {none, one, ones, mixed, none};
    static const int32_t counts[] = {5, 1, 5, 5, 0};
    for (int shape = 0; shape < 5; shape++)
        for (int mode = 0; mode < 3; mode++)
            for (int n_prefix = 0; n_prefix < 4; n_prefix++) {
                select_case c = {.mode = (rvit_select_mode)mode, .n_prefix = n_prefix, .threshold = 0.3f, .no_error_view = n_prefix == 3};
                c.error_stays = n_prefix == 2;
                c.image_errors = n_prefix > 0;
                c.b = batch_of(lengths[shape], counts[shape], shape);
                c.max_len = c.b.max_len + shape * 100;
                c.counts = count_table(0.5, c.max_len);
                c.scores = make_scores(c.b.live, COARSE);
                uint8_t *keep = scratch((size_t)c.b.live + 1);
                memset(keep, 1, (size_t)c.b.live);
                c.keep_in = keep;
                select_check(&c);
            }
}

/* At least k_min of the competing rows stay, whatever the threshold; NaN is taken last. */
static void select_threshold_least(void **state)
{
    (void)state;
    static const int32_t least[] = {1, 2, 50, 576, INT32_MAX - 1};
    static const float thresholds[] = {-INFINITY, 0.9f, 2.5f, INFINITY};
    for (int kind = 0; kind < N_SCORE_KINDS; kind++)
        for (size_t k = 0; k < sizeof least / sizeof least[0]; k++)
            for (size_t t = 0; t < sizeof thresholds / sizeof thresholds[0]; t++) {
                if (leaves_out(kind + (int)(k + t), 4))
                    continue;
                select_case c = {
                    .mode = RVIT_SELECT_THRESHOLD, .n_prefix = (int32_t)(kind + k) % 3, .threshold = thresholds[t], .k_min = least[k]};
                c.prefix_competes = t % 2;
                c.b = full_batch((int64_t)t);
                float *scores = make_scores(c.b.live, (score_kind)kind);
                for (int64_t i = 0; kind % 2 && i < c.b.live; i++)
                    if (random_below(3) == 0)
                        scores[i] = NAN;
                c.scores = scores;
                select_check(&c);
            }
}

/* Many images of all lengths: the scan over images crosses every block border. */
static void select_many_images(void **state)
{
    (void)state;
    static const int32_t counts[] = {31, 32, 33, 63, 64, 65, 127, 128, 129, 255, 256, 257, 511, 512, 513, 1023, 1024, 1025, 2049, 5000};
    for (size_t i = 0; i < sizeof counts / sizeof counts[0]; i++) {
        int32_t *lengths = scratch((size_t)counts[i] * 4);
        for (int32_t j = 0; j < counts[i]; j++)
            lengths[j] = random_below(9);
        select_case c = {.mode = RVIT_SELECT_TOP_K, .n_prefix = 1};
        c.b = batch_of(lengths, counts[i], 7);
        c.counts = count_table(0.5, c.b.max_len);
        c.scores = make_scores(c.b.live, COARSE);
        select_check(&c);
    }
}

/* Long images: more rows than one block of threads can hold. */
static void select_long_images(void **state)
{
    (void)state;
    static const int32_t lengths[] = {1025, 4097, 0, 2048, 3000, 1369};
    for (int mode = 0; mode < 3; mode++)
        for (int kind = 0; kind < 3; kind++) {
            select_case c = {.mode = (rvit_select_mode)mode, .n_prefix = 2, .threshold = 0.5f};
            c.b = batch_of(lengths, 6, 3);
            c.counts = count_table(0.35, c.b.max_len);
            c.scores = make_scores(c.b.live, (score_kind)kind);
            uint8_t *keep = scratch((size_t)c.b.live);
            for (int64_t i = 0; i < c.b.live; i++)
                keep[i] = (uint8_t)random_below(2);
            c.keep_in = keep;
            select_check(&c);
        }
}

static void good_score(rvit_select_args *a, rvit_score_type score)
{
    a->score = score;
    a->scores = score == RVIT_SCORE_GIVEN ? good_input("scores", GOOD_ROWS * 4) : good_output("scores", GOOD_ROWS * 4);
    if (score == RVIT_SCORE_L2 || score == RVIT_SCORE_PREDICTOR) {
        a->dim = GOOD_DIM;
        a->x = good_input("x", GOOD_ROWS * GOOD_DIM * 4);
    }
    if (score == RVIT_SCORE_CLS_NORM) {
        a->dim = GOOD_DIM;
        a->x_stride = GOOD_DIM + 4;
        a->x = good_input("x", ((GOOD_ROWS - 1) * (GOOD_DIM + 4) + GOOD_DIM) * 4);
    }
    if (score == RVIT_SCORE_CLS_ATTENTION || score == RVIT_SCORE_CLS_NORM) {
        a->n_heads = 2;
        a->cls_probs = good_input("cls_probs", GOOD_ROWS * 2 * 4);
    }
    if (score == RVIT_SCORE_PREDICTOR) {
        a->weight = good_input("weight", 2 * GOOD_DIM * 4);
        a->bias = good_input("bias", 8);
    }
    if (score == RVIT_SCORE_POSITION) {
        a->position_scores = good_input("position_scores", GOOD_MAX_LEN * 4);
    }
}

/* Calls that work. */
void good_select_by(rvit_select_args *a, rvit_select_mode mode, rvit_score_type score, int fused)
{
    static const int32_t counts[GOOD_MAX_LEN + 1] = {0, 1, 1, 2, 2, 3, 3};
    a->mode = mode;
    a->n_images = GOOD_IMAGES;
    a->max_len = GOOD_MAX_LEN;
    a->rows = GOOD_ROWS;
    a->n_prefix = 1;
    a->n_samples = 3;
    a->mass = 0.5;
    a->cu_seqlens = good_lengths();
    a->keep = good_output("keep", GOOD_ROWS);
    a->out_cu_seqlens = good_output("out_cu_seqlens", (GOOD_IMAGES + 1) * 4);
    a->src_rows = good_output("src_rows", GOOD_ROWS * 4);
    a->error = good_output("error", 4);
    if (mode == RVIT_SELECT_TOP_K) {
        a->counts = good_ints("counts", counts, GOOD_MAX_LEN + 1);
    }
    if (mode == RVIT_SELECT_MASK) {
        a->keep_in = good_input("keep_in", GOOD_ROWS);
    } else
        good_score(a, score);
    if (fused) {
        a->fuse_dim = GOOD_DIM;
        a->fuse_x = good_output("fuse_x", GOOD_ROWS * GOOD_DIM * 4);
    }
}

void good_select(rvit_select_args *a)
{
    good_select_by(a, RVIT_SELECT_TOP_K, RVIT_SCORE_GIVEN, 0);
}

SUITE(select_suite, TEST(select_top_k), TEST(select_free_counts), TEST(select_threshold), TEST(select_threshold_least), TEST(select_mask),
      TEST(select_nan), TEST(select_shapes), TEST(select_many_images), TEST(select_long_images));

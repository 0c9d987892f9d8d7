/* Scores have the same bits on every backend: those of the order that prune.h fixes, done here once more. */
#include "ops.h"

/* 32 partial sums, then a pairwise tree; multiplication and addition are rounded one by one (the build forbids contraction). */
static float l2_in_the_fixed_order(const float *x, int32_t dim)
{
    float lanes[32] = {0};
    for (int32_t i = 0; i < dim; i++) {
        const float square = x[i] * x[i];
        lanes[i % 32] = lanes[i % 32] + square;
    }
    for (int offset = 16; offset; offset /= 2)
        for (int l = 0; l < offset; l++)
            lanes[l] += lanes[l + offset];
    return lanes[0];
}

static void l2_case(rvit_dtype dtype, int32_t dim, int32_t rows, int32_t spare, float magnitude)
{
    const int64_t capacity = rows + spare;
    array *x = array_input("x", capacity * dim * rvit_dtype_size(dtype)), *scores = array_output("scores", capacity * 4);
    array *live = spare ? array_live(rows) : NULL;
    store_normal(dtype, x->host, 0, (int64_t)rows * dim, magnitude);
    arrays_upload();
    for (side s = 0; (int)s < H.n_sides; s++) {
        rvit_score_args args = RVIT_SCORE_ARGS_INIT;
        args.type = RVIT_SCORE_L2;
        args.dtype = dtype;
        args.rows.capacity = capacity;
        args.rows.live = array_view(live, s);
        args.dim = dim;
        args.x = array_view(x, s);
        args.scores = array_view(scores, s);
        if (!supported(s, type_feature(dtype), rvit_score(H.stream[s], &args)))
            continue;
        arrays_fetch(s);
        array_expect_untouched(scores, s, rows * 4);
        for (int32_t t = 0; t < rows; t++) {
            const float wanted = l2_in_the_fixed_order(loaded(dtype, x->host, (int64_t)t * dim, dim), dim);
            const float got = load(RVIT_F32, scores->result[s], t);
            if (memcmp(&wanted, &got, 4))
                fail_msg("l2 %s: row %d of %d elements scores %a, should be %a (side %d)", rvit_dtype_name(dtype), t, dim, (double)got,
                         (double)wanted, (int)s);
        }
    }
    harness_teardown(NULL);
}

static void score_l2(void **state)
{
    (void)state;
    static const int32_t dims[] = {4, 8, 28, 32, 36, 64, 100, 192, 384, 768, 1000};
    for (int t = 0; t < N_STORED_TYPES; t++)
        for (size_t i = 0; i < sizeof dims / sizeof dims[0]; i++)
            l2_case(stored_types[t], dims[i], 67, (int32_t)(i % 2 * 5), 1);
    static const int32_t rows[] = {0, 1, 2, 31, 33, 300};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        l2_case(RVIT_F32, 192, rows[i], 3, 1);
    l2_case(RVIT_F32, 64, 50, 0, 1e-3f);
    l2_case(RVIT_F32, 64, 50, 0, 1e10f);
}

static void score_cls_attention(void **state)
{
    (void)state;
    static const int32_t heads[] = {1, 2, 3, 6, 7, 12, 16};
    enum { ROWS = 70, CAPACITY = 80 };
    for (size_t h = 0; h < sizeof heads / sizeof heads[0]; h++) {
        const int32_t n_heads = heads[h];
        array *probs = array_input("cls_probs", CAPACITY * n_heads * 4), *scores = array_output("scores", CAPACITY * 4);
        array *live = array_live(ROWS);
        for (int i = 0; i < ROWS * n_heads; i++)
            store(RVIT_F32, probs->host, i, (float)(random_bits() >> 8) * 0x1p-24f);
        arrays_upload();
        for (side s = 0; (int)s < H.n_sides; s++) {
            rvit_score_args args = RVIT_SCORE_ARGS_INIT;
            args.type = RVIT_SCORE_CLS_ATTENTION;
            args.rows.capacity = CAPACITY;
            args.rows.live = array_view(live, s);
            args.n_heads = n_heads;
            args.cls_probs = array_view(probs, s);
            args.scores = array_view(scores, s);
            expect_ok(rvit_score(H.stream[s], &args));
            arrays_fetch(s);
            array_expect_untouched(scores, s, ROWS * 4);
            for (int t = 0; t < ROWS; t++) {
                float wanted = 0;
                for (int i = 0; i < n_heads; i++)
                    wanted += load(RVIT_F32, probs->host, t * n_heads + i);
                wanted *= 1.0f / (float)n_heads;
                assert_true(load(RVIT_F32, scores->result[s], t) == wanted);
            }
        }
        harness_teardown(NULL);
    }
}

/* A NaN or an infinity in a row marks that row and no other. */
static void score_special_values(void **state)
{
    (void)state;
    enum { DIM = 64, ROWS = 6 };
    array *x = array_input("x", ROWS * DIM * 4), *scores = array_output("scores", ROWS * 4);
    store_normal(RVIT_F32, x->host, 0, ROWS * DIM, 1);
    const uint32_t nan = 0x7fc00000, infinity = 0xff800000;
    memcpy(x->host + (1 * DIM + 40) * 4, &nan, 4);
    memcpy(x->host + (4 * DIM + 3) * 4, &infinity, 4);
    arrays_upload();
    for (side s = 0; (int)s < H.n_sides; s++) {
        rvit_score_args args = RVIT_SCORE_ARGS_INIT;
        args.rows.capacity = ROWS;
        args.dim = DIM;
        args.x = array_view(x, s);
        args.scores = array_view(scores, s);
        expect_ok(rvit_score(H.stream[s], &args));
        arrays_fetch(s);
        for (int t = 0; t < ROWS; t++) {
            const float got = load(RVIT_F32, scores->result[s], t);
            if (t == 1)
                assert_true(got != got);
            else
                assert_true(got == l2_in_the_fixed_order((const float *)(const void *)x->host + t * DIM, DIM));
        }
    }
}

SUITE(score_suite, TEST(score_l2), TEST(score_cls_attention), TEST(score_special_values));

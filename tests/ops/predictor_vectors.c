/* 5.8: DynamicViT's predictor by hand, as a sequence of ops. The 4 features are stored in 8 columns, with 2 zeros in each 4, because the
   mean must start at a multiple of 4. The first row is the CLS token, which the predictor ignores. */
#include "ops.h"

#include <math.h>

enum { TOKENS = 3, ROWS = TOKENS + 1, DIM = 4, WIDE = 8 };

typedef struct chain {
    array *x, *cu, *gamma, *beta, *w1, *w2, *w3, *w4, *zeros, *counts;
    array *normal, *wide, *half, *quarter, *scores, *keep, *out_cu, *src_rows;
} chain;

static array *values(const char *name, const float *data, int n)
{
    array *a = array_input(name, n * 4);
    memcpy(a->host, data, (size_t)n * 4);
    return a;
}

/* keep_column: which of the two outputs is the first row of the last weight. */
static chain make_chain(int k, int keep_column)
{
    static const float x[ROWS][DIM] = {{50, -3, 8, -20}, {1, 2, 3, 4}, {4, 3, 2, 1}, {0, 0, 0, 4}};
    static const float ones[DIM] = {1, 1, 1, 1}, zeros[WIDE] = {0};
    static const float w1[WIDE][DIM] = {{1}, {0, 1}, {0}, {0}, {0, 0, 1}, {0, 0, 0, 1}, {0}, {0}};
    static const float w2[4][WIDE] = {{1, 0, 0, 0, 1}, {0, 1, 0, 0, 0, 1}, {0}, {0}}, w3[4][4] = {{1, 1}, {0}, {0}, {0}};
    static const float w4[2][2][4] = {{{1}, {-1}}, {{-1}, {1}}};
    static const int32_t cu[2] = {0, ROWS};
    chain c;
    c.x = values("x", &x[0][0], ROWS * DIM);
    c.cu = array_input("cu_seqlens", 8);
    c.gamma = values("gamma", ones, DIM);
    c.beta = values("beta", zeros, DIM);
    memcpy(c.cu->host, cu, 8);
    c.w1 = values("w1", &w1[0][0], WIDE * DIM);
    c.w2 = values("w2", &w2[0][0], 4 * WIDE);
    c.w3 = values("w3", &w3[0][0], 16);
    c.w4 = values("w4", &w4[keep_column][0][0], 8);
    c.zeros = values("zeros", zeros, WIDE);
    c.counts = array_input("counts", (ROWS + 1) * 4);
    for (int i = 0; i <= ROWS; i++)
        memcpy(c.counts->host + i * 4, &k, 4);
    c.normal = array_output("normal", ROWS * DIM * 4);
    c.wide = array_output("wide", ROWS * WIDE * 4);
    c.half = array_output("half", ROWS * 4 * 4);
    c.quarter = array_output("quarter", ROWS * 4 * 4);
    c.scores = array_output("scores", ROWS * 4);
    c.keep = array_output("keep", ROWS);
    c.out_cu = array_output("out_cu_seqlens", 8);
    c.src_rows = array_output("src_rows", ROWS * 4);
    arrays_upload();
    return c;
}

static void linear(const chain *c, side s, const array *x, const array *weight, const array *out, int32_t in, int32_t n_out)
{
    rvit_linear_args args = RVIT_LINEAR_ARGS_INIT;
    args.rows.capacity = ROWS;
    args.in_features = in;
    args.out_features = n_out;
    args.activation = RVIT_ACTIVATION_GELU;
    args.x = array_view(x, s);
    args.weight = array_view(weight, s);
    args.bias = array_view(c->zeros, s);
    args.out = array_view(out, s);
    expect_ok(rvit_linear(H.stream[s], &args));
}

static void layernorm(const chain *c, side s, float eps)
{
    rvit_layernorm_args args = RVIT_LAYERNORM_ARGS_INIT;
    args.rows.capacity = ROWS;
    args.dim = DIM;
    args.eps = eps;
    args.x = array_view(c->x, s);
    args.gamma = array_view(c->gamma, s);
    args.beta = array_view(c->beta, s);
    args.out = array_view(c->normal, s);
    expect_ok(rvit_layernorm(H.stream[s], &args));
}

static void run_chain(const chain *c, side s, float eps)
{
    layernorm(c, s, eps);
    linear(c, s, c->normal, c->w1, c->wide, DIM, WIDE);
    rvit_mean_args mean = RVIT_MEAN_ARGS_INIT;
    mean.n_images = 1;
    mean.max_len = mean.rows = ROWS;
    mean.n_prefix = 1;
    mean.dim = WIDE;
    mean.first_column = WIDE / 2;
    mean.cu_seqlens = array_view(c->cu, s);
    mean.x = array_view(c->wide, s);
    expect_ok(rvit_mean(H.stream[s], &mean));
    linear(c, s, c->wide, c->w2, c->half, WIDE, 4);
    linear(c, s, c->half, c->w3, c->quarter, 4, 4);
    rvit_select_args select = RVIT_SELECT_ARGS_INIT;
    select.score = RVIT_SCORE_PREDICTOR;
    select.n_images = 1;
    select.max_len = select.rows = ROWS;
    select.n_prefix = 1;
    select.dim = 4;
    select.x = array_view(c->quarter, s);
    select.weight = array_view(c->w4, s);
    select.bias = array_view(c->zeros, s);
    select.counts = array_view(c->counts, s);
    select.scores = array_view(c->scores, s);
    select.cu_seqlens = array_view(c->cu, s);
    select.keep = array_view(c->keep, s);
    select.out_cu_seqlens = array_view(c->out_cu, s);
    select.src_rows = array_view(c->src_rows, s);
    expect_ok(rvit_select(H.stream[s], &select));
    arrays_fetch(s);
}

static void expect_near(const char *what, double got, double wanted, double tolerance)
{
    if (!(fabs(got - wanted) <= tolerance))
        fail_msg("%s is %.9g, should be %.9g", what, got, wanted);
}

static void expect_kept(const chain *c, side s, uint8_t a, uint8_t b, uint8_t third)
{
    const uint8_t wanted[ROWS] = {1, a, b, third};
    assert_memory_equal(c->keep->result[s], wanted, ROWS);
}

static void chain_of_ops(void **state)
{
    (void)state;
    static const double normal[TOKENS][DIM] = {{-1.3416354, -0.4472118, 0.4472118, 1.3416354},
                                               {1.3416354, 0.4472118, -0.4472118, -1.3416354},
                                               {-0.5773493, -0.5773493, -0.5773493, 1.7320479}};
    static const double keep[TOKENS] = {-0.3784046, -0.0138829, -0.3970324};
    for (int k = 1; k <= 2; k++) {
        const chain c = make_chain(k, 0);
        for (side s = 0; (int)s < H.n_sides; s++) {
            run_chain(&c, s, 1e-5f);
            for (int t = 0; t < TOKENS; t++) {
                for (int i = 0; i < DIM; i++)
                    expect_near("the normalised token", load(RVIT_F32, c.normal->result[s], (t + 1) * DIM + i), normal[t][i], 2.5e-7);
                expect_near("the global feature", load(RVIT_F32, c.wide->result[s], (t + 1) * WIDE + 4), -0.0027715, 1e-7);
                expect_near("the global feature", load(RVIT_F32, c.wide->result[s], (t + 1) * WIDE + 5), 0.9201543, 2e-7);
                expect_near("the log-probability", load(RVIT_F32, c.scores->result[s], t + 1), keep[t], 3e-7);
            }
            expect_kept(&c, s, k > 1, 1, 0);
        }
        harness_teardown(NULL);
    }
}

/* What a wrong reading of the method gives, and that it differs: the other column, the backbone's eps. */
static void wrong_readings_differ(void **state)
{
    (void)state;
    static const double drop[TOKENS] = {-1.1550343, -4.2840308, -1.1156941};
    const chain c = make_chain(1, 1);
    for (side s = 0; (int)s < H.n_sides; s++) {
        run_chain(&c, s, 1e-5f);
        for (int t = 0; t < TOKENS; t++)
            expect_near("the other log-probability", load(RVIT_F32, c.scores->result[s], t + 1), drop[t], 1e-6);
        expect_kept(&c, s, 0, 0, 1);
    }
    harness_teardown(NULL);
    const chain d = make_chain(1, 0);
    for (side s = 0; (int)s < H.n_sides; s++) {
        run_chain(&d, s, 1e-6f);
        const double got = load(RVIT_F32, d.normal->result[s], DIM + 3);
        expect_near("the token normalised with eps 1e-6", got, 1.34164025, 2.5e-7);
        assert_true(fabs(got - 1.3416354) > 4e-6);
    }
}

SUITE(predictor_vectors_suite, TEST(chain_of_ops), TEST(wrong_readings_differ));

/* 5.11: token merging by hand, as a chain of match, merge and the attention that follows. */
#include "bipartite_match_run.h"

#include <math.h>

enum { TOKENS = 6, HEAD_DIM = 8, DIM = 4 };

static const float keys[TOKENS][2] = {{1, 0}, {1, 0}, {0, 1}, {.6f, .8f}, {.8f, .6f}, {0, 1}};

typedef struct vector {
    int32_t merges, n_after, src_rows[TOKENS], next_rows[TOKENS];
    float sizes[TOKENS];
} vector;

static const vector vectors[] = {
    {.n_after = 6, .src_rows = {0, 2, 4, 1, 3, 5}, .next_rows = {-1, -1, -1, -1, -1, -1}, .sizes = {1, 1, 1, 1, 1, 1}},
    {.merges = 1, .n_after = 5, .src_rows = {0, 4, 1, 3, 5}, .next_rows = {-1, -1, -1, -1, -1, 2}, .sizes = {1, 1, 1, 1, 2}},
    {.merges = 2, .n_after = 4, .src_rows = {0, 1, 3, 5}, .next_rows = {-1, -1, -1, 4, -1, 2}, .sizes = {1, 1, 2, 2}},
    {.merges = 3, .n_after = 4, .src_rows = {0, 1, 3, 5}, .next_rows = {-1, -1, -1, 4, -1, 2}, .sizes = {1, 1, 2, 2}},
};

static const vector *expected;

static void expect_vector(const match_case *c, side s, const match_result *found)
{
    (void)c, (void)s;
    assert_int_equal(found->cu[1], expected->n_after);
    for (int i = 0; i < expected->n_after; i++)
        assert_int_equal(found->src_rows[i], expected->src_rows[i]);
    for (int i = 0; i < TOKENS; i++)
        assert_int_equal(found->next_rows[i], expected->next_rows[i]);
}

/* The keys as they are; as the sum of two heads, where some keys lie in one head only; and scaled, which a cosine ignores. */
static void pairs(void **state)
{
    (void)state;
    static const int32_t length = TOKENS;
    for (size_t v = 0; v < sizeof vectors / sizeof vectors[0]; v++)
        for (int form = 0; form < 3; form++) {
            match_case c = {.n_prefix = 1, .n_heads = form == 1 ? 2 : 1, .head_dim = HEAD_DIM, .merges = vectors[v].merges};
            c.b = batch_of(&length, 1, 1);
            float *k = scratch((size_t)(TOKENS * c.n_heads * HEAD_DIM) * 4);
            for (int t = 0; t < TOKENS; t++)
                for (int i = 0; i < 2; i++)
                    if (form == 1) {
                        k[(t * 2 + 0) * HEAD_DIM + i] = keys[t][i] * (t % 2 ? 1 : 0.25f);
                        k[(t * 2 + 1) * HEAD_DIM + i] = keys[t][i] * (t % 2 ? 0 : 0.75f);
                    } else
                        k[t * HEAD_DIM + i] = keys[t][i] * (form ? (float)(1 << t) : 1);
            c.k = k;
            expected = &vectors[v];
            match_check(&c, expect_vector);
        }
}

/* The distillation token is a prefix, too: neither it nor the CLS token is merged or merged into. */
static void expect_two_kept(const match_case *c, side s, const match_result *found)
{
    (void)c, (void)s;
    static const int32_t src_rows[] = {0, 1, 3, 5}, next_rows[] = {-1, -1, -1, 4, -1, 2};
    for (int i = 0; i < 4; i++)
        assert_int_equal(found->src_rows[i], src_rows[i]);
    for (int i = 0; i < TOKENS; i++)
        assert_int_equal(found->next_rows[i], next_rows[i]);
}

static void pairs_with_a_distillation_token(void **state)
{
    (void)state;
    static const int32_t length = TOKENS;
    /* Row 1 equals rows 2 and 4: they would go there if they might. */
    static const float rows[TOKENS][2] = {{0, 1}, {1, 0}, {1, 0}, {.6f, .8f}, {1, 0}, {.8f, .6f}};
    match_case c = {.n_prefix = 2, .n_heads = 1, .head_dim = HEAD_DIM, .merges = 8};
    c.b = batch_of(&length, 1, 0);
    float *k = scratch(TOKENS * HEAD_DIM * 4);
    for (int t = 0; t < TOKENS; t++)
        memcpy(k + t * HEAD_DIM, rows[t], 8);
    /* Row 2 to row 5, and row 4 to row 3. */
    k[4 * HEAD_DIM] = .6f;
    k[4 * HEAD_DIM + 1] = .8f;
    c.k = k;
    match_check(&c, expect_two_kept);
}

/* A zero key is similar to all alike, not NaN. */
static void expect_first_of_b(const match_case *c, side s, const match_result *found)
{
    (void)c, (void)s;
    static const int32_t src_rows[] = {0, 2, 1, 3}, next_rows[] = {-1, 4, -1, -1, -1};
    assert_int_equal(found->cu[1], 4);
    for (int i = 0; i < 4; i++)
        assert_int_equal(found->src_rows[i], src_rows[i]);
    for (int i = 0; i < 5; i++)
        assert_int_equal(found->next_rows[i], next_rows[i]);
    for (int i = 0; i < HEAD_DIM; i++)
        assert_true(found->metric[4 * HEAD_DIM + i] == 0);
}

static void zero_keys(void **state)
{
    (void)state;
    static const int32_t length = 5;
    match_case c = {.n_prefix = 1, .n_heads = 1, .head_dim = HEAD_DIM, .merges = 1};
    c.b = batch_of(&length, 1, 0);
    float *k = scratch(5 * HEAD_DIM * 4);
    k[0 * HEAD_DIM] = k[1 * HEAD_DIM] = k[3 * HEAD_DIM] = 1;
    k[2 * HEAD_DIM] = -1; /* its dot product is -1; that of row 4, which is zero, is 0 */
    c.k = k;
    match_check(&c, expect_first_of_b);
}

typedef struct merged {
    array *x, *sizes, *src_rows, *next_rows, *out_x, *out_sizes, *out_key_bias;
    int32_t n;
} merged;

static array *ints(const char *name, const int32_t *data, int n)
{
    array *a = array_input(name, n * 4);
    memcpy(a->host, data, (size_t)n * 4);
    return a;
}

/* Token t has the rows of `x`; sizes NULL: all 1. */
static merged make_merge(const vector *v, const float (*x)[DIM], const float *sizes, int n_before)
{
    merged m;
    m.n = v->n_after;
    m.x = array_input("x", n_before * DIM * 4);
    m.sizes = sizes ? array_input("sizes", n_before * 4) : NULL;
    memcpy(m.x->host, x, (size_t)n_before * DIM * 4);
    if (sizes)
        memcpy(m.sizes->host, sizes, (size_t)n_before * 4);
    m.src_rows = ints("src_rows", v->src_rows, v->n_after);
    m.next_rows = ints("next_rows", v->next_rows, n_before);
    m.out_x = array_output("out_x", v->n_after * DIM * 4);
    m.out_sizes = array_output("out_sizes", v->n_after * 4);
    m.out_key_bias = array_output("out_key_bias", v->n_after * 4);
    return m;
}

static void run_merge(const merged *m, side s)
{
    rvit_merge_args args = RVIT_MERGE_ARGS_INIT;
    args.rows.capacity = m->n;
    args.x_rows = m->x->size / (DIM * 4);
    args.dim = DIM;
    args.x = array_view(m->x, s);
    args.sizes = array_view(m->sizes, s);
    args.src_rows = array_view(m->src_rows, s);
    args.next_rows = array_view(m->next_rows, s);
    args.out_x = array_view(m->out_x, s);
    args.out_sizes = array_view(m->out_sizes, s);
    args.out_key_bias = array_view(m->out_key_bias, s);
    expect_ok(rvit_merge(H.stream[s], &args));
    arrays_fetch(s);
}

/* All these means are exact. */
static void means_and_sizes(void **state)
{
    (void)state;
    static const float x[TOKENS][DIM] = {{1, 2, 3, 4}, {5, 0, 0, 1}, {2, 4, 6, 8}, {1, 1, 1, 1}, {3, 5, 7, 9}, {0, 2, 4, 6}};
    for (size_t v = 0; v < sizeof vectors / sizeof vectors[0]; v++) {
        const merged m = make_merge(&vectors[v], x, NULL, TOKENS);
        arrays_upload();
        for (side s = 0; (int)s < H.n_sides; s++) {
            run_merge(&m, s);
            for (int t = 0; t < m.n; t++) {
                const int32_t row = vectors[v].src_rows[t], source = vectors[v].next_rows[row];
                assert_true(load(RVIT_F32, m.out_sizes->result[s], t) == vectors[v].sizes[t]);
                assert_true(fabs(load(RVIT_F32, m.out_key_bias->result[s], t) - (source < 0 ? 0 : 0.6931472)) < 2e-7);
                for (int i = 0; i < DIM; i++)
                    assert_true(load(RVIT_F32, m.out_x->result[s], t * DIM + i) ==
                                (source < 0 ? x[row][i] : (x[row][i] + x[source][i]) / 2));
            }
        }
        harness_teardown(NULL);
    }
}

/* (2x + y) / 3, and not (x + y) / 2. */
static void second_merge(void **state)
{
    (void)state;
    static const vector v = {.merges = 1, .n_after = 2, .src_rows = {0, 2}, .next_rows = {-1, -1, 1}, .sizes = {1, 3}};
    static const float x[3][DIM] = {{9, 9, 9, 9}, {6, 0, 3, 1}, {3, 9, -3, 1}}, sizes[] = {1, 1, 2};
    static const float wanted[DIM] = {4, 6, -1, 1};
    const merged m = make_merge(&v, x, sizes, 3);
    arrays_upload();
    for (side s = 0; (int)s < H.n_sides; s++) {
        run_merge(&m, s);
        assert_true(load(RVIT_F32, m.out_sizes->result[s], 1) == 3);
        assert_true(fabs(load(RVIT_F32, m.out_key_bias->result[s], 1) - 1.0986123) < 3e-7);
        for (int i = 0; i < DIM; i++) {
            const float got = load(RVIT_F32, m.out_x->result[s], DIM + i);
            assert_true(fabsf(got - wanted[i]) <= 1e-6f);
            if (i < 3)
                assert_true(fabsf(got - (x[2][i] + x[1][i]) / 2) > 0.4f);
        }
    }
}

/* Sizes 1 and 2 at equal logits weigh 1/3 and 2/3, by the bias that merge gives. */
static void proportional_attention(void **state)
{
    (void)state;
    static const vector v = {.merges = 1, .n_after = 2, .src_rows = {0, 1}, .next_rows = {-1, 2, -1}, .sizes = {1, 2}};
    static const float x[3][DIM] = {{1, 1, 1, 1}, {2, 2, 2, 2}, {4, 4, 4, 4}};
    static const int32_t cu_seqlens[2] = {0, 2};
    const merged m = make_merge(&v, x, NULL, 3);
    array *qk = array_input("qk", 2 * HEAD_DIM * 4), *values = array_input("v", 2 * HEAD_DIM * 4), *cu = ints("cu_seqlens", cu_seqlens, 2);
    array *out = array_output("out", 2 * HEAD_DIM * 4), *cls_probs = array_output("cls_probs", 8);
    for (int i = 0; i < 2 * HEAD_DIM; i++) {
        store(RVIT_F32, qk->host, i, 0.5f);
        store(RVIT_F32, values->host, i, i < HEAD_DIM ? 0.0f : 3.0f);
    }
    arrays_upload();
    for (side s = 0; (int)s < H.n_sides; s++) {
        run_merge(&m, s);
        rvit_attention_args args = RVIT_ATTENTION_ARGS_INIT;
        args.n_images = args.n_heads = 1;
        args.head_dim = HEAD_DIM;
        args.max_len = 2;
        args.rows = 2;
        args.q = args.k = array_view(qk, s);
        args.v = array_view(values, s);
        args.cu_seqlens = array_view(cu, s);
        args.key_bias = array_view(m.out_key_bias, s);
        args.out = array_view(out, s);
        args.cls_probs = array_view(cls_probs, s);
        expect_ok(rvit_attention(H.stream[s], &args));
        arrays_fetch(s);
        assert_true(fabs(load(RVIT_F32, cls_probs->result[s], 0) - 1.0 / 3) < 1e-6);
        assert_true(fabs(load(RVIT_F32, cls_probs->result[s], 1) - 2.0 / 3) < 1e-6);
        for (int i = 0; i < 2 * HEAD_DIM; i++)
            assert_true(fabs(load(RVIT_F32, out->result[s], i) - 2) < 2e-6);
    }
}

SUITE(tome_vectors_suite, TEST(pairs), TEST(pairs_with_a_distillation_token), TEST(zero_keys), TEST(means_and_sizes), TEST(second_merge),
      TEST(proportional_attention));

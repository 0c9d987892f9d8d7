/* Attention with results known by hand. No image changes another. */
#include "ops.h"

#include <math.h>

enum { DIM = 64 };

typedef struct fixture {
    rvit_dtype dtype;
    int32_t n_heads;
    batch b;
    array *q, *k, *v, *cu, *key_bias, *out, *cls_probs, *lse;
} fixture;

static fixture fixture_new(rvit_dtype dtype, int32_t n_heads, const int32_t *lengths, int32_t n_images, int with_bias)
{
    fixture f;
    f.dtype = dtype;
    f.n_heads = n_heads;
    f.b = batch_of(lengths, n_images, 3);
    const int64_t size = f.b.rows * n_heads * DIM * rvit_dtype_size(dtype);
    f.q = array_input("q", size);
    f.k = array_input("k", size);
    f.v = array_input("v", size);
    f.cu = array_cu(&f.b);
    f.key_bias = with_bias ? array_input("key_bias", f.b.rows * 4) : NULL;
    f.out = array_output("out", size);
    f.cls_probs = array_output("cls_probs", f.b.rows * n_heads * 4);
    f.lse = array_output("lse", f.b.rows * n_heads * 4);
    const int64_t n = f.b.live * n_heads * DIM;
    store_normal(dtype, f.q->host, 0, n, 1);
    store_normal(dtype, f.k->host, 0, n, 1);
    store_normal(dtype, f.v->host, 0, n, 1);
    if (with_bias)
        memset(f.key_bias->host, 0, (size_t)f.b.live * 4);
    return f;
}

static void run(const fixture *f, side s)
{
    arrays_upload();
    rvit_attention_args args = RVIT_ATTENTION_ARGS_INIT;
    args.dtype = f->dtype;
    args.n_images = f->b.n_images;
    args.n_heads = f->n_heads;
    args.head_dim = DIM;
    args.max_len = f->b.max_len;
    args.rows = f->b.rows;
    args.q = array_view(f->q, s);
    args.k = array_view(f->k, s);
    args.v = array_view(f->v, s);
    args.cu_seqlens = array_view(f->cu, s);
    args.key_bias = array_view(f->key_bias, s);
    args.out = array_view(f->out, s);
    args.cls_probs = array_view(f->cls_probs, s);
    args.lse = array_view(f->lse, s);
    expect_ok(rvit_attention(H.stream[s], &args));
    arrays_fetch(s);
}

/* A1: one key has all the weight, so its value comes out bit for bit. */
static void length_one_gives_v(void **state)
{
    (void)state;
    for (int t = 0; t < 2; t++)
        for (side s = 0; (int)s < H.n_sides; s++) {
            int32_t lengths[40];
            for (int i = 0; i < 40; i++)
                lengths[i] = i % 5 != 4;
            const fixture f = fixture_new(stored_types[t], 3, lengths, 40, 0);
            run(&f, s);
            assert_memory_equal(f.out->result[s], f.v->host, (size_t)(f.b.live * 3 * DIM * rvit_dtype_size(f.dtype)));
            for (int64_t i = 0; i < f.b.live * 3; i++)
                assert_true(load(RVIT_F32, f.cls_probs->result[s], i) == 1);
            harness_teardown(NULL);
        }
}

/* A2: logits 0, ln 2, ln 4 give the weights 1/7, 2/7, 4/7 and the denominator 7. */
static void known_weights(void **state)
{
    (void)state;
    for (side s = 0; (int)s < H.n_sides; s++) {
        const int32_t lengths[] = {5, 3};
        const fixture f = fixture_new(RVIT_F32, 1, lengths, 2, 0);
        for (int j = 0; j < 3; j++)
            for (int i = 0; i < DIM; i++) {
                store(RVIT_F32, f.q->host, (5 + j) * DIM + i, i == 0 ? 8 : 0);
                store(RVIT_F32, f.k->host, (5 + j) * DIM + i, i == 0 ? (float)(j * log(2)) : 0);
                store(RVIT_F32, f.v->host, (5 + j) * DIM + i, i == j);
            }
        run(&f, s);
        for (int t = 5; t < 8; t++) {
            for (int j = 0; j < 3; j++)
                assert_true(fabs(load(RVIT_F32, f.out->result[s], t * DIM + j) - (1 << j) / 7.0) < 2e-7);
            assert_true(fabs(load(RVIT_F32, f.lse->result[s], t) - log(7)) < 5e-7);
            assert_true(fabs(load(RVIT_F32, f.cls_probs->result[s], t) - (1 << (t - 5)) / 7.0) < 2e-7);
        }
        harness_teardown(NULL);
    }
}

/* A3: equal keys give the mean of the values. */
static void equal_keys_give_the_mean(void **state)
{
    (void)state;
    for (side s = 0; (int)s < H.n_sides; s++) {
        const int32_t lengths[] = {197, 64, 7};
        const fixture f = fixture_new(RVIT_F32, 1, lengths, 3, 0);
        for (int64_t t = 0; t < f.b.live; t++)
            memcpy(f.k->host + t * DIM * 4, f.k->host, DIM * 4);
        run(&f, s);
        for (int image = 0; image < 3; image++)
            for (int i = 0; i < DIM; i++) {
                double mean = 0;
                for (int32_t t = f.b.cu[image]; t < f.b.cu[image + 1]; t++)
                    mean += load(RVIT_F32, f.v->host, (int64_t)t * DIM + i);
                mean /= lengths[image];
                for (int32_t t = f.b.cu[image]; t < f.b.cu[image + 1]; t++)
                    assert_true(fabs(load(RVIT_F32, f.out->result[s], (int64_t)t * DIM + i) - mean) < 1e-6);
            }
        harness_teardown(NULL);
    }
}

/* A4: logits of +-1e4. The key that agrees with the query takes all the weight; nothing becomes NaN. */
static void huge_logits_are_one_hot(void **state)
{
    (void)state;
    enum { LENGTH = 130 };
    for (side s = 0; (int)s < H.n_sides; s++) {
        const int32_t lengths[] = {LENGTH};
        const fixture f = fixture_new(RVIT_F32, 1, lengths, 1, 0);
        for (int t = 0; t < LENGTH; t++)
            for (int i = 0; i < DIM; i++) {
                store(RVIT_F32, f.q->host, t * DIM + i, i == 0 ? (t % 2 ? 400.0f : -400.0f) : 0);
                store(RVIT_F32, f.k->host, t * DIM + i, i == 0 ? (t == 77 ? 200.0f : t == 5 ? -200.0f : 0) : 0);
            }
        run(&f, s);
        for (int t = 0; t < LENGTH; t++)
            assert_memory_equal(f.out->result[s] + t * DIM * 4, f.v->host + (t % 2 ? 77 : 5) * DIM * 4, DIM * 4);
        assert_true(load(RVIT_F32, f.lse->result[s], 1) == 10000);
        harness_teardown(NULL);
    }
}

/* Keys masked by a bias of -inf, whole blocks of them first, weigh nothing, even where the masked values are large. */
static void infinite_bias_masks(void **state)
{
    (void)state;
    enum { LENGTH = 200, FIRST = 150 };
    for (side s = 0; (int)s < H.n_sides; s++) {
        const int32_t lengths[] = {LENGTH, LENGTH - FIRST};
        const fixture f = fixture_new(RVIT_F32, 1, lengths, 2, 1);
        for (int t = 0; t < FIRST; t++)
            store(RVIT_F32, f.key_bias->host, t, -INFINITY);
        /* The second image is the first without the masked keys. */
        array *const arrays[] = {f.q, f.k, f.v};
        for (int i = 0; i < 3; i++)
            memcpy(arrays[i]->host + LENGTH * DIM * 4, arrays[i]->host + FIRST * DIM * 4, (LENGTH - FIRST) * DIM * 4);
        run(&f, s);
        const float *out = (const float *)(const void *)f.out->result[s];
        assert_true(largest_difference(out + FIRST * DIM, out + LENGTH * DIM, (LENGTH - FIRST) * DIM) < 1e-6);
        for (int t = 0; t < FIRST; t++)
            assert_true(load(RVIT_F32, f.cls_probs->result[s], t) == 0);
        harness_teardown(NULL);
    }
}

/* A6: the order of an image's tokens does not matter but for the order of the sums. */
static void token_order(void **state)
{
    (void)state;
    enum { LENGTH = 197 };
    const int32_t lengths[] = {LENGTH, LENGTH};
    const fixture f = fixture_new(RVIT_F32, 1, lengths, 2, 0);
    int32_t order[LENGTH];
    for (int i = 0; i < LENGTH; i++)
        order[i] = i;
    random_shuffle(order, LENGTH);
    array *const arrays[] = {f.q, f.k, f.v};
    for (int i = 0; i < 3; i++)
        for (int t = 0; t < LENGTH; t++)
            memcpy(arrays[i]->host + (LENGTH + t) * DIM * 4, arrays[i]->host + order[t] * DIM * 4, DIM * 4);
    run(&f, DEVICE);
    const float *out = (const float *)(const void *)f.out->result[DEVICE];
    for (int t = 0; t < LENGTH; t++)
        assert_true(largest_difference(out + (LENGTH + t) * DIM, out + order[t] * DIM, DIM) < 2e-6);
}

/* A7: NaN in an image stays there, and the others do not change by a bit. */
static void images_are_isolated(void **state)
{
    (void)state;
    for (int t = 0; t < 2; t++) {
        const int32_t lengths[] = {33, 70, 1, 64, 0, 19};
        const fixture f = fixture_new(stored_types[t], 2, lengths, 6, 0);
        const int64_t row = 2 * DIM * rvit_dtype_size(f.dtype), size = f.b.live * row;
        run(&f, DEVICE);
        uint8_t *before = scratch((size_t)size);
        memcpy(before, f.out->result[DEVICE], (size_t)size);
        array *const arrays[] = {f.q, f.k, f.v};
        for (int i = 0; i < 3; i++) {
            memset(arrays[i]->host + f.b.cu[1] * row, POISON, (size_t)(70 * row));
            memset(arrays[i]->host + f.b.cu[3] * row, POISON, (size_t)(64 * row));
        }
        run(&f, DEVICE);
        for (int i = 0; i < 6; i++) {
            const int64_t at = f.b.cu[i] * row;
            if (i == 1 || i == 3)
                assert_true(isnan(load(f.dtype, f.out->result[DEVICE] + at, 0)));
            else
                assert_memory_equal(before + at, f.out->result[DEVICE] + at, (size_t)(lengths[i] * row));
        }
        harness_teardown(NULL);
    }
}

/* A8: an image has the same bits in a batch of one and at any position in any batch, although other images may change a backend's tile.
   Large logits test kernels that restart a sum when it outgrows its offset. */
static void image_alone_equals_image_in_a_batch(void **state)
{
    (void)state;
    static const int32_t probes[] = {1, 7, 16, 33, 64, 65, 197, 577};
    enum { ROUNDS = 5, LONG = 1024 };
    for (int t = 0; t < 2; t++)
        for (size_t p = 0; p < sizeof probes / sizeof probes[0]; p++) {
            const int64_t row = 2 * DIM * rvit_dtype_size(stored_types[t]), size = probes[p] * row;
            uint8_t *const data[3] = {malloc((size_t)size), malloc((size_t)size), malloc((size_t)size)};
            uint8_t *alone = malloc((size_t)size);
            float alone_lse[2 * 577], alone_cls[2 * 577];
            for (int round = 0; round < ROUNDS; round++) {
                int32_t lengths[6];
                for (int i = 0; i < 6; i++)
                    lengths[i] = round == 0 ? 0 : random_below(130);
                const int place = round == 0 ? 0 : random_below(6);
                lengths[place] = probes[p];
                if (round == ROUNDS - 1)
                    lengths[(place + 1) % 6] = LONG;
                const fixture f = fixture_new(stored_types[t], 2, lengths, round == 0 ? 1 : 6, 0);
                if (p % 2 == 0)
                    store_normal(f.dtype, f.q->host, 0, f.b.live * 2 * DIM, 8);
                array *const arrays[] = {f.q, f.k, f.v};
                for (int i = 0; i < 3; i++) {
                    uint8_t *rows = arrays[i]->host + f.b.cu[place] * row;
                    memcpy(round == 0 ? data[i] : rows, round == 0 ? rows : data[i], (size_t)size);
                }
                run(&f, DEVICE);
                const uint8_t *got = f.out->result[DEVICE] + f.b.cu[place] * row;
                const size_t heads_size = (size_t)probes[p] * 2 * sizeof(float);
                const uint8_t *lse = f.lse->result[DEVICE] + (size_t)f.b.cu[place] * 8,
                              *cls = f.cls_probs->result[DEVICE] + (size_t)f.b.cu[place] * 8;
                if (round == 0) {
                    memcpy(alone, got, (size_t)size);
                    memcpy(alone_lse, lse, heads_size);
                    memcpy(alone_cls, cls, heads_size);
                } else {
                    assert_memory_equal(alone, got, (size_t)size);
                    assert_memory_equal(alone_lse, lse, heads_size);
                    assert_memory_equal(alone_cls, cls, heads_size);
                }
                harness_teardown(NULL);
            }
            for (int i = 0; i < 3; i++)
                free(data[i]);
            free(alone);
        }
}

SUITE(attention_vectors_suite, TEST(length_one_gives_v), TEST(known_weights), TEST(equal_keys_give_the_mean), TEST(huge_logits_are_one_hot),
      TEST(infinite_bias_masks), TEST(token_order), TEST(images_are_isolated), TEST(image_alone_equals_image_in_a_batch));

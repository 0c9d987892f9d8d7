#include "good_ops.h"
#include "ops.h"

#include <math.h>

#include "reference/plain.h"

typedef enum kind { SEPARATE, PACKED, PADDED } kind; /* PACKED: parts of qkv rows. PADDED: gaps of 8 elements between rows */

typedef struct received_case {
    rvit_dtype dtype;
    int32_t n_heads, head_dim;
    const int32_t *lengths;
    int32_t n_images, padding_rows, max_len; /* max_len 0: the longest */
    kind kind;
    int key_bias;
    float scale, magnitude; /* of q and k */
} received_case;

typedef struct received_arrays {
    array *q, *k, *cu, *key_bias, *lse, *out;
    int64_t stride, k_offset; /* elements */
    const float *dense[2];    /* q, k: [live, width] */
    double *exact;            /* [live, n_heads] */
    float *plain;
} received_arrays;

static const float *fill(const received_case *c, const batch *b, array *a, int64_t offset, int64_t stride)
{
    const int32_t width = c->n_heads * c->head_dim;
    float *dense = scratch((size_t)(b->live * width) * 4);
    for (int64_t t = 0; t < b->live; t++) {
        store_normal(c->dtype, a->host, t * stride + offset, width, c->magnitude);
        for (int32_t i = 0; i < width; i++)
            dense[t * width + i] = load(c->dtype, a->host, t * stride + offset + i);
    }
    return dense;
}

/* lse, as the forward would have written it, and the results. A query without weight has -infinity. */
static void compute(const received_case *c, const batch *b, received_arrays *a)
{
    const int64_t width = (int64_t)c->n_heads * c->head_dim;
    a->exact = scratch((size_t)(b->live * c->n_heads) * sizeof *a->exact);
    a->plain = scratch((size_t)(b->live * c->n_heads) * sizeof *a->plain);
    double *out = scratch((size_t)(b->live * width) * sizeof *out), *cls = scratch((size_t)(b->live * c->n_heads) * sizeof *cls);
    double *lse = scratch((size_t)(b->live * c->n_heads) * sizeof *lse);
    for (int32_t i = 0; i < b->n_images; i++) {
        const int64_t t = b->cu[i], numbers = t * c->n_heads;
        const attention_problem p = {.length = b->cu[i + 1] - b->cu[i],
                                     .n_heads = c->n_heads,
                                     .head_dim = c->head_dim,
                                     .scale = c->scale != 0 ? c->scale : 1 / sqrtf((float)c->head_dim),
                                     .q = a->dense[0] + t * width,
                                     .k = a->dense[1] + t * width,
                                     .v = a->dense[1] + t * width,
                                     .key_bias = a->key_bias ? (const float *)a->key_bias->host + t : NULL};
        attention_f64(&p, out, cls, lse);
        for (int64_t j = 0; j < (int64_t)p.length * c->n_heads; j++)
            store(RVIT_F32, a->lse->host, numbers + j, isnan(lse[j]) ? -INFINITY : (float)lse[j]);
        received_f64(&p, (const float *)a->lse->host + numbers, a->exact + numbers);
        received_f32(&p, (const float *)a->lse->host + numbers, a->plain + numbers);
    }
}

static received_arrays prepare(const received_case *c, const batch *b)
{
    const int64_t width = (int64_t)c->n_heads * c->head_dim, element = rvit_dtype_size(c->dtype);
    received_arrays a = {.stride = c->kind == PACKED ? 3 * width : c->kind == PADDED ? width + 8 : width};
    a.q = array_input("q", b->rows * a.stride * element);
    a.k = c->kind == PACKED ? a.q : array_input("k", b->rows * a.stride * element);
    a.k_offset = c->kind == PACKED ? width : 0;
    a.cu = array_cu(b);
    a.key_bias = c->key_bias ? array_input("key_bias", b->rows * 4) : NULL;
    a.lse = array_input("lse", b->rows * c->n_heads * 4);
    a.out = array_output("out", b->rows * c->n_heads * 4);
    a.dense[0] = fill(c, b, a.q, 0, a.stride);
    a.dense[1] = fill(c, b, a.k, a.k_offset, a.stride);
    if (a.key_bias)
        store_normal(RVIT_F32, a.key_bias->host, 0, b->live, 1);
    return a;
}

static rvit_status call(const received_case *c, const batch *b, const received_arrays *a, side s)
{
    rvit_attention_received_args args = RVIT_ATTENTION_RECEIVED_ARGS_INIT;
    args.dtype = c->dtype;
    args.n_images = b->n_images;
    args.n_heads = c->n_heads;
    args.head_dim = c->head_dim;
    args.max_len = b->max_len;
    args.rows = b->rows;
    args.scale = c->scale;
    args.q = array_view(a->q, s);
    args.k = array_view(a->k, s);
    args.k.offset += a->k_offset * rvit_dtype_size(c->dtype);
    if (c->kind != SEPARATE)
        args.q_stride = args.k_stride = a->stride;
    args.cu_seqlens = array_view(a->cu, s);
    args.key_bias = array_view(a->key_bias, s);
    args.lse = array_view(a->lse, s);
    args.out = array_view(a->out, s);
    return rvit_attention_received(H.stream[s], &args);
}

/* Compares images first..end-1 of length least..most, as one sample of errors. */
static void check_images(const received_case *c, const batch *b, const received_arrays *a, side s, const int32_t images[2],
                         const int32_t lengths[2])
{
    const size_t total = (size_t)(b->live * c->n_heads);
    float *got = scratch(total * sizeof *got), *plain = scratch(total * sizeof *plain);
    double *exact = scratch(total * sizeof *exact);
    int64_t n = 0;
    for (int32_t i = images[0]; i < images[1]; i++)
        for (int64_t t = b->cu[i]; t < b->cu[i + 1] && b->cu[i + 1] - b->cu[i] >= lengths[0] && b->cu[i + 1] - b->cu[i] <= lengths[1]; t++)
            for (int64_t j = t * c->n_heads; j < (t + 1) * c->n_heads; j++, n++) {
                got[n] = load(RVIT_F32, a->out->result[s], j);
                plain[n] = a->plain[j];
                exact[n] = a->exact[j];
            }
    char what[160];
    snprintf(what, sizeof what, "received %s, %d heads of %d, images %d to %d, lengths from %d", rvit_enum_name(RVIT_ENUM_DTYPE, c->dtype),
             c->n_heads, c->head_dim, images[0], images[1] - 1, lengths[0]);
    if (s == ORACLE)
        check_oracle(what, RVIT_F32, got, exact, n);
    else
        check_close(what, RVIT_F32, got, exact, plain, n);
}

/* Image by image and the short ones together, as in attention.c. */
static void check(const received_case *c, const batch *b, const received_arrays *a, side s)
{
    enum { SHORT = 16 };
    const int32_t all[2] = {0, b->n_images}, below[2] = {0, SHORT}, above[2] = {SHORT + 1, INT32_MAX};
    array_expect_untouched(a->out, s, b->live * c->n_heads * 4);
    check_images(c, b, a, s, all, below);
    for (int32_t i = 0; i < b->n_images; i++) {
        const int32_t one[2] = {i, i + 1};
        check_images(c, b, a, s, one, above);
    }
}

static void run(const received_case *c)
{
    batch b = batch_of(c->lengths, c->n_images, c->padding_rows);
    if (c->max_len > 0)
        b.max_len = c->max_len;
    received_arrays a = prepare(c, &b);
    compute(c, &b, &a);
    arrays_upload();
    for (side s = 0; (int)s < H.n_sides; s++) {
        if (!supported(s, type_feature(c->dtype), call(c, &b, &a, s)))
            continue;
        arrays_fetch(s);
        check(c, &b, &a, s);
    }
    harness_teardown(NULL);
}

static const int32_t some_lengths[] = {0, 1, 2, 3, 15, 16, 17, 31, 0, 32, 33, 48, 63, 64, 65, 80, 129, 197, 0};
#define N_SOME_LENGTHS ((int32_t)(sizeof some_lengths / sizeof some_lengths[0]))

static void received_lengths(void **state)
{
    (void)state;
    for (int t = 0; t < N_STORED_TYPES; t++)
        for (int options = 0; options < 2; options++) {
            if (leaves_out(t + options, 2))
                continue;
            run(&(received_case){.dtype = stored_types[t],
                                 .n_heads = 2,
                                 .head_dim = 64,
                                 .lengths = some_lengths,
                                 .n_images = N_SOME_LENGTHS,
                                 .padding_rows = 7,
                                 .max_len = options ? 1000 : 0,
                                 .kind = options ? SEPARATE : PACKED,
                                 .key_bias = options,
                                 .magnitude = 1});
        }
}

static void received_head_dims(void **state)
{
    (void)state;
    static const int32_t lengths[] = {5, 70, 0, 33};
    for (int t = 0; t < N_STORED_TYPES; t++)
        for (int32_t dim = 8; dim <= 128; dim += 8) {
            if (leaves_out(t + dim / 8, 2))
                continue;
            run(&(received_case){.dtype = stored_types[t],
                                 .n_heads = dim < 32 ? 3 : 1,
                                 .head_dim = dim,
                                 .lengths = lengths,
                                 .n_images = 4,
                                 .padding_rows = 5,
                                 .kind = (kind)(dim / 8 % 3),
                                 .key_bias = dim / 8 % 2,
                                 .magnitude = 1});
        }
}

static void received_long_images(void **state)
{
    (void)state;
    static const int32_t lengths[] = {577, 14, 0, 300};
    for (int t = 0; t < N_STORED_TYPES; t++)
        run(&(received_case){.dtype = stored_types[t], .n_heads = 1, .head_dim = 64, .lengths = lengths, .n_images = 4, .magnitude = 1});
}

static void received_scales(void **state)
{
    (void)state;
    static const int32_t lengths[] = {197, 123}; /* enough rows that the largest error of one kernel is like another's */
    static const float scales[] = {0.5f, -0.125f, 1e-3f};
    for (int t = 0; t < N_STORED_TYPES; t++)
        for (size_t i = 0; i < sizeof scales / sizeof scales[0]; i++)
            run(&(received_case){.dtype = stored_types[t],
                                 .n_heads = 2,
                                 .head_dim = 32,
                                 .lengths = lengths,
                                 .n_images = 2,
                                 .key_bias = 1,
                                 .scale = scales[i],
                                 .magnitude = 2});
}

/* Two tokens of two channels and zeros, by hand, with a query that contributes nothing and a key that loses all its weight. */
static void received_vectors(void **state)
{
    (void)state;
    array *q = array_input("q", 3 * 8 * 4), *k = array_input("k", 3 * 8 * 4), *lse = array_input("lse", 12),
          *bias = array_input("key_bias", 12);
    array *cu = array_input("cu_seqlens", 8), *out = array_output("out", 12);
    static const int32_t lengths[] = {0, 3};
    memset(q->host, 0, 3 * 8 * 4);
    memset(k->host, 0, 3 * 8 * 4);
    memcpy(cu->host, lengths, 8);
    store(RVIT_F32, q->host, 0, 1);
    store(RVIT_F32, k->host, 0, logf(3));
    store(RVIT_F32, bias->host, 0, 0);
    store(RVIT_F32, bias->host, 1, 0);
    store(RVIT_F32, bias->host, 2, -INFINITY);
    store(RVIT_F32, lse->host, 0, logf(4)); /* 3/4 and 1/4 */
    store(RVIT_F32, lse->host, 1, logf(2)); /* halves */
    store(RVIT_F32, lse->host, 2, -INFINITY);
    arrays_upload();
    for (side s = 0; (int)s < H.n_sides; s++) {
        rvit_attention_received_args args = RVIT_ATTENTION_RECEIVED_ARGS_INIT;
        args.n_images = args.n_heads = 1;
        args.head_dim = 8;
        args.max_len = 3;
        args.rows = 3;
        args.scale = 1;
        args.q = array_view(q, s);
        args.k = array_view(k, s);
        args.cu_seqlens = array_view(cu, s);
        args.key_bias = array_view(bias, s);
        args.lse = array_view(lse, s);
        args.out = array_view(out, s);
        expect_ok(rvit_attention_received(H.stream[s], &args));
        arrays_fetch(s);
        assert_true(fabsf(load(RVIT_F32, out->result[s], 0) - 1.25f / 3) < 1e-6f);
        assert_true(fabsf(load(RVIT_F32, out->result[s], 1) - 0.75f / 3) < 1e-6f);
        assert_true(load(RVIT_F32, out->result[s], 2) == 0);
    }
}

/* An image has the same bits in a batch of one and in any other batch. */
static void received_images_are_alone(void **state)
{
    (void)state;
    enum { N = 4 };
    static const int32_t lengths[N] = {37, 0, 150, 61};
    for (int t = 0; t < N_STORED_TYPES; t++) {
        received_case c = {.dtype = stored_types[t], .n_heads = 2, .head_dim = 40, .lengths = lengths, .n_images = N, .key_bias = 1};
        c.magnitude = 1;
        c.padding_rows = 3;
        const batch b = batch_of(lengths, N, c.padding_rows);
        received_arrays a = prepare(&c, &b);
        compute(&c, &b, &a);
        arrays_upload();
        if (!supported(DEVICE, type_feature(c.dtype), call(&c, &b, &a, DEVICE))) {
            harness_teardown(NULL);
            continue;
        }
        arrays_fetch(DEVICE);
        const size_t at = (size_t)(b.cu[2] * c.n_heads * 4), size = (size_t)(lengths[2] * c.n_heads * 4);
        uint8_t *among = scratch(size);
        memcpy(among, a.out->result[DEVICE] + at, size);
        /* The same rows as the only image, of an op for longer ones; all other rows are NaN. */
        const int32_t cu[2] = {b.cu[2], b.cu[3]};
        const int64_t row = a.stride * rvit_dtype_size(c.dtype);
        for (int64_t i = 0; i < b.live; i++)
            if (i < cu[0] || i >= cu[1]) {
                memset(a.q->host + i * row, POISON, (size_t)row);
                memset(a.k->host + i * row, POISON, (size_t)row);
                memset(a.lse->host + i * c.n_heads * 4, POISON, (size_t)c.n_heads * 4);
            }
        for (int32_t i = 0; i <= N; i++)
            memcpy(a.cu->host + i * 4, i == 0 ? &cu[0] : &cu[1], 4);
        arrays_upload();
        batch alone = b;
        alone.max_len = 700;
        expect_ok(call(&c, &alone, &a, DEVICE));
        arrays_fetch(DEVICE);
        assert_memory_equal(a.out->result[DEVICE] + at, among, size);
        harness_teardown(NULL);
    }
}

/* With the lse of the device's own attention all that a row gives is 1, and select takes the result as it takes cls_probs. */
static void received_of_attention(void **state)
{
    (void)state;
    static const int32_t lengths[] = {50, 1, 0, 197};
    for (int t = 0; t < N_STORED_TYPES; t++) {
        const received_case c = {
            .dtype = stored_types[t], .n_heads = 3, .head_dim = 64, .lengths = lengths, .n_images = 4, .kind = PACKED, .magnitude = 1};
        const batch b = batch_of(lengths, 4, 0);
        received_arrays a = prepare(&c, &b);
        array *attended = array_output("attended", b.rows * 192 * rvit_dtype_size(c.dtype)), *lse = array_output("lse", b.rows * 12);
        array *scores = array_output("scores", b.rows * 4), *keep = array_output("keep", b.rows), *counts = array_input("counts", 198 * 4);
        array *cu = array_output("out_cu_seqlens", 20), *src_rows = array_output("src_rows", b.rows * 4);
        for (int32_t n = 0; n < 198; n++)
            memcpy(counts->host + n * 4, &(int32_t){n / 2}, 4);
        for (int64_t i = 0; i < b.rows; i++)
            store_normal(c.dtype, a.q->host, i * 576 + 384, 192, 1);
        memset(a.lse->host, 0, (size_t)a.lse->size);
        a.lse = lse;
        arrays_upload();
        rvit_attention_args forward = RVIT_ATTENTION_ARGS_INIT;
        forward.dtype = c.dtype;
        forward.n_images = 4;
        forward.n_heads = 3;
        forward.head_dim = 64;
        forward.max_len = 197;
        forward.rows = b.rows;
        forward.q = forward.k = forward.v = array_view(a.q, DEVICE);
        forward.k.offset += 192 * rvit_dtype_size(c.dtype);
        forward.v.offset += 384 * rvit_dtype_size(c.dtype);
        forward.q_stride = forward.k_stride = forward.v_stride = 576;
        forward.cu_seqlens = array_view(a.cu, DEVICE);
        forward.out = array_view(attended, DEVICE);
        forward.lse = array_view(lse, DEVICE);
        if (!supported(DEVICE, type_feature(c.dtype), rvit_attention(H.stream[DEVICE], &forward))) {
            harness_teardown(NULL);
            continue;
        }
        expect_ok(call(&c, &b, &a, DEVICE));
        rvit_select_args select = RVIT_SELECT_ARGS_INIT;
        select.score = RVIT_SCORE_CLS_ATTENTION;
        select.n_images = 4;
        select.max_len = 197;
        select.rows = b.rows;
        select.n_heads = 3;
        select.cls_probs = array_view(a.out, DEVICE);
        select.counts = array_view(counts, DEVICE);
        select.scores = array_view(scores, DEVICE);
        select.cu_seqlens = array_view(a.cu, DEVICE);
        select.keep = array_view(keep, DEVICE);
        select.out_cu_seqlens = array_view(cu, DEVICE);
        select.src_rows = array_view(src_rows, DEVICE);
        expect_ok(rvit_select(H.stream[DEVICE], &select));
        arrays_fetch(DEVICE);
        for (int32_t i = 0; i < 4; i++)
            for (int32_t h = 0; h < 3 && lengths[i] > 0; h++) {
                double sum = 0;
                for (int32_t j = b.cu[i]; j < b.cu[i + 1]; j++)
                    sum += load(RVIT_F32, a.out->result[DEVICE], j * 3 + h);
                if (!(fabs(sum - 1) < 1e-5))
                    fail_msg("received %s: image %d, head %d gives %.8f in all", rvit_enum_name(RVIT_ENUM_DTYPE, c.dtype), i, h, sum);
            }
        for (int64_t j = 0; j < b.live; j++) {
            const float *r = (const float *)(const void *)a.out->result[DEVICE] + j * 3;
            const float mean = (r[0] + r[1] + r[2]) * (1.0f / 3.0f);
            assert_true(load(RVIT_F32, scores->result[DEVICE], j) == mean);
        }
        harness_teardown(NULL);
    }
}

static void received_refuses(void **state)
{
    (void)state;
    static const int32_t lengths[] = {4};
    const received_case c = {.n_heads = 2, .head_dim = 16, .lengths = lengths, .n_images = 1, .kind = PACKED, .magnitude = 1};
    const batch b = batch_of(lengths, 1, 0);
    received_arrays a = prepare(&c, &b);
    compute(&c, &b, &a);
    arrays_upload();
    rvit_attention_received_args good = RVIT_ATTENTION_RECEIVED_ARGS_INIT;
    good.n_images = 1;
    good.n_heads = 2;
    good.head_dim = 16;
    good.max_len = 4;
    good.rows = 4;
    good.q = good.k = array_view(a.q, DEVICE);
    good.k.offset += 32 * 4;
    good.q_stride = good.k_stride = 96;
    good.cu_seqlens = array_view(a.cu, DEVICE);
    good.lse = array_view(a.lse, DEVICE);
    good.out = array_view(a.out, DEVICE);
    expect_ok(rvit_attention_received(H.stream[DEVICE], &good));
#define REFUSED(word, ...)                                                                            \
    do {                                                                                              \
        rvit_attention_received_args args = good;                                                     \
        __VA_ARGS__;                                                                                  \
        expect_status(rvit_attention_received(H.stream[DEVICE], &args), RVIT_INVALID_ARGUMENT, word); \
    } while (0)
    REFUSED("dtype", args.dtype = (rvit_dtype)3);
    REFUSED("n_images", args.n_images = -1);
    REFUSED("n_heads", args.n_heads = 0);
    REFUSED("head_dim", args.head_dim = 20);
    REFUSED("head_dim", args.head_dim = 136);
    REFUSED("max_len", args.max_len = -1);
    REFUSED("rows", args.rows = -1);
    REFUSED("q", args.rows = 1000);
    REFUSED("scale", args.scale = INFINITY);
    REFUSED("q_stride", args.q_stride = 24);
    REFUSED("k_stride", args.k_stride = 100);
    REFUSED("lse", args.lse.buffer = NULL);
    REFUSED("out", args.out.buffer = NULL);
    REFUSED("overlaps", args.out = args.lse);
#undef REFUSED
}

/* A call that works. */
void good_attention_received(rvit_attention_received_args *a)
{
    a->n_images = GOOD_IMAGES;
    a->n_heads = 2;
    a->head_dim = GOOD_DIM / 2;
    a->max_len = GOOD_MAX_LEN;
    a->rows = GOOD_ROWS;
    a->q = good_input("q", GOOD_ROWS * GOOD_DIM * 4);
    a->k = good_input("k", GOOD_ROWS * GOOD_DIM * 4);
    a->cu_seqlens = good_lengths();
    a->key_bias = good_input("key_bias", GOOD_ROWS * 4);
    a->lse = good_input("lse", GOOD_ROWS * 2 * 4);
    a->out = good_output("out", GOOD_ROWS * 2 * 4);
}

SUITE(attention_received_suite, TEST(received_lengths), TEST(received_head_dims), TEST(received_long_images), TEST(received_scales),
      TEST(received_vectors), TEST(received_images_are_alone), TEST(received_of_attention), TEST(received_refuses));

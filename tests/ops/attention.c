#include "good_ops.h"
#include "ops.h"

#include <math.h>

#include "reference/plain.h"

typedef enum qkv_kind { SEPARATE, PACKED, PADDED } qkv_kind; /* PADDED: gaps of 8 elements between rows, in and out */

typedef struct attention_case {
    rvit_dtype dtype;
    int32_t n_heads, head_dim;
    const int32_t *lengths;
    int32_t n_images, padding_rows;
    qkv_kind kind;
    int key_bias, cls_probs, lse;
    float scale, magnitude; /* of q and k */
} attention_case;

typedef struct attention_arrays {
    array *q, *k, *v, *cu, *key_bias, *out, *cls_probs, *lse;
    int64_t stride, out_stride, k_offset, v_offset; /* elements */
    const float *dense[3];                          /* q, k, v: [live, width] */
} attention_arrays;

static float *fill(const attention_case *c, const batch *b, array *a, int64_t offset, int64_t stride, float magnitude)
{
    const int32_t width = c->n_heads * c->head_dim;
    float *dense = scratch((size_t)(b->live * width) * 4);
    for (int64_t t = 0; t < b->live; t++) {
        store_normal(c->dtype, a->host, t * stride + offset, width, magnitude);
        for (int32_t i = 0; i < width; i++)
            dense[t * width + i] = load(c->dtype, a->host, t * stride + offset + i);
    }
    return dense;
}

static attention_arrays prepare(const attention_case *c, const batch *b)
{
    attention_arrays a;
    memset(&a, 0, sizeof a);
    const int64_t width = c->n_heads * c->head_dim, element = rvit_dtype_size(c->dtype);
    a.stride = c->kind == PACKED ? 3 * width : c->kind == PADDED ? width + 8 : width;
    a.out_stride = c->kind == PADDED ? width + 8 : width;
    a.q = array_input("q", b->rows * a.stride * element);
    a.k = c->kind == PACKED ? a.q : array_input("k", b->rows * a.stride * element);
    a.v = c->kind == PACKED ? a.q : array_input("v", b->rows * a.stride * element);
    a.k_offset = c->kind == PACKED ? width : 0;
    a.v_offset = 2 * a.k_offset;
    a.cu = array_cu(b);
    a.key_bias = c->key_bias ? array_input("key_bias", b->rows * 4) : NULL;
    a.out = array_output("out", b->rows * a.out_stride * element);
    a.cls_probs = c->cls_probs ? array_output("cls_probs", b->rows * c->n_heads * 4) : NULL;
    a.lse = c->lse ? array_output("lse", b->rows * c->n_heads * 4) : NULL;
    a.dense[0] = fill(c, b, a.q, 0, a.stride, c->magnitude);
    a.dense[1] = fill(c, b, a.k, a.k_offset, a.stride, c->magnitude);
    a.dense[2] = fill(c, b, a.v, a.v_offset, a.stride, 1);
    if (a.key_bias)
        store_normal(RVIT_F32, a.key_bias->host, 0, b->live, 1);
    arrays_upload();
    return a;
}

static rvit_status call(const attention_case *c, const batch *b, const attention_arrays *a, side s)
{
    rvit_attention_args args = RVIT_ATTENTION_ARGS_INIT;
    args.dtype = c->dtype;
    args.n_images = b->n_images;
    args.n_heads = c->n_heads;
    args.head_dim = c->head_dim;
    args.max_len = b->max_len;
    args.rows = b->rows;
    args.scale = c->scale;
    args.q = array_view(a->q, s);
    args.k = array_view(a->k, s);
    args.v = array_view(a->v, s);
    args.k.offset += a->k_offset * rvit_dtype_size(c->dtype);
    args.v.offset += a->v_offset * rvit_dtype_size(c->dtype);
    if (c->kind != SEPARATE) {
        args.q_stride = args.k_stride = args.v_stride = a->stride;
        args.out_stride = a->out_stride;
    }
    args.cu_seqlens = array_view(a->cu, s);
    args.key_bias = array_view(a->key_bias, s);
    args.out = array_view(a->out, s);
    args.cls_probs = array_view(a->cls_probs, s);
    args.lse = array_view(a->lse, s);
    return rvit_attention(H.stream[s], &args);
}

typedef struct expected {
    double *exact[3]; /* out, cls_probs, lse of every image, one after the other */
    float *plain[3];
} expected;

static expected compute(const attention_case *c, const batch *b, const attention_arrays *a)
{
    const int64_t width = c->n_heads * c->head_dim;
    expected e;
    for (int i = 0; i < 3; i++) {
        e.exact[i] = scratch((size_t)(b->live * width) * sizeof(double));
        e.plain[i] = scratch((size_t)(b->live * width) * sizeof(float));
    }
    for (int32_t i = 0; i < b->n_images; i++) {
        const int64_t t = b->cu[i], at = t * width, heads = t * c->n_heads;
        attention_problem p = {.length = b->cu[i + 1] - b->cu[i], .n_heads = c->n_heads, .head_dim = c->head_dim, .scale = c->scale};
        if (c->scale == 0)
            p.scale = 1 / sqrtf((float)c->head_dim);
        p.q = a->dense[0] + at;
        p.k = a->dense[1] + at;
        p.v = a->dense[2] + at;
        p.key_bias = a->key_bias ? (const float *)a->key_bias->host + t : NULL;
        attention_f64(&p, e.exact[0] + at, e.exact[1] + heads, e.exact[2] + heads);
        attention_f32(&p, e.plain[0] + at, e.plain[1] + heads, e.plain[2] + heads);
    }
    return e;
}

/* Compares the images images[0]..images[1]-1 of length lengths[0]..lengths[1] with the expected values, as one sample of errors. */
static void check_images(const attention_case *c, const batch *b, const attention_arrays *a, const expected *e, side s, int o,
                         const int32_t images[2], const int32_t lengths[2])
{
    const array *const arrays[3] = {a->out, a->cls_probs, a->lse};
    static const char *const names[3] = {"out", "cls_probs", "lse"};
    const int64_t row = o == 0 ? c->n_heads * c->head_dim : c->n_heads, stride = o == 0 ? a->out_stride : row;
    const rvit_dtype dtype = o == 0 ? c->dtype : RVIT_F32;
    const size_t most = (size_t)((b->cu[images[1]] - b->cu[images[0]]) * row);
    float *got = scratch(most * sizeof *got), *plain = scratch(most * sizeof *plain);
    double *exact = scratch(most * sizeof *exact);
    int64_t n = 0;
    for (int32_t i = images[0]; i < images[1]; i++)
        for (int64_t t = b->cu[i]; t < b->cu[i + 1] && b->cu[i + 1] - b->cu[i] >= lengths[0] && b->cu[i + 1] - b->cu[i] <= lengths[1]; t++)
            for (int64_t j = 0; j < row; j++, n++) {
                got[n] = load(dtype, arrays[o]->result[s], t * stride + j);
                plain[n] = e->plain[o][t * row + j];
                exact[n] = e->exact[o][t * row + j];
            }
    char what[160];
    snprintf(what, sizeof what, "attention %s, %d heads of %d, images %d to %d, lengths from %d, %s",
             rvit_enum_name(RVIT_ENUM_DTYPE, c->dtype), c->n_heads, c->head_dim, images[0], images[1] - 1, lengths[0], names[o]);
    if (s == ORACLE)
        check_oracle(what, dtype, got, exact, n);
    else
        check_close(what, dtype, got, exact, plain, n);
}

/* Image by image, since a short image has larger outputs than a long one and would hide its errors. The short ones make one sample
   together: an image of two tokens has too few errors to compare the largest ones of, plain code may be right by luck. The same goes for
   lse, which is of one size whatever the length. */
static void check(const attention_case *c, const batch *b, const attention_arrays *a, const expected *e, side s)
{
    enum { SHORT = 16 };
    const int64_t width = c->n_heads * c->head_dim;
    const array *const arrays[3] = {a->out, a->cls_probs, a->lse};
    for (int o = 0; o < 3; o++) {
        const int64_t row = o == 0 ? width : c->n_heads, stride = o == 0 ? a->out_stride : row;
        const int64_t element = rvit_dtype_size(o == 0 ? c->dtype : RVIT_F32);
        if (!arrays[o])
            continue;
        array_expect_untouched(arrays[o], s, b->live * stride * element);
        for (int64_t t = 0; t < b->live; t++)
            assert_memory_equal(arrays[o]->result[s] + (t * stride + row) * element, arrays[o]->host + (t * stride + row) * element,
                                (size_t)((stride - row) * element));
        const int32_t all[2] = {0, b->n_images}, any[2] = {0, INT32_MAX}, below[2] = {0, SHORT}, above[2] = {SHORT + 1, INT32_MAX};
        check_images(c, b, a, e, s, o, all, o == 2 ? any : below);
        for (int32_t i = 0; o < 2 && i < b->n_images; i++) {
            const int32_t one[2] = {i, i + 1};
            check_images(c, b, a, e, s, o, one, above);
        }
    }
}

static void run(const attention_case *c)
{
    const batch b = batch_of(c->lengths, c->n_images, c->padding_rows);
    const attention_arrays a = prepare(c, &b);
    const expected e = compute(c, &b, &a);
    for (side s = 0; (int)s < H.n_sides; s++) {
        if (!supported(s, type_feature(c->dtype), call(c, &b, &a, s)))
            continue;
        arrays_fetch(s);
        check(c, &b, &a, &e, s);
    }
    harness_teardown(NULL);
}

/* Every length of the contract in one ragged batch, with head_dim 64. */
static void attention_every_length(void **state)
{
    (void)state;
    static const struct {
        rvit_dtype dtype;
        int32_t n_heads;
        qkv_kind kind;
        int key_bias, cls_probs, lse;
    } variants[] = {{.dtype = RVIT_F32, .n_heads = 2, .kind = SEPARATE, .key_bias = 1, .cls_probs = 1, .lse = 1},
                    {.dtype = RVIT_F32, .n_heads = 1, .kind = PACKED},
                    {.dtype = RVIT_F16, .n_heads = 1, .kind = PACKED, .cls_probs = 1},
                    {.dtype = RVIT_F16, .n_heads = 1, .kind = PADDED, .key_bias = 1, .lse = 1},
                    {.dtype = RVIT_BF16, .n_heads = 1, .kind = PACKED},
                    {.dtype = RVIT_BF16, .n_heads = 1, .kind = PADDED, .key_bias = 1, .cls_probs = 1, .lse = 1}};
    int32_t lengths[EVERY_LENGTH];
    const int32_t n = every_length(lengths);
    for (size_t i = 0; i < sizeof variants / sizeof variants[0]; i++) {
        if (leaves_out((int)i, 2))
            continue;
        attention_case c = {.dtype = variants[i].dtype, .n_heads = variants[i].n_heads, .head_dim = 64, .lengths = lengths, .n_images = n};
        c.padding_rows = 40;
        c.kind = variants[i].kind;
        c.key_bias = variants[i].key_bias;
        c.cls_probs = variants[i].cls_probs;
        c.lse = variants[i].lse;
        c.scale = 0.125f;
        c.magnitude = 1;
        run(&c);
    }
}

static const int32_t some_lengths[] = {0, 1, 2, 3, 15, 16, 17, 31, 0, 32, 33, 48, 63, 64, 65, 80, 129, 197, 0};
#define N_SOME_LENGTHS ((int32_t)(sizeof some_lengths / sizeof some_lengths[0]))

static void attention_head_dims(void **state)
{
    (void)state;
    for (int t = 0; t < N_STORED_TYPES; t++)
        for (int32_t dim = 8; dim <= 128; dim += 8) {
            if (leaves_out(t + dim / 8, 2))
                continue;
            const attention_case c = {.dtype = stored_types[t],
                                      .n_heads = dim < 32 ? 3 : 1,
                                      .head_dim = dim,
                                      .lengths = some_lengths,
                                      .n_images = N_SOME_LENGTHS,
                                      .padding_rows = 5,
                                      .kind = (qkv_kind)(dim / 8 % 3),
                                      .key_bias = 1,
                                      .cls_probs = 1,
                                      .lse = 1,
                                      .scale = 1 / sqrtf((float)dim),
                                      .magnitude = 1};
            run(&c);
        }
}

/* Rows enough for kernels of long images, which share batches with others: blocks of keys that end in every quarter, and none of another
   image's. */
static void attention_long_images(void **state)
{
    (void)state;
    static const int32_t longs[] = {577, 1, 0, 512, 130, 545, 64, 620}, talls[] = {64, 1569, 3, 530},
                         dims[] = {64, 72, 128, 40, 80, 64, 120};
    enum { N_LONGS = sizeof longs / sizeof longs[0], N_TALLS = sizeof talls / sizeof talls[0], N_DIMS = sizeof dims / sizeof dims[0] };
    for (int d = 0; d < N_DIMS; d++)
        for (int dtype = RVIT_F16; dtype <= RVIT_BF16; dtype++) {
            const attention_case c = {.dtype = (rvit_dtype)dtype,
                                      .n_heads = d == 0 ? 2 : 1,
                                      .head_dim = dims[d],
                                      .lengths = d >= N_DIMS - 2 ? talls : longs,
                                      .n_images = d >= N_DIMS - 2 ? N_TALLS : N_LONGS,
                                      .padding_rows = 40,
                                      .kind = (qkv_kind)(d % 3),
                                      .scale = 1 / sqrtf((float)dims[d]),
                                      .magnitude = dtype == RVIT_F16 ? 2 : 1};
            if (!leaves_out(d * 2 + dtype, 3))
                run(&c);
        }
}

/* Small capacities, for which a backend may take smaller tiles, also where nothing but the output is asked for. */
static void attention_short_images(void **state)
{
    (void)state;
    for (int t = 0; t < N_STORED_TYPES; t++)
        for (int32_t dim = 8; dim <= 128; dim += 8)
            for (int32_t exponent = 0; exponent <= 6; exponent++) {
                /* Vulkan compiles a pipeline for almost each of them. */
                if (leaves_out(t + dim / 8 + exponent, 14))
                    continue;
                const int32_t longest = 1 << exponent;
                int32_t lengths[40];
                const int32_t n_images = longest == 64 ? 9 : 40, most = longest == 64 ? 48 : longest;
                for (int32_t i = 0; i < n_images; i++)
                    lengths[i] = i == 7 ? most : (i * 5 + dim) % (most + 1);
                const int has_extras = dim / 8 % 2;
                const attention_case c = {.dtype = stored_types[t],
                                          .n_heads = 2,
                                          .head_dim = dim,
                                          .lengths = lengths,
                                          .n_images = n_images,
                                          .padding_rows = 3,
                                          .kind = (qkv_kind)(longest % 3),
                                          .key_bias = has_extras && longest & 2,
                                          .cls_probs = has_extras,
                                          .lse = has_extras,
                                          .scale = 1 / sqrtf((float)dim),
                                          .magnitude = 1};
                run(&c);
            }
}

/* One image of many tokens, and many heads. */
static void attention_long_image(void **state)
{
    (void)state;
    static const int32_t lengths[] = {1100, 3, 0};
    for (int t = 0; t < 2; t++) {
        const attention_case c = {.dtype = stored_types[t],
                                  .n_heads = 1,
                                  .head_dim = 64,
                                  .lengths = lengths,
                                  .n_images = 3,
                                  .padding_rows = 1,
                                  .kind = PACKED,
                                  .key_bias = t,
                                  .cls_probs = 1,
                                  .lse = 1,
                                  .scale = 0.125f,
                                  .magnitude = 1};
        run(&c);
        const attention_case heads = {.dtype = stored_types[t],
                                      .n_heads = 16,
                                      .head_dim = 64,
                                      .lengths = some_lengths + 8,
                                      .n_images = 7,
                                      .padding_rows = 1,
                                      .kind = PACKED,
                                      .cls_probs = 1,
                                      .scale = 0.125f,
                                      .magnitude = 1};
        run(&heads);
    }
}

static void attention_options(void **state)
{
    (void)state;
    for (int t = 0; t < N_STORED_TYPES; t++)
        for (int kind = 0; kind < 3; kind++)
            for (int options = 0; options < 8; options++) {
                if (leaves_out(t + kind + options, 4))
                    continue;
                const attention_case c = {.dtype = stored_types[t],
                                          .n_heads = 2,
                                          .head_dim = 32,
                                          .lengths = some_lengths + 4,
                                          .n_images = 9,
                                          .padding_rows = 3,
                                          .kind = (qkv_kind)kind,
                                          .key_bias = options & 1,
                                          .cls_probs = options >> 1 & 1,
                                          .lse = options >> 2 & 1,
                                          .scale = kind == 1 ? 0.4f : 0.25f,
                                          .magnitude = 1};
                run(&c);
            }
}

/* scale 0 means 1 / sqrt(head_dim). */
static void attention_default_scale(void **state)
{
    (void)state;
    const attention_case c = {.dtype = RVIT_F32,
                              .n_heads = 3,
                              .head_dim = 64,
                              .lengths = some_lengths,
                              .n_images = N_SOME_LENGTHS,
                              .kind = PACKED,
                              .lse = 1,
                              .magnitude = 1};
    run(&c);
}

static void attention_empty(void **state)
{
    (void)state;
    static const int32_t none[6] = {0};
    static const int32_t one[6] = {0, 0, 0, 70, 0, 0};
    const int32_t *const batches[] = {none, one, none};
    const int32_t counts[] = {6, 6, 0};
    for (int t = 0; t < 2; t++)
        for (int i = 0; i < 3; i++) {
            const attention_case c = {.dtype = stored_types[t],
                                      .n_heads = 2,
                                      .head_dim = 64,
                                      .lengths = batches[i],
                                      .n_images = counts[i],
                                      .padding_rows = 9,
                                      .kind = SEPARATE,
                                      .key_bias = 1,
                                      .cls_probs = 1,
                                      .lse = 1,
                                      .scale = 0.125f,
                                      .magnitude = 1};
            run(&c);
        }
}

/* Logits of some hundreds: all weight on one key, nothing overflows. */
static void attention_large_logits(void **state)
{
    (void)state;
    const attention_case c = {.dtype = RVIT_F32,
                              .n_heads = 2,
                              .head_dim = 64,
                              .lengths = some_lengths,
                              .n_images = N_SOME_LENGTHS,
                              .padding_rows = 2,
                              .kind = PACKED,
                              .cls_probs = 1,
                              .lse = 1,
                              .scale = 0.125f,
                              .magnitude = 8};
    run(&c);
}

/* max_len, rows and n_images above what the batch uses. */
static void attention_loose_capacities(void **state)
{
    (void)state;
    const attention_case c = {.dtype = RVIT_F16,
                              .n_heads = 2,
                              .head_dim = 64,
                              .lengths = some_lengths,
                              .n_images = N_SOME_LENGTHS,
                              .padding_rows = 300,
                              .kind = SEPARATE,
                              .cls_probs = 1,
                              .lse = 1,
                              .scale = 0.125f,
                              .magnitude = 1};
    batch b = batch_of(c.lengths, c.n_images, c.padding_rows);
    b.max_len = 577;
    const attention_arrays a = prepare(&c, &b);
    const expected e = compute(&c, &b, &a);
    for (side s = 0; (int)s < H.n_sides; s++) {
        expect_ok(call(&c, &b, &a, s));
        arrays_fetch(s);
        check(&c, &b, &a, &e, s);
    }
}

/* NaN and infinity are not lost in maxima, clamps and roundings: a row with one in its logits is NaN, and no other row is. */
static void attention_not_a_number(void **state)
{
    (void)state;
    static const int32_t lengths[] = {40, 70, 1, 530};
    static const float bad[] = {NAN, -NAN, INFINITY};
    if (H.desc.backend != RVIT_BACKEND_CPU)
        skip();
    for (int t = 0; t < N_STORED_TYPES; t++)
        for (int b = 0; b < 3; b++) {
            const attention_case c = {.dtype = stored_types[t],
                                      .n_heads = 1,
                                      .head_dim = 40,
                                      .lengths = lengths,
                                      .n_images = 4,
                                      .kind = SEPARATE,
                                      .scale = 0.125f,
                                      .magnitude = 1};
            const batch layout = batch_of(c.lengths, c.n_images, 0);
            const attention_arrays a = prepare(&c, &layout);
            const int64_t query = 3, key = 40 + 69; /* a row of the first image; the last key of the second */
            store(c.dtype, a.q->host, query * c.head_dim + 17, bad[b]);
            store(c.dtype, a.k->host, key * c.head_dim + 39, bad[b]);
            arrays_upload();
            expect_ok(call(&c, &layout, &a, DEVICE));
            arrays_fetch(DEVICE);
            for (int64_t row = 0; row < layout.live; row++)
                for (int64_t j = 0; j < c.head_dim; j++) {
                    const float value = load(c.dtype, a.out->result[DEVICE], row * c.head_dim + j);
                    /* If the dot product of a query and an infinite key is -infinity, the key has no weight. */
                    if (row == query || (row >= 40 && row < 110 && b < 2))
                        assert_true(isnan(value));
                    else if (row < 40 || row >= 110)
                        assert_true(isfinite(value));
                }
            harness_teardown(NULL);
        }
}

/* A call that works. */
void good_attention(rvit_attention_args *a)
{
    a->n_images = GOOD_IMAGES;
    a->n_heads = 2;
    a->head_dim = 8;
    a->max_len = GOOD_MAX_LEN;
    a->rows = GOOD_ROWS;
    a->q = good_input("q", GOOD_ROWS * GOOD_DIM * 4);
    a->k = good_input("k", GOOD_ROWS * GOOD_DIM * 4);
    a->v = good_input("v", GOOD_ROWS * GOOD_DIM * 4);
    a->cu_seqlens = good_lengths();
    a->key_bias = good_input("key_bias", GOOD_ROWS * 4);
    a->out = good_output("out", GOOD_ROWS * GOOD_DIM * 4);
    a->cls_probs = good_output("cls_probs", GOOD_ROWS * 2 * 4);
    a->lse = good_output("lse", GOOD_ROWS * 2 * 4);
}

SUITE(attention_suite, TEST(attention_every_length), TEST(attention_head_dims), TEST(attention_long_images), TEST(attention_short_images),
      TEST(attention_long_image), TEST(attention_options), TEST(attention_default_scale), TEST(attention_empty),
      TEST(attention_large_logits), TEST(attention_loose_capacities), TEST(attention_not_a_number));

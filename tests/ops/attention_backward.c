#include "good_ops.h"
#include "ops.h"

#include <math.h>

#include "reference/plain.h"

typedef enum kind { SEPARATE, PACKED, PADDED } kind; /* of q, k, v and their gradients. PADDED: gaps of 8 elements between all rows */

typedef struct backward_case {
    rvit_dtype dtype;
    int32_t n_heads, head_dim;
    const int32_t *lengths;
    int32_t n_images, padding_rows, max_len; /* max_len 0: the longest */
    kind kind;
    int key_bias, d_key_bias, d_cls_probs, d_lse;
    float scale, magnitude; /* of q and k */
} backward_case;

enum { D_Q, D_K, D_V, D_KEY_BIAS, N_RESULTS };
static const char *const result_names[N_RESULTS] = {"d_q", "d_k", "d_v", "d_key_bias"};

typedef struct backward_arrays {
    array *q, *k, *v, *out, *d_out, *cu, *key_bias, *lse, *cls_probs, *d_cls_probs, *d_lse, *workspace;
    array *results[N_RESULTS];                      /* those of a packed gradient are one */
    int64_t stride, out_stride, offsets[N_RESULTS]; /* elements; offsets: of q, k and v in a row, and of their gradients */
    const float *dense_q, *dense_k, *dense_v, *dense_out, *dense_d_out; /* [live, width] */
} backward_arrays;

static int32_t width_of(const backward_case *c)
{
    return c->n_heads * c->head_dim;
}

static const float *dense_of(const backward_case *c, const batch *b, const array *a, int64_t offset, int64_t stride)
{
    const int32_t width = width_of(c);
    float *dense = scratch((size_t)(b->live * width) * 4);
    for (int64_t t = 0; t < b->live; t++)
        for (int32_t i = 0; i < width; i++)
            dense[t * width + i] = load(c->dtype, a->host, t * stride + offset + i);
    return dense;
}

static const float *fill(const backward_case *c, const batch *b, array *a, int64_t offset, int64_t stride, float magnitude)
{
    for (int64_t t = 0; t < b->live; t++)
        store_normal(c->dtype, a->host, t * stride + offset, width_of(c), magnitude);
    return dense_of(c, b, a, offset, stride);
}

static array *numbers(const char *name, const backward_case *c, const batch *b, int wanted)
{
    array *a = wanted ? array_input(name, b->rows * c->n_heads * 4) : NULL;
    if (a)
        store_normal(RVIT_F32, a->host, 0, b->live * c->n_heads, 1);
    return a;
}

static attention_problem problem_of(const backward_case *c, const batch *b, const backward_arrays *a, int32_t image)
{
    const int64_t t = b->cu[image], at = t * width_of(c);
    return (attention_problem){.length = b->cu[image + 1] - b->cu[image],
                               .n_heads = c->n_heads,
                               .head_dim = c->head_dim,
                               .scale = c->scale != 0 ? c->scale : 1 / sqrtf((float)c->head_dim),
                               .q = a->dense_q + at,
                               .k = a->dense_k + at,
                               .v = a->dense_v + at,
                               .key_bias = a->key_bias ? (const float *)a->key_bias->host + t : NULL};
}

/* What the forward would have written, from float64. A query without weight has 0 and -infinity. */
static void fill_forward(const backward_case *c, const batch *b, backward_arrays *a)
{
    const int32_t width = width_of(c);
    for (int32_t i = 0; i < b->n_images; i++) {
        const attention_problem p = problem_of(c, b, a, i);
        double *out = scratch((size_t)(p.length * width) * sizeof *out), *cls = scratch((size_t)(p.length * c->n_heads) * sizeof *cls);
        double *lse = scratch((size_t)(p.length * c->n_heads) * sizeof *lse);
        attention_f64(&p, out, cls, lse);
        for (int32_t t = 0; t < p.length; t++)
            for (int32_t h = 0; h < c->n_heads; h++) {
                const int64_t row = b->cu[i] + t, number = row * c->n_heads + h;
                const int weightless = isnan(lse[t * c->n_heads + h]);
                store(RVIT_F32, a->lse->host, number, weightless ? -INFINITY : (float)lse[t * c->n_heads + h]);
                if (a->cls_probs)
                    store(RVIT_F32, a->cls_probs->host, number, isnan(cls[t * c->n_heads + h]) ? 0 : (float)cls[t * c->n_heads + h]);
                for (int32_t d = h * c->head_dim; d < (h + 1) * c->head_dim; d++)
                    store(c->dtype, a->out->host, row * a->out_stride + d, weightless ? 0 : (float)out[t * width + d]);
            }
    }
    a->dense_out = dense_of(c, b, a->out, 0, a->out_stride);
}

static void make_results(const backward_case *c, const batch *b, backward_arrays *a)
{
    const int64_t size = b->rows * a->stride * rvit_dtype_size(c->dtype);
    for (int i = D_Q; i <= D_V; i++) {
        a->offsets[i] = c->kind == PACKED ? i * width_of(c) : 0;
        a->results[i] = c->kind == PACKED && i > 0 ? a->results[D_Q] : array_output(result_names[i], size);
    }
    a->results[D_KEY_BIAS] = c->d_key_bias ? array_output("d_key_bias", b->rows * 4) : NULL;
    rvit_attention_backward_args args = RVIT_ATTENTION_BACKWARD_ARGS_INIT;
    args.rows = b->rows;
    args.n_heads = c->n_heads;
    args.d_key_bias = array_view(a->results[D_KEY_BIAS], DEVICE);
    a->workspace = array_output("workspace", rvit_attention_backward_workspace(&args));
}

static backward_arrays prepare(const backward_case *c, const batch *b)
{
    backward_arrays a;
    memset(&a, 0, sizeof a);
    const int64_t width = width_of(c), element = rvit_dtype_size(c->dtype);
    a.stride = c->kind == PACKED ? 3 * width : c->kind == PADDED ? width + 8 : width;
    a.out_stride = c->kind == PADDED ? width + 8 : width;
    a.q = array_input("q", b->rows * a.stride * element);
    a.k = c->kind == PACKED ? a.q : array_input("k", b->rows * a.stride * element);
    a.v = c->kind == PACKED ? a.q : array_input("v", b->rows * a.stride * element);
    a.out = array_input("out", b->rows * a.out_stride * element);
    a.d_out = array_input("d_out", b->rows * a.out_stride * element);
    a.cu = array_cu(b);
    a.key_bias = c->key_bias ? array_input("key_bias", b->rows * 4) : NULL;
    a.lse = array_input("lse", b->rows * c->n_heads * 4);
    a.cls_probs = c->d_cls_probs ? array_input("cls_probs", b->rows * c->n_heads * 4) : NULL;
    a.d_cls_probs = numbers("d_cls_probs", c, b, c->d_cls_probs);
    a.d_lse = numbers("d_lse", c, b, c->d_lse);
    make_results(c, b, &a);
    a.dense_q = fill(c, b, a.q, a.offsets[D_Q], a.stride, c->magnitude);
    a.dense_k = fill(c, b, a.k, a.offsets[D_K], a.stride, c->magnitude);
    a.dense_v = fill(c, b, a.v, a.offsets[D_V], a.stride, 1);
    a.dense_d_out = fill(c, b, a.d_out, 0, a.out_stride, 1);
    if (a.key_bias)
        store_normal(RVIT_F32, a.key_bias->host, 0, b->live, 1);
    return a;
}

static rvit_view part(const array *a, side s, int64_t offset, rvit_dtype dtype)
{
    rvit_view view = array_view(a, s);
    view.offset += offset * rvit_dtype_size(dtype);
    return view;
}

static rvit_status call(const backward_case *c, const batch *b, const backward_arrays *a, side s)
{
    rvit_attention_backward_args args = RVIT_ATTENTION_BACKWARD_ARGS_INIT;
    args.dtype = c->dtype;
    args.n_images = b->n_images;
    args.n_heads = c->n_heads;
    args.head_dim = c->head_dim;
    args.max_len = b->max_len;
    args.rows = b->rows;
    args.scale = c->scale;
    args.q = part(a->q, s, a->offsets[D_Q], c->dtype);
    args.k = part(a->k, s, a->offsets[D_K], c->dtype);
    args.v = part(a->v, s, a->offsets[D_V], c->dtype);
    args.d_q = part(a->results[D_Q], s, a->offsets[D_Q], c->dtype);
    args.d_k = part(a->results[D_K], s, a->offsets[D_K], c->dtype);
    args.d_v = part(a->results[D_V], s, a->offsets[D_V], c->dtype);
    if (c->kind != SEPARATE) {
        args.q_stride = args.k_stride = args.v_stride = a->stride;
        args.d_q_stride = args.d_k_stride = args.d_v_stride = a->stride;
        args.out_stride = args.d_out_stride = a->out_stride;
    }
    args.cu_seqlens = array_view(a->cu, s);
    args.key_bias = array_view(a->key_bias, s);
    args.out = array_view(a->out, s);
    args.lse = array_view(a->lse, s);
    args.d_out = array_view(a->d_out, s);
    args.cls_probs = array_view(a->cls_probs, s);
    args.d_cls_probs = array_view(a->d_cls_probs, s);
    args.d_lse = array_view(a->d_lse, s);
    args.d_key_bias = array_view(a->results[D_KEY_BIAS], s);
    args.workspace = array_view(a->workspace, s);
    return rvit_attention_backward(H.stream[s], &args);
}

static const char *feature_of(const backward_case *c)
{
    return lacks("attention_backward") ? "attention_backward" : type_feature(c->dtype);
}

typedef struct expected {
    double *exact[N_RESULTS]; /* of every image, one after the other */
    float *plain[N_RESULTS];
    double *terms; /* of d_key_bias */
} expected;

static float to_f16(float value)
{
    return rounded(RVIT_F16, value);
}

static float to_bf16(float value)
{
    return rounded(RVIT_BF16, value);
}

static expected compute(const backward_case *c, const batch *b, const backward_arrays *a)
{
    const int64_t width = width_of(c);
    expected e;
    for (int i = 0; i < N_RESULTS; i++) {
        e.exact[i] = scratch((size_t)(b->live * width) * sizeof(double));
        e.plain[i] = scratch((size_t)(b->live * width) * sizeof(float));
    }
    e.terms = scratch((size_t)b->live * sizeof(double));
    for (int32_t i = 0; i < b->n_images; i++) {
        const int64_t t = b->cu[i], at = t * width, numbers_at = t * c->n_heads;
        attention_backward_problem p = {.forward = problem_of(c, b, a, i), .out = a->dense_out + at, .d_out = a->dense_d_out + at};
        p.lse = (const float *)a->lse->host + numbers_at;
        p.cls_probs = a->cls_probs ? (const float *)a->cls_probs->host + numbers_at : NULL;
        p.d_cls_probs = a->d_cls_probs ? (const float *)a->d_cls_probs->host + numbers_at : NULL;
        p.d_lse = a->d_lse ? (const float *)a->d_lse->host + numbers_at : NULL;
        p.terms = e.terms + t;
        attention_backward_f64(&p, e.exact[D_Q] + at, e.exact[D_K] + at, e.exact[D_V] + at, e.exact[D_KEY_BIAS] + t);
        p.terms = NULL;
        /* The CPU computes only in float32. */
        if (H.desc.backend == RVIT_BACKEND_CUDA && c->dtype != RVIT_F32)
            p.round = c->dtype == RVIT_F16 ? to_f16 : to_bf16;
        attention_backward_f32(&p, e.plain[D_Q] + at, e.plain[D_K] + at, e.plain[D_V] + at, e.plain[D_KEY_BIAS] + t);
    }
    return e;
}

/* A result of the images images[0]..images[1]-1 of length lengths[0]..lengths[1], as one sample of errors. */
static void check_images(const backward_case *c, const batch *b, const backward_arrays *a, const expected *e, side s, int o,
                         const int32_t images[2], const int32_t lengths[2])
{
    const rvit_dtype dtype = o == D_KEY_BIAS ? RVIT_F32 : c->dtype;
    const int64_t row = o == D_KEY_BIAS ? 1 : width_of(c), stride = o == D_KEY_BIAS ? 1 : a->stride;
    const size_t most = (size_t)((b->cu[images[1]] - b->cu[images[0]]) * row);
    float *got = scratch(most * sizeof *got), *plain = scratch(most * sizeof *plain);
    double *exact = scratch(most * sizeof *exact), *terms = scratch(most * sizeof *terms);
    int64_t n = 0;
    for (int32_t i = images[0]; i < images[1]; i++)
        for (int64_t t = b->cu[i]; t < b->cu[i + 1] && b->cu[i + 1] - b->cu[i] >= lengths[0] && b->cu[i + 1] - b->cu[i] <= lengths[1]; t++)
            for (int64_t j = 0; j < row; j++, n++) {
                got[n] = load(dtype, a->results[o]->result[s], t * stride + a->offsets[o] + j);
                plain[n] = e->plain[o][t * row + j];
                exact[n] = e->exact[o][t * row + j];
                terms[n] = o == D_KEY_BIAS ? e->terms[t] : exact[n];
            }
    char what[160];
    snprintf(what, sizeof what, "attention_backward %s, %d heads of %d, images %d to %d, lengths from %d, %s",
             rvit_enum_name(RVIT_ENUM_DTYPE, c->dtype), c->n_heads, c->head_dim, images[0], images[1] - 1, lengths[0], result_names[o]);
    if (s == ORACLE)
        check_oracle(what, dtype, got, exact, n);
    else
        check_close_sums(what, dtype, got, exact, plain, terms, n);
}

/* Rows past the live ones, and gaps between rows. */
static void check_untouched(const backward_case *c, const batch *b, const backward_arrays *a, side s, int o)
{
    const array *r = a->results[o];
    const int64_t element = o == D_KEY_BIAS ? 4 : rvit_dtype_size(c->dtype), stride = o == D_KEY_BIAS ? 1 : a->stride;
    array_expect_untouched(r, s, b->live * stride * element);
    for (int64_t t = 0; c->kind == PADDED && o != D_KEY_BIAS && t < b->live; t++)
        assert_memory_equal(r->result[s] + (t * stride + width_of(c)) * element, r->host + (t * stride + width_of(c)) * element,
                            (size_t)((stride - width_of(c)) * element));
}

/* Image by image and the short ones together, as in attention.c. */
static void check(const backward_case *c, const batch *b, const backward_arrays *a, const expected *e, side s)
{
    enum { SHORT = 16 };
    for (int o = 0; o < N_RESULTS; o++) {
        if (!a->results[o])
            continue;
        check_untouched(c, b, a, s, o);
        const int32_t all[2] = {0, b->n_images}, below[2] = {0, SHORT}, above[2] = {SHORT + 1, INT32_MAX};
        check_images(c, b, a, e, s, o, all, below);
        for (int32_t i = 0; i < b->n_images; i++) {
            const int32_t one[2] = {i, i + 1};
            check_images(c, b, a, e, s, o, one, above);
        }
    }
}

static void run(const backward_case *c)
{
    batch b = batch_of(c->lengths, c->n_images, c->padding_rows);
    if (c->max_len > 0)
        b.max_len = c->max_len;
    backward_arrays a = prepare(c, &b);
    fill_forward(c, &b, &a);
    arrays_upload();
    const expected e = compute(c, &b, &a);
    for (side s = 0; (int)s < H.n_sides; s++) {
        if (!supported(s, s == ORACLE ? type_feature(c->dtype) : feature_of(c), call(c, &b, &a, s)))
            continue;
        arrays_fetch(s);
        check(c, &b, &a, &e, s);
    }
    harness_teardown(NULL);
}

static const int32_t some_lengths[] = {0, 1, 2, 3, 15, 16, 17, 31, 0, 32, 33, 48, 63, 64, 65, 80, 129, 197, 0};
#define N_SOME_LENGTHS ((int32_t)(sizeof some_lengths / sizeof some_lengths[0]))

static void attention_backward_lengths(void **state)
{
    (void)state;
    for (int t = 0; t < N_STORED_TYPES; t++)
        for (int options = 0; options < 2; options++) {
            if (leaves_out(t + options, 2))
                continue;
            run(&(backward_case){.dtype = stored_types[t],
                                 .n_heads = 2,
                                 .head_dim = 64,
                                 .lengths = some_lengths,
                                 .n_images = N_SOME_LENGTHS,
                                 .padding_rows = 7,
                                 .kind = options ? SEPARATE : PACKED,
                                 .key_bias = options,
                                 .d_key_bias = options,
                                 .d_cls_probs = options,
                                 .d_lse = options,
                                 .magnitude = 1});
        }
}

/* 577 tokens, and capacities above what the batch uses. */
static void attention_backward_long_images(void **state)
{
    (void)state;
    static const int32_t lengths[] = {577, 14, 0, 300};
    for (int t = 0; t < N_STORED_TYPES; t++)
        for (int32_t dim = 32; dim <= 64; dim += 32) {
            if (t == 0 && dim == 32)
                continue;
            run(&(backward_case){.dtype = stored_types[t],
                                 .n_heads = 1,
                                 .head_dim = dim,
                                 .lengths = dim == 32 ? lengths + 1 : lengths,
                                 .n_images = H.is_slow   ? 2
                                             : dim == 32 ? 3
                                                         : 4,
                                 .padding_rows = 1000,
                                 .max_len = 600,
                                 .kind = PACKED,
                                 .d_key_bias = 1,
                                 .d_cls_probs = t != 0,
                                 .magnitude = 1});
        }
}

static void attention_backward_head_dims(void **state)
{
    (void)state;
    for (int t = 0; t < N_STORED_TYPES; t++)
        for (int32_t dim = 8; dim <= 128; dim += 8) {
            if (leaves_out(t + dim / 8, 2))
                continue;
            run(&(backward_case){.dtype = stored_types[t],
                                 .n_heads = dim < 32 ? 3 : 1,
                                 .head_dim = dim,
                                 .lengths = some_lengths + 1,
                                 .n_images = 14,
                                 .padding_rows = 5,
                                 .kind = (kind)(dim / 8 % 3),
                                 .key_bias = 1,
                                 .d_key_bias = 1,
                                 .d_cls_probs = 1,
                                 .d_lse = 1,
                                 .scale = 1 / sqrtf((float)dim),
                                 .magnitude = 1});
        }
}

/* Small capacities, for which a backend may take other kernels. In images of one token d_q and d_k are 0 but for rounding: they are judged
   beside longer ones. */
static void attention_backward_short_images(void **state)
{
    (void)state;
    for (int t = 0; t < N_STORED_TYPES; t++)
        for (int32_t exponent = 2; exponent <= 6; exponent++) {
            if (leaves_out(t + exponent, 4))
                continue;
            int32_t lengths[24];
            for (int32_t i = 0; i < 24; i++)
                lengths[i] = i == 7 ? 1 << exponent : i * 5 % ((1 << exponent) + 1);
            run(&(backward_case){.dtype = stored_types[t],
                                 .n_heads = 2,
                                 .head_dim = exponent % 2 ? 64 : 32,
                                 .lengths = lengths,
                                 .n_images = 24,
                                 .padding_rows = 3,
                                 .kind = (kind)(exponent % 3),
                                 .d_cls_probs = exponent & 1,
                                 .d_lse = exponent >> 1 & 1,
                                 .magnitude = 1});
        }
}

/* Nothing that is optional but d_lse, for which a backend may have other kernels; at capacities of each kind. */
static void attention_backward_alone(void **state)
{
    (void)state;
    static const int32_t longest[] = {16, 40, 64, 65, 100, 130, 170, 600};
    for (int t = 0; t < N_STORED_TYPES; t++)
        for (int l = 0; l < 8; l++) {
            const int few_images = l == 1 || l == 5;
            if (leaves_out(t + l, 3) && !few_images && l != 4 && l != 6 && l != 7)
                continue;
            int32_t lengths[40] = {longest[l] == 600 ? 200 : longest[l], 0, 13, longest[l] / 2};
            run(&(backward_case){.dtype = stored_types[t],
                                 .n_heads = 2,
                                 .head_dim = l % 4 == 3 ? 48 : 64,
                                 .lengths = lengths,
                                 .n_images = few_images ? 4 : 40,
                                 .padding_rows = 500,
                                 .max_len = longest[l],
                                 .kind = (kind)(l % 3),
                                 .d_lse = l & 1,
                                 .magnitude = 1});
        }
}

/* Every combination of what is optional; a negative scale. */
static void attention_backward_options(void **state)
{
    (void)state;
    for (int t = 0; t < N_STORED_TYPES; t++)
        for (int options = 0; options < 16; options++) {
            if (leaves_out(t + options, 5))
                continue;
            run(&(backward_case){.dtype = stored_types[t],
                                 .n_heads = 2,
                                 .head_dim = 32,
                                 .lengths = some_lengths + 4,
                                 .n_images = 9,
                                 .padding_rows = 3,
                                 .kind = (kind)(options % 3),
                                 .key_bias = options & 1,
                                 .d_key_bias = options >> 1 & 1,
                                 .d_cls_probs = options >> 2 & 1,
                                 .d_lse = options >> 3 & 1,
                                 .scale = options == 5 ? -0.25f : 0.25f,
                                 .magnitude = 1});
        }
}

static void attention_backward_empty(void **state)
{
    (void)state;
    static const int32_t none[6] = {0}, one[6] = {0, 0, 0, 70, 0, 0};
    for (int t = 0; t < 2; t++)
        for (int i = 0; i < 3; i++)
            run(&(backward_case){.dtype = stored_types[t],
                                 .n_heads = 2,
                                 .head_dim = 64,
                                 .lengths = i == 1 ? one : none,
                                 .n_images = i == 2 ? 0 : 6,
                                 .padding_rows = 9,
                                 .key_bias = 1,
                                 .d_key_bias = 1,
                                 .d_cls_probs = 1,
                                 .d_lse = 1,
                                 .magnitude = 1});
}

/* Keys without weight, and an image that has no others: its gradients are 0. */
static void attention_backward_masked_keys(void **state)
{
    (void)state;
    static const int32_t lengths[] = {40, 9, 70};
    for (int t = 0; t < N_STORED_TYPES; t++) {
        const backward_case c = {.dtype = stored_types[t],
                                 .n_heads = 2,
                                 .head_dim = 64,
                                 .lengths = lengths,
                                 .n_images = 3,
                                 .padding_rows = 2,
                                 .key_bias = 1,
                                 .d_key_bias = 1,
                                 .d_cls_probs = 1,
                                 .d_lse = 1,
                                 .magnitude = 1};
        const batch b = batch_of(lengths, 3, 2);
        backward_arrays a = prepare(&c, &b);
        for (int64_t row = 0; row < b.live; row++)
            if (row % 3 == 1 || (row >= b.cu[1] && row < b.cu[2]))
                store(RVIT_F32, a.key_bias->host, row, -INFINITY);
        fill_forward(&c, &b, &a);
        arrays_upload();
        const expected e = compute(&c, &b, &a);
        if (!supported(DEVICE, feature_of(&c), call(&c, &b, &a, DEVICE))) {
            harness_teardown(NULL);
            continue;
        }
        arrays_fetch(DEVICE);
        check(&c, &b, &a, &e, DEVICE);
        for (int64_t i = b.cu[1] * width_of(&c); i < b.cu[2] * width_of(&c); i++)
            for (int o = D_Q; o <= D_V; o++)
                assert_true(load(c.dtype, a.results[o]->result[DEVICE], i) == 0);
        harness_teardown(NULL);
    }
}

/* An image has the same bits in a larger batch, in a batch of one of equal capacities, and in a second call. */
static void attention_backward_batch_mates(void **state)
{
    (void)state;
    static const int32_t lengths[] = {17, 0, 1, 40, 64, 5, 65, 80, 197};
    enum { N = sizeof lengths / sizeof lengths[0] };
    for (int t = 0; t < N_STORED_TYPES; t++) {
        const backward_case c = {.dtype = stored_types[t],
                                 .n_heads = 2,
                                 .head_dim = 64,
                                 .lengths = lengths,
                                 .n_images = N,
                                 .padding_rows = 2,
                                 .key_bias = 1,
                                 .d_key_bias = 1,
                                 .d_cls_probs = 1,
                                 .d_lse = 1,
                                 .magnitude = 1};
        const batch b = batch_of(lengths, N, 2);
        backward_arrays a = prepare(&c, &b);
        fill_forward(&c, &b, &a);
        arrays_upload();
        if (!supported(DEVICE, feature_of(&c), call(&c, &b, &a, DEVICE))) {
            harness_teardown(NULL);
            continue;
        }
        arrays_fetch(DEVICE);
        uint8_t *together[N_RESULTS];
        for (int o = 0; o < N_RESULTS; o++) {
            together[o] = scratch((size_t)a.results[o]->size);
            memcpy(together[o], a.results[o]->result[DEVICE], (size_t)a.results[o]->size);
        }
        arrays_upload();
        expect_ok(call(&c, &b, &a, DEVICE));
        arrays_fetch(DEVICE);
        for (int o = 0; o < N_RESULTS; o++)
            assert_memory_equal(a.results[o]->result[DEVICE], together[o], (size_t)a.results[o]->size);
        /* Alone: all images before it begin and end where it begins, those behind where it ends. */
        for (int32_t image = 0; image < N; image++) {
            if (lengths[image] == 0 || leaves_out(image + t, 3))
                continue;
            for (int32_t i = 0; i <= N; i++)
                memcpy(a.cu->host + 4 * i, &b.cu[i <= image ? image : image + 1], 4);
            arrays_upload();
            expect_ok(call(&c, &b, &a, DEVICE));
            arrays_fetch(DEVICE);
            for (int o = 0; o < N_RESULTS; o++) {
                const int64_t row = o == D_KEY_BIAS ? 4 : width_of(&c) * rvit_dtype_size(c.dtype);
                assert_memory_equal(a.results[o]->result[DEVICE] + b.cu[image] * row, together[o] + b.cu[image] * row,
                                    (size_t)(lengths[image] * row));
                assert_memory_equal(a.results[o]->result[DEVICE], a.results[o]->host, (size_t)(b.cu[image] * row));
                array_expect_untouched(a.results[o], DEVICE, b.cu[image + 1] * row);
            }
        }
        harness_teardown(NULL);
    }
}

/* Lengths without meaning: nothing outside the arrays is touched. */
static void attention_backward_garbage_lengths(void **state)
{
    (void)state;
    static const int32_t lengths[] = {30, 40, 50}, garbage[][4] = {{-5, 1000, 20, INT32_MAX}, {200, 100, 50, 0}, {0, 1000, -1, 77}};
#if defined(__SANITIZE_THREAD__)
    skip(); /* images that overlap write the same rows at the same time: a race in results without meaning */
#endif
    for (int t = 0; t < N_STORED_TYPES; t++)
        for (int g = 0; g < 3; g++) {
            const backward_case c = {.dtype = stored_types[t],
                                     .n_heads = 2,
                                     .head_dim = 64,
                                     .lengths = lengths,
                                     .n_images = 3,
                                     .padding_rows = 2,
                                     .key_bias = 1,
                                     .d_key_bias = 1,
                                     .d_cls_probs = 1,
                                     .d_lse = 1,
                                     .magnitude = 1};
            const batch b = batch_of(lengths, 3, 2);
            backward_arrays a = prepare(&c, &b);
            fill_forward(&c, &b, &a);
            memcpy(a.cu->host, garbage[g], sizeof garbage[g]);
            arrays_upload();
            if (supported(DEVICE, feature_of(&c), call(&c, &b, &a, DEVICE)))
                arrays_fetch(DEVICE);
            harness_teardown(NULL);
        }
}

/* The loss of the reference's gradients: out . d_out + cls_probs . d_cls_probs + lse . d_lse. */
static double loss_of(const attention_backward_problem *p)
{
    const attention_problem *f = &p->forward;
    const int32_t width = f->n_heads * f->head_dim;
    double out[5 * 16], cls[5 * 2], lse[5 * 2], loss = 0;
    attention_f64(f, out, cls, lse);
    for (int32_t i = 0; i < f->length * width; i++)
        loss += out[i] * (double)p->d_out[i];
    for (int32_t i = 0; i < f->length * f->n_heads; i++)
        loss += cls[i] * (double)p->d_cls_probs[i] + lse[i] * (double)p->d_lse[i];
    return loss;
}

/* The float64 reference itself, against differences of that of the forward. */
static void attention_backward_reference(void **state)
{
    (void)state;
    enum { LENGTH = 5, HEADS = 2, DIM = 8, N = LENGTH * HEADS * DIM, NUMBERS = LENGTH * HEADS };
    const float step = 0x1p-9f;
    float inputs[4][N], out[N], lse[NUMBERS], cls[NUMBERS], d_out[N], d_cls[NUMBERS], d_lse[NUMBERS]; /* inputs: q, k, v, key_bias */
    double exact_out[N], exact_cls[NUMBERS], exact_lse[NUMBERS], gradients[4][N];
    /* Values of 11 bits, so that a step from them is exact. */
    for (int i = 0; i < 4; i++)
        for (int j = 0; j < N; j++)
            inputs[i][j] = rounded(RVIT_F16, random_normal());
    store_normal(RVIT_F32, d_out, 0, N, 1);
    store_normal(RVIT_F32, d_cls, 0, NUMBERS, 1);
    store_normal(RVIT_F32, d_lse, 0, NUMBERS, 1);
    attention_backward_problem p = {.forward = {.length = LENGTH, .n_heads = HEADS, .head_dim = DIM, .scale = 0.4f}};
    p.forward.q = inputs[0], p.forward.k = inputs[1], p.forward.v = inputs[2], p.forward.key_bias = inputs[3];
    attention_f64(&p.forward, exact_out, exact_cls, exact_lse);
    for (int i = 0; i < N; i++)
        out[i] = (float)exact_out[i];
    for (int i = 0; i < NUMBERS; i++)
        lse[i] = (float)exact_lse[i], cls[i] = (float)exact_cls[i];
    p.out = out, p.lse = lse, p.cls_probs = cls, p.d_out = d_out, p.d_cls_probs = d_cls, p.d_lse = d_lse;
    attention_backward_f64(&p, gradients[0], gradients[1], gradients[2], gradients[3]);
    for (int i = 0; i < 4; i++)
        for (int j = 0; j < (i == 3 ? LENGTH : N); j++) {
            const float at = inputs[i][j];
            inputs[i][j] = at + step;
            const double above = loss_of(&p);
            inputs[i][j] = at - step;
            const double difference = (above - loss_of(&p)) / (2 * (double)step);
            inputs[i][j] = at;
            if (!(fabs(difference - gradients[i][j]) <= 2e-5 * (1 + fabs(difference))))
                fail_msg("input %d, element %d: the gradient is %.9g, the difference %.9g", i, j, gradients[i][j], difference);
        }
}

/* A call that works. */
void good_attention_backward(rvit_attention_backward_args *a)
{
    a->n_images = GOOD_IMAGES;
    a->n_heads = 2;
    a->head_dim = 8;
    a->max_len = GOOD_MAX_LEN;
    a->rows = GOOD_ROWS;
    rvit_view *const inputs[] = {&a->q, &a->k, &a->v, &a->out, &a->d_out}, *const outputs[] = {&a->d_q, &a->d_k, &a->d_v};
    rvit_view *const numbers[] = {&a->lse, &a->cls_probs, &a->d_cls_probs, &a->d_lse};
    for (int i = 0; i < 5; i++)
        *inputs[i] = good_input("input", GOOD_ROWS * GOOD_DIM * 4);
    for (int i = 0; i < 4; i++)
        *numbers[i] = good_input("numbers", GOOD_ROWS * 2 * 4);
    for (int i = 0; i < 3; i++)
        *outputs[i] = good_output("gradient", GOOD_ROWS * GOOD_DIM * 4);
    a->cu_seqlens = good_lengths();
    a->key_bias = good_input("key_bias", GOOD_ROWS * 4);
    a->d_key_bias = good_output("d_key_bias", GOOD_ROWS * 4);
    a->workspace = good_output("workspace", rvit_attention_backward_workspace(a));
}

SUITE(attention_backward_suite, TEST(attention_backward_reference), TEST(attention_backward_lengths), TEST(attention_backward_long_images),
      TEST(attention_backward_head_dims), TEST(attention_backward_short_images), TEST(attention_backward_alone),
      TEST(attention_backward_options), TEST(attention_backward_empty), TEST(attention_backward_masked_keys),
      TEST(attention_backward_batch_mates), TEST(attention_backward_garbage_lengths));

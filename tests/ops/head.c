#include "good_ops.h"
#include "ops.h"

#include <math.h>

#include "reference/plain.h"

typedef struct head_case {
    rvit_dtype dtype, weight_dtype;
    int32_t dim, n_tokens, n_classes;
    const int32_t *lengths;
    int32_t n_images;
    int bias, no_lengths, no_gamma, no_beta;
    rvit_norm norm;
} head_case;

static void run(const head_case *c)
{
    const batch b = batch_of(c->lengths, c->n_images, 3);
    const int64_t width = (int64_t)c->n_tokens * c->dim, n = (int64_t)c->n_images * c->n_classes;
    array *x = array_input("x", b.rows * c->dim * rvit_dtype_size(c->dtype)), *cu = c->no_lengths ? NULL : array_cu(&b);
    array *gamma = c->no_gamma ? NULL : array_input("gamma", c->dim * 4);
    array *beta = c->no_gamma || c->no_beta ? NULL : array_input("beta", c->dim * 4);
    array *weight = array_input("weight", c->n_classes * width * rvit_dtype_size(c->weight_dtype));
    array *bias = c->bias ? array_input("bias", c->n_classes * 4) : NULL, *logits = array_output("logits", n * 4);
    /* Only the first n_tokens rows of an image may be read: the others stay NaN. */
    float *rows = scratch((size_t)(b.live * c->dim) * 4);
    for (int32_t i = 0; i < c->n_images; i++)
        for (int32_t j = 0; j < c->n_tokens && b.cu[i] + j < b.cu[i + 1]; j++)
            for (int32_t k = 0; k < c->dim; k++) {
                const int64_t at = ((int64_t)b.cu[i] + j) * c->dim + k;
                store(c->dtype, x->host, at, random_normal());
                rows[at] = load(c->dtype, x->host, at);
            }
    for (int32_t i = 0; gamma && i < c->dim; i++)
        store(RVIT_F32, gamma->host, i, 1 + 0.2f * random_normal());
    if (beta)
        store_normal(RVIT_F32, beta->host, 0, c->dim, 0.3f);
    store_normal(c->weight_dtype, weight->host, 0, c->n_classes * width, 1 / sqrtf((float)width));
    if (bias)
        store_normal(RVIT_F32, bias->host, 0, c->n_classes, 1);
    arrays_upload();

    const float *weights = loaded(c->weight_dtype, weight->host, 0, c->n_classes * width);
    const head_problem p = {.n_images = c->n_images,
                            .dim = c->dim,
                            .n_tokens = c->n_tokens,
                            .n_classes = c->n_classes,
                            .cu = c->no_lengths ? NULL : b.cu,
                            .norm = {.rms = c->norm == RVIT_NORM_RMS,
                                     .eps = 1e-6f,
                                     .gamma = gamma ? (const float *)(const void *)gamma->host : NULL,
                                     .beta = beta ? (const float *)(const void *)beta->host : NULL},
                            .x = rows,
                            .weight = weights,
                            .bias = bias ? (const float *)(const void *)bias->host : NULL};
    double *exact = scratch((size_t)n * sizeof *exact);
    float *plain = scratch((size_t)n * sizeof *plain);
    head_f64(&p, exact);
    head_f32(&p, plain);
    for (side s = 0; (int)s < H.n_sides; s++) {
        rvit_head_args args = RVIT_HEAD_ARGS_INIT;
        args.dtype = c->dtype;
        args.weight_dtype = c->weight_dtype;
        args.n_images = c->n_images;
        args.rows = b.rows;
        args.dim = c->dim;
        args.n_tokens = c->n_tokens;
        args.n_classes = c->n_classes;
        args.eps = c->no_gamma ? 0 : 1e-6f;
        args.norm = c->norm;
        args.x = array_view(x, s);
        args.cu_seqlens = array_view(cu, s);
        args.gamma = array_view(gamma, s);
        args.beta = array_view(beta, s);
        args.weight = array_view(weight, s);
        args.bias = array_view(bias, s);
        args.logits = array_view(logits, s);
        const char *feature = c->weight_dtype == RVIT_BF16 ? "bf16" : type_feature(c->dtype);
        if (!supported(s, feature, rvit_head(H.stream[s], &args)))
            continue;
        arrays_fetch(s);
        char what[160];
        snprintf(what, sizeof what, "head %s, weights %s, dim %d, %d tokens, %d classes", rvit_enum_name(RVIT_ENUM_DTYPE, c->dtype),
                 rvit_enum_name(RVIT_ENUM_DTYPE, c->weight_dtype), c->dim, c->n_tokens, c->n_classes);
        const float *got = loaded(RVIT_F32, logits->result[s], 0, n);
        if (s == ORACLE)
            check_oracle(what, RVIT_F32, got, exact, n);
        else
            check_close(what, RVIT_F32, got, exact, plain, n);
    }
    harness_teardown(NULL);
}

static const int32_t lengths[] = {5, 0, 1, 2, 17, 0, 0, 3, 1};

static void head_variants(void **state)
{
    (void)state;
    for (int t = 0; t < N_STORED_TYPES; t++)
        for (int w = 0; w < N_STORED_TYPES; w++)
            for (int n_tokens = 1; n_tokens <= 2; n_tokens++)
                for (int bias = 0; bias < 2; bias++) {
                    const head_case c = {.dtype = stored_types[t],
                                         .weight_dtype = stored_types[w],
                                         .dim = 192,
                                         .n_tokens = n_tokens,
                                         .n_classes = 10,
                                         .lengths = lengths,
                                         .n_images = 9,
                                         .bias = bias};
                    run(&c);
                }
}

static void head_sizes(void **state)
{
    (void)state;
    static const int32_t dims[] = {4, 12, 64, 100, 384, 768}, classes[] = {1, 2, 7, 33, 257, 1000};
    static const int32_t none[3] = {0};
    for (int t = 0; t < 2; t++)
        for (int i = 0; i < 6; i++) {
            const head_case c = {.dtype = stored_types[t],
                                 .weight_dtype = stored_types[t],
                                 .dim = dims[i],
                                 .n_tokens = 1 + i % 2,
                                 .n_classes = classes[i],
                                 .lengths = lengths,
                                 .n_images = 9,
                                 .bias = 1};
            run(&c);
            const head_case other = {.dtype = stored_types[t],
                                     .weight_dtype = stored_types[t],
                                     .dim = dims[5 - i],
                                     .n_tokens = 2 - i % 2,
                                     .n_classes = classes[i],
                                     .lengths = lengths,
                                     .n_images = 4,
                                     .bias = 1};
            run(&other);
        }
    const head_case all_empty = {.dtype = RVIT_F32,
                                 .weight_dtype = RVIT_F32,
                                 .dim = 64,
                                 .n_tokens = 1,
                                 .n_classes = 7,
                                 .lengths = none,
                                 .n_images = 3,
                                 .bias = 1},
                    no_images = {
                        .dtype = RVIT_F32, .weight_dtype = RVIT_F32, .dim = 64, .n_tokens = 1, .n_classes = 7, .lengths = none, .bias = 1};
    run(&all_empty);
    run(&no_images);
}

/* Without lengths, without a norm, with an RMS norm. */
static void head_norms(void **state)
{
    (void)state;
    static const int32_t ones[11] = {1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1}, twos[11] = {2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2};
    for (int t = 0; t < N_STORED_TYPES; t++)
        for (int n_tokens = 1; n_tokens <= 2; n_tokens++)
            for (int lengths_given = 0; lengths_given < 2; lengths_given++)
                for (int kind = 0; kind < 4; kind++) {
                    if (leaves_out(t + n_tokens + lengths_given + kind, 2))
                        continue;
                    const head_case c = {.dtype = stored_types[t],
                                         .weight_dtype = stored_types[(t + kind) % N_STORED_TYPES],
                                         .dim = kind % 2 ? 100 : 1280,
                                         .n_tokens = n_tokens,
                                         .n_classes = 9,
                                         .lengths = lengths_given   ? lengths
                                                    : n_tokens == 1 ? ones
                                                                    : twos,
                                         .n_images = lengths_given ? 9 : 11,
                                         .bias = kind != 2,
                                         .no_lengths = !lengths_given,
                                         .no_gamma = kind == 1,
                                         .no_beta = kind >= 2,
                                         .norm = kind == 3 ? RVIT_NORM_RMS : RVIT_NORM_LAYER};
                    run(&c);
                }
}

/* A call that works. */
void good_head(rvit_head_args *a)
{
    a->n_images = GOOD_IMAGES;
    a->rows = GOOD_ROWS;
    a->dim = GOOD_DIM;
    a->n_tokens = 1;
    a->n_classes = 7;
    a->eps = 1e-6f;
    a->x = good_input("x", GOOD_ROWS * GOOD_DIM * 4);
    a->cu_seqlens = good_lengths();
    a->gamma = good_input("gamma", GOOD_DIM * 4);
    a->beta = good_input("beta", GOOD_DIM * 4);
    a->weight = good_input("weight", 7 * GOOD_DIM * 4);
    a->bias = good_input("bias", 7 * 4);
    a->logits = good_output("logits", GOOD_IMAGES * 7 * 4);
}

SUITE(head_suite, TEST(head_variants), TEST(head_sizes), TEST(head_norms));

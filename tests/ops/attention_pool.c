#include "good_ops.h"
#include "ops.h"

#include <math.h>

#include "reference/plain.h"

typedef struct probe_case {
    rvit_dtype dtype, out_dtype;
    batch b;
    int32_t dim, n_heads, head_dim, stride; /* stride: of logits; 0: n_heads */
    int sizes, bias, probs;
} probe_case;

typedef struct probe_arrays {
    array *x, *logits, *sizes, *cu, *weight, *bias, *out, *probs;
} probe_arrays;

static const float *floats_of(const array *a)
{
    return a ? (const float *)(const void *)a->host : NULL;
}

/* Logits beside the heads, and rows past the last image, stay NaN. */
static probe_arrays make(const probe_case *c)
{
    const int64_t element = rvit_dtype_size(c->dtype), width = (int64_t)c->n_heads * c->head_dim;
    const int32_t stride = c->stride ? c->stride : c->n_heads;
    probe_arrays a = {.x = array_input("x", c->b.rows * c->dim * element),
                      .logits = array_input("logits", c->b.rows * stride * 4),
                      .sizes = c->sizes ? array_input("sizes", c->b.rows * 4) : NULL,
                      .cu = array_cu(&c->b),
                      .weight = array_input("weight", width * c->dim * element),
                      .bias = c->bias ? array_input("bias", width * 4) : NULL,
                      .out = array_output("out", c->b.n_images * width * rvit_dtype_size(c->out_dtype)),
                      .probs = c->probs ? array_output("probs", c->b.rows * c->n_heads * 4) : NULL};
    store_normal(c->dtype, a.x->host, 0, c->b.live * c->dim, 1);
    for (int64_t t = 0; t < c->b.live; t++) {
        store_normal(RVIT_F32, a.logits->host, t * stride, c->n_heads, 2);
        if (a.sizes)
            store(RVIT_F32, a.sizes->host, t, (float)(1 + random_below(9)));
    }
    store_normal(c->dtype, a.weight->host, 0, width * c->dim, 1 / sqrtf((float)c->dim));
    if (a.bias)
        store_normal(RVIT_F32, a.bias->host, 0, width, 0.3f);
    return a;
}

static void compare(const char *what, side s, rvit_dtype dtype, const float *got, const double *exact, const float *plain, int64_t n)
{
    if (s == ORACLE)
        check_oracle(what, dtype, got, exact, n);
    else
        check_close(what, dtype, got, exact, plain, n);
}

static void check_image(const probe_case *c, side s, const probe_arrays *a, int32_t image)
{
    const int32_t begin = c->b.cu[image], length = c->b.cu[image + 1] - begin, width = c->n_heads * c->head_dim;
    const int64_t n_probs = (int64_t)length * c->n_heads;
    double *exact = scratch((size_t)width * sizeof *exact), *exact_probs = scratch((size_t)(n_probs + 1) * sizeof *exact_probs);
    float *plain = scratch((size_t)width * sizeof *plain), *plain_probs = scratch((size_t)(n_probs + 1) * sizeof *plain_probs);
    const int32_t stride = c->stride ? c->stride : c->n_heads;
    const probe_problem p = {.length = length,
                             .dim = c->dim,
                             .n_heads = c->n_heads,
                             .head_dim = c->head_dim,
                             .logits_stride = stride,
                             .x = loaded(c->dtype, a->x->host, (int64_t)begin * c->dim, (int64_t)length * c->dim),
                             .logits = floats_of(a->logits) + (int64_t)begin * stride,
                             .sizes = a->sizes ? floats_of(a->sizes) + begin : NULL,
                             .weight = loaded(c->dtype, a->weight->host, 0, (int64_t)width * c->dim),
                             .bias = floats_of(a->bias)};
    probe_f64(&p, exact, exact_probs);
    probe_f32(&p, plain, plain_probs);
    char what[128];
    snprintf(what, sizeof what, "probe %s to %s, image %d, %d rows of %d, %d heads of %d", rvit_enum_name(RVIT_ENUM_DTYPE, c->dtype),
             rvit_enum_name(RVIT_ENUM_DTYPE, c->out_dtype), image, length, c->dim, c->n_heads, c->head_dim);
    compare(what, s, c->out_dtype, loaded(c->out_dtype, a->out->result[s], (int64_t)image * width, width), exact, plain, width);
    if (a->probs)
        compare(what, s, RVIT_F32, loaded(RVIT_F32, a->probs->result[s], (int64_t)begin * c->n_heads, n_probs), exact_probs, plain_probs,
                n_probs);
}

static void run(const probe_case *c)
{
    const probe_arrays a = make(c);
    arrays_upload();
    for (side s = 0; (int)s < H.n_sides; s++) {
        rvit_attention_pool_args args = RVIT_ATTENTION_POOL_ARGS_INIT;
        args.dtype = c->dtype;
        args.out_dtype = c->out_dtype;
        args.n_images = c->b.n_images;
        args.n_heads = c->n_heads;
        args.head_dim = c->head_dim;
        args.max_len = c->b.max_len;
        args.rows = c->b.rows;
        args.dim = c->dim;
        args.x = array_view(a.x, s);
        args.logits = array_view(a.logits, s);
        args.logits_stride = c->stride;
        args.sizes = array_view(a.sizes, s);
        args.cu_seqlens = array_view(a.cu, s);
        args.weight = array_view(a.weight, s);
        args.bias = array_view(a.bias, s);
        args.out = array_view(a.out, s);
        args.probs = array_view(a.probs, s);
        const char *feature = c->out_dtype == RVIT_BF16 ? "bf16" : type_feature(c->dtype);
        if (!supported(s, feature, rvit_attention_pool(H.stream[s], &args)))
            continue;
        arrays_fetch(s);
        for (int32_t image = 0; image < c->b.n_images; image++)
            check_image(c, s, &a, image);
        if (a.probs)
            array_expect_untouched(a.probs, s, c->b.live * c->n_heads * 4);
    }
    harness_teardown(NULL);
}

static const int32_t lengths[] = {9, 0, 1, 65, 2, 40};

static void probe_variants(void **state)
{
    (void)state;
    for (int t = 0; t < N_STORED_TYPES; t++)
        for (int u = 0; u < N_STORED_TYPES; u++)
            for (int extras = 0; extras < 8; extras++) {
                if (leaves_out(t + u + extras, 3))
                    continue;
                const probe_case c = {.dtype = stored_types[t],
                                      .out_dtype = stored_types[u],
                                      .b = batch_of(lengths, 6, u),
                                      .dim = 192,
                                      .n_heads = 3,
                                      .head_dim = 64,
                                      .stride = extras & 1 ? 4 : 0,
                                      .sizes = extras & 1,
                                      .bias = (extras & 2) != 0,
                                      .probs = (extras & 4) != 0};
                run(&c);
            }
}

static void probe_sizes(void **state)
{
    (void)state;
    static const struct {
        int32_t dim, n_heads, head_dim;
    } sizes[] = {{4, 1, 4},   {8, 2, 4},    {60, 5, 12},   {100, 1, 100},  {128, 2, 64},  {260, 4, 68},
                 {512, 8, 4}, {768, 2, 96}, {1152, 1, 72}, {1536, 1, 192}, {1540, 2, 12}, {3076, 1, 8}};
    for (int t = 0; t < N_STORED_TYPES; t++)
        for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
            if (leaves_out((int64_t)i + t, 3))
                continue;
            const probe_case c = {.dtype = stored_types[t],
                                  .out_dtype = RVIT_F32,
                                  .b = batch_of(lengths, 6, 3),
                                  .dim = sizes[i].dim,
                                  .n_heads = sizes[i].n_heads,
                                  .head_dim = sizes[i].head_dim,
                                  .stride = (sizes[i].n_heads + 3) / 4 * 4,
                                  .bias = 1,
                                  .probs = 1};
            run(&c);
        }
}

static void probe_lengths(void **state)
{
    (void)state;
    static const int32_t longer[] = {577, 1024, 1025, 1369, 5000};
    for (int t = 0; t < 2; t++) {
        int32_t every[EVERY_LENGTH + 5];
        int32_t n = every_length(every);
        for (int i = 0; i < 5; i++)
            every[n++] = longer[i];
        const probe_case c = {.dtype = stored_types[t],
                              .out_dtype = RVIT_F32,
                              .b = batch_of(every, n, 2),
                              .dim = 32,
                              .n_heads = 2,
                              .head_dim = 16,
                              .sizes = t,
                              .bias = 1,
                              .probs = 1};
        run(&c);
    }
}

static void probe_shapes(void **state)
{
    (void)state;
    static const int32_t none[3] = {0, 0, 0};
    for (int32_t n_images = 0; n_images < 4; n_images++) {
        const probe_case c = {
            .b = batch_of(none, n_images, n_images), .dim = 16, .n_heads = 2, .head_dim = 8, .bias = 1, .probs = n_images % 2};
        run(&c);
    }
    int32_t many[700];
    for (int i = 0; i < 700; i++)
        many[i] = random_below(5);
    const probe_case c = {.dtype = RVIT_F16, .out_dtype = RVIT_F16, .b = batch_of(many, 700, 5), .dim = 8, .n_heads = 3, .head_dim = 4};
    run(&c);
}

/* x = e0, e1, 2 e2, with the queries ln 2 e0 and ln 2 e2: values worked out by hand. */
static void probe_vectors(void **state)
{
    (void)state;
    enum { ROWS = 3, DIM = 4, HEADS = 2 };
    static const int32_t length[] = {ROWS};
    static const float x[ROWS * DIM] = {1, 0, 0, 0, 0, 1, 0, 0, 0, 0, 2, 0};
    static const double wanted[HEADS * DIM] = {0.5, 0.25, 0.5, 0, 1 / 6.0, 1 / 6.0, 4 / 3.0, 0};
    static const double wanted_probs[ROWS * HEADS] = {0.5, 1 / 6.0, 0.25, 1 / 6.0, 0.25, 2 / 3.0};
    const probe_case c = {.b = batch_of(length, 1, 0), .dim = DIM, .n_heads = HEADS, .head_dim = DIM, .probs = 1};
    const probe_arrays a = make(&c);
    const float ln_2 = 0.69314718f, logits[ROWS * HEADS] = {ln_2, 0, 0, 0, 0, 2 * ln_2};
    memcpy(a.x->host, x, sizeof x);
    memcpy(a.logits->host, logits, sizeof logits);
    for (int i = 0; i < HEADS * DIM * DIM; i++)
        store(RVIT_F32, a.weight->host, i, i % DIM == i / DIM % DIM);
    arrays_upload();
    for (side s = 0; (int)s < H.n_sides; s++) {
        rvit_attention_pool_args args = RVIT_ATTENTION_POOL_ARGS_INIT;
        args.n_images = 1;
        args.n_heads = HEADS;
        args.head_dim = args.dim = DIM;
        args.max_len = ROWS;
        args.rows = ROWS;
        args.x = array_view(a.x, s);
        args.logits = array_view(a.logits, s);
        args.cu_seqlens = array_view(a.cu, s);
        args.weight = array_view(a.weight, s);
        args.out = array_view(a.out, s);
        args.probs = array_view(a.probs, s);
        expect_ok(rvit_attention_pool(H.stream[s], &args));
        arrays_fetch(s);
        for (int i = 0; i < HEADS * DIM; i++)
            assert_true(fabs(load(RVIT_F32, a.out->result[s], i) - wanted[i]) <= 3e-7);
        for (int i = 0; i < ROWS * HEADS; i++)
            assert_true(fabs(load(RVIT_F32, a.probs->result[s], i) - wanted_probs[i]) <= 2e-7);
    }
}

/* A call that works. */
void good_attention_pool(rvit_attention_pool_args *a)
{
    enum { HEADS = 3, HEAD_DIM = 4, STRIDE = 4 };
    a->n_images = GOOD_IMAGES;
    a->n_heads = HEADS;
    a->head_dim = HEAD_DIM;
    a->max_len = GOOD_MAX_LEN;
    a->rows = GOOD_ROWS;
    a->dim = GOOD_DIM;
    a->x = good_input("x", GOOD_ROWS * GOOD_DIM * 4);
    a->logits = good_input("logits", ((GOOD_ROWS - 1) * STRIDE + HEADS) * 4);
    a->logits_stride = STRIDE;
    a->sizes = good_input("sizes", GOOD_ROWS * 4);
    a->cu_seqlens = good_lengths();
    a->weight = good_input("weight", HEADS * HEAD_DIM * GOOD_DIM * 4);
    a->bias = good_input("bias", HEADS * HEAD_DIM * 4);
    a->out = good_output("out", GOOD_IMAGES * HEADS * HEAD_DIM * 4);
    a->probs = good_output("probs", GOOD_ROWS * HEADS * 4);
}

SUITE(attention_pool_suite, TEST(probe_variants), TEST(probe_sizes), TEST(probe_lengths), TEST(probe_shapes), TEST(probe_vectors));

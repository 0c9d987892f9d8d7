#include "good_ops.h"
#include "ops.h"

#include <math.h>

#include "reference/plain.h"

typedef struct layernorm_case {
    rvit_dtype dtype, out_dtype;
    int32_t dim;
    int64_t rows, capacity, x_rows;
    int gather, copy;
    float offset; /* added to every x: a large mean */
    rvit_norm norm;
    int no_beta;
    int32_t features;   /* 0: dim; the other columns of x, gamma and beta stay NaN */
    float static_scale; /* I8, E4M3: 0: none */
} layernorm_case;

/* Checks quantized values and, with a static scale, how many saturate. */
static void check_quantized(const char *what, const layernorm_case *c, side s, const array *out, const array *out_scales,
                            const array *saturated, const double *exact, const float *plain)
{
    const float *scales = (const float *)(const void *)out_scales->result[s];
    array_expect_untouched(out_scales, s, c->rows * 4);
    if (c->static_scale == 0) {
        check_quantized_rows(what, c->out_dtype, out->result[s], scales, exact, plain, c->rows, c->dim);
        return;
    }
    const double most = c->out_dtype == RVIT_I8 ? 127 : 448;
    int32_t cut, surely = 0, perhaps = 0;
    memcpy(&cut, saturated->result[s], 4);
    for (int64_t i = 0; i < c->rows * c->dim; i++) {
        surely += fabs(exact[i]) / c->static_scale > most * 1.0001;
        perhaps += fabs(exact[i]) / c->static_scale > most * 0.9999;
    }
    for (int64_t t = 0; t < c->rows; t++)
        assert_memory_equal(&scales[t], &c->static_scale, 4);
    if (surely == 0 || cut < surely || cut > perhaps)
        fail_msg("%s: %d values are counted as cut off, should be %d to %d", what, cut, surely, perhaps);
}

static void check(const layernorm_case *c, side s, const array *out, const array *out_x, const array *out_scales, const array *saturated,
                  const float *x, const float *gamma, const float *beta)
{
    const int64_t n = c->rows * c->dim;
    const layernorm_problem p = {
        .rows = c->rows,
        .dim = c->dim,
        .norm = {.features = c->features, .rms = c->norm == RVIT_NORM_RMS, .eps = 1e-6f, .gamma = gamma, .beta = beta},
        .x = x};
    double *exact = scratch((size_t)n * sizeof *exact);
    float *plain = scratch((size_t)n * sizeof *plain);
    layernorm_f64(&p, exact);
    layernorm_f32(&p, plain);
    char what[160];
    snprintf(what, sizeof what, "layernorm %s to %s, %lld rows of %d, gather %d, norm %d of %d columns",
             rvit_enum_name(RVIT_ENUM_DTYPE, c->dtype), rvit_enum_name(RVIT_ENUM_DTYPE, c->out_dtype), (long long)c->rows, c->dim,
             c->gather, (int)c->norm, c->features);
    const float *got = loaded(c->out_dtype, out->result[s], 0, n);
    if (out_scales)
        check_quantized(what, c, s, out, out_scales, saturated, exact, plain);
    else if (s == ORACLE)
        check_oracle(what, c->out_dtype, got, exact, n);
    else
        check_close(what, c->out_dtype, got, exact, plain, n);
    array_expect_untouched(out, s, n * rvit_dtype_size(c->out_dtype));
    for (int64_t i = 0; c->features && i < n; i++)
        if (i % c->dim >= c->features && memcmp(&got[i], &(float){0}, 4))
            fail_msg("%s: element %lld of out, in the padding, is %g", what, (long long)i, (double)got[i]);
    if (out_x) {
        array_expect_untouched(out_x, s, n * rvit_dtype_size(c->dtype));
        const float *copied = loaded(c->dtype, out_x->result[s], 0, n);
        for (int64_t i = 0; i < n; i++)
            if (memcmp(&copied[i], &x[i], 4))
                fail_msg("%s: element %lld of out_x is not that of x", what, (long long)i);
    }
}

static void run(const layernorm_case *c)
{
    const int64_t element = rvit_dtype_size(c->dtype), out_element = rvit_dtype_size(c->out_dtype);
    array *x = array_input("x", c->x_rows * c->dim * element);
    const int32_t features = c->features ? c->features : c->dim;
    array *gamma = array_input("gamma", c->dim * 4), *beta = c->no_beta ? NULL : array_input("beta", c->dim * 4);
    array *src_rows = c->gather ? array_input("src_rows", c->capacity * 4) : NULL;
    array *out = array_output("out", c->capacity * c->dim * out_element);
    const int bytes = c->out_dtype == RVIT_I8 || c->out_dtype == RVIT_E4M3;
    array *out_scales = bytes ? array_output("out_scales", c->capacity * 4) : NULL;
    array *static_scale = c->static_scale != 0 ? array_input("static_scale", 4) : NULL;
    array *saturated = static_scale ? array_output("saturated", 4) : NULL;
    if (static_scale) {
        memcpy(static_scale->host, &c->static_scale, 4);
        memset(saturated->host, 0, 4);
    }
    array *out_x = c->copy ? array_output("out_x", c->capacity * c->dim * element) : NULL;
    array *live = c->rows == c->capacity ? NULL : array_live((int32_t)c->rows);
    /* With a gather, the rows of x that nobody names stay NaN. */
    float *gathered = scratch((size_t)(c->rows * c->dim) * 4);
    for (int64_t t = 0; t < c->rows; t++) {
        const int32_t row = (int32_t)(c->gather ? (t * 7 + 3) % c->x_rows : t);
        if (c->gather)
            memcpy(src_rows->host + t * 4, &row, 4);
        for (int32_t i = 0; i < features; i++)
            store(c->dtype, x->host, (int64_t)row * c->dim + i, c->offset + random_normal());
    }
    for (int64_t t = 0; t < c->rows; t++) {
        const int64_t row = c->gather ? (t * 7 + 3) % c->x_rows : t;
        memcpy(gathered + t * c->dim, loaded(c->dtype, x->host, row * c->dim, c->dim), (size_t)c->dim * 4);
    }
    for (int32_t i = 0; i < features; i++)
        store(RVIT_F32, gamma->host, i, 1 + 0.2f * random_normal());
    if (beta)
        store_normal(RVIT_F32, beta->host, 0, features, 0.3f);
    arrays_upload();
    for (side s = 0; (int)s < H.n_sides; s++) {
        rvit_layernorm_args args = RVIT_LAYERNORM_ARGS_INIT;
        args.dtype = c->dtype;
        args.out_dtype = c->out_dtype;
        args.rows.capacity = c->capacity;
        args.rows.live = array_view(live, s);
        args.x_rows = c->gather ? c->x_rows : 0;
        args.dim = c->dim;
        args.eps = 1e-6f;
        args.x = array_view(x, s);
        args.src_rows = array_view(src_rows, s);
        args.gamma = array_view(gamma, s);
        args.beta = array_view(beta, s);
        args.out = array_view(out, s);
        args.out_x = array_view(out_x, s);
        args.norm = c->norm;
        args.features = c->features;
        args.out_scales = array_view(out_scales, s);
        args.static_scale = array_view(static_scale, s);
        args.saturated = array_view(saturated, s);
        const char *feature = bytes || c->out_dtype == RVIT_BF16 ? type_feature(c->out_dtype) : type_feature(c->dtype);
        if (!supported(s, feature, rvit_layernorm(H.stream[s], &args)))
            continue;
        arrays_fetch(s);
        check(c, s, out, out_x, out_scales, saturated, gathered, (const float *)gamma->host, beta ? (const float *)beta->host : NULL);
    }
    harness_teardown(NULL);
}

static void layernorm_variants(void **state)
{
    (void)state;
    for (int t = 0; t < N_STORED_TYPES; t++)
        for (int u = 0; u < N_STORED_TYPES; u++)
            for (int gather = 0; gather < 2; gather++)
                for (int copy = 0; copy < 2; copy++) {
                    if (leaves_out(t + u + gather + copy, 2))
                        continue;
                    const layernorm_case c = {.dtype = stored_types[t],
                                              .out_dtype = stored_types[u],
                                              .dim = 192,
                                              .rows = 37,
                                              .capacity = 50,
                                              .x_rows = gather ? 90 : 50,
                                              .gather = gather,
                                              .copy = copy};
                    run(&c);
                }
}

static void layernorm_sizes(void **state)
{
    (void)state;
    static const int32_t dims[] = {4, 8, 12, 60, 64, 100, 128, 192, 252, 256, 260, 384, 768, 1024, 1152, 1280, 1408, 1664};
    for (int t = 0; t < N_STORED_TYPES; t++)
        for (size_t i = 0; i < sizeof dims / sizeof dims[0]; i++) {
            const layernorm_case c = {.dtype = stored_types[t],
                                      .out_dtype = stored_types[t],
                                      .dim = dims[i],
                                      .rows = 11,
                                      .capacity = 13,
                                      .x_rows = 13,
                                      .gather = i % 2 == 0,
                                      .copy = i % 3 == 0};
            run(&c);
        }
}

static void layernorm_rows(void **state)
{
    (void)state;
    static const int64_t rows[] = {0, 1, 2, 3, 4, 5, 31, 32, 33, 63, 64, 65, 197, 1000};
    for (int t = 0; t < 2; t++)
        for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
            for (int padded = 0; padded < 2; padded++) {
                const layernorm_case c = {.dtype = stored_types[t],
                                          .out_dtype = stored_types[t],
                                          .dim = 64,
                                          .rows = rows[i],
                                          .capacity = rows[i] + padded,
                                          .x_rows = rows[i] * 2 + 7,
                                          .gather = padded,
                                          .copy = 1};
                run(&c);
            }
}

/* RMS norms, rows with padding, and no beta; widths on either side of the kernels' tiles. */
static void layernorm_norms(void **state)
{
    (void)state;
    static const int32_t widths[][2] = {{4, 1},     {8, 3},     {64, 0},     {64, 61},    {100, 98},    {192, 0},
                                        {260, 257}, {512, 509}, {1024, 962}, {1032, 955}, {1408, 1407}, {2736, 2730}};
    for (int t = 0; t < N_STORED_TYPES; t++)
        for (size_t i = 0; i < sizeof widths / sizeof widths[0]; i++)
            for (int kind = 0; kind < 3; kind++) {
                if (leaves_out((int64_t)i + kind, 3))
                    continue;
                const layernorm_case c = {.dtype = stored_types[t],
                                          .out_dtype = stored_types[(t + (int)i) % N_STORED_TYPES],
                                          .dim = widths[i][0],
                                          .rows = 9,
                                          .capacity = 11,
                                          .x_rows = 13,
                                          .gather = i % 2 == 0,
                                          .copy = i % 3 == 0,
                                          .offset = kind == 2 ? 0.5f : 0,
                                          .norm = kind == 0 ? RVIT_NORM_RMS : RVIT_NORM_LAYER,
                                          .no_beta = kind < 2,
                                          .features = widths[i][1]};
                run(&c);
            }
}

/* Quantized rows with special values for quantization and for the norm; then a static scale that saturates above 2.5. */
static void layernorm_bytes(void **state)
{
    (void)state;
    static const int32_t widths[][2] = {{16, 0}, {64, 61}, {192, 0}, {208, 193}, {384, 0}, {768, 0}, {1280, 0}, {2736, 2730}};
    for (int t = 0; t < N_STORED_TYPES; t++)
        for (int u = 0; u < 2; u++)
            for (size_t i = 0; i < sizeof widths / sizeof widths[0]; i++) {
                if (leaves_out(t + u + (int)i, 3))
                    continue;
                const layernorm_case c = {.dtype = stored_types[t],
                                          .out_dtype = byte_types[u],
                                          .dim = widths[i][0],
                                          .rows = 37,
                                          .capacity = 41,
                                          .x_rows = 90,
                                          .gather = i % 2 == 0,
                                          .copy = i % 3 == 0,
                                          .offset = i == 2 ? 30 : 0,
                                          .norm = i % 4 == 3 ? RVIT_NORM_RMS : RVIT_NORM_LAYER,
                                          .no_beta = i % 4 >= 2,
                                          .features = widths[i][1],
                                          .static_scale = i % 4 == 1 ? 2.5f / (u ? 448 : 127) : 0};
                run(&c);
            }
}

/* What models ask for, in widths on either side of the kernels' tiles. */
static void layernorm_bytes_widths(void **state)
{
    (void)state;
    static const int32_t widths[] = {256, 272, 384, 768, 1024, 1152, 1280, 1536, 1552};
    for (size_t i = 0; i < sizeof widths / sizeof widths[0]; i++) {
        const layernorm_case c = {.dtype = RVIT_F32,
                                  .out_dtype = RVIT_E4M3,
                                  .dim = widths[i],
                                  .rows = 9,
                                  .capacity = 11,
                                  .x_rows = 13,
                                  .gather = i % 2 == 0,
                                  .copy = i % 2 == 0,
                                  .static_scale = i % 3 == 1 ? 2.5f / 448 : 0};
        run(&c);
    }
}

/* A mean far above the deviation must not cancel the variance away. */
static void layernorm_large_mean(void **state)
{
    (void)state;
    const layernorm_case c = {
        .dtype = RVIT_F32, .out_dtype = RVIT_F32, .dim = 256, .rows = 20, .capacity = 20, .x_rows = 20, .offset = 1000};
    run(&c);
}

static void normalise_vector(const float *in, int dim, float eps, const double *wanted, double tolerance)
{
    array *x = array_input("x", dim * 4), *gamma = array_input("gamma", dim * 4), *beta = array_input("beta", dim * 4);
    array *out = array_output("out", dim * 4);
    memcpy(x->host, in, (size_t)dim * 4);
    for (int i = 0; i < dim; i++) {
        store(RVIT_F32, gamma->host, i, 1);
        store(RVIT_F32, beta->host, i, 0);
    }
    arrays_upload();
    for (side s = 0; (int)s < H.n_sides; s++) {
        rvit_layernorm_args args = RVIT_LAYERNORM_ARGS_INIT;
        args.rows.capacity = 1;
        args.dim = dim;
        args.eps = eps;
        args.x = array_view(x, s);
        args.gamma = array_view(gamma, s);
        args.beta = array_view(beta, s);
        args.out = array_view(out, s);
        expect_ok(rvit_layernorm(H.stream[s], &args));
        arrays_fetch(s);
        for (int i = 0; i < dim; i++)
            if (!(fabs(load(RVIT_F32, out->result[s], i) - wanted[i]) <= tolerance))
                fail_msg("element %d is %.9g, should be %.9g (eps %g)", i, (double)load(RVIT_F32, out->result[s], i), wanted[i],
                         (double)eps);
    }
    harness_teardown(NULL);
}

static void layernorm_vectors(void **state)
{
    (void)state;
    static const float ramp[4] = {1, 2, 3, 4}, tiny[4] = {1e-4f, -1e-4f, 1e-4f, -1e-4f};
    static const double ramp_wanted[4] = {-1.34164025, -0.44721342, 0.44721342, 1.34164025};
    static const double tiny_1e6[4] = {0.0995037, -0.0995037, 0.0995037, -0.0995037};
    static const double tiny_1e12[4] = {0.99995, -0.99995, 0.99995, -0.99995};
    normalise_vector(ramp, 4, 1e-6f, ramp_wanted, 2.5e-7);
    normalise_vector(tiny, 4, 1e-6f, tiny_1e6, 1e-7);
    normalise_vector(tiny, 4, 1e-12f, tiny_1e12, 3e-7);
}

/* The normalised row of a constant is beta itself. */
static void layernorm_constant(void **state)
{
    (void)state;
    enum { DIM = 64, ROWS = 3 };
    array *x = array_input("x", ROWS * DIM * 4), *gamma = array_input("gamma", DIM * 4), *beta = array_input("beta", DIM * 4);
    array *out = array_output("out", ROWS * DIM * 4);
    for (int i = 0; i < ROWS * DIM; i++)
        store(RVIT_F32, x->host, i, i < DIM ? 3 : i < 2 * DIM ? -0.75f : 0);
    store_normal(RVIT_F32, gamma->host, 0, DIM, 1);
    store_normal(RVIT_F32, beta->host, 0, DIM, 1);
    arrays_upload();
    for (side s = 0; (int)s < H.n_sides; s++) {
        rvit_layernorm_args args = RVIT_LAYERNORM_ARGS_INIT;
        args.rows.capacity = ROWS;
        args.dim = DIM;
        args.eps = 1e-6f;
        args.x = array_view(x, s);
        args.gamma = array_view(gamma, s);
        args.beta = array_view(beta, s);
        args.out = array_view(out, s);
        expect_ok(rvit_layernorm(H.stream[s], &args));
        arrays_fetch(s);
        for (int r = 0; r < ROWS; r++)
            assert_memory_equal(out->result[s] + r * DIM * 4, beta->host, DIM * 4);
    }
}

/* A call that works. */
void good_layernorm(rvit_layernorm_args *a)
{
    a->rows = good_rows();
    a->x_rows = GOOD_ROWS;
    a->dim = GOOD_DIM;
    a->eps = 1e-6f;
    a->x = good_input("x", GOOD_ROWS * GOOD_DIM * 4);
    a->src_rows = good_row_numbers();
    a->gamma = good_input("gamma", GOOD_DIM * 4);
    a->beta = good_input("beta", GOOD_DIM * 4);
    a->out = good_output("out", GOOD_ROWS * GOOD_DIM * 4);
    a->out_x = good_output("out_x", GOOD_ROWS * GOOD_DIM * 4);
}

SUITE(layernorm_suite, TEST(layernorm_variants), TEST(layernorm_sizes), TEST(layernorm_norms), TEST(layernorm_rows), TEST(layernorm_bytes),
      TEST(layernorm_bytes_widths), TEST(layernorm_large_mean), TEST(layernorm_vectors), TEST(layernorm_constant));

#include "good_ops.h"
#include "ops.h"

#include "reference/plain.h"

typedef enum pool_norm_kind { NO_NORM, LAYER_NORM, LAYER_NO_BETA, RMS_NORM, N_NORM_KINDS } pool_norm_kind;

typedef struct pool_case {
    rvit_dtype dtype, out_dtype;
    rvit_pool_mode mode;
    batch b;
    int32_t n_prefix, dim;
    pool_norm_kind norm;
    int sizes;
    int32_t before, after; /* columns of out on either side of the rows */
} pool_case;

typedef struct pool_arrays {
    array *x, *cu, *sizes, *gamma, *beta, *out;
} pool_arrays;

static const float *floats_of(const array *a)
{
    return a ? (const float *)(const void *)a->host : NULL;
}

/* Rows that are not pooled stay NaN. */
static pool_arrays make(const pool_case *c)
{
    const int64_t element = rvit_dtype_size(c->dtype), stride = c->before + c->dim + c->after;
    pool_arrays a = {.x = array_input("x", c->b.rows * c->dim * element), .cu = array_cu(&c->b)};
    a.sizes = c->sizes ? array_input("sizes", c->b.rows * 4) : NULL;
    a.gamma = c->norm != NO_NORM ? array_input("gamma", c->dim * 4) : NULL;
    a.beta = c->norm == LAYER_NORM ? array_input("beta", c->dim * 4) : NULL;
    a.out = array_output("out", c->b.n_images * stride * rvit_dtype_size(c->out_dtype));
    for (int32_t image = 0; image < c->b.n_images; image++) {
        const int32_t begin = c->b.cu[image], end = c->b.cu[image + 1], first = c->mode == RVIT_POOL_FIRST;
        for (int32_t t = begin + (first ? 0 : c->n_prefix); t < end && !(first && t > begin); t++) {
            for (int32_t i = 0; i < c->dim; i++)
                store(c->dtype, a.x->host, (int64_t)t * c->dim + i, 0.5f + random_normal());
            if (a.sizes)
                store(RVIT_F32, a.sizes->host, t, (float)(1 + random_below(9)));
        }
    }
    for (int32_t i = 0; a.gamma && i < c->dim; i++)
        store(RVIT_F32, a.gamma->host, i, 1 + 0.2f * random_normal());
    if (a.beta)
        store_normal(RVIT_F32, a.beta->host, 0, c->dim, 0.3f);
    return a;
}

static void check_image(const pool_case *c, side s, const pool_arrays *a, int32_t image)
{
    const int64_t out_element = rvit_dtype_size(c->out_dtype), stride = c->before + c->dim + c->after;
    const int32_t begin = c->b.cu[image], length = c->b.cu[image + 1] - begin, first = c->mode == RVIT_POOL_FIRST;
    const uint8_t *got = a->out->result[s] + image * stride * out_element, *was = a->out->host + image * stride * out_element;
    if (memcmp(got, was, (size_t)(c->before * out_element)) ||
        memcmp(got + (c->before + c->dim) * out_element, was + (c->before + c->dim) * out_element, (size_t)(c->after * out_element)))
        fail_msg("pool: columns beside the row of image %d were written", image);
    double *exact = scratch((size_t)c->dim * sizeof *exact);
    float *plain = scratch((size_t)c->dim * sizeof *plain);
    const pool_problem p = {.length = first && length > 1 ? 1 : length,
                            .first = first ? 0 : c->n_prefix,
                            .dim = c->dim,
                            .norm = {.rms = c->norm == RMS_NORM, .eps = 1e-6f, .gamma = floats_of(a->gamma), .beta = floats_of(a->beta)},
                            .x = loaded(c->dtype, a->x->host, (int64_t)begin * c->dim, (int64_t)length * c->dim),
                            .sizes = a->sizes && !first ? floats_of(a->sizes) + begin : NULL};
    pool_f64(&p, exact);
    pool_f32(&p, plain);
    char what[128];
    snprintf(what, sizeof what, "pool %s to %s, mode %d, norm %d, image %d, %d rows of %d", rvit_enum_name(RVIT_ENUM_DTYPE, c->dtype),
             rvit_enum_name(RVIT_ENUM_DTYPE, c->out_dtype), (int)c->mode, (int)c->norm, image, length, c->dim);
    const float *found = loaded(c->out_dtype, got, c->before, c->dim);
    if (s == ORACLE)
        check_oracle(what, c->out_dtype, found, exact, c->dim);
    else
        check_close(what, c->out_dtype, found, exact, plain, c->dim);
}

static void run(const pool_case *c)
{
    const pool_arrays a = make(c);
    arrays_upload();
    for (side s = 0; (int)s < H.n_sides; s++) {
        rvit_pool_args args = RVIT_POOL_ARGS_INIT;
        args.dtype = c->dtype;
        args.out_dtype = c->out_dtype;
        args.mode = c->mode;
        args.n_images = c->b.n_images;
        args.max_len = c->b.max_len;
        args.n_prefix = c->n_prefix;
        args.rows = c->b.rows;
        args.dim = c->dim;
        args.norm = c->norm == RMS_NORM ? RVIT_NORM_RMS : RVIT_NORM_LAYER;
        args.eps = c->norm == NO_NORM ? 0 : 1e-6f;
        args.x = array_view(a.x, s);
        args.cu_seqlens = array_view(a.cu, s);
        args.sizes = array_view(a.sizes, s);
        args.gamma = array_view(a.gamma, s);
        args.beta = array_view(a.beta, s);
        args.out = array_view(a.out, s);
        args.out.offset += c->before * rvit_dtype_size(c->out_dtype);
        args.out_stride = c->before + c->after ? c->before + c->dim + c->after : 0;
        const char *feature = c->out_dtype == RVIT_BF16 ? "bf16" : type_feature(c->dtype);
        if (!supported(s, feature, rvit_pool(H.stream[s], &args)))
            continue;
        arrays_fetch(s);
        for (int32_t image = 0; image < c->b.n_images; image++)
            check_image(c, s, &a, image);
    }
    harness_teardown(NULL);
}

static const int32_t lengths[] = {9, 0, 1, 65, 2, 40};

static void pool_variants(void **state)
{
    (void)state;
    for (int t = 0; t < N_STORED_TYPES; t++)
        for (int u = 0; u < N_STORED_TYPES; u++)
            for (int norm = 0; norm < N_NORM_KINDS; norm++)
                for (int kind = 0; kind < 3; kind++) { /* first row, mean, mean by size */
                    if (leaves_out(t + u + norm + kind, 2))
                        continue;
                    const pool_case c = {.dtype = stored_types[t],
                                         .out_dtype = stored_types[u],
                                         .mode = kind == 0 ? RVIT_POOL_FIRST : RVIT_POOL_MEAN,
                                         .b = batch_of(lengths, 6, u),
                                         .n_prefix = (t + norm) % 3,
                                         .dim = 192,
                                         .norm = (pool_norm_kind)norm,
                                         .sizes = kind == 2 || (kind == 0 && u == 1),
                                         .before = kind == 1 ? 192 : 0,
                                         .after = norm * 4};
                    run(&c);
                }
}

static void pool_sizes(void **state)
{
    (void)state;
    static const int32_t dims[] = {4, 8, 60, 100, 128, 260, 512, 516, 768, 1024, 1152, 1536, 1540, 3076};
    for (int t = 0; t < N_STORED_TYPES; t++)
        for (size_t i = 0; i < sizeof dims / sizeof dims[0]; i++)
            for (int norm = 0; norm < 2; norm++) {
                if (leaves_out((int64_t)i + norm + t, 3))
                    continue;
                const pool_case c = {.dtype = stored_types[t],
                                     .out_dtype = RVIT_F32,
                                     .b = batch_of(lengths, 6, 3),
                                     .n_prefix = 1,
                                     .dim = dims[i],
                                     .norm = norm ? i % 2 ? RMS_NORM : LAYER_NORM : NO_NORM,
                                     .sizes = i % 3 == 0};
                run(&c);
            }
}

static void pool_lengths(void **state)
{
    (void)state;
    for (int norm = 0; norm < 2; norm++)
        for (int n_prefix = 0; n_prefix < 5; n_prefix += 4) {
            int32_t every[EVERY_LENGTH + 1];
            int32_t n = every_length(every);
            every[n++] = 1369;
            const pool_case c = {.dtype = n_prefix ? RVIT_F16 : RVIT_F32,
                                 .out_dtype = RVIT_F32,
                                 .b = batch_of(every, n, n_prefix),
                                 .n_prefix = n_prefix,
                                 .dim = 32,
                                 .norm = norm ? LAYER_NORM : NO_NORM,
                                 .sizes = norm};
            run(&c);
        }
}

static void pool_shapes(void **state)
{
    (void)state;
    static const int32_t none[3] = {0, 0, 0};
    for (int32_t n_images = 0; n_images < 4; n_images++) {
        const pool_case c = {.b = batch_of(none, n_images, n_images), .dim = 16, .norm = (pool_norm_kind)n_images};
        run(&c);
    }
    int32_t many[2000];
    for (int i = 0; i < 2000; i++)
        many[i] = random_below(5);
    const pool_case c = {.dtype = RVIT_F16, .out_dtype = RVIT_F16, .b = batch_of(many, 2000, 5), .n_prefix = 1, .dim = 8};
    run(&c);
}

/* A call that works. */
void good_pool(rvit_pool_args *a)
{
    a->n_images = GOOD_IMAGES;
    a->max_len = GOOD_MAX_LEN;
    a->n_prefix = 1;
    a->rows = GOOD_ROWS;
    a->dim = GOOD_DIM;
    a->eps = 1e-6f;
    a->x = good_input("x", GOOD_ROWS * GOOD_DIM * 4);
    a->cu_seqlens = good_lengths();
    a->sizes = good_input("sizes", GOOD_ROWS * 4);
    a->gamma = good_input("gamma", GOOD_DIM * 4);
    a->beta = good_input("beta", GOOD_DIM * 4);
    a->out = good_output("out", GOOD_IMAGES * GOOD_DIM * 4);
}

SUITE(pool_suite, TEST(pool_variants), TEST(pool_sizes), TEST(pool_lengths), TEST(pool_shapes));

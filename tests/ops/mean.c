#include "good_ops.h"
#include "ops.h"

#include "reference/plain.h"

typedef struct mean_case {
    rvit_dtype dtype;
    batch b;
    int32_t n_prefix, dim, first_column;
} mean_case;

static void check(const mean_case *c, side s, const array *x)
{
    const int64_t element = rvit_dtype_size(c->dtype), row = c->dim * element, part = c->first_column * element;
    const int32_t width = c->dim - c->first_column;
    array_expect_untouched(x, s, c->b.live * row);
    for (int32_t image = 0; image < c->b.n_images; image++) {
        const int32_t begin = c->b.cu[image], length = c->b.cu[image + 1] - begin;
        const uint8_t *got = x->result[s] + begin * row, *before = x->host + begin * row;
        for (int32_t t = 0; t < length; t++) {
            if (memcmp(got + t * row, before + t * row, (size_t)part))
                fail_msg("mean: a column below %d of row %d of image %d has changed", c->first_column, t, image);
            if (memcmp(got + t * row + part, got + part, (size_t)(row - part)))
                fail_msg("mean: rows 0 and %d of image %d differ", t, image);
        }
        if (length == 0)
            continue;
        const float *all = loaded(c->dtype, before, 0, (int64_t)length * c->dim);
        double *exact = scratch((size_t)c->dim * sizeof *exact);
        float *plain = scratch((size_t)c->dim * sizeof *plain);
        const mean_problem p = {length, c->n_prefix, c->dim, all};
        mean_f64(&p, exact);
        mean_f32(&p, plain);
        char what[96];
        snprintf(what, sizeof what, "mean %s of image %d, %d rows of %d", rvit_enum_name(RVIT_ENUM_DTYPE, c->dtype), image, length, c->dim);
        const float *found = loaded(c->dtype, got, c->first_column, width);
        if (s == ORACLE)
            check_oracle(what, c->dtype, found, exact + c->first_column, width);
        else
            check_close(what, c->dtype, found, exact + c->first_column, plain + c->first_column, width);
    }
}

/* The prefix rows' own columns are NaN: they do not count. */
static void run(const mean_case *c)
{
    const int64_t element = rvit_dtype_size(c->dtype);
    array *cu = array_cu(&c->b), *x = array_output("x", c->b.rows * c->dim * element);
    memset(x->host, POISON, (size_t)x->size);
    store_normal(c->dtype, x->host, 0, c->b.live * c->dim, 1);
    for (int32_t image = 0; image < c->b.n_images; image++)
        for (int32_t t = c->b.cu[image]; t < c->b.cu[image + 1] && t < c->b.cu[image] + c->n_prefix; t++)
            memset(x->host + (t * (int64_t)c->dim + c->first_column) * element, POISON, (size_t)((c->dim - c->first_column) * element));
    arrays_upload();
    for (side s = 0; (int)s < H.n_sides; s++) {
        rvit_mean_args args = RVIT_MEAN_ARGS_INIT;
        args.dtype = c->dtype;
        args.n_images = c->b.n_images;
        args.max_len = c->b.max_len;
        args.rows = c->b.rows;
        args.n_prefix = c->n_prefix;
        args.dim = c->dim;
        args.first_column = c->first_column;
        args.cu_seqlens = array_view(cu, s);
        args.x = array_view(x, s);
        if (!supported(s, type_feature(c->dtype), rvit_mean(H.stream[s], &args)))
            continue;
        arrays_fetch(s);
        check(c, s, x);
    }
    harness_teardown(NULL);
}

static void mean_widths(void **state)
{
    (void)state;
    static const int32_t widths[][2] = {{4, 0}, {8, 4}, {64, 32}, {100, 96}, {192, 96}, {260, 0}, {384, 192}, {768, 384}, {1024, 1020}};
    static const int32_t lengths[] = {9, 0, 1, 65, 2, 40};
    for (int t = 0; t < N_STORED_TYPES; t++)
        for (size_t i = 0; i < sizeof widths / sizeof widths[0]; i++) {
            const mean_case c = {.dtype = stored_types[t],
                                 .b = batch_of(lengths, 6, (int64_t)i),
                                 .n_prefix = (int32_t)i % 3,
                                 .dim = widths[i][0],
                                 .first_column = widths[i][1]};
            run(&c);
        }
}

static void mean_lengths(void **state)
{
    (void)state;
    for (int t = 0; t < 2; t++)
        for (int n_prefix = 0; n_prefix < 4; n_prefix++) {
            int32_t lengths[EVERY_LENGTH + 1];
            int32_t n = every_length(lengths);
            lengths[n++] = 1369;
            const mean_case c = {
                .dtype = stored_types[t], .b = batch_of(lengths, n, n_prefix), .n_prefix = n_prefix, .dim = 32, .first_column = 16};
            run(&c);
        }
}

static void mean_shapes(void **state)
{
    (void)state;
    static const int32_t none[3] = {0, 0, 0};
    for (int32_t n_images = 0; n_images < 4; n_images++) {
        const mean_case c = {.dtype = RVIT_F32, .b = batch_of(none, n_images, n_images), .n_prefix = 1, .dim = 16, .first_column = 8};
        run(&c);
    }
    int32_t lengths[2000];
    for (int i = 0; i < 2000; i++)
        lengths[i] = random_below(5);
    const mean_case c = {.dtype = RVIT_F16, .b = batch_of(lengths, 2000, 5), .n_prefix = 1, .dim = 8, .first_column = 4};
    run(&c);
}

/* A call that works. */
void good_mean(rvit_mean_args *a)
{
    a->n_images = GOOD_IMAGES;
    a->max_len = GOOD_MAX_LEN;
    a->rows = GOOD_ROWS;
    a->n_prefix = 1;
    a->dim = GOOD_DIM;
    a->first_column = GOOD_DIM / 2;
    a->cu_seqlens = good_lengths();
    a->x = good_output("x", GOOD_ROWS * GOOD_DIM * 4);
}

SUITE(mean_suite, TEST(mean_widths), TEST(mean_lengths), TEST(mean_shapes));

#include "good_ops.h"
#include "ops.h"

#include "reference/plain.h"

typedef struct merge_case {
    rvit_dtype dtype;
    int32_t dim, n_rows;  /* before */
    int64_t padding_rows; /* before and after */
    int sizes, groups;    /* a list has 1..groups rows */
} merge_case;

typedef struct lists {
    int32_t n_after;
    int32_t *src_rows, *next_rows; /* [n_rows] */
} lists;

/* Splits the rows at random into lists. A list begins anywhere and goes on in ascending order. */
static lists make_lists(const merge_case *c)
{
    lists l = {0, scratch((size_t)c->n_rows * 4), scratch((size_t)c->n_rows * 4)};
    int32_t *order = scratch((size_t)c->n_rows * 4);
    for (int32_t i = 0; i < c->n_rows; i++)
        order[i] = i;
    random_shuffle(order, c->n_rows);
    for (int32_t at = 0; at < c->n_rows;) {
        int32_t n = 1 + random_below(c->groups);
        n = n < c->n_rows - at ? n : c->n_rows - at;
        l.src_rows[l.n_after++] = order[at];
        int32_t last = order[at];
        l.next_rows[last] = -1;
        for (int32_t row = 0; n > 1 && row < c->n_rows; row++)
            for (int32_t j = 1; j < n; j++)
                if (order[at + j] == row) {
                    l.next_rows[last] = row;
                    l.next_rows[row] = -1;
                    last = row;
                }
        at += n;
    }
    return l;
}

static void check(const merge_case *c, const lists *l, side s, const array *x, const array *sizes, const array *out_x,
                  const array *out_sizes, const array *out_key_bias)
{
    const int64_t row = c->dim * rvit_dtype_size(c->dtype);
    const float *all = loaded(c->dtype, x->host, 0, (int64_t)c->n_rows * c->dim);
    const float *size = sizes ? (const float *)(const void *)sizes->host : NULL;
    double *exact = scratch((size_t)c->dim * sizeof *exact), *exact_bias = scratch((size_t)l->n_after * sizeof *exact_bias);
    float *plain = scratch((size_t)c->dim * sizeof *plain), *plain_bias = scratch((size_t)l->n_after * sizeof *plain_bias);
    int32_t *list = scratch((size_t)c->n_rows * 4);
    char what[96];
    for (int32_t t = 0; t < l->n_after; t++) {
        merge_problem p = {.dim = c->dim, .list = list, .x = all, .sizes = size};
        for (int32_t at = l->src_rows[t]; at >= 0; at = l->next_rows[at])
            list[p.n++] = at;
        double wanted;
        float plain_size;
        merge_f64(&p, exact, &wanted, &exact_bias[t]);
        merge_f32(&p, plain, &plain_size, &plain_bias[t]);
        if (load(RVIT_F32, out_sizes->result[s], t) != (float)wanted)
            fail_msg("merge: row %d has size %g, should be %g", t, (double)load(RVIT_F32, out_sizes->result[s], t), wanted);
        if (p.n == 1) {
            if (memcmp(out_x->result[s] + t * row, x->host + list[0] * row, (size_t)row))
                fail_msg("merge: row %d, alone in its list, is not a copy of row %d", t, list[0]);
            continue;
        }
        snprintf(what, sizeof what, "merge %s: row %d of %d", rvit_enum_name(RVIT_ENUM_DTYPE, c->dtype), t, p.n);
        const float *got = loaded(c->dtype, out_x->result[s], (int64_t)t * c->dim, c->dim);
        if (s == ORACLE)
            check_oracle(what, c->dtype, got, exact, c->dim);
        else
            check_close(what, c->dtype, got, exact, plain, c->dim);
    }
    check_close("out_key_bias", RVIT_F32, (const float *)(const void *)out_key_bias->result[s], exact_bias, plain_bias, l->n_after);
    array_expect_untouched(out_x, s, l->n_after * row);
    array_expect_untouched(out_sizes, s, l->n_after * 4);
    array_expect_untouched(out_key_bias, s, l->n_after * 4);
}

static void run(const merge_case *c)
{
    const int64_t row = c->dim * rvit_dtype_size(c->dtype), x_rows = c->n_rows + c->padding_rows;
    const lists l = make_lists(c);
    const int64_t capacity = l.n_after + c->padding_rows;
    array *x = array_input("x", x_rows * row), *sizes = c->sizes ? array_input("sizes", x_rows * 4) : NULL;
    array *src_rows = array_input("src_rows", capacity * 4), *next_rows = array_input("next_rows", x_rows * 4);
    array *out_x = array_output("out_x", capacity * row), *out_sizes = array_output("out_sizes", capacity * 4);
    array *out_key_bias = array_output("out_key_bias", capacity * 4), *live = c->padding_rows ? array_live(l.n_after) : NULL;
    store_normal(c->dtype, x->host, 0, (int64_t)c->n_rows * c->dim, 1);
    for (int32_t i = 0; sizes && i < c->n_rows; i++)
        store(RVIT_F32, sizes->host, i, (float)(1 + random_below(9)));
    memcpy(src_rows->host, l.src_rows, (size_t)l.n_after * 4);
    memcpy(next_rows->host, l.next_rows, (size_t)c->n_rows * 4);
    arrays_upload();
    for (side s = 0; (int)s < H.n_sides; s++) {
        rvit_merge_args args = RVIT_MERGE_ARGS_INIT;
        args.dtype = c->dtype;
        args.rows.capacity = capacity;
        args.rows.live = array_view(live, s);
        args.x_rows = x_rows;
        args.dim = c->dim;
        args.x = array_view(x, s);
        args.sizes = array_view(sizes, s);
        args.src_rows = array_view(src_rows, s);
        args.next_rows = array_view(next_rows, s);
        args.out_x = array_view(out_x, s);
        args.out_sizes = array_view(out_sizes, s);
        args.out_key_bias = array_view(out_key_bias, s);
        if (!supported(s, type_feature(c->dtype), rvit_merge(H.stream[s], &args)))
            continue;
        arrays_fetch(s);
        check(c, &l, s, x, sizes, out_x, out_sizes, out_key_bias);
    }
    harness_teardown(NULL);
}

static void merge_variants(void **state)
{
    (void)state;
    static const int32_t dims[] = {4, 36, 64, 192, 260, 384, 768};
    for (int t = 0; t < N_STORED_TYPES; t++)
        for (size_t d = 0; d < sizeof dims / sizeof dims[0]; d++)
            for (int sizes = 0; sizes < 2; sizes++) {
                const merge_case c = {.dtype = stored_types[t],
                                      .dim = dims[d],
                                      .n_rows = 70,
                                      .padding_rows = (int64_t)d % 3 * 4,
                                      .sizes = sizes,
                                      .groups = 1 + (int)d % 4};
                run(&c);
            }
}

static void merge_rows(void **state)
{
    (void)state;
    static const int32_t rows[] = {0, 1, 2, 3, 31, 32, 33, 63, 64, 65, 197, 577, 1369};
    for (int t = 0; t < 2; t++)
        for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
            const merge_case c = {.dtype = stored_types[t],
                                  .dim = 20,
                                  .n_rows = rows[i],
                                  .padding_rows = (int64_t)i % 2 * 6,
                                  .sizes = i % 2 == 0,
                                  .groups = 3};
            run(&c);
        }
    /* One list of all rows. */
    const merge_case c = {.dtype = RVIT_F32, .dim = 64, .n_rows = 300, .padding_rows = 1, .sizes = 1, .groups = 1 << 20};
    run(&c);
}

/* A call that works. */
void good_merge(rvit_merge_args *a)
{
    static const int32_t ends[GOOD_ROWS] = {-1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1};
    a->rows = good_rows();
    a->x_rows = GOOD_ROWS;
    a->dim = GOOD_DIM;
    a->x = good_input("x", GOOD_ROWS * GOOD_DIM * 4);
    a->sizes = good_input("sizes", GOOD_ROWS * 4);
    a->src_rows = good_row_numbers();
    a->next_rows = good_ints("next_rows", ends, GOOD_ROWS);
    a->out_x = good_output("out_x", GOOD_ROWS * GOOD_DIM * 4);
    a->out_sizes = good_output("out_sizes", GOOD_ROWS * 4);
    a->out_key_bias = good_output("out_key_bias", GOOD_ROWS * 4);
}

SUITE(merge_suite, TEST(merge_variants), TEST(merge_rows));

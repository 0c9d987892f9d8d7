#include "good_ops.h"
#include "ops.h"

typedef enum base_kind { FILL, BASE, IN_PLACE } base_kind;

typedef struct unpack_case {
    rvit_dtype dtype;
    int32_t dim;
    int64_t rows, capacity;      /* of source */
    int64_t grid, grid_capacity; /* of destination */
    base_kind base;
    float fill;
} unpack_case;

static void run(const unpack_case *c)
{
    const int64_t row = c->dim * rvit_dtype_size(c->dtype);
    array *source = array_input("source", c->capacity * row), *src_rows = array_input("src_rows", c->capacity * 4);
    array *destination = array_output("destination", c->grid_capacity * row);
    array *base = c->base == IN_PLACE ? destination : c->base == BASE ? array_input("base", c->grid_capacity * row) : NULL;
    array *live = c->rows == c->capacity ? NULL : array_live((int32_t)c->rows);
    array *grid_live = c->grid == c->grid_capacity ? NULL : array_live((int32_t)c->grid);
    /* Which rows are there: `rows` of `grid`, ascending, by selection sampling. */
    uint8_t *wanted = scratch((size_t)(c->grid * row));
    uint8_t *fill_row = scratch((size_t)row);
    for (int32_t i = 0; i < c->dim; i++)
        store(c->dtype, fill_row, i, c->fill);
    store_normal(c->dtype, source->host, 0, c->rows * c->dim, 1);
    if (base)
        store_normal(c->dtype, base->host, 0, c->grid * c->dim, 1);
    int64_t taken = 0;
    for (int64_t t = 0; t < c->grid; t++) {
        const int take = random_below((int32_t)(c->grid - t)) < c->rows - taken;
        const uint8_t *from = take ? source->host + taken * row : base ? base->host + t * row : fill_row;
        memcpy(wanted + t * row, from, (size_t)row);
        if (take) {
            const int32_t index = (int32_t)t;
            memcpy(src_rows->host + taken++ * 4, &index, 4);
        }
    }
    assert_int_equal(taken, c->rows);
    /* Past the last live row, numbers that look like rows. */
    int32_t last = 0;
    if (c->rows > 0)
        memcpy(&last, src_rows->host + (c->rows - 1) * 4, 4);
    for (int64_t t = c->rows; t < c->capacity; t++) {
        const int32_t stale = last + (int32_t)(t - c->rows) + (c->rows > 0);
        memcpy(src_rows->host + t * 4, &stale, 4);
    }
    arrays_upload();
    for (side s = 0; (int)s < H.n_sides; s++) {
        rvit_unpack_args args = RVIT_UNPACK_ARGS_INIT;
        args.dtype = c->dtype;
        args.rows.capacity = c->capacity;
        args.rows.live = array_view(live, s);
        args.destination_rows.capacity = c->grid_capacity;
        args.destination_rows.live = array_view(grid_live, s);
        args.dim = c->dim;
        args.fill = c->fill;
        args.source = array_view(source, s);
        args.src_rows = array_view(src_rows, s);
        args.base = array_view(base, s);
        args.destination = array_view(destination, s);
        if (!supported(s, type_feature(c->dtype), rvit_unpack(H.stream[s], &args)))
            continue;
        arrays_fetch(s);
        for (int64_t t = 0; t < c->grid; t++)
            if (memcmp(destination->result[s] + t * row, wanted + t * row, (size_t)row))
                fail_msg("unpack %s: row %lld of %lld (%lld in source, base %d) is wrong (side %d)",
                         rvit_enum_name(RVIT_ENUM_DTYPE, c->dtype), (long long)t, (long long)c->grid, (long long)c->rows, c->base, (int)s);
        array_expect_untouched(destination, s, c->grid * row);
    }
    harness_teardown(NULL);
}

static void unpack_variants(void **state)
{
    (void)state;
    for (int t = 0; t < N_STORED_TYPES; t++)
        for (base_kind base = FILL; base <= IN_PLACE; base++)
            for (int padded = 0; padded < 2; padded++) {
                const unpack_case c = {.dtype = stored_types[t],
                                       .dim = 64,
                                       .rows = 40,
                                       .capacity = 40 + padded * 6,
                                       .grid = 100,
                                       .grid_capacity = 100 + padded * 3,
                                       .base = base,
                                       .fill = padded ? -1.3f : 0};
                run(&c);
            }
}

static void unpack_sizes(void **state)
{
    (void)state;
    static const int32_t dims[] = {4, 12, 20, 192, 384, 768};
    static const int64_t rows[][2] = {{0, 0}, {0, 1}, {1, 1}, {0, 50}, {50, 50}, {1, 300}, {299, 300}, {128, 257}, {2000, 5000}};
    for (int t = 0; t < 2; t++)
        for (size_t d = 0; d < sizeof dims / sizeof dims[0]; d++)
            for (size_t r = 0; r < sizeof rows / sizeof rows[0] - (d % 2); r++) {
                const unpack_case c = {.dtype = stored_types[t],
                                       .dim = dims[d],
                                       .rows = rows[r][0],
                                       .capacity = rows[r][0] + 2,
                                       .grid = rows[r][1],
                                       .grid_capacity = rows[r][1] + 2,
                                       .base = (base_kind)(r % 3),
                                       .fill = 7};
                run(&c);
            }
}

/* A call that works. */
void good_unpack(rvit_unpack_args *a)
{
    a->rows = good_rows();
    a->destination_rows = good_rows();
    a->dim = GOOD_DIM;
    a->source = good_input("source", GOOD_ROWS * GOOD_DIM * 4);
    a->src_rows = good_row_numbers();
    a->base = good_input("base", GOOD_ROWS * GOOD_DIM * 4);
    a->destination = good_output("destination", GOOD_ROWS * GOOD_DIM * 4);
}

SUITE(unpack_suite, TEST(unpack_variants), TEST(unpack_sizes));

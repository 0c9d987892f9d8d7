#include "good_ops.h"
#include "ops.h"

typedef struct positions_case {
    int32_t live, capacity, source_rows, n_positions;
    int with_keep, with_positions;
} positions_case;

static int32_t int_at(const uint8_t *data, int64_t i)
{
    int32_t value;
    memcpy(&value, data + i * 4, 4);
    return value;
}

static int32_t expected(const positions_case *c, const array *src_rows, const array *keep, const array *positions, int32_t t)
{
    const int32_t source = int_at(src_rows->host, t);
    if (source < 0 || (c->with_keep && !keep->host[source]))
        return -1;
    return c->with_positions ? int_at(positions->host, source) : source % c->n_positions;
}

static void run(const positions_case *c)
{
    array *src_rows = array_input("src_rows", c->capacity * 4), *out = array_output("out", c->capacity * 4);
    array *keep = c->with_keep ? array_input("keep", c->source_rows) : NULL;
    array *positions = c->with_positions ? array_input("positions", c->source_rows * 4) : NULL;
    array *live = c->live == c->capacity ? NULL : array_live(c->live);
    for (int32_t i = 0; i < c->source_rows; i++) {
        const int32_t position = random_below(c->n_positions + 1) - 1;
        if (keep)
            keep->host[i] = (uint8_t)(random_below(3) > 0);
        if (positions)
            memcpy(positions->host + i * 4, &position, 4);
    }
    for (int32_t t = 0; t < c->live; t++) {
        const int32_t source = t % 7 == 3 ? -1 - random_below(5) : random_below(c->source_rows);
        memcpy(src_rows->host + t * 4, &source, 4);
    }
    arrays_upload();
    for (side s = 0; (int)s < H.n_sides; s++) {
        rvit_positions_args args = RVIT_POSITIONS_ARGS_INIT;
        args.rows.capacity = c->capacity;
        args.rows.live = array_view(live, s);
        args.source_rows = c->source_rows;
        args.n_positions = c->with_positions ? 0 : c->n_positions;
        args.src_rows = array_view(src_rows, s);
        args.keep = array_view(keep, s);
        args.positions = array_view(positions, s);
        args.out = array_view(out, s);
        expect_ok(rvit_positions(H.stream[s], &args));
        arrays_fetch(s);
        for (int32_t t = 0; t < c->live; t++)
            if (int_at(out->result[s], t) != expected(c, src_rows, keep, positions, t))
                fail_msg("positions: row %d has %d, should have %d (side %d)", t, int_at(out->result[s], t),
                         expected(c, src_rows, keep, positions, t), (int)s);
        array_expect_untouched(out, s, c->live * 4);
    }
    harness_teardown(NULL);
}

static void positions_rows(void **state)
{
    (void)state;
    static const int32_t rows[] = {0, 1, 2, 31, 127, 128, 129, 1000};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        for (int options = 0; options < 8; options++) {
            if (leaves_out((int)i + options, 2))
                continue;
            run(&(positions_case){.live = rows[i],
                                  .capacity = rows[i] + (options & 4),
                                  .source_rows = rows[i] + 37,
                                  .n_positions = 17,
                                  .with_keep = options & 1,
                                  .with_positions = options >> 1 & 1});
        }
}

/* Two stages of two images of five tokens, the first with a fused token: what select writes, by hand. */
static void positions_of_two_stages(void **state)
{
    (void)state;
    static const int32_t src_0[] = {0, 2, 3, 1, 5, 7, 9, 6}, src_1[] = {0, 1, 3, 4, 6};
    static const uint8_t keep_0[] = {1, 0, 1, 1, 0, 1, 0, 1, 0, 1};
    static const int32_t after_0[] = {0, 2, 3, -1, 0, 2, 4, -1}, after_1[] = {0, 2, -1, 0, 4};
    array *rows_0 = array_input("src_rows", sizeof src_0), *rows_1 = array_input("src_rows", sizeof src_1);
    array *keep = array_input("keep", sizeof keep_0), *first = array_output("out", 8 * 4), *second = array_output("out", 5 * 4);
    memcpy(rows_0->host, src_0, sizeof src_0);
    memcpy(rows_1->host, src_1, sizeof src_1);
    memcpy(keep->host, keep_0, sizeof keep_0);
    arrays_upload();
    for (side s = 0; (int)s < H.n_sides; s++) {
        rvit_positions_args args = RVIT_POSITIONS_ARGS_INIT;
        args.rows.capacity = 8;
        args.source_rows = 10;
        args.n_positions = 5;
        args.src_rows = array_view(rows_0, s);
        args.keep = array_view(keep, s);
        args.out = array_view(first, s);
        expect_ok(rvit_positions(H.stream[s], &args));
        args.rows.capacity = 5;
        args.source_rows = 8;
        args.src_rows = array_view(rows_1, s);
        args.keep = array_view(NULL, s);
        args.positions = array_view(first, s);
        args.out = array_view(second, s);
        expect_ok(rvit_positions(H.stream[s], &args));
        arrays_fetch(s);
        assert_memory_equal(first->result[s], after_0, sizeof after_0);
        assert_memory_equal(second->result[s], after_1, sizeof after_1);
    }
}

static void positions_refuses(void **state)
{
    (void)state;
    array *src_rows = array_input("src_rows", 16), *positions = array_input("positions", 16), *out = array_output("out", 16);
    memset(src_rows->host, 0, 16);
    arrays_upload();
    rvit_positions_args good = RVIT_POSITIONS_ARGS_INIT;
    good.rows.capacity = good.source_rows = good.n_positions = 4;
    good.src_rows = array_view(src_rows, DEVICE);
    good.out = array_view(out, DEVICE);
    expect_ok(rvit_positions(H.stream[DEVICE], &good));
#define REFUSED(word, ...)                                                                   \
    do {                                                                                     \
        rvit_positions_args args = good;                                                     \
        __VA_ARGS__;                                                                         \
        expect_status(rvit_positions(H.stream[DEVICE], &args), RVIT_INVALID_ARGUMENT, word); \
    } while (0)
    REFUSED("capacity", args.rows.capacity = -1);
    REFUSED("source_rows", args.source_rows = -1);
    REFUSED("n_positions", args.n_positions = 0);
    REFUSED("src_rows", args.src_rows.buffer = NULL);
    REFUSED("positions", args.positions = array_view(positions, DEVICE), args.source_rows = 1000);
    REFUSED("overlaps", args.positions = args.out);
#undef REFUSED
}

/* A call that works. */
void good_positions(rvit_positions_args *a)
{
    static const int32_t positions[GOOD_ROWS] = {0, 1, 2, 3, 0, 1, -1, 3, 4, 5, 5, 5};
    a->rows = good_rows();
    a->source_rows = GOOD_ROWS;
    a->n_positions = GOOD_MAX_LEN;
    a->src_rows = good_row_numbers();
    a->keep = good_input("keep", GOOD_ROWS);
    a->positions = good_ints("positions", positions, GOOD_ROWS);
    a->out = good_output("out", GOOD_ROWS * 4);
}

SUITE(positions_suite, TEST(positions_rows), TEST(positions_of_two_stages), TEST(positions_refuses));

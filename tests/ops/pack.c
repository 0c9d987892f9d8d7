#include "good_ops.h"
#include "ops.h"

typedef struct pack_case {
    int64_t row_size, rows, capacity, source_rows;
    int64_t shift; /* of source and destination beyond 16-byte alignment: legal where row_size is no multiple of 16 */
} pack_case;

static void run(const pack_case *c)
{
    array *source = array_input("source", c->shift + c->source_rows * c->row_size), *src_rows = array_input("src_rows", c->capacity * 4);
    array *destination = array_output("destination", c->shift + c->capacity * c->row_size);
    array *live = c->rows == c->capacity ? NULL : array_live((int32_t)c->rows);
    for (int64_t i = 0; i < c->source_rows * c->row_size; i++)
        source->host[c->shift + i] = (uint8_t)random_bits(); /* NaN patterns included */
    for (int64_t t = 0; t < c->rows; t++) {
        const int32_t row = random_below((int32_t)c->source_rows);
        memcpy(src_rows->host + t * 4, &row, 4);
    }
    arrays_upload();
    for (side s = 0; (int)s < H.n_sides; s++) {
        rvit_pack_args args = RVIT_PACK_ARGS_INIT;
        args.rows.capacity = c->capacity;
        args.rows.live = array_view(live, s);
        args.source_rows = c->source_rows;
        args.row_size = c->row_size;
        args.source = array_view(source, s);
        args.source.offset += c->shift;
        args.src_rows = array_view(src_rows, s);
        args.destination = array_view(destination, s);
        args.destination.offset += c->shift;
        expect_ok(rvit_pack(H.stream[s], &args));
        arrays_fetch(s);
        for (int64_t t = 0; t < c->rows; t++) {
            int32_t row;
            memcpy(&row, src_rows->host + t * 4, 4);
            if (memcmp(destination->result[s] + c->shift + t * c->row_size, source->host + c->shift + row * c->row_size,
                       (size_t)c->row_size))
                fail_msg("pack: row %lld of %lld bytes is not row %d of source (side %d)", (long long)t, (long long)c->row_size, row,
                         (int)s);
        }
        array_expect_untouched(destination, s, c->shift + c->rows * c->row_size);
        assert_memory_equal(destination->result[s], destination->host, (size_t)c->shift);
    }
    harness_teardown(NULL);
}

static void pack_row_sizes(void **state)
{
    (void)state;
    static const int64_t sizes[] = {4, 8, 12, 16, 20, 32, 60, 64, 100, 128, 256, 384, 768, 1024, 1540, 3072, 4096};
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        const pack_case c = {.row_size = sizes[i], .rows = 61, .capacity = 70, .source_rows = 90};
        run(&c);
        for (int64_t shift = 4; shift < 16 && sizes[i] % 16; shift += 4) {
            const pack_case shifted = {.row_size = sizes[i], .rows = 33, .capacity = 33, .source_rows = 50, .shift = shift};
            run(&shifted);
        }
    }
}

static void pack_rows(void **state)
{
    (void)state;
    static const int64_t rows[] = {0, 1, 2, 31, 32, 33, 64, 65, 255, 256, 257, 3000};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        for (int padded = 0; padded < 2; padded++) {
            const pack_case c = {
                .row_size = padded ? 64 : 12, .rows = rows[i], .capacity = rows[i] + padded * 5, .source_rows = rows[i] + 9};
            run(&c);
        }
}

/* P2: the identity copies bit for bit; P1: the hand-made layout. */
static void pack_vectors(void **state)
{
    (void)state;
    static const int32_t p1[] = {0, 2, 3, 4, 5};
    array *source = array_input("source", 8 * 16), *src_rows = array_input("src_rows", 20), *identity = array_input("identity", 32);
    array *packed = array_output("packed", 5 * 16), *copied = array_output("copied", 8 * 16);
    for (int i = 0; i < 128; i++)
        source->host[i] = (uint8_t)i;
    memcpy(src_rows->host, p1, sizeof p1);
    for (int i = 0; i < 8; i++)
        memcpy(identity->host + i * 4, &i, 4);
    arrays_upload();
    for (side s = 0; (int)s < H.n_sides; s++) {
        rvit_pack_args args = RVIT_PACK_ARGS_INIT;
        args.rows.capacity = 5;
        args.source_rows = 8;
        args.row_size = 16;
        args.source = array_view(source, s);
        args.src_rows = array_view(src_rows, s);
        args.destination = array_view(packed, s);
        expect_ok(rvit_pack(H.stream[s], &args));
        args.rows.capacity = 8;
        args.src_rows = array_view(identity, s);
        args.destination = array_view(copied, s);
        expect_ok(rvit_pack(H.stream[s], &args));
        arrays_fetch(s);
        for (int t = 0; t < 5; t++)
            assert_memory_equal(packed->result[s] + t * 16, source->host + p1[t] * 16, 16);
        assert_memory_equal(copied->result[s], source->host, 128);
    }
}

/* A call that works. */
void good_pack(rvit_pack_args *a)
{
    a->rows = good_rows();
    a->source_rows = GOOD_ROWS;
    a->row_size = GOOD_DIM * 4;
    a->source = good_input("source", GOOD_ROWS * GOOD_DIM * 4);
    a->src_rows = good_row_numbers();
    a->destination = good_output("destination", GOOD_ROWS * GOOD_DIM * 4);
}

SUITE(pack_suite, TEST(pack_row_sizes), TEST(pack_rows), TEST(pack_vectors));

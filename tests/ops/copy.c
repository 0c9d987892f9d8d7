#include "good_ops.h"
#include "ops.h"

static void copy_sizes_and_offsets(void **state)
{
    (void)state;
    static const int64_t sizes[] = {0, 4, 8, 12, 16, 20, 100, 4096, 100004};
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++)
        for (int64_t from = 0; from < 16; from += 4)
            for (int64_t to = 0; to < 16; to += 4) {
                array *source = array_input("source", sizes[i] + 32), *destination = array_output("destination", sizes[i] + 32);
                for (int64_t b = 0; b < sizes[i] + 32; b++)
                    source->host[b] = (uint8_t)random_bits();
                arrays_upload();
                for (side s = 0; (int)s < H.n_sides; s++) {
                    rvit_copy_args args = RVIT_COPY_ARGS_INIT;
                    args.source = array_view(source, s);
                    args.destination = array_view(destination, s);
                    args.source.offset += from;
                    args.destination.offset += to;
                    args.size = sizes[i];
                    expect_ok(rvit_copy(H.stream[s], &args));
                    arrays_fetch(s);
                    assert_memory_equal(destination->result[s] + to, source->host + from, (size_t)sizes[i]);
                    assert_memory_equal(destination->result[s], destination->host, (size_t)to);
                    array_expect_untouched(destination, s, to + sizes[i]);
                }
                harness_teardown(NULL);
            }
}

/* Within one buffer, between ranges that touch. */
static void copy_within_a_buffer(void **state)
{
    (void)state;
    array *a = array_output("a", 96);
    for (int i = 0; i < 96; i++)
        a->host[i] = (uint8_t)i;
    arrays_upload();
    for (side s = 0; (int)s < H.n_sides; s++) {
        rvit_copy_args args = RVIT_COPY_ARGS_INIT;
        args.source = args.destination = array_view(a, s);
        args.destination.offset += 32;
        args.size = 32;
        expect_ok(rvit_copy(H.stream[s], &args));
        arrays_fetch(s);
        assert_memory_equal(a->result[s] + 32, a->host, 32);
        assert_memory_equal(a->result[s], a->host, 32);
        array_expect_untouched(a, s, 64);
    }
}

/* Ops of a stream run in order: each copy finds what the one before it wrote. */
static void copies_run_in_order(void **state)
{
    (void)state;
    enum { STEPS = 50, SIZE = 4096 };
    array *chain[STEPS + 1];
    for (int i = 0; i <= STEPS; i++)
        chain[i] = i ? array_output("chain", SIZE) : array_input("chain", SIZE);
    for (int i = 0; i < SIZE; i++)
        chain[0]->host[i] = (uint8_t)random_bits();
    arrays_upload();
    for (side s = 0; (int)s < H.n_sides; s++) {
        for (int i = 0; i < STEPS; i++) {
            rvit_copy_args args = RVIT_COPY_ARGS_INIT;
            args.source = array_view(chain[i], s);
            args.destination = array_view(chain[i + 1], s);
            args.size = SIZE;
            expect_ok(rvit_copy(H.stream[s], &args));
        }
        arrays_fetch(s);
        for (int i = 1; i <= STEPS; i++)
            assert_memory_equal(chain[i]->result[s], chain[0]->host, SIZE);
    }
}

/* A call that works. */
void good_copy(rvit_copy_args *a)
{
    a->source = good_input("source", 64);
    a->destination = good_output("destination", 64);
    a->size = 64;
}

SUITE(copy_suite, TEST(copy_sizes_and_offsets), TEST(copy_within_a_buffer), TEST(copies_run_in_order));

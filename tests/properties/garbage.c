/* Invalid lengths give meaningless results but cause no access outside the arrays, and the next call works. */
#include "properties.h"

enum { N_IMAGES = 9, ROWS = 60, MAX_LEN = 20 };

static int32_t garbage(int kind)
{
    static const int32_t extremes[] = {INT32_MAX, INT32_MIN, -1, 0x7ffffff0, ROWS, ROWS + 1, 1 << 30, -1000000, 0};
    if (kind == 0)
        return (int32_t)random_bits();
    if (kind == 1)
        return extremes[random_below(9)];
    return random_below(2 * ROWS) - ROWS / 2;
}

/* Images that overlap write the same rows at the same time: a race in the results without meaning, which a thread sanitizer reports. */
#if defined(__SANITIZE_THREAD__)
#define RACES_ARE_ERRORS 1
#else
#define RACES_ARE_ERRORS 0
#endif

static void garbage_lengths_stay_inside(void **state)
{
    (void)state;
    if (RACES_ARE_ERRORS)
        skip();
    static const int32_t lengths[N_IMAGES] = {3, 20, 0, 1, 7, 0, 12, 2, 5};
    static const rvit_dtype types[] = {RVIT_F32, RVIT_F16, RVIT_BF16};
    for (int t = 0; t < n_types(); t++)
        for (int prune = PRUNE_CLS; prune <= PRUNE_NOTHING; prune++) {
            pipeline *good = pipeline_new(types[t], (pipeline_prune)prune, N_IMAGES, MAX_LEN, ROWS, 0);
            pipeline_set_lengths(good, lengths, N_IMAGES);
            for (int32_t i = 0; i < N_IMAGES; i++)
                pipeline_set_image(good, i, (uint64_t)i);
            pipeline *p = pipeline_new(types[t], (pipeline_prune)prune, N_IMAGES, MAX_LEN, ROWS, 0);
            store_normal(types[t], p->x->host, 0, ROWS * p->dim, 1);
            if (p->keep_in)
                memset(p->keep_in->host, 1, ROWS);
            /* A gather by row numbers that nobody has written would be another matter: they start as valid ones. */
            if (p->src_rows)
                memset(p->src_rows->host, 0, (size_t)p->src_rows->size);
            if (p->next_rows)
                memset(p->next_rows->host, 0xff, (size_t)p->next_rows->size);
            int64_t size = 0, first_size = 0;
            uint8_t *first = NULL;
            for (int round = 0; round < 30; round++) {
                if (leaves_out(round / 3, 5))
                    continue;
                random_seed((uint64_t)(round + 1) * 7919);
                for (int32_t i = 0; i <= N_IMAGES; i++) {
                    const int32_t value = garbage(round % 3);
                    memcpy(p->cu->host + i * 4, &value, 4);
                }
                arrays_upload();
                expect_ok(pipeline_enqueue(p, H.stream[DEVICE]));
                expect_ok(pipeline_enqueue(good, H.stream[DEVICE]));
                arrays_fetch(DEVICE);
                const uint8_t *image = pipeline_image(good, 1, &size);
                if (round == 0) {
                    first = scratch((size_t)size);
                    memcpy(first, image, (size_t)size);
                    first_size = size;
                }
                assert_int_equal(size, first_size);
                assert_memory_equal(image, first, (size_t)size);
            }
            harness_teardown(NULL);
        }
}

/* Images that overlap may leave lists that go round: a merge of them ends all the same, and the lists that are right are merged. */
static void lists_that_go_round_end(void **state)
{
    (void)state;
    enum { LISTS = 40, DIM = 8 };
    array *x = array_input("x", LISTS * DIM * 4), *src_rows = array_input("src_rows", LISTS * 4);
    array *next_rows = array_input("next_rows", LISTS * 4), *out_x = array_output("out_x", LISTS * DIM * 4);
    array *sizes = array_output("out_sizes", LISTS * 4), *key_bias = array_output("out_key_bias", LISTS * 4);
    store_normal(RVIT_F32, x->host, 0, LISTS * DIM, 1);
    for (int round = 0; round < 20; round++) {
        for (int32_t i = 0; i < LISTS; i++) {
            /* Rows 0 and 1 are a list; of the others each leads anywhere, to itself and to them too. */
            const int32_t next = i == 0 ? 1 : i == 1 ? -1 : round == 0 ? i : round == 1 ? 2 + (i - 1) % (LISTS - 2) : random_below(LISTS);
            memcpy(src_rows->host + i * 4, &i, 4);
            memcpy(next_rows->host + i * 4, &next, 4);
        }
        arrays_upload();
        rvit_merge_args args = RVIT_MERGE_ARGS_INIT;
        args.rows.capacity = args.x_rows = LISTS;
        args.dim = DIM;
        args.x = array_view(x, DEVICE);
        args.src_rows = array_view(src_rows, DEVICE);
        args.next_rows = array_view(next_rows, DEVICE);
        args.out_x = array_view(out_x, DEVICE);
        args.out_sizes = array_view(sizes, DEVICE);
        args.out_key_bias = array_view(key_bias, DEVICE);
        expect_ok(rvit_merge(H.stream[DEVICE], &args));
        arrays_fetch(DEVICE);
        for (int i = 0; i < DIM; i++)
            assert_true(load(RVIT_F32, out_x->result[DEVICE], i) == (load(RVIT_F32, x->host, i) + load(RVIT_F32, x->host, DIM + i)) / 2);
        assert_true(load(RVIT_F32, sizes->result[DEVICE], 0) == 2);
        assert_memory_equal(out_x->result[DEVICE] + DIM * 4, x->host + DIM * 4, DIM * 4);
    }
}

SUITE(garbage_suite, TEST(garbage_lengths_stay_inside), TEST(lists_that_go_round_end));

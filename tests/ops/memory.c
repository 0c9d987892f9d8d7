/* Ops work directly on mapped memory; write and read copy any number of bytes. */
#include "ops.h"
#include "reference/plain.h"

static void mapped_buffers(void **state)
{
    (void)state;
    enum { ROWS = 20, IN = 12, OUT = 8 };
    array *x = array_mapped("x", ROWS * IN * 4, RVIT_BUFFER_UPLOAD), *weight = array_mapped("weight", OUT * IN * 4, RVIT_BUFFER_UPLOAD);
    array *out = array_mapped("out", ROWS * OUT * 4, RVIT_BUFFER_READBACK), *live = array_mapped("live", 4, RVIT_BUFFER_UPLOAD);
    arrays_upload();
    array *const mapped[] = {x, weight, out, live};
    for (int i = 0; i < 4; i++)
        for (side s = 0; (int)s < H.n_sides; s++)
            assert_int_equal((uintptr_t)rvit_buffer_host(mapped[i]->buffer[s]) % 64, 0);
    const int32_t rows = ROWS - 3;
    for (side s = 0; (int)s < H.n_sides; s++) {
        random_seed(5);
        store_normal(RVIT_F32, array_mapping(x, s), 0, ROWS * IN, 1);
        store_normal(RVIT_F32, array_mapping(weight, s), 0, OUT * IN, 1);
        memcpy(array_mapping(live, s), &rows, 4);
        rvit_linear_args args = RVIT_LINEAR_ARGS_INIT;
        args.rows.capacity = ROWS;
        args.rows.live = array_view(live, s);
        args.in_features = IN;
        args.out_features = OUT;
        args.x = array_view(x, s);
        args.weight = array_view(weight, s);
        args.out = array_view(out, s);
        expect_ok(rvit_linear(H.stream[s], &args));
        expect_ok(rvit_stream_synchronize(H.stream[s]));
        float wanted[ROWS * OUT];
        const linear_problem p = {
            .rows = rows, .in_features = IN, .out_features = OUT, .x = array_mapping(x, s), .weight = array_mapping(weight, s)};
        linear_f32(&p, wanted);
        const float *got = array_mapping(out, s);
        assert_true(largest_difference(got, wanted, rows * OUT) < 1e-5);
        assert_memory_equal(got + rows * OUT, out->host, 3 * OUT * 4);
    }
}

static void write_and_read(void **state)
{
    (void)state;
    static const int64_t sizes[] = {4, 8, 60, 4096, 65536, 1 << 20, (1 << 22) + 4, 40 << 20};
    static const rvit_buffer_type types[] = {RVIT_BUFFER_DEVICE, RVIT_BUFFER_UPLOAD, RVIT_BUFFER_READBACK};
    for (int type = 0; type < 3; type++)
        for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
            const int64_t size = sizes[i];
            uint32_t *sent = malloc((size_t)size), *received = malloc((size_t)size);
            assert_true(sent && received);
            for (int64_t w = 0; w < size / 4; w++)
                sent[w] = random_bits();
            rvit_buffer *buffer = NULL;
            expect_ok(rvit_buffer_create(H.device[DEVICE], size + 20, types[type], &buffer));
            assert_int_equal(rvit_buffer_size(buffer), size + 20);
            assert_true((rvit_buffer_host(buffer) == NULL) == (types[type] == RVIT_BUFFER_DEVICE));
            const rvit_view at = {buffer, 12};
            expect_ok(rvit_stream_write(H.stream[DEVICE], at, sent, size));
            expect_ok(rvit_stream_read(H.stream[DEVICE], at, received, size));
            assert_memory_equal(sent, received, (size_t)size);
            /* The host memory is free again after a write. */
            expect_ok(rvit_stream_write(H.stream[DEVICE], at, sent, 4));
            const uint32_t first = sent[0];
            sent[0] = ~first;
            expect_ok(rvit_stream_read(H.stream[DEVICE], at, received, 4));
            assert_int_equal(received[0], first);
            rvit_buffer_destroy(buffer);
            free(sent);
            free(received);
        }
}

/* Arrays larger than some devices can bind at once (128 MiB on many): the op works, or is UNSUPPORTED and says why, and the next one
   works. */
static void large_arrays(void **state)
{
    (void)state;
    enum { ROW = 4096, ROWS = 40000 };
    rvit_stream *stream = H.stream[DEVICE];
    array *src_rows = array_input("src_rows", ROWS * 4), *live = array_live(1), *first = array_live(0);
    const int32_t last = ROWS - 1;
    memcpy(src_rows->host, &last, 4);
    arrays_upload();
    rvit_buffer *source = NULL, *destination = NULL;
    expect_ok(rvit_buffer_create(H.device[DEVICE], (int64_t)ROW * ROWS, RVIT_BUFFER_DEVICE, &source));
    expect_ok(rvit_buffer_create(H.device[DEVICE], (int64_t)ROW * ROWS, RVIT_BUFFER_DEVICE, &destination));
    uint8_t sent[ROW], received[ROW];
    memset(sent, 0x5c, sizeof sent);
    const rvit_view end = {source, (int64_t)ROW * last}, begin = {destination, 0};
    expect_ok(rvit_stream_write(stream, end, sent, ROW));
    rvit_pack_args pack = RVIT_PACK_ARGS_INIT;
    pack.rows.capacity = ROWS;
    pack.rows.live = array_view(live, DEVICE);
    pack.source_rows = ROWS;
    pack.row_size = ROW;
    pack.source.buffer = source;
    pack.src_rows = array_view(src_rows, DEVICE);
    pack.destination = begin;
    const rvit_status status = rvit_pack(stream, &pack);
    if (status == RVIT_OK) {
        expect_ok(rvit_stream_read(stream, begin, received, ROW));
        assert_memory_equal(received, sent, ROW);
    } else {
        expect_status(status, RVIT_UNSUPPORTED, "pack");
        print_message("%s\n", rvit_status_detail());
    }
    pack.rows.capacity = pack.source_rows = 1;
    pack.source = end;
    pack.src_rows = array_view(first, DEVICE);
    expect_ok(rvit_pack(stream, &pack));
    expect_ok(rvit_stream_read(stream, begin, received, ROW));
    assert_memory_equal(received, sent, ROW);
    rvit_buffer_destroy(source);
    rvit_buffer_destroy(destination);
}

SUITE(memory_suite, TEST(mapped_buffers), TEST(write_and_read), TEST(large_arrays));

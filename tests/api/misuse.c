/* Devices, buffers, streams and recordings used in the wrong order, with the wrong partner, or with nothing. */
#include "api.h"

#include "good_ops.h"
#include "interop.h"

static void recordings(void **state)
{
    (void)state;
    rvit_stream *stream = H.stream[DEVICE];
    rvit_program *const untouched = (rvit_program *)(uintptr_t)0x10;
    rvit_program *program = untouched;
    good_op ops[N_GOOD_OPS];
    good_ops(ops);
    uint32_t word = 0;
    expect_status(rvit_record_end(stream, &program), RVIT_INVALID_ARGUMENT, NULL);
    expect_ok(rvit_record_begin(stream));
    expect_status(rvit_record_begin(stream), RVIT_INVALID_ARGUMENT, NULL);
    expect_ok(ops[COPY].call(stream, &ops[COPY].args));
    expect_status(rvit_stream_write(stream, ops[COPY].args.copy.destination, &word, 4), RVIT_INVALID_ARGUMENT, NULL);
    expect_status(rvit_stream_read(stream, ops[COPY].args.copy.source, &word, 4), RVIT_INVALID_ARGUMENT, NULL);
    expect_status(rvit_record_end(stream, NULL), RVIT_INVALID_ARGUMENT, "out_program");
    /* The refusals did not change the recording: it still holds the copy. */
    expect_ok(rvit_record_end(stream, &program));
    arrays_fetch(DEVICE);
    arrays_expect_unwritten(DEVICE);
    expect_ok(rvit_program_launch(program, stream));
    arrays_fetch(DEVICE);
    rvit_program *const first = program;
    program = untouched;
    expect_ok(rvit_record_begin(stream));
    expect_status(rvit_program_launch(first, stream), RVIT_INVALID_ARGUMENT, NULL);
    expect_status(rvit_record_end(stream, &program), RVIT_INVALID_ARGUMENT, NULL);
    assert_ptr_equal(program, untouched);
    expect_status(rvit_record_begin(NULL), RVIT_INVALID_ARGUMENT, "stream");
    expect_status(rvit_record_end(NULL, &program), RVIT_INVALID_ARGUMENT, "stream");
    expect_status(rvit_program_launch(NULL, stream), RVIT_INVALID_ARGUMENT, "program");
    expect_status(rvit_program_launch(first, NULL), RVIT_INVALID_ARGUMENT, "stream");
    expect_ok(rvit_program_launch(first, stream));
    expect_ok(rvit_stream_synchronize(stream));
    rvit_program_destroy(first);
    rvit_program_destroy(NULL);
}

static void launch_on_another_device(void **state)
{
    (void)state;
    good_op ops[N_GOOD_OPS];
    good_ops(ops);
    rvit_device *device = NULL;
    rvit_stream *stream = NULL;
    rvit_program *program = NULL;
    expect_ok(rvit_device_create(&H.desc, &device));
    expect_ok(rvit_stream_create(device, &stream));
    expect_ok(rvit_record_begin(H.stream[DEVICE]));
    expect_ok(ops[COPY].call(H.stream[DEVICE], &ops[COPY].args));
    expect_ok(rvit_record_end(H.stream[DEVICE], &program));
    expect_status(rvit_program_launch(program, stream), RVIT_INVALID_ARGUMENT, NULL);
    arrays_fetch(DEVICE);
    arrays_expect_unwritten(DEVICE);
    rvit_program_destroy(program);
    rvit_stream_destroy(stream);
    rvit_device_destroy(device);
}

/* A stream that ends while it records. */
static void an_unfinished_recording(void **state)
{
    (void)state;
    good_op ops[N_GOOD_OPS];
    good_ops(ops);
    rvit_stream *stream = NULL;
    expect_ok(rvit_stream_create(H.device[DEVICE], &stream));
    expect_ok(rvit_record_begin(stream));
    for (int i = 0; i < N_GOOD_OPS; i++)
        if (!lacks(ops[i].name))
            expect_ok(ops[i].call(stream, &ops[i].args));
    rvit_stream_destroy(stream);
    arrays_fetch(DEVICE);
    arrays_expect_unwritten(DEVICE);
}

/* More ops than any first guess of a capacity. */
static void a_long_recording(void **state)
{
    (void)state;
    good_op ops[N_GOOD_OPS];
    good_ops(ops);
    rvit_program *program = NULL;
    expect_ok(rvit_record_begin(H.stream[DEVICE]));
    for (int i = 0; i < 40 * N_GOOD_OPS; i++)
        if (!lacks(ops[i % N_GOOD_OPS].name))
            expect_ok(ops[i % N_GOOD_OPS].call(H.stream[DEVICE], &ops[i % N_GOOD_OPS].args));
    expect_ok(rvit_record_end(H.stream[DEVICE], &program));
    expect_ok(rvit_program_launch(program, H.stream[DEVICE]));
    arrays_fetch(DEVICE);
    rvit_program_destroy(program);
}

static void buffers(void **state)
{
    (void)state;
    rvit_buffer *const untouched = (rvit_buffer *)(uintptr_t)0x10;
    rvit_buffer *buffer = untouched;
    rvit_device *device = H.device[DEVICE];
    expect_status(rvit_buffer_create(device, 0, RVIT_BUFFER_DEVICE, &buffer), RVIT_INVALID_ARGUMENT, "size");
    expect_status(rvit_buffer_create(device, -1, RVIT_BUFFER_DEVICE, &buffer), RVIT_INVALID_ARGUMENT, "size");
    expect_status(rvit_buffer_create(device, 16, (rvit_buffer_type)8, &buffer), RVIT_INVALID_ARGUMENT,
                  "type: 8 is not a valid buffer type");
    expect_status(rvit_buffer_create(NULL, 16, RVIT_BUFFER_DEVICE, &buffer), RVIT_INVALID_ARGUMENT, "device");
    expect_status(rvit_buffer_create(device, 16, RVIT_BUFFER_DEVICE, NULL), RVIT_INVALID_ARGUMENT, "out_buffer");
    static const int64_t sizes[] = {INT64_MAX, (int64_t)1 << 50, INT64_MAX - 15};
    for (int i = 0; i < 3; i++)
        for (int type = 0; type < 3; type++) {
            const rvit_status status = rvit_buffer_create(device, sizes[i], (rvit_buffer_type)type, &buffer);
            if (status != RVIT_OUT_OF_DEVICE_MEMORY && status != RVIT_OUT_OF_HOST_MEMORY && status != RVIT_UNSUPPORTED)
                fail_msg("a buffer of %lld bytes gives %s: %s", (long long)sizes[i], rvit_status_name(status), rvit_status_detail());
            assert_int_not_equal(rvit_status_detail()[0], 0);
        }
    assert_ptr_equal(buffer, untouched);
    expect_ok(rvit_buffer_create(device, 1, RVIT_BUFFER_UPLOAD, &buffer));
    assert_int_equal(rvit_buffer_size(buffer), 1);
    assert_non_null(rvit_buffer_host(buffer));
    rvit_buffer_destroy(buffer);
    rvit_buffer_destroy(NULL);
    assert_null(rvit_buffer_host(NULL));
    assert_int_equal(rvit_buffer_size(NULL), 0);
}

/* Memory of the caller's, in place: ops read and write it there, and nothing counts it. */
static void wrapped_memory(void **state)
{
    (void)state;
    rvit_device *device = H.device[DEVICE];
    static _Alignas(16) uint32_t first[8], second[8];
    rvit_buffer *const untouched = (rvit_buffer *)(uintptr_t)0x10;
    rvit_buffer *buffer = untouched, *own = NULL;
    expect_ok(rvit_buffer_create(device, 32, RVIT_BUFFER_DEVICE, &own));
    expect_status(wrap_memory(NULL, RVIT_MEMORY_HOST, (uintptr_t)first, 32, &buffer), RVIT_INVALID_ARGUMENT, "device");
    expect_status(wrap_memory(device, RVIT_MEMORY_HOST, (uintptr_t)first, 32, NULL), RVIT_INVALID_ARGUMENT, "out_buffer");
    expect_status(rvit_buffer_set(NULL, first, 32), RVIT_INVALID_ARGUMENT, "NULL");
    expect_status(rvit_buffer_set(own, first, 32), RVIT_INVALID_ARGUMENT, "wrapped");
    rvit_memory_desc bad = RVIT_MEMORY_DESC_INIT;
    bad.type = (rvit_memory_type)7;
    expect_status(rvit_buffer_wrap(device, &bad, &buffer), RVIT_INVALID_ARGUMENT, "type");
    expect_status(rvit_buffer_wrap(device, NULL, &buffer), RVIT_INVALID_ARGUMENT, "memory desc");
    rvit_external_memory external = RVIT_EXTERNAL_MEMORY_INIT;
    expect_status(rvit_buffer_export(own, &external), RVIT_INVALID_ARGUMENT, "RVIT_BUFFER_SHARED");
    if (H.info.backend != RVIT_BACKEND_CPU) {
        expect_status(wrap_memory(device, RVIT_MEMORY_HOST, (uintptr_t)first, 32, &buffer), RVIT_UNSUPPORTED, "type is HOST");
        assert_ptr_equal(buffer, untouched);
        rvit_buffer_destroy(own);
        return;
    }
    expect_status(wrap_memory(device, RVIT_MEMORY_HOST, (uintptr_t)(first + 1), 16, &buffer), RVIT_INVALID_ARGUMENT, "multiple of 16");
    expect_status(wrap_memory(device, RVIT_MEMORY_HOST, 0, 16, &buffer), RVIT_INVALID_ARGUMENT, "multiple of 16");
    expect_status(wrap_memory(device, RVIT_MEMORY_HOST, (uintptr_t)first, 0, &buffer), RVIT_INVALID_ARGUMENT, "size");
    assert_ptr_equal(buffer, untouched);
    rvit_stats before = RVIT_STATS_INIT, after = RVIT_STATS_INIT;
    rvit_stream *stream = H.stream[DEVICE];
    expect_ok(rvit_stream_get_stats(stream, &before));
    expect_ok(wrap_memory(device, RVIT_MEMORY_HOST, (uintptr_t)first, sizeof first, &buffer));
    expect_ok(rvit_stream_get_stats(stream, &after));
    assert_true(after.device_size == before.device_size);
    assert_int_equal(rvit_buffer_size(buffer), sizeof first);
    assert_null(rvit_buffer_host(buffer));
    uint64_t address = 0;
    int64_t offset = -1;
    expect_ok(rvit_buffer_handle(buffer, &address, &offset));
    assert_true(address == (uintptr_t)first && offset == 0);
    const uint32_t words[4] = {1, 2, 3, 4};
    expect_ok(rvit_stream_write(stream, (rvit_view){buffer, 16}, words, sizeof words));
    expect_ok(rvit_stream_synchronize(stream));
    assert_memory_equal(first + 4, words, sizeof words);
    expect_status(rvit_buffer_set(buffer, second + 1, 16), RVIT_INVALID_ARGUMENT, "multiple of 16");
    expect_ok(rvit_buffer_set(buffer, second, 16));
    expect_ok(rvit_stream_write(stream, (rvit_view){buffer, 0}, words, sizeof words));
    expect_ok(rvit_stream_synchronize(stream));
    assert_memory_equal(second, words, sizeof words);
    expect_status(rvit_stream_write(stream, (rvit_view){buffer, 16}, words, sizeof words), RVIT_INVALID_ARGUMENT, NULL);
    /* Two buffers of the same memory. */
    rvit_buffer *other = NULL;
    rvit_copy_args args = {.struct_size = sizeof args, .source = {buffer, 0}, .size = 16};
    expect_ok(rvit_buffer_set(buffer, first, sizeof first));
    expect_ok(wrap_memory(device, RVIT_MEMORY_HOST, (uintptr_t)first, sizeof first, &other));
    args.destination = (rvit_view){other, 8};
    expect_status(rvit_copy(stream, &args), RVIT_INVALID_ARGUMENT, "copy: destination overlaps source");
    args.destination.offset = 16;
    expect_ok(rvit_copy(stream, &args));
    expect_ok(rvit_buffer_set(other, second, sizeof second));
    args.destination.offset = 8;
    expect_ok(rvit_copy(stream, &args));
    expect_ok(rvit_stream_synchronize(stream));
    rvit_buffer_destroy(other);
    rvit_buffer_destroy(buffer);
    rvit_buffer_destroy(own);
    assert_memory_equal(first + 4, first, 16);
}

/* What only devices of other backends have. */
static void native_objects_of_the_cpu(void **state)
{
    (void)state;
    if (H.info.backend != RVIT_BACKEND_CPU)
        return;
    rvit_device *device = H.device[DEVICE];
    rvit_buffer *buffer = NULL;
    rvit_stream *stream = NULL;
    rvit_semaphore *semaphore = NULL;
    void *native = NULL;
    expect_status(rvit_buffer_create(device, 64, RVIT_BUFFER_SHARED, &buffer), RVIT_UNSUPPORTED, "RVIT_BUFFER_SHARED");
    expect_status(rvit_stream_wrap(device, NULL, &stream), RVIT_UNSUPPORTED, "native");
    expect_status(rvit_stream_handle(H.stream[DEVICE], &native), RVIT_UNSUPPORTED, "native");
    expect_status(rvit_stream_set(H.stream[DEVICE], NULL), RVIT_INVALID_ARGUMENT, "wrapped");
    expect_status(create_semaphore(device, 0, 0, &semaphore), RVIT_UNSUPPORTED, "semaphores");
    expect_status(create_semaphore(NULL, 0, 0, &semaphore), RVIT_INVALID_ARGUMENT, "device");
    expect_status(create_semaphore(device, 0, 2, &semaphore), RVIT_INVALID_ARGUMENT, "shared");
    expect_status(rvit_semaphore_create(device, NULL, &semaphore), RVIT_INVALID_ARGUMENT, "semaphore desc");
    expect_status(rvit_stream_wait(H.stream[DEVICE], NULL, 1), RVIT_INVALID_ARGUMENT, "NULL");
    rvit_semaphore_destroy(NULL);
}

static void transfers(void **state)
{
    (void)state;
    rvit_stream *stream = H.stream[DEVICE];
    rvit_buffer *buffer = NULL;
    uint32_t words[8] = {0};
    expect_ok(rvit_buffer_create(H.device[DEVICE], 32, RVIT_BUFFER_DEVICE, &buffer));
    const struct {
        rvit_view view;
        void *host;
        int64_t size;
    } bad[] = {{{NULL, 0}, words, 4},
               {{buffer, 0}, NULL, 4},
               {{buffer, 0}, words, -4},
               {{buffer, 0}, words, 6},
               {{buffer, 2}, words, 4},
               {{buffer, -4}, words, 4},
               {{buffer, 0}, words, 36},
               {{buffer, 32}, words, 4},
               {{buffer, 28}, words, 8},
               {{buffer, INT64_MAX / 4 * 4}, words, 4},
               {{buffer, 0}, words, INT64_MAX / 4 * 4}};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        expect_status(rvit_stream_write(stream, bad[i].view, bad[i].host, bad[i].size), RVIT_INVALID_ARGUMENT, NULL);
        expect_status(rvit_stream_read(stream, bad[i].view, bad[i].host, bad[i].size), RVIT_INVALID_ARGUMENT, NULL);
    }
    const rvit_view view = {buffer, 0};
    expect_status(rvit_stream_write(NULL, view, words, 4), RVIT_INVALID_ARGUMENT, "stream");
    expect_status(rvit_stream_read(NULL, view, words, 4), RVIT_INVALID_ARGUMENT, "stream");
    expect_ok(rvit_stream_write(stream, view, words, 0));
    expect_ok(rvit_stream_read(stream, view, words, 32));
    rvit_stream *const untouched = (rvit_stream *)(uintptr_t)0x10;
    rvit_stream *other = untouched;
    expect_status(rvit_stream_create(NULL, &other), RVIT_INVALID_ARGUMENT, "device");
    expect_status(rvit_stream_create(H.device[DEVICE], NULL), RVIT_INVALID_ARGUMENT, "out_stream");
    assert_ptr_equal(other, untouched);
    expect_status(rvit_stream_synchronize(NULL), RVIT_INVALID_ARGUMENT, "stream");
    rvit_stats stats = RVIT_STATS_INIT;
    expect_status(rvit_stream_get_stats(NULL, &stats), RVIT_INVALID_ARGUMENT, "stream");
    expect_status(rvit_stream_get_stats(stream, NULL), RVIT_INVALID_ARGUMENT, NULL);
    stats.struct_size = 0;
    expect_status(rvit_stream_get_stats(stream, &stats), RVIT_INVALID_ARGUMENT, "struct_size");
    rvit_stream_destroy(NULL);
    rvit_buffer_destroy(buffer);
}

SUITE(misuse_suite, TEST(recordings), TEST(launch_on_another_device), TEST(an_unfinished_recording), TEST(a_long_recording), TEST(buffers),
      TEST(wrapped_memory), TEST(native_objects_of_the_cpu), TEST(transfers));

/* After warm-up, a run neither allocates nor waits, by the library's own counters and by the caller's allocator. */
#include "properties.h"

#include <stdatomic.h>

static atomic_llong n_allocations;

static void *counting_allocate(void *user, size_t size, size_t alignment)
{
    (void)user;
    atomic_fetch_add(&n_allocations, 1);
    return aligned_alloc(alignment, (size + alignment - 1) / alignment * alignment);
}

static void counting_release(void *user, void *pointer)
{
    (void)user;
    free(pointer);
}

static rvit_stats stats_of(const rvit_stream *stream)
{
    rvit_stats stats = RVIT_STATS_INIT;
    expect_ok(rvit_stream_get_stats(stream, &stats));
    return stats;
}

/* The test allocates everything on its own device with a counting allocator; H points to it during the test. */
static void with_counting_device(void (*body)(void))
{
    rvit_device *device = H.device[DEVICE];
    rvit_stream *stream = H.stream[DEVICE];
    const rvit_allocator allocator = {NULL, counting_allocate, counting_release};
    rvit_device_desc desc = H.desc;
    desc.allocator = &allocator;
    H.device[DEVICE] = NULL;
    H.stream[DEVICE] = NULL;
    expect_ok(rvit_device_create(&desc, &H.device[DEVICE]));
    expect_ok(rvit_stream_create(H.device[DEVICE], &H.stream[DEVICE]));
    body();
    harness_teardown(NULL);
    rvit_stream_destroy(H.stream[DEVICE]);
    rvit_device_destroy(H.device[DEVICE]);
    H.device[DEVICE] = device;
    H.stream[DEVICE] = stream;
}

static pipeline_prune the_prune;

static pipeline *ready(void)
{
    static const int32_t lengths[4] = {20, 0, 31, 9};
    pipeline *p = pipeline_new(RVIT_F32, the_prune, 4, 40, 100, 0);
    pipeline_set_lengths(p, lengths, 4);
    for (int32_t i = 0; i < 4; i++)
        pipeline_set_image(p, i, (uint64_t)i);
    arrays_upload();
    return p;
}

static void expect_free(const rvit_stats *before, const rvit_stats *after)
{
    assert_int_equal(after->synchronizations, before->synchronizations);
    assert_int_equal(after->host_allocations, before->host_allocations);
    assert_int_equal(after->device_allocations, before->device_allocations);
    assert_true(after->launches > before->launches);
    assert_true(after->submits > before->submits);
}

static void launches(void)
{
    const pipeline *p = ready();
    rvit_stream *stream = H.stream[DEVICE];
    rvit_program *program = NULL;
    expect_ok(rvit_record_begin(stream));
    expect_ok(pipeline_enqueue(p, stream));
    expect_ok(rvit_record_end(stream, &program));
    for (int i = 0; i < 2; i++) {
        expect_ok(rvit_program_launch(program, stream));
        expect_ok(rvit_stream_synchronize(stream));
    }
    for (int round = 0; round < 5; round++) {
        const long long count = n_allocations;
        const rvit_stats before = stats_of(stream);
        expect_ok(rvit_program_launch(program, stream));
        const rvit_stats after = stats_of(stream);
        expect_free(&before, &after);
        assert_int_equal(after.submits, before.submits + 1);
        assert_int_equal(n_allocations, count);
        expect_ok(rvit_stream_synchronize(stream));
        assert_int_equal(n_allocations, count);
        assert_int_equal(stats_of(stream).synchronizations, after.synchronizations + 1);
    }
    /* Several in flight. */
    const long long count = n_allocations;
    const rvit_stats before = stats_of(stream);
    for (int i = 0; i < 3; i++)
        expect_ok(rvit_program_launch(program, stream));
    const rvit_stats after = stats_of(stream);
    expect_free(&before, &after);
    assert_int_equal(n_allocations, count);
    expect_ok(rvit_stream_synchronize(stream));
    rvit_program_destroy(program);
}

/* Of a program with the stage that many times more. */
static int64_t launches_with(pipeline_prune prune, int more_stages)
{
    the_prune = prune;
    const pipeline *p = ready();
    rvit_stream *stream = H.stream[DEVICE];
    rvit_program *program = NULL;
    expect_ok(rvit_record_begin(stream));
    expect_ok(pipeline_enqueue(p, stream));
    for (int i = 0; i < more_stages; i++)
        expect_ok(pipeline_enqueue_stage(p, stream));
    expect_ok(rvit_record_end(stream, &program));
    expect_ok(rvit_program_launch(program, stream));
    const rvit_stats before = stats_of(stream);
    expect_ok(rvit_program_launch(program, stream));
    const rvit_stats after = stats_of(stream);
    rvit_program_destroy(program);
    harness_teardown(NULL);
    return after.launches - before.launches;
}

/* Scores and selection are one launch, fusing at most one more, and a predictor five. */
static void a_stage_is_one_launch(void **state)
{
    (void)state;
    static const int64_t most[] = {
        [PRUNE_CLS] = 1, [PRUNE_L2] = 1, [PRUNE_FUSED] = 2, [PRUNE_PREDICTOR] = 6, [PRUNE_SAMPLE] = 1, [PRUNE_MERGE] = 4, [PRUNE_MASK] = 1};
    for (pipeline_prune prune = PRUNE_CLS; prune <= PRUNE_MASK; prune++) {
        const int64_t launches = launches_with(prune, 3) - launches_with(prune, 2);
        if (launches < 1 || launches > most[prune])
            fail_msg("stage %d costs %d launches, %d are allowed", prune, (int)launches, (int)most[prune]);
    }
}

static void eager_ops(void)
{
    const pipeline *p = ready();
    rvit_stream *stream = H.stream[DEVICE];
    for (int i = 0; i < 2; i++) {
        expect_ok(pipeline_enqueue(p, stream));
        expect_ok(rvit_stream_synchronize(stream));
    }
    for (int round = 0; round < 5; round++) {
        const long long count = n_allocations;
        const rvit_stats before = stats_of(stream);
        expect_ok(pipeline_enqueue(p, stream));
        const rvit_stats after = stats_of(stream);
        expect_free(&before, &after);
        assert_true(after.copies > before.copies);
        expect_ok(rvit_stream_synchronize(stream));
        assert_int_equal(n_allocations, count);
    }
}

static void eager_and_recorded(void)
{
    eager_ops();
    harness_teardown(NULL);
    launches();
}

static void warm_work_is_free(void **state)
{
    (void)state;
    for (the_prune = PRUNE_CLS; the_prune <= PRUNE_NOTHING; the_prune++)
        with_counting_device(eager_and_recorded);
}

/* The counters count: what does allocate and wait is seen. */
static void set_up_is_counted(void)
{
    rvit_stream *stream = H.stream[DEVICE];
    const rvit_stats before = stats_of(stream);
    const long long count = n_allocations;
    rvit_buffer *buffer = NULL;
    expect_ok(rvit_buffer_create(H.device[DEVICE], 4096, RVIT_BUFFER_DEVICE, &buffer));
    const rvit_stats created = stats_of(stream);
    assert_true(created.host_allocations > before.host_allocations);
    assert_true(created.device_allocations > before.device_allocations);
    assert_true(n_allocations > count);
    const rvit_view view = {buffer, 0};
    uint32_t words[4] = {1, 2, 3, 4};
    expect_ok(rvit_stream_write(stream, view, words, sizeof words));
    expect_ok(rvit_stream_read(stream, view, words, sizeof words));
    const rvit_stats after = stats_of(stream);
    assert_true(after.synchronizations > created.synchronizations);
    assert_true(after.copies > created.copies);
    rvit_buffer_destroy(buffer);
}

static void the_counters_count(void **state)
{
    (void)state;
    with_counting_device(set_up_is_counted);
}

SUITE(cost_suite, TEST(warm_work_is_free), TEST(a_stage_is_one_launch), TEST(the_counters_count));

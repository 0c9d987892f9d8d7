/* Threads may share a device and a program if each has its own stream. */
#include "properties.h"

#include <pthread.h>

enum { N_THREADS = 4, N_ROUNDS = 25 };

typedef struct worker {
    pthread_t thread;
    const pipeline *p;
    rvit_stream *stream;
    rvit_program *program; /* launched instead of the ops, if given */
    rvit_status status;
    char detail[256];
} worker;

static void *work(void *argument)
{
    worker *w = argument;
    for (int i = 0; i < N_ROUNDS && w->status == RVIT_OK; i++) {
        w->status = w->program ? rvit_program_launch(w->program, w->stream) : pipeline_enqueue(w->p, w->stream);
        if (w->status == RVIT_OK)
            w->status = rvit_stream_synchronize(w->stream);
        /* Buffers come and go meanwhile. */
        rvit_buffer *buffer = NULL;
        if (w->status == RVIT_OK)
            w->status = rvit_buffer_create(H.device[DEVICE], 1000 + i, (rvit_buffer_type)(i % 3), &buffer);
        rvit_buffer_destroy(buffer);
    }
    snprintf(w->detail, sizeof w->detail, "%s", w->status == RVIT_OK ? "" : rvit_status_detail());
    return NULL;
}

static pipeline *make(int seed, pipeline_prune prune)
{
    static const int32_t lengths[5] = {20, 0, 31, 9, 40};
    pipeline *p = pipeline_new(RVIT_F32, prune, 5, 40, 110, 0);
    pipeline_set_lengths(p, lengths, 5);
    for (int32_t i = 0; i < 5; i++)
        pipeline_set_image(p, i, (uint64_t)(seed * 10 + i));
    return p;
}

static void run_all(worker *workers)
{
    int started = 0, failed = 0;
    for (; started < N_THREADS; started++)
        if (pthread_create(&workers[started].thread, NULL, work, &workers[started]))
            break;
    for (int i = 0; i < started; i++) {
        pthread_join(workers[i].thread, NULL);
        if (workers[i].status != RVIT_OK) {
            print_error("thread %d: %s: %s\n", i, rvit_status_name(workers[i].status), workers[i].detail);
            failed = 1;
        }
    }
    assert_int_equal(started, N_THREADS);
    assert_false(failed);
}

static void streams_in_threads(void **state)
{
    (void)state;
    static const pipeline_prune prunes[N_THREADS] = {PRUNE_FUSED, PRUNE_SAMPLE, PRUNE_MERGE, PRUNE_PREDICTOR};
    worker workers[N_THREADS];
    memset(workers, 0, sizeof workers);
    int64_t size[N_THREADS][5];
    uint8_t *wanted[N_THREADS][5];
    for (int i = 0; i < N_THREADS; i++) {
        workers[i].p = make(i, prunes[i]);
        expect_ok(rvit_stream_create(H.device[DEVICE], &workers[i].stream));
    }
    arrays_upload();
    for (int i = 0; i < N_THREADS; i++)
        expect_ok(pipeline_enqueue(workers[i].p, H.stream[DEVICE]));
    arrays_fetch(DEVICE);
    for (int i = 0; i < N_THREADS; i++)
        for (int32_t image = 0; image < 5; image++)
            wanted[i][image] = pipeline_image(workers[i].p, image, &size[i][image]);
    arrays_upload();
    run_all(workers);
    arrays_fetch(DEVICE);
    for (int i = 0; i < N_THREADS; i++) {
        for (int32_t image = 0; image < 5; image++) {
            int64_t n;
            const uint8_t *got = pipeline_image(workers[i].p, image, &n);
            assert_int_equal(n, size[i][image]);
            assert_memory_equal(got, wanted[i][image], (size_t)n);
        }
        rvit_stream_destroy(workers[i].stream);
    }
}

static void one_program_in_threads(void **state)
{
    (void)state;
    const pipeline *p = make(0, PRUNE_CLS);
    arrays_upload();
    rvit_program *program = NULL;
    expect_ok(rvit_record_begin(H.stream[DEVICE]));
    expect_ok(pipeline_enqueue(p, H.stream[DEVICE]));
    expect_ok(rvit_record_end(H.stream[DEVICE], &program));
    expect_ok(rvit_program_launch(program, H.stream[DEVICE]));
    arrays_fetch(DEVICE);
    int64_t size[5], n;
    uint8_t *wanted[5];
    for (int32_t image = 0; image < 5; image++)
        wanted[image] = pipeline_image(p, image, &size[image]);
    arrays_upload();
    worker workers[N_THREADS];
    memset(workers, 0, sizeof workers);
    for (int i = 0; i < N_THREADS; i++) {
        workers[i].program = program;
        expect_ok(rvit_stream_create(H.device[DEVICE], &workers[i].stream));
    }
    run_all(workers);
    arrays_fetch(DEVICE);
    for (int32_t image = 0; image < 5; image++) {
        const uint8_t *got = pipeline_image(p, image, &n);
        assert_int_equal(n, size[image]);
        assert_memory_equal(got, wanted[image], (size_t)n);
    }
    for (int i = 0; i < N_THREADS; i++)
        rvit_stream_destroy(workers[i].stream);
    rvit_program_destroy(program);
}

SUITE(thread_suite, TEST(streams_in_threads), TEST(one_program_in_threads));

/* Threads share a device and a model. Each creates, runs and destroys its own session and stream. */
#include "model.h"

#include <pthread.h>

enum { N_THREADS = 8, N_ROUNDS = 3, N_IMAGES = 2 };

static const toy_spec spec = {
    .dim = 64, .depth = 3, .mlp = 64, .image_size = 32, .patch_size = 8, .n_classes = 5, .stored = RVIT_F32, .seed = 77, .n_predictors = 2};
static const int32_t blocks[] = {0, 1};

typedef struct worker {
    pthread_t thread;
    rvit_model *model;
    rvit_session_desc desc;
    const float *images;
    float *wanted;
    rvit_status status;
    int32_t differs;
    char detail[256];
} worker;

static rvit_session_desc desc_of(int thread)
{
    static const rvit_prune_type types[N_THREADS] = {RVIT_PRUNE_NONE,       RVIT_PRUNE_L2,  RVIT_PRUNE_EVIT, RVIT_PRUNE_EVIT_FUSED,
                                                     RVIT_PRUNE_DYNAMICVIT, RVIT_PRUNE_ATS, RVIT_PRUNE_TOME, RVIT_PRUNE_RANDOM};
    rvit_session_desc desc = session_desc(N_IMAGES, types[thread], -1, blocks, thread == 0 ? 0 : 2);
    desc.outputs = thread % 2 ? RVIT_OUTPUT_FEATURES : 0;
    desc.trace = thread % 3 == 1;
    return desc;
}

static rvit_status run(worker *w, rvit_session *session)
{
    float logits[N_IMAGES * 5];
    rvit_run_args args = RVIT_RUN_ARGS_INIT;
    args.n_images = N_IMAGES;
    args.input.data = w->images;
    for (int i = 0; i < N_ROUNDS; i++) {
        const rvit_status status = rvit_session_run(session, &args, logits);
        if (status != RVIT_OK)
            return status;
        w->differs += memcmp(logits, w->wanted, sizeof logits) != 0;
    }
    return RVIT_OK;
}

static void *work(void *argument)
{
    worker *w = argument;
    for (int i = 0; i < N_ROUNDS && w->status == RVIT_OK; i++) {
        rvit_stream *stream = NULL;
        rvit_session *session = NULL;
        w->status = rvit_stream_create(H.device[DEVICE], &stream);
        w->desc.stream = stream;
        if (w->status == RVIT_OK)
            w->status = rvit_session_create(w->model, &w->desc, &session);
        if (w->status == RVIT_OK)
            w->status = run(w, session);
        snprintf(w->detail, sizeof w->detail, "%s", w->status == RVIT_OK ? "" : rvit_status_detail());
        rvit_session_destroy(session);
        rvit_stream_destroy(stream);
    }
    return NULL;
}

static void sessions_in_threads(void **state)
{
    (void)state;
    const toy *m = toy_new(&spec);
    worker *workers = scratch(N_THREADS * sizeof *workers);
    rvit_model *model = open_model(m, RVIT_F32);
    for (int i = 0; i < N_THREADS; i++) {
        workers[i].model = model;
        workers[i].desc = desc_of(i);
        workers[i].images = toy_images(m, N_IMAGES, (uint64_t)i);
        rvit_session *session = NULL;
        expect_ok(rvit_session_create(model, &workers[i].desc, &session));
        workers[i].wanted = run_session(session, m, workers[i].images, N_IMAGES, NULL);
        rvit_session_destroy(session);
    }
    int started = 0, failed = 0;
    for (; started < N_THREADS; started++)
        if (pthread_create(&workers[started].thread, NULL, work, &workers[started]))
            break;
    for (int i = 0; i < started; i++) {
        pthread_join(workers[i].thread, NULL);
        if (workers[i].status != RVIT_OK || workers[i].differs > 0) {
            print_error("thread %d: %s: %s; %d runs differ\n", i, rvit_status_name(workers[i].status), workers[i].detail,
                        workers[i].differs);
            failed = 1;
        }
    }
    assert_int_equal(started, N_THREADS);
    assert_false(failed);
}

SUITE(model_thread_suite, MODEL_TEST(sessions_in_threads));

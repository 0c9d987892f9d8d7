/* Tests sessions: their inputs, results and traces, image errors, destruction and threads. */
#include "model.h"

#include <math.h>
#include <pthread.h>

#include <raggedvit/experimental.h>
#include "tools/cli/session_results.h"

static const toy_spec spec = {
    .dim = 128, .depth = 4, .mlp = 256, .image_size = 64, .patch_size = 16, .n_classes = 7, .stored = RVIT_F32, .seed = 21};
static const int32_t blocks[] = {0, 2};

static void fewer_images_than_the_capacity(void **state)
{
    (void)state;
    const toy *m = toy_new(&spec);
    rvit_model *model = open_model(m, RVIT_F32);
    const rvit_session_desc desc = session_desc(6, RVIT_PRUNE_EVIT, 0.5, blocks, 2);
    rvit_session *session = open_session(model, &desc);
    const float *images = toy_images(m, 6, 1);
    const float *all = run_session(session, m, images, 6, NULL);
    static const int32_t counts[] = {3, 0, 1, 5, 6, 2};
    for (int i = 0; i < 6; i++) {
        const float *some = run_session(session, m, images, counts[i], NULL);
        assert_memory_equal(some, all, (size_t)counts[i] * 7 * sizeof(float));
        const int32_t *cu = session_cu_seqlens(session, 1);
        for (int32_t n = 0; n < counts[i]; n++) {
            assert_int_equal(cu[n], n * 5); /* of 16 patches 8 and then 4 are kept, and the CLS token */
            assert_non_null(session_kept(session, 1, n));
        }
        assert_int_equal(cu[counts[i]], counts[i] * 5);
        rvit_result_view view = RVIT_RESULT_VIEW_INIT;
        expect_ok(rvit_session_get(session, RVIT_RESULT_KEPT, 1, &view));
        assert_int_equal(view.rows, counts[i] * 5);
        expect_status(rvit_session_get(session, RVIT_RESULT_KEPT, 2, &view), RVIT_INVALID_ARGUMENT, "index is 2, expected 0..1");
        expect_status(rvit_session_get(session, RVIT_RESULT_KEPT, -1, &view), RVIT_INVALID_ARGUMENT, "index is -1, expected 0..1");
        expect_status(rvit_session_get(session, RVIT_RESULT_CU_SEQLENS, -2, &view), RVIT_INVALID_ARGUMENT, "index is -2, expected -1..1");
        expect_status(rvit_session_get(session, RVIT_RESULT_LOGITS, 1, &view), RVIT_INVALID_ARGUMENT, "index is 1, expected 0..0");
        expect_status(rvit_session_get(session, RVIT_RESULT_SIZES, 0, &view), RVIT_UNSUPPORTED, "merges none");
        expect_status(rvit_session_get(session, (rvit_result)12, 0, &view), RVIT_INVALID_ARGUMENT, "12 is not a valid result");
        expect_status(rvit_session_get(session, RVIT_RESULT_KEPT, 0, NULL), RVIT_INVALID_ARGUMENT, "out_view is NULL");
        assert_int_equal(session_cu_seqlens(session, -1)[counts[i]], counts[i] * 17);
    }
}

static void images_already_in_the_input(void **state)
{
    (void)state;
    const toy *m = toy_new(&spec);
    const rvit_session_desc desc = session_desc(3, RVIT_PRUNE_L2, 0.5, blocks, 1);
    rvit_session *session = open_session(open_model(m, RVIT_F32), &desc);
    const float *images = toy_images(m, 3, 2);
    const float *copied = run_session(session, m, images, 3, NULL);
    float *input = rvit_session_input_memory(session, NULL);
    assert_non_null(input);
    memcpy(input, images, (size_t)(3 * m->pixels) * sizeof *images);
    const float *in_place = run_session(session, m, NULL, 3, NULL);
    assert_memory_equal(copied, in_place, 3 * 7 * sizeof(float));
    assert_memory_equal(session_floats(session, RVIT_RESULT_LOGITS), copied, 3 * 7 * sizeof(float));
}

/* The caller may overwrite the images when enqueue returns. */
static void images_are_copied(void **state)
{
    (void)state;
    const toy *m = toy_new(&spec);
    const rvit_session_desc desc = session_desc(2, RVIT_PRUNE_NONE, -1, NULL, 0);
    rvit_session *session = open_session(open_model(m, RVIT_F32), &desc);
    float *images = toy_images(m, 2, 3);
    const float *wanted = run_session(session, m, images, 2, NULL);
    rvit_run_args args = RVIT_RUN_ARGS_INIT;
    args.n_images = 2;
    args.input.data = images;
    expect_ok(rvit_session_enqueue(session, &args));
    memset(images, POISON, (size_t)(2 * m->pixels) * sizeof *images);
    expect_ok(rvit_session_wait(session));
    assert_memory_equal(session_floats(session, RVIT_RESULT_LOGITS), wanted, 2 * 7 * sizeof(float));
    assert_int_equal(session_n_stages(session), 0);
}

/* After a NaN pixel, wait names the image and the stage, and the next run works. */
static void nan_images_are_named(void **state)
{
    (void)state;
    const toy *m = toy_new(&spec);
    rvit_model *model = open_model(m, RVIT_F32);
    for (int policy = RVIT_PRUNE_L2; policy <= RVIT_PRUNE_EVIT; policy++) {
        const rvit_session_desc desc = session_desc(4, (rvit_prune_type)policy, 0.5, blocks, 2);
        rvit_session *session = open_session(model, &desc);
        float *images = toy_images(m, 4, 4);
        const float *wanted = run_session(session, m, images, 4, NULL);
        const float pixels[2] = {images[m->pixels], images[2 * m->pixels + 1000]};
        images[2 * m->pixels + 1000] = NAN;
        rvit_run_args args = RVIT_RUN_ARGS_INIT;
        args.n_images = 4;
        args.input.data = images;
        float logits[4 * 7];
        memset(logits, SENTINEL, sizeof logits);
        expect_status(rvit_session_run(session, &args, logits), RVIT_INVALID_ARGUMENT, "2");
        assert_non_null(strstr(rvit_status_detail(), "image 2"));
        assert_non_null(strstr(rvit_status_detail(), "stage 0"));
        assert_non_null(strstr(rvit_status_detail(), "NaN"));
        for (size_t i = 0; i < sizeof logits; i++)
            assert_int_equal(((uint8_t *)logits)[i], SENTINEL);
        /* The other images have the same results as before. */
        for (int32_t image = 0; image < 4; image++)
            if (image != 2) {
                expect_ok(rvit_session_image_status(session, image));
                assert_memory_equal(session_floats(session, RVIT_RESULT_LOGITS) + 7 * image, wanted + 7 * image, 7 * sizeof(float));
            }
        expect_status(rvit_session_image_status(session, 2), RVIT_INVALID_ARGUMENT, "image 2: a score is NaN at prune stage 0");
        images[m->pixels] = NAN;
        expect_status(rvit_session_run(session, &args, logits), RVIT_INVALID_ARGUMENT, "image 1");
        for (int32_t image = 0; image < 4; image++)
            assert_int_equal(rvit_session_image_status(session, image), image % 3 == 0 ? RVIT_OK : RVIT_INVALID_ARGUMENT);
        images[m->pixels] = pixels[0];
        images[2 * m->pixels + 1000] = pixels[1];
        const float *again = run_session(session, m, images, 4, NULL);
        assert_memory_equal(again, wanted, sizeof logits);
        expect_ok(rvit_session_image_status(session, 2));
        expect_status(rvit_session_image_status(session, 4), RVIT_INVALID_ARGUMENT, "there is no result of image 4");
        expect_status(rvit_session_image_status(NULL, 0), RVIT_INVALID_ARGUMENT, "session is NULL");
    }
    /* Without scores, the logits are NaN. */
    const rvit_session_desc desc = session_desc(3, RVIT_PRUNE_NONE, -1, NULL, 0);
    rvit_session *session = open_session(model, &desc);
    float *images = toy_images(m, 3, 5);
    const float *wanted = run_session(session, m, images, 3, NULL);
    images[m->pixels] = NAN;
    const float *got = run_with_bad_image(session, m, images, 3, NULL, 1);
    assert_memory_equal(got, wanted, 7 * sizeof(float));
    assert_memory_equal(got + 14, wanted + 14, 7 * sizeof(float));
    assert_true(isnan(got[7]));
}

static void expect_rows(const rvit_session *session, rvit_result what, int32_t index, const double *wanted, int64_t first, int64_t rows,
                        int32_t width, double tolerance)
{
    rvit_result_view view = RVIT_RESULT_VIEW_INIT;
    expect_ok(rvit_session_get(session, what, index, &view));
    assert_true(first + rows <= view.rows);
    assert_int_equal(view.width, width);
    for (int64_t i = 0; i < rows * width; i++) {
        const float got = load(view.dtype, view.data, first * width + i);
        if (!(fabs(got - wanted[i]) <= tolerance * (1 + fabs(wanted[i]))))
            fail_msg("trace %d of %d: element %lld of row %lld is %.9g, should be %.9g", (int)what, index, (long long)(i % width),
                     (long long)(i / width), (double)got, wanted[i]);
    }
}

/* Compares every traced value with float64, for a policy inside a block and one after it. */
static void traced_values(void **state)
{
    (void)state;
    enum { N_IMAGES = 3 };
    static const rvit_dtype types[] = {RVIT_F32, RVIT_F16, RVIT_BF16};
    static const double tolerances[] = {2e-5, 1e-2, 8e-2};
    for (int t = 0; t < n_types(); t++)
        for (int policy = RVIT_PRUNE_NONE; policy <= RVIT_PRUNE_EVIT; policy++) {
            const toy *m = toy_new(&spec);
            const float *images = toy_images(m, N_IMAGES, 6);
            const int32_t n_stages = policy == RVIT_PRUNE_NONE ? 0 : 2;
            rvit_session_desc desc = session_desc(N_IMAGES + 1, (rvit_prune_type)policy, n_stages == 0 ? -1.0 : 0.6, blocks, n_stages);
            desc.trace = 1;
            rvit_session *session = open_session(open_model(m, types[t]), &desc);
            run_session(session, m, images, N_IMAGES, NULL);
            int64_t first[TOY_MAX_DEPTH + 2] = {0}, first_score[2] = {0};
            for (int32_t n = 0; n < N_IMAGES; n++) {
                toy_stage stages[2];
                memset(stages, 0, sizeof stages);
                for (int32_t s = 0; s < n_stages; s++) {
                    const int32_t *cu = session_cu_seqlens(session, s);
                    stages[s].block = blocks[s];
                    stages[s].inside_block = policy == RVIT_PRUNE_EVIT;
                    stages[s].n_kept = cu[n + 1] - cu[n];
                    stages[s].kept = session_kept(session, s, n);
                }
                toy_trace trace;
                double logits[7];
                toy_forward(m, images + (int64_t)n * m->pixels, stages, n_stages, logits, &trace);
                expect_rows(session, RVIT_TRACE_EMBEDDING, 0, trace.embedding, (int64_t)n * m->tokens, m->tokens, 128, tolerances[t]);
                for (int32_t i = 0; i < m->spec.depth; i++) {
                    expect_rows(session, RVIT_TRACE_BLOCK, i, trace.blocks[i], first[i], trace.rows[i], 128, tolerances[t]);
                    first[i] += trace.rows[i];
                }
                for (int32_t s = 0; s < n_stages; s++) {
                    const double *scores = policy == RVIT_PRUNE_L2 ? stages[s].l2 : stages[s].cls_attention;
                    expect_rows(session, RVIT_TRACE_SCORES, s, scores, first_score[s], stages[s].n_before, 1, tolerances[t]);
                    first_score[s] += stages[s].n_before;
                }
            }
            rvit_result_view view = RVIT_RESULT_VIEW_INIT;
            for (int32_t i = 0; i < m->spec.depth; i++) {
                expect_ok(rvit_session_get(session, RVIT_TRACE_BLOCK, i, &view));
                assert_int_equal(view.rows, first[i]);
            }
            expect_status(rvit_session_get(session, RVIT_TRACE_BLOCK, m->spec.depth, &view), RVIT_INVALID_ARGUMENT, NULL);
            expect_status(rvit_session_get(session, RVIT_TRACE_BLOCK, -1, &view), RVIT_INVALID_ARGUMENT, NULL);
            expect_status(rvit_session_get(session, RVIT_TRACE_SCORES, n_stages, &view), RVIT_INVALID_ARGUMENT, NULL);
            model_teardown(NULL);
        }
}

/* Tracing does not change results. */
static void trace_is_neutral(void **state)
{
    (void)state;
    const toy *m = toy_new(&spec);
    rvit_model *model = open_model(m, RVIT_F32);
    rvit_session_desc desc = session_desc(2, RVIT_PRUNE_EVIT, 0.5, blocks, 2);
    const float *images = toy_images(m, 2, 7);
    rvit_session *plain = open_session(model, &desc);
    const float *without = run_session(plain, m, images, 2, NULL);
    rvit_result_view view = RVIT_RESULT_VIEW_INIT;
    expect_status(rvit_session_get(plain, RVIT_TRACE_EMBEDDING, 0, &view), RVIT_UNSUPPORTED, "trace");
    desc.trace = 1;
    const float *with = run_session(open_session(model, &desc), m, images, 2, NULL);
    assert_memory_equal(with, without, 2 * 7 * sizeof(float));
}

static void model_information(void **state)
{
    (void)state;
    toy_spec other = spec;
    other.distilled = 1;
    const toy_spec *const specs[] = {&spec, &other};
    for (int i = 0; i < 2; i++) {
        const toy *m = toy_new(specs[i]);
        int64_t n = 0;
        for (int t = 0; t < m->n_tensors; t++)
            n += m->tensors[t].n;
        rvit_model_info info = RVIT_MODEL_INFO_INIT;
        expect_ok(rvit_model_get_info(open_model(m, RVIT_F16), &info));
        assert_int_equal(info.image_size, 64);
        assert_int_equal(info.patch_size, 16);
        assert_int_equal(info.channels, 3);
        assert_int_equal(info.dim, 128);
        assert_int_equal(info.n_heads, 2);
        assert_int_equal(info.head_dim, 64);
        assert_int_equal(info.depth, 4);
        assert_int_equal(info.mlp_dim, 256);
        assert_int_equal(info.n_prefix, 1 + i);
        assert_int_equal(info.tokens, 17 + i);
        assert_int_equal(info.n_classes, 7);
        rvit_checkpoint_info files = RVIT_CHECKPOINT_INFO_INIT;
        expect_ok(rvit_checkpoint_get_info(open_checkpoint(m, "weights.safetensors"), &files));
        assert_int_equal(files.n_parameters, n);
        assert_int_equal(files.n_tensors, m->n_tensors);
        assert_true(info.eps == 1e-6f);
    }
}

/* Objects may be destroyed in any order. */
static void any_order_of_destruction(void **state)
{
    (void)state;
    const toy *m = toy_new(&spec);
    const float *images = toy_images(m, 1, 8);
    rvit_device *device = NULL;
    rvit_checkpoint *checkpoint = NULL;
    rvit_model *model = NULL;
    rvit_session *session = NULL;
    expect_ok(rvit_device_create(&H.desc, &device));
    expect_ok(rvit_checkpoint_open(toy_write(m, "order.safetensors"), NULL, &checkpoint));
    expect_ok(rvit_model_create(device, checkpoint, NULL, &model));
    rvit_checkpoint_destroy(checkpoint);
    expect_ok(rvit_session_create(model, NULL, &session));
    rvit_device_destroy(device);
    rvit_model_destroy(model);
    const float *logits = run_session(session, m, images, 1, NULL);
    double wanted[7];
    toy_forward(m, images, NULL, 0, wanted, NULL);
    for (int c = 0; c < 7; c++)
        assert_true(fabs(logits[c] - wanted[c]) <= 1e-4);
    /* A session may be destroyed while a run is pending. */
    rvit_run_args args = RVIT_RUN_ARGS_INIT;
    args.n_images = 1;
    args.input.data = images;
    expect_ok(rvit_session_enqueue(session, &args));
    rvit_session_destroy(session);
    rvit_session_destroy(NULL);
    rvit_model_destroy(NULL);
    rvit_checkpoint_destroy(NULL);
    rvit_device_destroy(NULL);
}

typedef struct worker {
    pthread_t thread;
    rvit_session *session;
    const float *images;
    float logits[2 * 7];
    rvit_status status;
} worker;

static void *work(void *argument)
{
    worker *w = argument;
    rvit_run_args args = RVIT_RUN_ARGS_INIT;
    args.n_images = 2;
    args.input.data = w->images;
    for (int i = 0; i < 20 && w->status == RVIT_OK; i++)
        w->status = rvit_session_run(w->session, &args, w->logits);
    return NULL;
}

/* Each thread has a session of the same model. */
static void sessions_in_threads(void **state)
{
    (void)state;
    enum { N_THREADS = 3 };
    const toy *m = toy_new(&spec);
    rvit_model *model = open_model(m, RVIT_F32);
    const rvit_session_desc desc = session_desc(2, RVIT_PRUNE_EVIT, 0.5, blocks, 2);
    worker workers[N_THREADS];
    const float *wanted[N_THREADS];
    memset(workers, 0, sizeof workers);
    for (int i = 0; i < N_THREADS; i++) {
        workers[i].session = open_session(model, &desc);
        workers[i].images = toy_images(m, 2, (uint64_t)(30 + i));
        wanted[i] = run_session(workers[i].session, m, workers[i].images, 2, NULL);
    }
    int started = 0;
    while (started < N_THREADS && !pthread_create(&workers[started].thread, NULL, work, &workers[started]))
        started++;
    for (int i = 0; i < started; i++)
        pthread_join(workers[i].thread, NULL);
    assert_int_equal(started, N_THREADS);
    for (int i = 0; i < N_THREADS; i++) {
        assert_int_equal(workers[i].status, RVIT_OK);
        assert_memory_equal(workers[i].logits, wanted[i], sizeof workers[i].logits);
    }
}

SUITE(session_suite, MODEL_TEST(fewer_images_than_the_capacity), MODEL_TEST(images_already_in_the_input), MODEL_TEST(images_are_copied),
      MODEL_TEST(nan_images_are_named), MODEL_TEST(traced_values), MODEL_TEST(trace_is_neutral), MODEL_TEST(model_information),
      MODEL_TEST(any_order_of_destruction), MODEL_TEST(sessions_in_threads));

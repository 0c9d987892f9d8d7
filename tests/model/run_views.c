/* Tests runs that provide the memory of their images and logits, weights from tensors in memory, and updates of a session's weights. */
#include "model.h"

#include <dlfcn.h>
#include "tools/cli/session_results.h"

enum { N_IMAGES = 4, CLASSES = 6, RUNS = 5 };

static const toy_spec spec = {.dim = 64,
                              .depth = 3,
                              .mlp = 128,
                              .image_size = 64,
                              .patch_size = 16,
                              .n_classes = CLASSES,
                              .distilled = 1,
                              .stored = RVIT_F32,
                              .seed = 81,
                              .n_predictors = 2};

/* Device memory for the images and logits of each run. */
typedef struct memory {
    rvit_stream *stream;
    rvit_buffer *images[RUNS], *logits[RUNS];
} memory;

static void open_memory(memory *d, const toy *m, const int32_t counts[RUNS], uint64_t seed)
{
    expect_ok(rvit_stream_create(H.device[DEVICE], &d->stream));
    for (int run = 0; run < RUNS; run++) {
        /* Vulkan reads as many images as the capacity, whatever the number of the run (session.h). */
        const int64_t n = H.desc.backend == RVIT_BACKEND_VULKAN || counts[run] == 0 ? N_IMAGES : counts[run];
        expect_ok(rvit_buffer_create(H.device[DEVICE], n * m->pixels * 4, RVIT_BUFFER_DEVICE, &d->images[run]));
        expect_ok(rvit_buffer_create(H.device[DEVICE], (counts[run] + 1) * CLASSES * 4, RVIT_BUFFER_DEVICE, &d->logits[run]));
        const float *images = toy_images(m, N_IMAGES, seed + (uint64_t)run);
        expect_ok(rvit_stream_write(d->stream, (rvit_view){d->images[run], 0}, images, (int64_t)counts[run] * m->pixels * 4));
    }
}

static void close_memory(memory *d)
{
    rvit_stream_destroy(d->stream);
    for (int run = 0; run < RUNS; run++) {
        rvit_buffer_destroy(d->images[run]);
        rvit_buffer_destroy(d->logits[run]);
    }
}

static uint8_t *masks_of(const toy *m)
{
    uint8_t *keep = scratch((size_t)(2 * N_IMAGES * m->tokens));
    for (int32_t i = 0; i < 2 * N_IMAGES * m->tokens; i++)
        keep[i] = i % m->tokens < m->n_prefix || i % 3 != 0;
    return keep;
}

static rvit_run_args views_of(const memory *d, int run, int32_t n, const uint8_t *keep)
{
    rvit_run_args args = RVIT_RUN_ARGS_INIT;
    args.n_images = n;
    args.keep = keep;
    if (n > 0) {
        args.input.view.buffer = d->images[run];
        args.logits.buffer = d->logits[run];
    }
    return args;
}

static int64_t submits_of(const rvit_session *session)
{
    rvit_stats stats = RVIT_STATS_INIT;
    expect_ok(rvit_session_get_stats(session, &stats));
    return stats.submits;
}

/* Several runs without waiting give the same bits as sessions that copy from the host and back, for every policy and number of images. */
static void consecutive_runs(void **state)
{
    (void)state;
    static const int32_t ragged[RUNS] = {0, 3, 1, N_IMAGES, 0}, full[RUNS] = {N_IMAGES, N_IMAGES, N_IMAGES, N_IMAGES, N_IMAGES};
    const toy *m = toy_new(&spec);
    const uint8_t *keep = masks_of(m);
    rvit_model *const models[2] = {open_model(m, RVIT_F32), open_model(m, RVIT_F16)};
    for (int policy = RVIT_PRUNE_NONE; policy <= LAST_POLICY; policy = next_policy(policy)) {
        for (int fixed = 0; fixed < 2; fixed++) {
            const int32_t *counts = fixed ? full : ragged;
            const uint8_t *mask = policy == RVIT_PRUNE_MASK ? keep : NULL;
            memory d;
            open_memory(&d, m, counts, 100);
            rvit_session_desc desc = policy_desc(policy, N_IMAGES);
            desc.fixed_batch = fixed;
            rvit_session *plain = open_session(models[policy % 2], &desc), *session = NULL;
            desc.input_memory = RVIT_INPUT_RUN;
            desc.stream = d.stream;
            expect_ok(rvit_session_create(models[policy % 2], &desc, &session));
            assert_null(rvit_session_input_memory(session, NULL));
            for (int run = 0; run < RUNS; run++) {
                const rvit_run_args args = views_of(&d, run, counts[run], mask);
                const int64_t before = submits_of(session);
                expect_ok(rvit_session_enqueue(session, &args));
                assert_int_equal(submits_of(session) - before, counts[run] == 0 ? 0 : H.desc.backend == RVIT_BACKEND_VULKAN ? 3 : 1);
                if (mask != NULL)
                    expect_ok(rvit_session_wait(session));
            }
            if (mask == NULL)
                expect_ok(rvit_session_wait(session));
            assert_null(session_floats(session, RVIT_RESULT_LOGITS));
            for (int run = 0; run < RUNS; run++) {
                float logits[N_IMAGES * CLASSES];
                const int64_t size = (int64_t)counts[run] * CLASSES * 4;
                expect_ok(rvit_stream_read(d.stream, (rvit_view){d.logits[run], 0}, logits, size));
                const float *wanted = run_session(plain, m, toy_images(m, N_IMAGES, 100 + (uint64_t)run), counts[run], mask);
                assert_memory_equal(logits, wanted, (size_t)size);
            }
            for (int32_t stage = 0; stage < session_n_stages(plain); stage++)
                assert_memory_equal(session_cu_seqlens(session, stage), session_cu_seqlens(plain, stage),
                                    ((size_t)counts[RUNS - 1] + 1) * sizeof(int32_t));
            rvit_session_destroy(session);
            close_memory(&d);
        }
    }
}

static void bad_views(void **state)
{
    (void)state;
    static const int32_t counts[RUNS] = {2, 2, 2, 2, 2};
    const toy *m = toy_new(&spec);
    rvit_model *model = open_model(m, RVIT_F32);
    memory d;
    open_memory(&d, m, counts, 1);
    rvit_session_desc desc = session_desc(N_IMAGES, RVIT_PRUNE_NONE, -1, NULL, 0);
    rvit_session *plain = open_session(model, &desc), *none = NULL;
    desc.input_memory = (rvit_input_memory)3;
    expect_status(rvit_session_create(model, &desc, &none), RVIT_INVALID_ARGUMENT, "input_memory: 3 is not a valid input memory");
    desc.input_memory = RVIT_INPUT_RUN;
    rvit_session *session = open_session(model, &desc);
    desc.input_view.buffer = d.images[0];
    expect_status(rvit_session_create(model, &desc, &none), RVIT_INVALID_ARGUMENT, "input_view is given, but input_memory is RUN");
    desc.input_view.buffer = NULL;
    desc.logits.buffer = d.logits[0];
    expect_status(rvit_session_create(model, &desc, &none), RVIT_INVALID_ARGUMENT, "logits is given");
    assert_null(none);

    rvit_run_args args = views_of(&d, 0, 2, NULL);
    float logits[2 * CLASSES];
    const int64_t before = submits_of(session);
    expect_status(rvit_session_enqueue(plain, &args), RVIT_INVALID_ARGUMENT, "input.view is given, but the session's input_memory is HOST");
    expect_status(rvit_session_run(session, &args, logits), RVIT_UNSUPPORTED, "run args' logits");
    if (H.desc.backend != RVIT_BACKEND_VULKAN) { /* on Vulkan the buffer has the size of the capacity */
        args.n_images = 3;
        expect_status(rvit_session_enqueue(session, &args), RVIT_INVALID_ARGUMENT, "images");
        args.n_images = 2;
    }
    args.logits.offset = 2 * CLASSES * 4;
    expect_status(rvit_session_enqueue(session, &args), RVIT_INVALID_ARGUMENT, "logits");
    args.logits = (rvit_view){NULL, 0};
    expect_status(rvit_session_enqueue(session, &args), RVIT_INVALID_ARGUMENT, "logits is absent");
    args = views_of(&d, 0, 2, NULL);
    args.input.view.buffer = NULL;
    expect_status(rvit_session_enqueue(session, &args), RVIT_INVALID_ARGUMENT, "input.view is absent");
    args.input.data = toy_images(m, 2, 1);
    expect_status(rvit_session_enqueue(session, &args), RVIT_INVALID_ARGUMENT, "input.data is given");
    assert_int_equal(submits_of(session), before); /* nothing was enqueued */
    close_memory(&d);
}

/* The number of calls of a function of the emulated CUDA driver. */
static long long driver_calls(const char *function)
{
    void *const library = dlopen("libcuda.so.1", RTLD_NOW), *const symbol = dlsym(library, "rvit_emulation_calls");
    long long (*calls)(const char *) = NULL;
    assert_non_null(symbol);
    memcpy(&calls, &symbol, sizeof symbol);
    dlclose(library);
    return calls(function);
}

/* On CUDA the recorded program is updated only if the memory differs from the last run. If an update fails, nothing is enqueued, and the
   session remains usable. */
static void changed_views(void **state)
{
    (void)state;
    static const int32_t counts[RUNS] = {3, 2, N_IMAGES, 1, 3};
    if (strstr(H.info.name, "CUDA emulation") == NULL)
        skip();
    const toy *m = toy_new(&spec);
    rvit_model *model = open_model(m, RVIT_F16);
    rvit_session_desc desc = policy_desc(RVIT_PRUNE_EVIT, N_IMAGES);
    rvit_session *plain = open_session(model, &desc), *session = NULL;
    memory d;
    open_memory(&d, m, counts, 7);
    desc.input_memory = RVIT_INPUT_RUN;
    desc.stream = d.stream;
    expect_ok(rvit_session_create(model, &desc, &session));
    static const int order[] = {0, 0, 1, 2, 2, 3, 0, 4, 4};
    for (int i = 0; i < (int)(sizeof order / sizeof order[0]); i++) {
        const rvit_run_args args = views_of(&d, order[i], counts[order[i]], NULL);
        for (int failing = 1; failing <= 2 && i > 0 && order[i] != order[i - 1]; failing++) {
            const int64_t before = submits_of(session);
            setenv("RVIT_EMU_FAIL_ALLOC", failing == 1 ? "1" : "2", 1);
            expect_status(rvit_session_enqueue(session, &args), RVIT_OUT_OF_DEVICE_MEMORY, "cuGraphExecKernelNodeSetParams");
            unsetenv("RVIT_EMU_FAIL_ALLOC");
            assert_int_equal(submits_of(session), before);
        }
        const long long before = driver_calls("cuGraphExecKernelNodeSetParams_v2"), launches = driver_calls("cuGraphLaunch");
        expect_ok(rvit_session_enqueue(session, &args));
        const long long changes = driver_calls("cuGraphExecKernelNodeSetParams_v2") - before;
        assert_int_equal(changes, i == 0 ? 2 : order[i] == order[i - 1] ? 0 : 1); /* the last failed attempt made one of the two changes */
        assert_int_equal(driver_calls("cuGraphLaunch") - launches, 1);
    }
    expect_ok(rvit_session_wait(session));
    for (int run = 0; run < RUNS; run++) {
        float logits[N_IMAGES * CLASSES];
        const int64_t size = (int64_t)counts[run] * CLASSES * 4;
        expect_ok(rvit_stream_read(d.stream, (rvit_view){d.logits[run], 0}, logits, size));
        assert_memory_equal(logits, run_session(plain, m, toy_images(m, N_IMAGES, 7 + (uint64_t)run), counts[run], NULL), (size_t)size);
    }
    rvit_session_destroy(session);
    close_memory(&d);
}

static rvit_tensor_desc *descs_of(const toy *m)
{
    rvit_tensor_desc *descs = scratch((size_t)m->n_tensors * sizeof *descs);
    for (int i = 0; i < m->n_tensors; i++) {
        const toy_tensor *t = &m->tensors[i];
        descs[i] = (rvit_tensor_desc)RVIT_TENSOR_DESC_INIT;
        descs[i].name = t->name;
        descs[i].dtype = RVIT_F32;
        descs[i].rank = t->rank;
        descs[i].shape = t->shape;
        descs[i].data = t->values;
    }
    return descs;
}

static void weights_from_memory(void **state)
{
    (void)state;
    const toy *m = toy_new(&spec);
    const rvit_tensor_desc *descs = descs_of(m);
    const float *images = toy_images(m, 2, 3);
    for (int type = RVIT_F32; type < n_types(); type++) {
        rvit_checkpoint *checkpoint = NULL;
        rvit_model *model = NULL;
        rvit_session *session = NULL;
        rvit_model_desc model_desc = RVIT_MODEL_DESC_INIT;
        model_desc.dtype = (rvit_dtype)type;
        rvit_checkpoint_desc checkpoint_desc = RVIT_CHECKPOINT_DESC_INIT;
        checkpoint_desc.architecture = "vit";
        checkpoint_desc.n_heads = m->n_heads;
        checkpoint_desc.tensors = descs;
        checkpoint_desc.n_tensors = m->n_tensors;
        expect_ok(rvit_checkpoint_open(NULL, &checkpoint_desc, &checkpoint));
        expect_ok(rvit_model_create(H.device[DEVICE], checkpoint, &model_desc, &model));
        rvit_checkpoint_destroy(checkpoint);
        const rvit_session_desc desc = policy_desc(RVIT_PRUNE_DYNAMICVIT, 2);
        expect_ok(rvit_session_create(model, &desc, &session));
        const float *logits = run_session(session, m, images, 2, NULL);
        const float *wanted = run_session(open_session(open_model(m, (rvit_dtype)type), &desc), m, images, 2, NULL);
        assert_memory_equal(logits, wanted, 2 * CLASSES * sizeof(float));
        rvit_session_destroy(session);
        rvit_model_destroy(model);
    }
}

static void replaced_weights(void **state)
{
    (void)state;
    toy_spec other_spec = spec;
    other_spec.seed = 82;
    const toy *m = toy_new(&spec), *other = toy_new(&other_spec);
    const float *images = toy_images(m, 3, 4);
    const rvit_session_desc desc = policy_desc(RVIT_PRUNE_EVIT_FUSED, 3);
    for (int type = RVIT_F32; type < n_types(); type++) {
        rvit_model *model = open_model(m, (rvit_dtype)type), *fresh = open_model(other, (rvit_dtype)type);
        rvit_session *session = open_session(model, &desc);
        const float *before = run_session(session, m, images, 3, NULL);
        const float *wanted = run_session(open_session(fresh, &desc), m, images, 3, NULL);
        assert_memory_not_equal(before, wanted, 3 * CLASSES * sizeof(float));
        rvit_checkpoint *checkpoint = open_checkpoint(other, "other.safetensors");
        expect_ok(rvit_model_update(model, checkpoint));
        assert_memory_equal(run_session(session, m, images, 3, NULL), wanted, 3 * CLASSES * sizeof(float));
        expect_ok(rvit_model_update(model, open_checkpoint(m, "toy.safetensors")));
        assert_memory_equal(run_session(session, m, images, 3, NULL), before, 3 * CLASSES * sizeof(float));

        toy_spec wide = spec;
        wide.mlp = 192;
        expect_status(rvit_model_update(model, open_checkpoint(toy_new(&wide), "wide.safetensors")), RVIT_INVALID_ARGUMENT, "mlp_dim");
        wide = spec;
        wide.n_predictors = 1;
        expect_status(rvit_model_update(model, open_checkpoint(toy_new(&wide), "few.safetensors")), RVIT_INVALID_ARGUMENT, "n_predictors");
        rvit_checkpoint_desc with_eps = RVIT_CHECKPOINT_DESC_INIT;
        with_eps.eps = 1e-5f;
        rvit_checkpoint *eps = NULL;
        expect_ok(rvit_checkpoint_open(toy_write(m, "eps.safetensors"), &with_eps, &eps));
        expect_status(rvit_model_update(model, eps), RVIT_INVALID_ARGUMENT, "eps");
        rvit_checkpoint_destroy(eps);
        expect_status(rvit_model_update(NULL, checkpoint), RVIT_INVALID_ARGUMENT, "NULL");
        assert_memory_equal(run_session(session, m, images, 3, NULL), before, 3 * CLASSES * sizeof(float));
    }
}

SUITE(run_views_suite, MODEL_TEST(consecutive_runs), MODEL_TEST(changed_views), MODEL_TEST(bad_views), MODEL_TEST(weights_from_memory),
      MODEL_TEST(replaced_weights));

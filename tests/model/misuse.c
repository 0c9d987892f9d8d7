/* Invalid arguments to models and sessions give an error whose message names the argument. Nothing is written, and the next call works. */
#include "model.h"

#include <math.h>
#include "tools/cli/session_results.h"

static const toy_spec spec = {
    .dim = 64, .depth = 4, .mlp = 128, .image_size = 32, .patch_size = 8, .n_classes = 7, .stored = RVIT_F32, .seed = 41};
static const int32_t blocks[] = {1, 2};

static void session_descs(void **state)
{
    (void)state;
    const toy *m = toy_new(&spec);
    rvit_model *model = open_model(m, RVIT_F32);
    rvit_session *const untouched = (rvit_session *)(uintptr_t)0x10;
    rvit_session *session = untouched;
    const rvit_session_desc good = session_desc(2, RVIT_PRUNE_EVIT, 0.5, blocks, 2);
#define BAD(word, ...)                                                                        \
    do {                                                                                      \
        rvit_session_desc d = good;                                                           \
        __VA_ARGS__;                                                                          \
        expect_status(rvit_session_create(model, &d, &session), RVIT_INVALID_ARGUMENT, word); \
        assert_ptr_equal(session, untouched);                                                 \
    } while (0)
    BAD("struct_size", d.struct_size = 0);
    BAD("max_images", d.max_images = 0);
    BAD("max_images", d.max_images = -3);
    BAD("max_images", d.max_images = INT32_MAX);
    BAD("keep", prune_in(&d)->keep = 1.0000001);
    BAD("keep", prune_in(&d)->keep = 7);
    BAD("keep", prune_in(&d)->keep = NAN);
    BAD("keep", prune_in(&d)->keep = INFINITY);
    BAD("4", prune_in(&d)->blocks[1] = 4);
    BAD("-1", prune_in(&d)->blocks[0] = -1);
    BAD("1", prune_in(&d)->blocks[1] = 1);
    BAD("0", prune_in(&d)->blocks[1] = 0);
    BAD("n_blocks", prune_in(&d)->n_blocks = RVIT_PRUNE_MAX_STAGES + 1);
    BAD("n_blocks", prune_in(&d)->n_blocks = -1);
    BAD("type: 99 is not a valid prune type", prune_in(&d)->type = (rvit_prune_type)99);
    BAD("struct_size", prune_in(&d)->struct_size = 0);
    /* evit prunes by default in blocks that this model does not have. */
    BAD("6", prune_in(&d)->n_blocks = 0);
#undef BAD
    expect_status(rvit_session_create(NULL, &good, &session), RVIT_INVALID_ARGUMENT, "model");
    expect_status(rvit_session_create(model, &good, NULL), RVIT_INVALID_ARGUMENT, "out_session");
    run_session(open_session(model, &good), m, toy_images(m, 2, 1), 2, NULL);
}

static void run_args(void **state)
{
    (void)state;
    const toy *m = toy_new(&spec);
    rvit_model *model = open_model(m, RVIT_F32);
    const rvit_session_desc desc = session_desc(3, RVIT_PRUNE_MASK, -1, blocks, 2);
    rvit_session *session = open_session(model, &desc);
    float logits[3 * 7];
    uint8_t *keep = scratch((size_t)(2 * 3 * m->tokens));
    memset(keep, 1, (size_t)(2 * 3 * m->tokens));
    rvit_run_args good = RVIT_RUN_ARGS_INIT;
    good.n_images = 3;
    good.input.data = toy_images(m, 3, 1);
    good.keep = keep;
    expect_status(rvit_session_wait(session), RVIT_INVALID_ARGUMENT, NULL);
    assert_null(session_floats(session, RVIT_RESULT_LOGITS));
    expect_ok(rvit_session_run(session, &good, logits));
    float wanted[3 * 7];
    memcpy(wanted, logits, sizeof wanted);
#define BAD(word, ...)                                                                     \
    do {                                                                                   \
        rvit_run_args a = good;                                                            \
        __VA_ARGS__;                                                                       \
        memset(logits, SENTINEL, sizeof logits);                                           \
        expect_status(rvit_session_run(session, &a, logits), RVIT_INVALID_ARGUMENT, word); \
        for (size_t i = 0; i < sizeof logits; i++)                                         \
            assert_int_equal(((uint8_t *)logits)[i], SENTINEL);                            \
        expect_ok(rvit_session_run(session, &good, logits));                               \
        assert_memory_equal(logits, wanted, sizeof wanted);                                \
    } while (0)
    BAD("struct_size", a.struct_size = 0);
    BAD("n_images", a.n_images = 4);
    BAD("n_images", a.n_images = -1);
    BAD("n_images", a.n_images = INT32_MIN);
    BAD("keep", a.keep = NULL);
#undef BAD
    /* A mask that drops a CLS token names the image and the stage. */
    keep[(1 * 3 + 2) * m->tokens] = 0;
    memset(logits, SENTINEL, sizeof logits);
    expect_status(rvit_session_run(session, &good, logits), RVIT_INVALID_ARGUMENT, "keep");
    assert_non_null(strstr(rvit_status_detail(), "image 2"));
    assert_non_null(strstr(rvit_status_detail(), "stage 1"));
    for (size_t i = 0; i < sizeof logits; i++)
        assert_int_equal(((uint8_t *)logits)[i], SENTINEL);
    keep[(1 * 3 + 2) * m->tokens] = 1;
    expect_ok(rvit_session_run(session, &good, logits));
    assert_memory_equal(logits, wanted, sizeof wanted);
    expect_status(rvit_session_run(session, NULL, logits), RVIT_INVALID_ARGUMENT, NULL);
    expect_status(rvit_session_run(NULL, &good, logits), RVIT_INVALID_ARGUMENT, "session");
}

/* A second run is refused while one is pending, and the pending one completes. */
static void a_second_run_is_refused(void **state)
{
    (void)state;
    const toy *m = toy_new(&spec);
    const rvit_session_desc desc = session_desc(2, RVIT_PRUNE_EVIT, 0.5, blocks, 2);
    rvit_session *session = open_session(open_model(m, RVIT_F32), &desc);
    const float *images = toy_images(m, 2, 1);
    const float *wanted = run_session(session, m, images, 2, NULL);
    rvit_run_args args = RVIT_RUN_ARGS_INIT;
    args.n_images = 2;
    args.input.data = images;
    expect_ok(rvit_session_enqueue(session, &args));
    expect_status(rvit_session_enqueue(session, &args), RVIT_INVALID_ARGUMENT, NULL);
    expect_status(rvit_session_run(session, &args, NULL), RVIT_INVALID_ARGUMENT, NULL);
    expect_ok(rvit_session_wait(session));
    assert_memory_equal(session_floats(session, RVIT_RESULT_LOGITS), wanted, 2 * 7 * sizeof(float));
    expect_status(rvit_session_wait(session), RVIT_INVALID_ARGUMENT, NULL);
    assert_memory_equal(session_floats(session, RVIT_RESULT_LOGITS), wanted, 2 * 7 * sizeof(float));
    expect_ok(rvit_session_run(session, &args, NULL));
}

static void model_descs(void **state)
{
    (void)state;
    const toy *m = toy_new(&spec);
    rvit_checkpoint *checkpoint = open_checkpoint(m, "misuse.safetensors");
    rvit_model *const untouched = (rvit_model *)(uintptr_t)0x10;
    rvit_model *model = untouched;
    rvit_model_desc desc = RVIT_MODEL_DESC_INIT;
    desc.struct_size = 0;
    expect_status(rvit_model_create(H.device[DEVICE], checkpoint, &desc, &model), RVIT_INVALID_ARGUMENT, "struct_size");
    desc.struct_size = sizeof desc;
    desc.dtype = (rvit_dtype)9;
    expect_status(rvit_model_create(H.device[DEVICE], checkpoint, &desc, &model), RVIT_INVALID_ARGUMENT, "dtype: 9 is not a valid dtype");
    desc.dtype = RVIT_BF16;
    if (lacks("bf16")) {
        expect_status(rvit_model_create(H.device[DEVICE], checkpoint, &desc, &model), RVIT_UNSUPPORTED, "dtype is bf16");
        assert_non_null(strstr(rvit_status_detail(), H.info.name));
        assert_ptr_equal(model, untouched);
    } else {
        expect_ok(rvit_model_create(H.device[DEVICE], checkpoint, &desc, &model));
        rvit_model_destroy(model);
        model = untouched;
    }
    desc.dtype = RVIT_F32;
    expect_status(rvit_model_create(NULL, checkpoint, &desc, &model), RVIT_INVALID_ARGUMENT, "device");
    expect_status(rvit_model_create(H.device[DEVICE], NULL, &desc, &model), RVIT_INVALID_ARGUMENT, "checkpoint");
    expect_status(rvit_model_create(H.device[DEVICE], checkpoint, &desc, NULL), RVIT_INVALID_ARGUMENT, "out_model");
    assert_ptr_equal(model, untouched);
    expect_ok(rvit_model_create(H.device[DEVICE], checkpoint, &desc, &model));
    rvit_model_destroy(model);
}

/* A weight that is NaN, infinite or too large for float16 makes the logits not finite, which gives an error. */
static void weight_beyond_float16(void **state)
{
    (void)state;
    toy *m = (toy *)(uintptr_t)toy_new(&spec);
    for (int t = 0; t < m->n_tensors; t++)
        if (!strcmp(m->tensors[t].name, "head.weight"))
            m->tensors[t].values[3] = 1e30f;
    rvit_model *model = NULL;
    rvit_model_desc desc = RVIT_MODEL_DESC_INIT;
    desc.dtype = RVIT_F16;
    const rvit_status status = rvit_model_create(H.device[DEVICE], open_checkpoint(m, "large.safetensors"), &desc, &model);
    if (status == RVIT_OK) {
        rvit_session *session = NULL;
        expect_ok(rvit_session_create(model, NULL, &session));
        rvit_run_args args = RVIT_RUN_ARGS_INIT;
        args.n_images = 1;
        args.input.data = toy_images(m, 1, 1);
        expect_status(rvit_session_run(session, &args, NULL), RVIT_NOT_FINITE, "image 0: its logits are not finite");
        rvit_session_destroy(session);
        rvit_model_destroy(model);
    } else {
        assert_int_equal(status, RVIT_UNSUPPORTED);
        assert_non_null(strstr(rvit_status_detail(), "head.weight"));
    }
}

SUITE(model_misuse_suite, MODEL_TEST(session_descs), MODEL_TEST(run_args), MODEL_TEST(a_second_run_is_refused), MODEL_TEST(model_descs),
      MODEL_TEST(weight_beyond_float16));

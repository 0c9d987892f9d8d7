/* Results that are not finite give an error: for every policy and every output that the host reads. The error names pixels or the model as
   the cause. */
#include "model.h"

#include <math.h>

#include <raggedvit/experimental.h>

#include "core/weights/float16_bounds.h"

enum { N_IMAGES = 3, CLASSES = 6, DIM = 64, DEPTH = 4, FC1_INPUT = 2 /* index among a block's linear layers */ };

static const toy_spec spec = {.dim = DIM,
                              .depth = DEPTH,
                              .mlp = 128,
                              .image_size = 64,
                              .patch_size = 16,
                              .n_classes = CLASSES,
                              .stored = RVIT_F32,
                              .seed = 131,
                              .n_predictors = 2};

static float *tensor_of(const toy *m, const char *format, int block, int64_t *out_n)
{
    char name[64];
    snprintf(name, sizeof name, format, block);
    for (int t = 0; t < m->n_tensors; t++)
        if (strcmp(m->tensors[t].name, name) == 0) {
            *out_n = m->tensors[t].n;
            return m->tensors[t].values;
        }
    fail_msg("the toy has no %s", name);
    return NULL;
}

/* A toy with hidden MLP values beyond 65504 in one block. In float32 the scale cancels out. */
static const toy *overflowing(int block)
{
    const toy *m = toy_new(&spec);
    static const struct {
        const char *name;
        float factor;
    } tensors[] = {{"blocks.%d.mlp.fc1.weight", 0x1p20f}, {"blocks.%d.mlp.fc1.bias", 0x1p20f}, {"blocks.%d.mlp.fc2.weight", 0x1p-20f}};
    for (int t = 0; t < 3; t++) {
        int64_t n = 0;
        float *values = tensor_of(m, tensors[t].name, block, &n);
        for (int64_t i = 0; i < n; i++)
            values[i] *= tensors[t].factor;
    }
    return m;
}

static rvit_status run(rvit_session *session, const float *images, const uint8_t *keep)
{
    rvit_run_args args = RVIT_RUN_ARGS_INIT;
    args.n_images = N_IMAGES;
    args.input.data = images;
    args.keep = keep;
    return rvit_session_run(session, &args, NULL);
}

static const uint8_t *mask_of(const toy *m, int policy)
{
    uint8_t *keep = scratch((size_t)(2 * N_IMAGES * m->tokens));
    for (int32_t i = 0; i < 2 * N_IMAGES * m->tokens; i++)
        keep[i] = i % m->tokens < m->n_prefix || i % 3 != 0;
    return policy == RVIT_PRUNE_MASK ? keep : NULL;
}

static void expect_overflow(const rvit_session *session, rvit_status status, const char *what)
{
    assert_int_equal(status, RVIT_NOT_FINITE);
    for (int32_t i = 0; i < N_IMAGES; i++) {
        char text[160];
        snprintf(text, sizeof text, "image %d: %s: the model overflows float16; use bf16 or f32", (int)i, what);
        expect_status(rvit_session_image_status(session, i), RVIT_NOT_FINITE, text);
    }
}

/* For every policy, an overflow after its stages makes the logits not finite; before them, the scores, if it has any. float32 has no
   error. */
static void float16_overflow(void **state)
{
    (void)state;
    for (int policy = RVIT_PRUNE_NONE; policy <= LAST_POLICY; policy = next_policy(policy))
        for (int block = DEPTH - 1; block >= 0; block -= DEPTH - 1) {
            const toy *m = overflowing(block);
            const rvit_session_desc desc = policy_desc(policy, N_IMAGES);
            const float *images = toy_images(m, N_IMAGES, 3);
            const uint8_t *keep = mask_of(m, policy);
            expect_ok(run(open_session(open_model(m, RVIT_F32), &desc), images, keep));
            rvit_session *session = open_session(open_model(m, RVIT_F16), &desc);
            const rvit_status status = run(session, images, keep);
            assert_int_equal(status, RVIT_NOT_FINITE);
            assert_non_null(strstr(rvit_status_detail(), "the model overflows float16; use bf16 or f32"));
            if (block == DEPTH - 1)
                expect_overflow(session, status, "its logits are not finite");
            model_teardown(NULL);
        }
}

/* If the logits are written to device memory, each other output that the host reads is checked. Without any, nothing is. */
static void each_output(void **state)
{
    (void)state;
    static const struct {
        int32_t output, block; /* block: its MLP overflows */
        const char *what;
    } cases[] = {{0, 0, NULL},
                 {RVIT_OUTPUT_POOLED, 3, "its pooled rows are not finite"},
                 {RVIT_OUTPUT_FEATURES, 3, "its features are not finite"},
                 {RVIT_OUTPUT_BLOCK_FEATURES, 1, "its block features are not finite"},
                 {RVIT_OUTPUT_BLOCK_FEATURES, 3, NULL}, /* the features are those of block 2 */
                 {RVIT_OUTPUT_CLS_ATTENTION, 1, "its attention weights of the CLS token are not finite"},
                 {RVIT_OUTPUT_RECEIVED_ATTENTION, 1, "its received attention weights are not finite"}};
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
        const toy *m = overflowing(cases[c].block);
        rvit_buffer *logits = NULL;
        expect_ok(rvit_buffer_create(H.device[DEVICE], N_IMAGES * CLASSES * 4, RVIT_BUFFER_DEVICE, &logits));
        rvit_session_desc desc = session_desc(N_IMAGES, RVIT_PRUNE_NONE, -1, NULL, 0);
        desc.outputs = cases[c].output;
        desc.features_block = desc.received_block = 2;
        desc.logits.buffer = logits;
        rvit_session *session = open_session(open_model(m, RVIT_F16), &desc);
        const rvit_status status = run(session, toy_images(m, N_IMAGES, 4), NULL);
        if (cases[c].what == NULL)
            expect_ok(status);
        else
            expect_overflow(session, status, cases[c].what);
        model_teardown(NULL);
        rvit_buffer_destroy(logits);
    }
}

/* One patch overflows in the last MLP, after all attention. Its row of the features shows it, and the logits remain correct. The first
   hidden value of that block is large only for this patch, because its weight is the patch's row. */
static void one_row_of_the_features(void **state)
{
    (void)state;
    const toy *m = toy_new(&spec);
    const float *images = toy_images(m, N_IMAGES, 5);
    rvit_session_desc desc = session_desc(N_IMAGES, RVIT_PRUNE_NONE, -1, NULL, 0);
    desc.trace = RVIT_TRACE_INPUTS;
    rvit_session *session = open_session(open_model(m, RVIT_F32), &desc);
    expect_ok(run(session, images, NULL));
    rvit_result_view input = RVIT_RESULT_VIEW_INIT;
    expect_ok(rvit_session_get(session, RVIT_TRACE_INPUT, 4 * (DEPTH - 1) + FC1_INPUT, &input));
    const float *patch = (const float *)input.data + (int64_t)(m->tokens + 7) * DIM; /* row 7 of image 1 */
    int64_t n = 0;
    float *weight = tensor_of(m, "blocks.%d.mlp.fc1.weight", DEPTH - 1, &n), square = 0;
    for (int i = 0; i < DIM; i++)
        square += patch[i] * patch[i];
    for (int i = 0; i < DIM; i++)
        weight[i] = patch[i] * 70000.0f / square;
    desc.trace = 0;
    desc.outputs = RVIT_OUTPUT_FEATURES;
    session = open_session(open_model(m, RVIT_F16), &desc);
    assert_int_equal(run(session, images, NULL), RVIT_NOT_FINITE);
    for (int32_t i = 0; i < N_IMAGES; i++)
        expect_status(rvit_session_image_status(session, i), i == 1 ? RVIT_NOT_FINITE : RVIT_OK,
                      i == 1 ? "image 1: its features are not finite" : "");
    desc.outputs = 0;
    expect_ok(run(open_session(open_model(m, RVIT_F16), &desc), images, NULL));
}

/* Host pixels are named as the cause if they are not finite or too large, whatever the policy and the type; the other images have results.
   Device pixels are named as a possible cause. */
static void bad_pixels(void **state)
{
    (void)state;
    static const float values[] = {NAN, INFINITY, 1e30f, 7e4f};
    const toy *m = toy_new(&spec);
    rvit_model *models[] = {open_model(m, RVIT_F32), open_model(m, RVIT_F16)};
    for (int policy = RVIT_PRUNE_NONE; policy <= LAST_POLICY; policy = next_policy(policy)) {
        const rvit_session_desc desc = policy_desc(policy, N_IMAGES);
        rvit_session *session = open_session(models[policy % 2], &desc);
        for (int v = 0; v < 2 + 2 * (policy % 2); v++) { /* the last two values are too large only for float16 */
            float *images = toy_images(m, N_IMAGES, 6);
            images[m->pixels + 100] = values[v];
            assert_int_equal(run(session, images, mask_of(m, policy)), RVIT_INVALID_ARGUMENT);
            for (int32_t i = 0; i < N_IMAGES; i++)
                expect_status(rvit_session_image_status(session, i), i == 1 ? RVIT_INVALID_ARGUMENT : RVIT_OK,
                              i == 1 ? "its pixels are NaN, infinite or beyond 65504" : "");
        }
        expect_ok(run(session, toy_images(m, N_IMAGES, 6), mask_of(m, policy)));
    }
    rvit_buffer *device_images = NULL;
    expect_ok(rvit_buffer_create(H.device[DEVICE], (int64_t)N_IMAGES * m->pixels * 4, RVIT_BUFFER_UPLOAD, &device_images));
    float *images = toy_images(m, N_IMAGES, 7);
    images[0] = NAN;
    memcpy(rvit_buffer_host(device_images), images, (size_t)(N_IMAGES * m->pixels) * sizeof *images);
    for (int k = 0; k < 2; k++) {
        rvit_session_desc desc = session_desc(N_IMAGES, k ? RVIT_PRUNE_L2 : RVIT_PRUNE_NONE, k ? 0.5 : -1, NULL, 0);
        desc.input_memory = RVIT_INPUT_FIXED;
        desc.input_view.buffer = device_images;
        rvit_session *session = open_session(models[1], &desc);
        expect_status(run(session, NULL, NULL), RVIT_NOT_FINITE, "its pixels are not finite, or the model overflows float16");
        expect_ok(rvit_session_image_status(session, 1));
    }
    model_teardown(NULL);
    rvit_buffer_destroy(device_images);
}

static double largest_input(const rvit_session *session, int32_t layer)
{
    rvit_result_view input = RVIT_RESULT_VIEW_INIT;
    double most = 0;
    expect_ok(rvit_session_get(session, RVIT_TRACE_INPUT, layer, &input));
    for (int64_t i = 0; i < input.rows * (layer % 4 == 3 ? spec.mlp : DIM); i++)
        most = fmax(most, fabs((double)((const float *)input.data)[i]));
    return most;
}

/* No input of a layer exceeds the bound that follows from the weights. AUTO and quantized models choose float16 only if it cannot overflow.
 */
static void float16_is_chosen_within_its_range(void **state)
{
    (void)state;
    for (int block = -1; block < DEPTH; block += 2) {
        const toy *m = block < 0 ? toy_new(&spec) : overflowing(block);
        rvit_checkpoint *checkpoint = open_checkpoint(m, "bound.safetensors");
        double most = 0;
        char layer_name[RVIT_BOUND_NAME], expected[RVIT_BOUND_NAME];
        expect_ok(rvit_float16_bound(H.device[DEVICE], checkpoint, &most, layer_name));
        snprintf(expected, sizeof expected, "fc1 of block %d", block);
        assert_true(block < 0 || strcmp(layer_name, expected) == 0);
        rvit_session_desc desc = session_desc(N_IMAGES, RVIT_PRUNE_NONE, -1, NULL, 0);
        desc.trace = RVIT_TRACE_INPUTS;
        rvit_session *session = open_session(open_model(m, RVIT_F32), &desc);
        expect_ok(run(session, toy_images(m, N_IMAGES, 8), NULL));
        for (int32_t layer = 0; layer < 4 * DEPTH; layer++)
            assert_true(largest_input(session, layer) <= most);
        rvit_precision_choice choice = RVIT_PRECISION_CHOICE_INIT;
        if (H.desc.backend == RVIT_BACKEND_CPU) {
            expect_ok(rvit_precision_choose(H.device[DEVICE], checkpoint, RVIT_PRECISION_FP8, &choice));
            assert_int_equal(choice.dtype, block < 0 ? RVIT_F16 : RVIT_BF16);
        } else {
            expect_ok(rvit_precision_choose(H.device[DEVICE], checkpoint, RVIT_PRECISION_AUTO, &choice));
            assert_int_equal(choice.dtype == RVIT_F16, block < 0);
            assert_int_equal(strstr(choice.reason, "fc1 of block") == NULL, block < 0);
        }
        model_teardown(NULL);
    }
}

SUITE(finite_suite, MODEL_TEST(float16_is_chosen_within_its_range), MODEL_TEST(float16_overflow), MODEL_TEST(each_output),
      MODEL_TEST(one_row_of_the_features), MODEL_TEST(bad_pixels));

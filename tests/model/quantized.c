/* Tests models with quantized blocks: properties, errors, scales from the checkpoint, updates of weights, refusals. */
#include "model.h"

#include <math.h>

#include <raggedvit/experimental.h>

#include "core/device/device.h"
#include "core/model/checkpoint.h"
#include "core/weights/model.h"

static const toy_spec spec = {.dim = 128,
                              .depth = 4,
                              .mlp = 200, /* padded to 208, for fp8 to 224 */
                              .image_size = 64,
                              .patch_size = 8,
                              .n_classes = 8,
                              .stored = RVIT_F32,
                              .seed = 91,
                              .n_predictors = 2};
static const toy_spec others[] = {{.dim = 64,
                                   .depth = 3,
                                   .mlp = 128,
                                   .image_size = 64,
                                   .patch_size = 16,
                                   .n_classes = 8,
                                   .distilled = 1,
                                   .stored = RVIT_F16,
                                   .seed = 92,
                                   .n_predictors = 2,
                                   .rotary = 1},
                                  {.dim = 64,
                                   .depth = 3,
                                   .mlp = 64,
                                   .image_size = 64,
                                   .patch_size = 16,
                                   .n_classes = 8,
                                   .stored = RVIT_BF16,
                                   .seed = 93,
                                   .n_registers = 4,
                                   .no_cls = 1,
                                   .pool = TOY_MAP}};
static const rvit_quantization kinds[] = {RVIT_QUANTIZATION_INT8, RVIT_QUANTIZATION_FP8};

enum { N_IMAGES = 4, CLASSES = 8, N_KINDS = 2 };

/* Returns NULL if the device does not support the type, after checking the error message. */
static rvit_model *open_kind(const toy *m, rvit_dtype dtype, rvit_quantization kind)
{
    const char *feature = kind == RVIT_QUANTIZATION_INT8 ? "int8" : "e4m3";
    if (!lacks(feature))
        return open_quantized(m, dtype, kind);
    rvit_model_desc desc = RVIT_MODEL_DESC_INIT;
    rvit_model *model = NULL;
    desc.quantization = kind;
    expect_status(rvit_model_create(H.device[DEVICE], open_checkpoint(m, "toy.safetensors"), &desc, &model), RVIT_UNSUPPORTED,
                  rvit_enum_name(RVIT_ENUM_QUANTIZATION, kind));
    return NULL;
}

static uint8_t *masks(const toy *m, int32_t n, int32_t first)
{
    uint8_t *keep = scratch((size_t)(2 * n * m->tokens));
    for (int32_t s = 0; s < 2; s++)
        for (int32_t i = 0; i < n; i++)
            for (int32_t t = 0; t < m->tokens; t++)
                keep[(s * n + i) * m->tokens + t] = t < m->n_prefix || (t * 7 + (first + i) * 3 + s) % 5 < 3;
    return keep;
}

/* An image has the same bits in any batch, also with an image of NaN in it. Runs allocate nothing and wait once. */
static void properties_hold(void **state)
{
    (void)state;
    static const rvit_dtype types[] = {RVIT_F32, RVIT_F16, RVIT_BF16};
    for (int k = 0; k < N_KINDS; k++)
        for (int policy = RVIT_PRUNE_NONE; policy <= LAST_POLICY; policy = next_policy(policy)) {
            if (leaves_out(k + policy, 3))
                continue;
            const toy *m = toy_new(&spec);
            const int masked = policy == RVIT_PRUNE_MASK;
            rvit_model *model = open_kind(m, types[(k + policy) % n_types()], kinds[k]);
            if (!model) {
                model_teardown(NULL);
                continue;
            }
            const rvit_session_desc desc = policy_desc(policy, N_IMAGES);
            rvit_session *session = open_session(model, &desc);
            float *images = toy_images(m, N_IMAGES, 1);
            const float *all = run_session(session, m, images, N_IMAGES, masked ? masks(m, N_IMAGES, 0) : NULL);
            rvit_stats before = RVIT_STATS_INIT, after = RVIT_STATS_INIT;
            expect_ok(rvit_session_get_stats(session, &before));
            for (int32_t i = 0; i < N_IMAGES; i++) {
                const float *one = run_session(session, m, images + i * m->pixels, 1, masked ? masks(m, 1, i) : NULL);
                assert_memory_equal(one, all + i * CLASSES, CLASSES * sizeof *one);
            }
            expect_ok(rvit_session_get_stats(session, &after));
            assert_int_equal(after.host_allocations, before.host_allocations);
            assert_int_equal(after.device_allocations, before.device_allocations);
            assert_int_equal(after.synchronizations, before.synchronizations + N_IMAGES);
            assert_int_equal(after.saturated, 0);
            if (policy != RVIT_PRUNE_NONE && policy != RVIT_PRUNE_TOME && !masked)
                continue; /* these policies refuse NaN scores */
            images[2 * m->pixels + 5] = NAN;
            const float *with_bad = run_with_bad_image(session, m, images, N_IMAGES, masked ? masks(m, N_IMAGES, 0) : NULL, 2);
            for (int32_t i = 0; i < N_IMAGES; i++)
                if (i != 2)
                    assert_memory_equal(with_bad + i * CLASSES, all + i * CLASSES, CLASSES * sizeof *all);
            if (policy == RVIT_PRUNE_NONE)
                for (int c = 0; c < CLASSES; c++)
                    assert_true(isnan(with_bad[2 * CLASSES + c]));
            model_teardown(NULL);
        }
}

/* The relative root mean square error of all logits. */
static double error_of(const toy *m, const float *images, const float *logits)
{
    double error = 0, square = 0;
    for (int32_t i = 0; i < N_IMAGES; i++) {
        double exact[CLASSES];
        toy_forward(m, images + i * m->pixels, NULL, 0, exact, NULL);
        for (int c = 0; c < CLASSES; c++) {
            error += (logits[i * CLASSES + c] - exact[c]) * (logits[i * CLASSES + c] - exact[c]);
            square += exact[c] * exact[c];
        }
    }
    return sqrt(error / square);
}

/* For normally distributed values, with a maximum of 3 to 4 standard deviations, int8 has a rounding error of 0.8 percent and e4m3 of 2.6.
   The error of the logits is a small multiple of it. A wrong scale would give a far larger error, and unquantized layers almost none. */
static void errors_match_rounding(void **state)
{
    (void)state;
    static const double most[] = {0.045, 0.15}, least[] = {0.008, 0.026};
    const toy_spec *specs[] = {&spec, &others[0], &others[1]};
    for (int k = 0; k < N_KINDS; k++)
        for (int i = 0; i < 3; i++) {
            const toy *m = toy_new(specs[i]);
            rvit_model *model = open_kind(m, i == 1 ? RVIT_F16 : RVIT_F32, kinds[k]);
            if (!model) {
                model_teardown(NULL);
                continue;
            }
            const float *images = toy_images(m, N_IMAGES, 2);
            const rvit_session_desc desc = policy_desc(RVIT_PRUNE_NONE, N_IMAGES);
            const double error = error_of(m, images, run_session(open_session(model, &desc), m, images, N_IMAGES, NULL));
            if (!(error >= least[k] && error <= most[k]))
                fail_msg("%s, toy %d: the logits have a relative error of %.3g", rvit_enum_name(RVIT_ENUM_QUANTIZATION, kinds[k]), i,
                         error);
            model_teardown(NULL);
        }
}

/* Sets the input scales of all linear layers, as a checkpoint would. */
static rvit_buffer *set_scales(rvit_model *model, float scale)
{
    rvit_buffer *buffer = NULL;
    rvit_stream *stream = H.stream[DEVICE];
    expect_ok(rvit_buffer_create(H.device[DEVICE], 16, RVIT_BUFFER_DEVICE, &buffer));
    expect_ok(rvit_stream_write(stream, (rvit_view){buffer, 0}, &scale, sizeof scale));
    expect_ok(rvit_stream_synchronize(stream));
    for (int32_t b = 0; b < model->info.depth; b++)
        for (int i = 0; i < RVIT_N_BLOCK_LINEARS; i++)
            if (model->blocks[b].linears[i].scales.buffer != NULL) {
                model->blocks[b].linears[i].input_scale = (rvit_view){buffer, 0};
                model->blocks[b].linears[i].bounded = 0;
            }
    return buffer;
}

/* With large scales no value saturates. With small ones values do, and each run adds its count. */
static void scales_of_checkpoints(void **state)
{
    (void)state;
    for (int k = 0; k < N_KINDS; k++) {
        const toy *m = toy_new(&spec);
        rvit_model *model = open_kind(m, RVIT_F32, kinds[k]);
        if (!model) {
            model_teardown(NULL);
            continue;
        }
        const float *images = toy_images(m, N_IMAGES, 3), most = k == 0 ? 127 : 448;
        const rvit_session_desc desc = policy_desc(RVIT_PRUNE_EVIT, N_IMAGES), dense = policy_desc(RVIT_PRUNE_NONE, N_IMAGES);
        rvit_buffer *large = set_scales(model, 12 / most);
        rvit_session *session = open_session(model, &dense);
        const float *logits = run_session(session, m, images, N_IMAGES, NULL);
        rvit_stats stats = RVIT_STATS_INIT;
        expect_ok(rvit_session_get_stats(session, &stats));
        assert_int_equal(stats.saturated, 0);
        assert_true(error_of(m, images, logits) < (k == 0 ? 0.2 : 0.1));
        rvit_buffer *small = set_scales(model, 0.5f / most);
        session = open_session(model, &desc);
        int64_t once = 0;
        for (int run = 1; run <= 3; run++) {
            const float *again = run_session(session, m, images, N_IMAGES, NULL);
            for (int c = 0; c < N_IMAGES * CLASSES; c++)
                assert_true(isfinite(again[c]));
            expect_ok(rvit_session_get_stats(session, &stats));
            once = run == 1 ? stats.saturated : once;
            assert_true(once > 1000);
            assert_int_equal(stats.saturated, run * once);
        }
        model_teardown(NULL);
        rvit_buffer_destroy(large);
        rvit_buffer_destroy(small);
    }
}

static int n_preferred;

static int always_prefers(const rvit_device *device, const rvit_op *linear)
{
    (void)device, (void)linear;
    n_preferred++;
    return 1;
}

/* Whether the device supports e4m3 GEMMs with e4m3 outputs. */
static int has_e4m3_outputs(const rvit_device *device)
{
    rvit_op op = {.type = RVIT_OP_LINEAR, .linear = RVIT_LINEAR_ARGS_INIT};
    op.linear.dtype = op.linear.out_dtype = RVIT_E4M3;
    op.linear.in_features = spec.dim;
    op.linear.out_features = 224;
    return device->api->supports(device, &op) == NULL;
}

/* On devices that prefer it, fc1 writes the quantized input of fc2. The properties hold, and saturated values are counted. */
static void fc1_writes_quantized_values(void **state)
{
    (void)state;
    const toy *m = toy_new(&spec);
    rvit_model *model = open_kind(m, RVIT_F16, RVIT_QUANTIZATION_FP8);
    if (!model)
        return;
    static rvit_backend_api prefers, refuses;
    rvit_device *device = H.device[DEVICE];
    const rvit_backend_api *api = device->api;
    prefers = refuses = *api;
    prefers.prefers_quantized = always_prefers;
    refuses.prefers_quantized = NULL;
    n_preferred = 0;
    const float *images = toy_images(m, N_IMAGES, 8);
    const rvit_session_desc dense = policy_desc(RVIT_PRUNE_NONE, N_IMAGES), pruned = policy_desc(RVIT_PRUNE_EVIT, N_IMAGES);
    device->api = &refuses;
    const float *separate = run_session(open_session(model, &dense), m, images, N_IMAGES, NULL);
    device->api = &prefers;
    const float *logits = run_session(open_session(model, &dense), m, images, N_IMAGES, NULL);
    const int n_asked = n_preferred;
    rvit_session *session = open_session(model, &pruned);
    const float *all = run_session(session, m, images, N_IMAGES, NULL);
    for (int32_t i = 0; i < N_IMAGES; i++)
        assert_memory_equal(run_session(session, m, images + i * m->pixels, 1, NULL), all + i * CLASSES, CLASSES * sizeof *all);
    rvit_buffer *small = set_scales(model, 0.5f / 448);
    for (int32_t b = 0; b < model->info.depth; b++)
        for (int i = 0; i < RVIT_N_BLOCK_LINEARS; i++)
            model->blocks[b].linears[i].bounded = i != RVIT_BLOCK_FC2; /* so only saturated inputs of fc2 are counted */
    session = open_session(model, &dense);
    (void)run_session(session, m, images, N_IMAGES, NULL);
    device->api = api;
    rvit_stats stats = RVIT_STATS_INIT;
    expect_ok(rvit_session_get_stats(session, &stats));
    assert_true(stats.saturated > 1000);
    assert_int_equal(n_asked, has_e4m3_outputs(device) ? model->info.depth : 0);
    double difference = 0, square = 0;
    for (int c = 0; c < N_IMAGES * CLASSES; c++) {
        difference += (logits[c] - separate[c]) * (logits[c] - separate[c]);
        square += separate[c] * separate[c];
    }
    const double error = sqrt(difference / square); /* some values round differently; wrong scales give 0.09 */
    assert_true(has_e4m3_outputs(device) ? error > 0 && error < 0.05 : error == 0);
    model_teardown(NULL);
    rvit_buffer_destroy(small);
}

/* Whatever the pixels, no input of a GEMM exceeds the bound that follows from the weights, so no value saturates. */
static void bounds_hold(void **state)
{
    (void)state;
    const toy *m = toy_new(&spec);
    rvit_model *model = open_kind(m, RVIT_F32, RVIT_QUANTIZATION_FP8);
    if (!model)
        return;
    for (int32_t b = 0; b < model->info.depth; b++)
        for (int i = 0; i < RVIT_N_BLOCK_LINEARS; i++) {
            assert_int_equal(model->blocks[b].linears[i].bounded, i != RVIT_BLOCK_PROJ);
            model->blocks[b].linears[i].bounded = 0;
        }
    const rvit_session_desc desc = policy_desc(RVIT_PRUNE_NONE, N_IMAGES);
    rvit_session *session = open_session(model, &desc);
    for (int size = 0; size < 3; size++) {
        float *images = toy_images(m, N_IMAGES, 6);
        for (int64_t i = 0; i < N_IMAGES * m->pixels; i++)
            images[i] *= size == 0 ? 1 : size == 1 ? 1e-4f : i % 997 == 0 ? 1e4f : 1;
        (void)run_session(session, m, images, N_IMAGES, NULL);
        rvit_stats stats = RVIT_STATS_INIT;
        expect_ok(rvit_session_get_stats(session, &stats));
        assert_int_equal(stats.saturated, 0);
    }
    model_teardown(NULL);
}

/* A model with updated weights gives the same bits as a model created with them. */
static void weights_can_be_replaced(void **state)
{
    (void)state;
    toy_spec another = spec;
    another.seed = 94;
    for (int k = 0; k < N_KINDS; k++) {
        const toy *m = toy_new(&spec), *new = toy_new(&another);
        rvit_model *model = open_kind(m, RVIT_F32, kinds[k]);
        if (!model) {
            model_teardown(NULL);
            continue;
        }
        rvit_model *wanted = open_kind(new, RVIT_F32, kinds[k]);
        const float *images = toy_images(m, N_IMAGES, 4);
        const rvit_session_desc desc = policy_desc(RVIT_PRUNE_L2, N_IMAGES);
        rvit_session *session = open_session(model, &desc);
        const float *before = run_session(session, m, images, N_IMAGES, NULL);
        const float *right = run_session(open_session(wanted, &desc), m, images, N_IMAGES, NULL);
        expect_ok(rvit_model_update(model, open_checkpoint(new, "new.safetensors")));
        const float *after = run_session(session, m, images, N_IMAGES, NULL);
        assert_memory_equal(after, right, N_IMAGES * CLASSES * sizeof *after);
        assert_true(memcmp(after, before, CLASSES * sizeof *after) != 0);
        rvit_model_info info = RVIT_MODEL_INFO_INIT;
        expect_ok(rvit_model_get_info(model, &info));
        assert_int_equal(info.quantization, kinds[k]);
        model_teardown(NULL);
    }
}

/* y [n_out] = bias + weight x, for a row x of floats. */
static void add_product(const float *x, int32_t n_in, const float *weight, const float *bias, int32_t n_out, double *y)
{
    for (int32_t o = 0; o < n_out; o++) {
        y[o] += bias[o];
        for (int32_t i = 0; i < n_in; i++)
            y[o] += (double)weight[o * n_in + i] * x[i];
    }
}

static void expect_norm(const double *x, int32_t n, const float *gamma, const float *beta, const float *found)
{
    double mean = 0, variance = 0;
    for (int32_t i = 0; i < n; i++)
        mean += x[i] / n;
    for (int32_t i = 0; i < n; i++)
        variance += (x[i] - mean) * (x[i] - mean) / n;
    for (int32_t i = 0; i < n; i++)
        assert_true(fabs((x[i] - mean) / sqrt(variance + 1e-6) * gamma[i] + beta[i] - found[i]) < 1e-3);
}

static const float *traced(const rvit_session *session, rvit_result what, int32_t index)
{
    rvit_result_view view = RVIT_RESULT_VIEW_INIT;
    expect_ok(rvit_session_get(session, what, index, &view));
    assert_int_equal(view.dtype, RVIT_F32);
    return view.data;
}

/* Recomputes each block from its traced GEMM inputs; two of these are norms. */
static void inputs_are_traced(void **state)
{
    (void)state;
    const toy *m = toy_new(&spec);
    rvit_model *model = open_model(m, RVIT_F32);
    rvit_session_desc desc = policy_desc(RVIT_PRUNE_NONE, 2);
    desc.trace = RVIT_TRACE_INPUTS;
    rvit_session *session = open_session(model, &desc), *refused = NULL;
    (void)run_session(session, m, toy_images(m, 2, 8), 2, NULL);
    const int32_t d = spec.dim, mlp = spec.mlp;
    for (int32_t b = 0; b < spec.depth; b++) {
        const toy_block *w = &m->blocks[b];
        const float *before = b == 0 ? traced(session, RVIT_TRACE_EMBEDDING, 0) : traced(session, RVIT_TRACE_BLOCK, b - 1);
        const float *after = traced(session, RVIT_TRACE_BLOCK, b), *inputs[4];
        for (int32_t i = 0; i < 4; i++)
            inputs[i] = traced(session, RVIT_TRACE_INPUT, 4 * b + i);
        for (int32_t t = 0; t < 2 * m->tokens; t += 7) {
            double x[128];
            for (int32_t i = 0; i < d; i++)
                x[i] = before[t * d + i];
            expect_norm(x, d, w->norm1_w, w->norm1_b, inputs[RVIT_LAYER_QKV] + t * d);
            add_product(inputs[RVIT_LAYER_PROJ] + t * d, d, w->proj_w, w->proj_b, d, x);
            expect_norm(x, d, w->norm2_w, w->norm2_b, inputs[RVIT_LAYER_FC1] + t * d);
            add_product(inputs[RVIT_LAYER_FC2] + t * mlp, mlp, w->fc2_w, w->fc2_b, d, x);
            for (int32_t i = 0; i < d; i++)
                assert_true(fabs(x[i] - after[t * d + i]) < 1e-3);
        }
    }
    rvit_result_view view = RVIT_RESULT_VIEW_INIT;
    expect_status(rvit_session_get(session, RVIT_TRACE_INPUT, 4 * spec.depth, &view), RVIT_INVALID_ARGUMENT, "layer 16");
    desc = policy_desc(RVIT_PRUNE_L2, 2);
    desc.trace = RVIT_TRACE_INPUTS;
    expect_status(rvit_session_create(model, &desc, &refused), RVIT_UNSUPPORTED, "trace is 3, but the session prunes");
    rvit_memory_info more = RVIT_MEMORY_INFO_INIT, less = RVIT_MEMORY_INFO_INIT;
    desc = policy_desc(RVIT_PRUNE_NONE, 2);
    desc.trace = RVIT_TRACE_INPUTS;
    expect_ok(rvit_session_memory(model, &desc, &more));
    desc.trace = 1;
    expect_ok(rvit_session_memory(model, &desc, &less));
    assert_int_equal(more.trace_size - less.trace_size, (4 * 2 * m->tokens * (3 * d + mlp) * spec.depth + 255) / 256 * 256);
    model = open_kind(m, RVIT_F32, RVIT_QUANTIZATION_INT8);
    desc = policy_desc(RVIT_PRUNE_NONE, 2);
    desc.trace = RVIT_TRACE_INPUTS;
    if (model)
        expect_status(rvit_session_create(model, &desc, &refused), RVIT_UNSUPPORTED, "the model is quantised");
    model_teardown(NULL);
}

static void bad_descs_are_refused(void **state)
{
    (void)state;
    const toy *m = toy_new(&spec);
    rvit_checkpoint *checkpoint = open_checkpoint(m, "refused.safetensors");
    rvit_model_desc desc = RVIT_MODEL_DESC_INIT;
    rvit_model *model = NULL;
    desc.quantization = (rvit_quantization)3;
    expect_status(rvit_model_create(H.device[DEVICE], checkpoint, &desc, &model), RVIT_INVALID_ARGUMENT, "quantization");
    desc.quantization = (rvit_quantization)-1;
    expect_status(rvit_model_create(H.device[DEVICE], checkpoint, &desc, &model), RVIT_INVALID_ARGUMENT, "quantization");
    desc = (rvit_model_desc)RVIT_MODEL_DESC_INIT;
    desc.dtype = RVIT_I8;
    expect_status(rvit_model_create(H.device[DEVICE], checkpoint, &desc, &model), RVIT_INVALID_ARGUMENT, "int8, expected f32, f16 or bf16");
    assert_null(model);
}

static rvit_precision_choice chosen(const rvit_checkpoint *checkpoint, rvit_precision precision)
{
    rvit_precision_choice choice = RVIT_PRECISION_CHOICE_INIT;
    expect_ok(rvit_precision_choose(H.device[DEVICE], checkpoint, precision, &choice));
    return choice;
}

static void expect_choice(rvit_precision_choice found, rvit_precision precision, rvit_dtype dtype, rvit_quantization quantization,
                          const char *reason)
{
    assert_int_equal(found.precision, precision);
    assert_int_equal(found.dtype, dtype);
    assert_int_equal(found.quantization, quantization);
    if (reason[0] ? strstr(found.reason, reason) == NULL : found.reason[0] != 0)
        fail_msg("the reason is \"%s\", should contain \"%s\"", found.reason, reason);
}

/* The choices of AUTO and of each precision, on this CPU and on simulated ones. */
static void precisions(void **state)
{
    (void)state;
    rvit_checkpoint *checkpoint = open_checkpoint(toy_new(&spec), "names.safetensors");
    rvit_checkpoint *narrow = open_checkpoint(toy_new(&others[1]), "bf16.safetensors");
    rvit_precision_choice choice = RVIT_PRECISION_CHOICE_INIT;
    rvit_device *device = H.device[DEVICE];
    expect_status(rvit_precision_choose(NULL, checkpoint, RVIT_PRECISION_F32, &choice), RVIT_INVALID_ARGUMENT, "device");
    expect_status(rvit_precision_choose(device, NULL, RVIT_PRECISION_F32, &choice), RVIT_INVALID_ARGUMENT, "checkpoint");
    expect_status(rvit_precision_choose(device, checkpoint, (rvit_precision)6, &choice), RVIT_INVALID_ARGUMENT, "precision");
    expect_choice(chosen(checkpoint, RVIT_PRECISION_F32), RVIT_PRECISION_F32, RVIT_F32, RVIT_QUANTIZATION_NONE, "");
    expect_choice(chosen(checkpoint, RVIT_PRECISION_F16), RVIT_PRECISION_F16, RVIT_F16, RVIT_QUANTIZATION_NONE, "");
    if (lacks("int8"))
        expect_status(rvit_precision_choose(device, checkpoint, RVIT_PRECISION_INT8, &choice), RVIT_UNSUPPORTED, "int8");
    if (H.desc.backend == RVIT_BACKEND_VULKAN) {
        expect_choice(chosen(checkpoint, RVIT_PRECISION_INT8), RVIT_PRECISION_INT8, RVIT_F16, RVIT_QUANTIZATION_INT8, "");
        expect_choice(chosen(narrow, RVIT_PRECISION_INT8), RVIT_PRECISION_INT8, RVIT_BF16, RVIT_QUANTIZATION_INT8, "");
        expect_choice(chosen(checkpoint, RVIT_PRECISION_AUTO), RVIT_PRECISION_F16, RVIT_F16, RVIT_QUANTIZATION_NONE,
                      "8-bit GEMMs are not faster");
        expect_status(rvit_precision_choose(device, checkpoint, RVIT_PRECISION_FP8, &choice), RVIT_UNSUPPORTED, "int8 rows, but not e4m3");
        /* Vulkan decides by its matrix instructions or by what the driver reports. */
        const int32_t native = H.info.native_dtypes, most = H.info.tier == RVIT_TIER_SCALAR ? 0 : 1 << RVIT_I8;
        assert_int_equal(native & ~most, 0);
        assert_true(native != 0 || H.info.tier != RVIT_TIER_MATRIX || !H.info.is_software);
    }
    if (H.desc.backend != RVIT_BACKEND_CPU)
        return;
    expect_choice(chosen(checkpoint, RVIT_PRECISION_FP8), RVIT_PRECISION_FP8, RVIT_F16, RVIT_QUANTIZATION_FP8, "");
    expect_choice(chosen(narrow, RVIT_PRECISION_FP8), RVIT_PRECISION_FP8, RVIT_BF16, RVIT_QUANTIZATION_FP8, "");
    const int32_t own = device->info.native_dtypes;
    char *architecture = checkpoint->config.info.architecture;
    device->info.native_dtypes = 0;
    expect_choice(chosen(checkpoint, RVIT_PRECISION_INT8), RVIT_PRECISION_INT8, RVIT_F32, RVIT_QUANTIZATION_INT8, "");
    expect_choice(chosen(checkpoint, RVIT_PRECISION_AUTO), RVIT_PRECISION_F32, RVIT_F32, RVIT_QUANTIZATION_NONE,
                  "8-bit GEMMs are not faster");
    device->info.native_dtypes = 1 << RVIT_BF16 | 1 << RVIT_I8;
    expect_choice(chosen(checkpoint, RVIT_PRECISION_INT8), RVIT_PRECISION_INT8, RVIT_BF16, RVIT_QUANTIZATION_INT8, "");
    expect_choice(chosen(checkpoint, RVIT_PRECISION_AUTO), RVIT_PRECISION_BF16, RVIT_BF16, RVIT_QUANTIZATION_NONE, "was not measured");
    strcpy(architecture, "deit_tiny_patch16_224");
    expect_choice(chosen(checkpoint, RVIT_PRECISION_AUTO), RVIT_PRECISION_INT8, RVIT_BF16, RVIT_QUANTIZATION_INT8, "by +0.1 points");
    device->info.native_dtypes = 1 << RVIT_I8;
    expect_choice(chosen(checkpoint, RVIT_PRECISION_AUTO), RVIT_PRECISION_INT8, RVIT_F32, RVIT_QUANTIZATION_INT8, "by +0.1 points");
    device->info.native_dtypes = own;
}

SUITE(quantized_suite, MODEL_TEST(precisions), MODEL_TEST(properties_hold), MODEL_TEST(errors_match_rounding),
      MODEL_TEST(scales_of_checkpoints), MODEL_TEST(fc1_writes_quantized_values), MODEL_TEST(bounds_hold),
      MODEL_TEST(weights_can_be_replaced), MODEL_TEST(inputs_are_traced), MODEL_TEST(bad_descs_are_refused));

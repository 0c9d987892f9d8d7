/* Tests the outputs pooled rows, projections, block features and received attention. */
#include "model.h"

#include <math.h>

#include <raggedvit/experimental.h>
#include "tools/cli/session_results.h"

enum { N_IMAGES = 3, CLASSES = 8, DEPTH = 4, DIM = 64 };

static const toy_spec spec = {
    .dim = DIM, .depth = DEPTH, .mlp = 128, .image_size = 64, .patch_size = 16, .n_classes = CLASSES, .stored = RVIT_F32, .seed = 91};
static const toy_spec distilled = {.dim = DIM,
                                   .depth = DEPTH,
                                   .mlp = 128,
                                   .image_size = 64,
                                   .patch_size = 16,
                                   .n_classes = CLASSES,
                                   .distilled = 1,
                                   .stored = RVIT_F32,
                                   .seed = 92};

/* Copies of a session's results; NULL if the session does not have them. */
typedef struct session_results {
    float *logits, *pooled, *block, *received;
    int32_t width, block_stage, received_stage;
    const int32_t *block_cu, *received_cu;
} session_results;

static void *copied(const void *from, size_t size)
{
    void *to = scratch(size + 1);
    if (from != NULL)
        memcpy(to, from, size);
    return from == NULL ? NULL : to;
}

static session_results results_of(rvit_session *session, const toy *m, const float *images, int32_t n, const uint8_t *keep)
{
    session_results g = {.logits = run_session(session, m, images, n, keep), .width = -1, .block_stage = -9, .received_stage = -9};
    const size_t layout = ((size_t)n + 1) * sizeof(int32_t);
    const rvit_result_view pooled = session_result(session, RVIT_RESULT_POOLED, 0);
    const rvit_result_view block = session_result(session, RVIT_RESULT_BLOCK_FEATURES, 0);
    const rvit_result_view received = session_result(session, RVIT_RESULT_RECEIVED_ATTENTION, 0);
    if (pooled.data != NULL) {
        g.width = pooled.width;
        g.pooled = copied(pooled.data, (size_t)n * (size_t)g.width * sizeof(float));
    }
    if (block.data != NULL) {
        g.block_stage = block.stage;
        g.block_cu = copied(session_cu_seqlens(session, g.block_stage), layout);
        g.block = copied(block.data, (size_t)g.block_cu[n] * DIM * sizeof(float));
    }
    if (received.data != NULL) {
        g.received_stage = received.stage;
        g.received_cu = copied(session_cu_seqlens(session, g.received_stage), layout);
        g.received = copied(received.data, (size_t)(g.received_cu[n] * m->n_heads) * sizeof(float));
    }
    return g;
}

static uint8_t *mask_of(const toy *m, int policy)
{
    uint8_t *keep = scratch((size_t)(2 * N_IMAGES * m->tokens));
    for (int32_t i = 0; i < 2 * N_IMAGES * m->tokens; i++)
        keep[i] = i % m->tokens < m->n_prefix || i % 3 != 0;
    return policy == RVIT_PRUNE_MASK ? keep : NULL;
}

static rvit_session_desc named(int policy, int32_t block, int32_t from_end)
{
    rvit_session_desc desc = policy_desc(policy, N_IMAGES);
    desc.outputs = TOY_OUTPUTS;
    desc.features_block = from_end ? block - DEPTH : block;
    desc.received_block = desc.features_block;
    return desc;
}

static void expect_received(const toy *m, const session_results *g)
{
    for (int32_t i = 0; i < N_IMAGES; i++)
        for (int32_t head = 0; head < m->n_heads; head++) {
            double sum = 0;
            for (int32_t row = g->received_cu[i]; row < g->received_cu[i + 1]; row++) {
                assert_true(g->received[row * m->n_heads + head] > 0);
                sum += (double)g->received[row * m->n_heads + head];
            }
            assert_true(fabs(sum - 1.0) < 1e-5);
        }
}

/* For every policy and block, counted from both ends: block features equal the trace, received attention sums to 1 for each head, and the
   logits have the same bits as without these outputs. */
static void rows_of_every_block(void **state)
{
    (void)state;
    const toy *m = toy_new(&spec);
    const float *images = toy_images(m, N_IMAGES, 1);
    rvit_model *models[2] = {open_model(m, RVIT_F32), open_model(m, RVIT_F16)};
    for (int policy = RVIT_PRUNE_NONE; policy <= RVIT_PRUNE_RANDOM; policy++) {
        if (policy == RVIT_PRUNE_DYNAMICVIT || policy == RVIT_PRUNE_DYNAMICVIT_GATE)
            continue; /* no predictors */
        const uint8_t *keep = mask_of(m, policy);
        for (int32_t block = 0; block < DEPTH; block++) {
            rvit_session_desc desc = named(policy, block, block % 2);
            desc.trace = 1;
            rvit_session *session = NULL, *plain = NULL;
            expect_ok(rvit_session_create(models[policy % 2], &desc, &session));
            const session_results g = results_of(session, m, images, N_IMAGES, keep);
            rvit_result_view traced = RVIT_RESULT_VIEW_INIT;
            expect_ok(rvit_session_get(session, RVIT_TRACE_BLOCK, block, &traced));
            assert_int_equal(traced.dtype, RVIT_F32);
            assert_int_equal(traced.width, DIM);
            assert_int_equal(traced.rows, g.block_cu[N_IMAGES]);
            assert_memory_equal(g.block, traced.data, (size_t)traced.rows * DIM * sizeof(float));
            expect_received(m, &g);
            desc = policy_desc(policy, N_IMAGES);
            expect_ok(rvit_session_create(models[policy % 2], &desc, &plain));
            assert_memory_equal(g.logits, run_session(plain, m, images, N_IMAGES, keep), N_IMAGES * CLASSES * sizeof(float));
            static const rvit_result absent[] = {RVIT_RESULT_POOLED, RVIT_RESULT_BLOCK_FEATURES, RVIT_RESULT_RECEIVED_ATTENTION,
                                                 RVIT_RESULT_PROJECTED};
            for (size_t i = 0; i < sizeof absent / sizeof *absent; i++)
                expect_status(rvit_session_get(plain, absent[i], 0, &traced), RVIT_UNSUPPORTED, "the session was created without");
            rvit_session_destroy(plain);
            rvit_session_destroy(session);
        }
    }
}

/* Applying the head in float64 to the pooled rows gives the logits. A distilled model has two heads and two rows. */
static void pooled_rows_give_the_logits(void **state)
{
    (void)state;
    static const int policies[] = {RVIT_PRUNE_NONE, RVIT_PRUNE_EVIT, RVIT_PRUNE_ATS, RVIT_PRUNE_TOME};
    for (int t = 0; t < 2; t++) {
        const toy *m = toy_new(t == 0 ? &spec : &distilled);
        rvit_model *model = open_model(m, RVIT_F32);
        for (int p = 0; p < 4; p++) {
            const rvit_session_desc desc = named(policies[p], 0, 0);
            const session_results g = results_of(open_session(model, &desc), m, toy_images(m, N_IMAGES, 2), N_IMAGES, NULL);
            assert_int_equal(g.width, (t + 1) * DIM);
            for (int32_t i = 0; i < N_IMAGES * CLASSES; i++) {
                const float *row = g.pooled + i / CLASSES * g.width;
                const int32_t c = i % CLASSES;
                double sum = 0;
                for (int32_t d = 0; d < DIM; d++)
                    sum += (double)row[d] * m->head_w[c * DIM + d] + (t == 0 ? 0 : (double)row[DIM + d] * m->head_dist_w[c * DIM + d]);
                sum = t == 0 ? sum + m->head_b[c] : (sum + m->head_b[c] + m->head_dist_b[c]) / 2;
                assert_true(fabs(sum - (double)g.logits[i]) < 1e-5);
            }
        }
        model_teardown(NULL);
    }
}

/* An image gives the same bits in a batch of one and in a larger batch. */
static void batches(void **state)
{
    (void)state;
    const toy *m = toy_new(&distilled);
    const float *images = toy_images(m, N_IMAGES, 3);
    rvit_model *model = open_model(m, RVIT_F32);
    static const int policies[] = {RVIT_PRUNE_NONE, RVIT_PRUNE_EVIT_FUSED, RVIT_PRUNE_ATS, RVIT_PRUNE_TOME};
    for (int p = 0; p < 4; p++) {
        const rvit_session_desc desc = named(policies[p], 1, 0);
        rvit_session *session = open_session(model, &desc);
        const session_results all = results_of(session, m, images, N_IMAGES, NULL);
        for (int32_t i = 0; i < N_IMAGES; i++) {
            const session_results one = results_of(session, m, images + (int64_t)i * m->pixels, 1, NULL);
            assert_memory_equal(one.pooled, all.pooled + i * all.width, (size_t)all.width * sizeof(float));
            assert_int_equal(one.block_cu[1], all.block_cu[i + 1] - all.block_cu[i]);
            assert_memory_equal(one.block, all.block + all.block_cu[i] * DIM, (size_t)one.block_cu[1] * DIM * sizeof(float));
            assert_memory_equal(one.received, all.received + all.received_cu[i] * m->n_heads,
                                (size_t)(one.received_cu[1] * m->n_heads) * sizeof(float));
        }
    }
}

static int64_t launches_of(rvit_model *model, const toy *m, const rvit_session_desc *desc)
{
    rvit_session *session = open_session(model, desc);
    const float *images = toy_images(m, N_IMAGES, 4);
    rvit_stats before = RVIT_STATS_INIT, after = RVIT_STATS_INIT;
    run_session(session, m, images, N_IMAGES, NULL);
    expect_ok(rvit_session_get_stats(session, &before));
    run_session(session, m, images, N_IMAGES, NULL);
    expect_ok(rvit_session_get_stats(session, &after));
    return after.launches - before.launches;
}

/* A toy with the names of an open_clip checkpoint of a timm encoder: its head is a projection. */
static rvit_model *open_clip_model(const toy *m)
{
    rvit_checkpoint_desc desc = RVIT_CHECKPOINT_DESC_INIT;
    desc.n_heads = m->n_heads;
    desc.activation = RVIT_ACTIVATION_GELU;
    desc.eps = 1e-6f;
    desc.pooling = RVIT_POOLING_CLS;
    desc.position = RVIT_POSITION_TABLE;
    rvit_tensor_desc *tensors = scratch((size_t)m->n_tensors * sizeof *tensors);
    for (int i = 0; i < m->n_tensors; i++) {
        char *name = scratch(80);
        snprintf(name, 80, "visual.trunk.%s", m->tensors[i].name);
        tensors[i] = (rvit_tensor_desc)RVIT_TENSOR_DESC_INIT;
        tensors[i].name = name;
        tensors[i].dtype = RVIT_F32;
        tensors[i].rank = m->tensors[i].rank;
        tensors[i].shape = m->tensors[i].shape;
        tensors[i].data = m->tensors[i].values;
    }
    rvit_checkpoint *checkpoint = NULL;
    rvit_model *model = NULL;
    desc.tensors = tensors;
    desc.n_tensors = m->n_tensors;
    expect_ok(rvit_checkpoint_open(NULL, &desc, &checkpoint));
    expect_ok(rvit_model_create(H.device[DEVICE], checkpoint, NULL, &model));
    rvit_checkpoint_destroy(checkpoint);
    return model;
}

/* A requested output costs at most two launches. A projection costs none, because it is the logits. */
static void launches(void **state)
{
    (void)state;
    static const struct {
        int32_t output, most;
    } asked[] = {{RVIT_OUTPUT_POOLED, 1},
                 {RVIT_OUTPUT_PROJECTED | RVIT_OUTPUT_NORMALIZED, 0},
                 {RVIT_OUTPUT_BLOCK_FEATURES, 1},
                 {RVIT_OUTPUT_RECEIVED_ATTENTION, 2}};
    const toy *m = toy_new(&spec);
    rvit_model *model = open_clip_model(m);
    for (int policy = RVIT_PRUNE_NONE; policy <= RVIT_PRUNE_EVIT; policy += RVIT_PRUNE_EVIT) {
        rvit_session_desc desc = policy_desc(policy, N_IMAGES);
        const int64_t plain = launches_of(model, m, &desc);
        for (size_t i = 0; i < sizeof asked / sizeof *asked; i++) {
            desc.outputs = asked[i].output;
            const int64_t more = launches_of(model, m, &desc) - plain;
            if (more < 0 || more > asked[i].most)
                fail_msg("output %d of policy %d: %d additional launches", asked[i].output, policy, (int)more);
        }
    }
    model_teardown(NULL);
    rvit_model_destroy(model);
}

static void expect_normalized(const float *projected, const float *normalized)
{
    for (int32_t i = 0; i < N_IMAGES; i++) {
        double sum = 0;
        for (int32_t c = 0; c < CLASSES; c++)
            sum += (double)projected[i * CLASSES + c] * projected[i * CLASSES + c];
        for (int32_t c = 0; c < CLASSES; c++)
            assert_true(fabs(projected[i * CLASSES + c] / sqrt(sum) - (double)normalized[i * CLASSES + c]) < 1e-7);
    }
}

/* A projection equals the logits, wherever the logits are written. */
static void projections(void **state)
{
    (void)state;
    const toy *m = toy_new(&spec);
    const float *images = toy_images(m, N_IMAGES, 5);
    rvit_model *model = open_clip_model(m);
    rvit_model_info info = RVIT_MODEL_INFO_INIT;
    expect_ok(rvit_model_get_info(model, &info));
    assert_int_equal(info.embedding_dim, CLASSES);
    const int64_t image_size = (int64_t)N_IMAGES * m->pixels * 4, logits_size = N_IMAGES * CLASSES * 4;
    rvit_stream *stream = NULL;
    rvit_buffer *buffer = NULL;
    expect_ok(rvit_stream_create(H.device[DEVICE], &stream));
    expect_ok(rvit_buffer_create(H.device[DEVICE], image_size + logits_size, RVIT_BUFFER_DEVICE, &buffer));
    expect_ok(rvit_stream_write(stream, (rvit_view){buffer, 0}, images, image_size));
    expect_ok(rvit_stream_synchronize(stream));
    for (int policy = RVIT_PRUNE_NONE; policy <= RVIT_PRUNE_EVIT; policy += RVIT_PRUNE_EVIT) {
        rvit_session_desc desc = policy_desc(policy, N_IMAGES);
        desc.outputs = RVIT_OUTPUT_PROJECTED;
        rvit_session *session = open_session(model, &desc);
        const float *logits = run_session(session, m, images, N_IMAGES, NULL);
        assert_memory_equal(session_floats(session, RVIT_RESULT_PROJECTED), logits, (size_t)logits_size);
        desc.outputs |= RVIT_OUTPUT_NORMALIZED;
        for (int where = 0; where < 3; where++) {
            desc.logits = (rvit_view){where == 1 ? buffer : NULL, where == 1 ? image_size : 0};
            desc.input_memory = where == 2 ? RVIT_INPUT_RUN : RVIT_INPUT_HOST;
            rvit_session *other = open_session(model, &desc);
            rvit_run_args args = RVIT_RUN_ARGS_INIT;
            args.n_images = N_IMAGES;
            if (where == 2) {
                args.input.view.buffer = buffer;
                args.logits = (rvit_view){buffer, image_size};
            } else {
                args.input.data = images;
            }
            assert_null(session_floats(other, RVIT_RESULT_PROJECTED));
            expect_ok(rvit_session_run(other, &args, NULL));
            expect_normalized(logits, session_floats(other, RVIT_RESULT_PROJECTED));
        }
    }
    model_teardown(NULL);
    rvit_model_destroy(model);
    rvit_stream_destroy(stream);
    rvit_buffer_destroy(buffer);
}

static void refusals(void **state)
{
    (void)state;
    rvit_model *model = open_model(toy_new(&spec), RVIT_F32);
    rvit_session *session = NULL;
    rvit_session_desc desc = session_desc(1, RVIT_PRUNE_NONE, -1.0, NULL, 0);
    desc.outputs = RVIT_OUTPUT_PROJECTED;
    expect_status(rvit_session_create(model, &desc, &session), RVIT_UNSUPPORTED, "neither a CLIP with its projection nor a SigLIP");
    desc.outputs = RVIT_OUTPUT_NORMALIZED;
    expect_status(rvit_session_create(model, &desc, &session), RVIT_INVALID_ARGUMENT, "without RVIT_OUTPUT_PROJECTED");
    desc.outputs = -1;
    expect_status(rvit_session_create(model, &desc, &session), RVIT_INVALID_ARGUMENT, "unknown bits");
    static const int32_t wrong[] = {DEPTH, -DEPTH - 1, INT32_MAX, INT32_MIN};
    for (int i = 0; i < 4; i++) {
        desc.outputs = RVIT_OUTPUT_BLOCK_FEATURES;
        desc.features_block = wrong[i];
        expect_status(rvit_session_create(model, &desc, &session), RVIT_INVALID_ARGUMENT, "the model has 4 blocks");
        desc.features_block = 0;
        desc.outputs = RVIT_OUTPUT_RECEIVED_ATTENTION;
        desc.received_block = wrong[i];
        expect_status(rvit_session_create(model, &desc, &session), RVIT_INVALID_ARGUMENT, "received_block is");
    }
    assert_null(session);
    rvit_result_view view = RVIT_RESULT_VIEW_INIT;
    expect_status(rvit_session_get(NULL, RVIT_RESULT_PROJECTED, 0, &view), RVIT_INVALID_ARGUMENT, "session or out_view is NULL");
}

SUITE(named_outputs_suite, MODEL_TEST(rows_of_every_block), MODEL_TEST(pooled_rows_give_the_logits), MODEL_TEST(batches),
      MODEL_TEST(launches), MODEL_TEST(projections), MODEL_TEST(refusals));

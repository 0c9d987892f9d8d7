/* Tests features, masks, grids and CLS attention; fixed batches, the caller's stream and buffers, and the dense fallback. */
#include "model.h"

#include <math.h>

#include <raggedvit/experimental.h>
#include "tools/cli/session_results.h"

static const toy_spec spec = {
    .dim = 128, .depth = 4, .mlp = 256, .image_size = 64, .patch_size = 16, .n_classes = 7, .stored = RVIT_F32, .seed = 41};
static const toy_spec distilled = {
    .dim = 64, .depth = 4, .mlp = 128, .image_size = 64, .patch_size = 16, .n_classes = 7, .distilled = 1, .stored = RVIT_F32, .seed = 42};
static const int32_t blocks[] = {0, 2}, last_block[] = {3};

enum { N_IMAGES = 3, CLASSES = 7 };

/* The policies without predictors and masks, with two stages and parameters that drop many tokens. */
static const rvit_prune_type policies[] = {RVIT_PRUNE_L2,  RVIT_PRUNE_EVIT,      RVIT_PRUNE_EVIT_FUSED, RVIT_PRUNE_EVIT_PAPER,
                                           RVIT_PRUNE_ATS, RVIT_PRUNE_ATS_PAPER, RVIT_PRUNE_TOME,       RVIT_PRUNE_RANDOM};
enum { N_POLICIES = sizeof policies / sizeof policies[0] };

static rvit_session_desc desc_of(rvit_prune_type type, const int32_t *at, int32_t n_at)
{
    const int keeps = type != RVIT_PRUNE_ATS && type != RVIT_PRUNE_ATS_PAPER && type != RVIT_PRUNE_TOME;
    rvit_session_desc desc = session_desc(N_IMAGES, type, keeps ? 0.5 : -1.0, at, n_at);
    if (type == RVIT_PRUNE_ATS_PAPER)
        prune_in(&desc)->mass = 0.6;
    if (type == RVIT_PRUNE_TOME)
        prune_in(&desc)->merges = 3;
    return desc;
}

/* Checks that rvit_session_keep_mask, RVIT_RESULT_CU_SEQLENS of stage -1 and _SIZES agree with _KEPT. */
static void expect_consistent(const rvit_session *session, const toy *m, rvit_prune_type type)
{
    const int32_t *unpruned = session_cu_seqlens(session, -1);
    for (int32_t i = 0; i <= N_IMAGES; i++)
        assert_int_equal(unpruned[i], i * m->tokens);
    for (int32_t stage = 0; stage < session_n_stages(session); stage++)
        for (int32_t image = 0; image < N_IMAGES; image++) {
            const int32_t *cu = session_cu_seqlens(session, stage), *kept = session_kept(session, stage, image);
            const int32_t n = cu[image + 1] - cu[image];
            const float *sizes = session_sizes(session, stage, image);
            assert_true((sizes != NULL) == (type == RVIT_PRUNE_TOME));
            uint8_t *mask = scratch((size_t)m->tokens);
            expect_ok(rvit_session_keep_mask(session, stage, image, mask));
            int32_t marked = 0, fused = 0;
            double size = 0;
            for (int32_t t = 0; t < m->tokens; t++)
                marked += mask[t];
            for (int32_t row = 0; row < n; row++) {
                fused += kept[row] < 0;
                if (row < m->n_prefix)
                    assert_int_equal(kept[row], row);
                if (kept[row] >= 0)
                    assert_int_equal(mask[kept[row]], 1);
                else
                    assert_int_equal(type, RVIT_PRUNE_EVIT_FUSED);
                size += sizes == NULL ? 0 : (double)sizes[row];
            }
            assert_int_equal(marked + fused, n);
            if (type == RVIT_PRUNE_EVIT_FUSED) {
                assert_true(fused >= 1 && fused <= stage + 1);
                assert_int_equal(kept[n - 1], -1);
            }
            if (type == RVIT_PRUNE_TOME) {
                assert_int_equal(n, m->tokens - 3 * (stage + 1));
                assert_true(size == (double)m->tokens);
            }
        }
}

/* Features are the normalised rows that the head reads: applying the head in float64 to the CLS rows gives the logits. */
static void features_give_the_logits(void **state)
{
    (void)state;
    const toy *m = toy_new(&spec);
    const float *images = toy_images(m, N_IMAGES, 1);
    rvit_model *model = open_model(m, RVIT_F32);
    for (int p = -1; p < N_POLICIES; p++)
        for (int late = 0; late < 2; late++) {
            rvit_session_desc desc = p < 0 ? session_desc(N_IMAGES, RVIT_PRUNE_NONE, -1.0, NULL, 0)
                                           : desc_of(policies[p], late ? last_block : blocks, late ? 1 : 2);
            const rvit_session_desc plain = desc;
            desc.outputs = RVIT_OUTPUT_FEATURES;
            rvit_session *session = open_session(model, &desc), *other = open_session(model, &plain);
            const float *logits = run_session(session, m, images, N_IMAGES, NULL);
            const float *same = run_session(other, m, images, N_IMAGES, NULL);
            assert_memory_equal(logits, same, N_IMAGES * CLASSES * sizeof(float));
            assert_null(session_floats(other, RVIT_RESULT_FEATURES));
            const float *features = session_floats(session, RVIT_RESULT_FEATURES);
            assert_non_null(features);
            const int32_t *cu = session_cu_seqlens(session, session_n_stages(session) - 1);
            for (int32_t i = 0; i < N_IMAGES; i++)
                for (int32_t c = 0; c < CLASSES; c++) {
                    double sum = m->head_b[c];
                    for (int32_t d = 0; d < spec.dim; d++)
                        sum += (double)features[(int64_t)cu[i] * spec.dim + d] * m->head_w[c * spec.dim + d];
                    assert_true(fabs(sum - (double)logits[i * CLASSES + c]) < 1e-4);
                }
            if (p >= 0)
                expect_consistent(session, m, policies[p]);
        }
}

static void grids(void **state)
{
    (void)state;
    const toy *m = toy_new(&distilled);
    const float *images = toy_images(m, N_IMAGES, 2);
    rvit_model *model = open_model(m, RVIT_F32);
    const int32_t dim = distilled.dim, patches = m->tokens - m->n_prefix;
    for (int p = 0; p < N_POLICIES; p++) {
        rvit_session_desc desc = desc_of(policies[p], blocks, 2);
        desc.outputs = RVIT_OUTPUT_FEATURES;
        rvit_session *session = open_session(model, &desc);
        run_session(session, m, images, N_IMAGES, NULL);
        const int32_t stage = session_n_stages(session) - 1, *cu = session_cu_seqlens(session, stage);
        float *grid = scratch((size_t)(patches * dim) * sizeof *grid);
        for (int32_t image = 0; image < N_IMAGES; image++) {
            expect_ok(rvit_session_feature_grid(session, image, -7.5f, grid));
            const int32_t *kept = session_kept(session, stage, image);
            const float *features = session_floats(session, RVIT_RESULT_FEATURES) + (int64_t)cu[image] * dim;
            int32_t filled = 0, with_features = 0;
            for (int32_t n = 0; n < patches; n++)
                filled += grid[n * dim] == -7.5f && grid[n * dim + dim - 1] == -7.5f;
            for (int32_t row = m->n_prefix; row < cu[image + 1] - cu[image]; row++) {
                if (kept[row] < 0)
                    continue;
                assert_memory_equal(grid + (kept[row] - m->n_prefix) * dim, features + row * dim, (size_t)dim * sizeof(float));
                with_features++;
            }
            if (policies[p] == RVIT_PRUNE_TOME)
                assert_int_equal(filled, 0); /* a merged token fills the patches of all its sources */
            else
                assert_int_equal(filled, patches - with_features);
        }
        expect_status(rvit_session_feature_grid(session, N_IMAGES, 0.0f, grid), RVIT_INVALID_ARGUMENT, "3");
    }
    const rvit_session_desc without = session_desc(1, RVIT_PRUNE_NONE, -1.0, NULL, 0);
    float one;
    expect_status(rvit_session_feature_grid(open_session(model, &without), 0, 0.0f, &one), RVIT_UNSUPPORTED, "RVIT_OUTPUT_FEATURES");
}

/* The last block's CLS attention sums to 1 for each head, and has the rows of the stage that the result names. */
static void cls_attention(void **state)
{
    (void)state;
    const toy *m = toy_new(&spec);
    const float *images = toy_images(m, N_IMAGES, 3);
    rvit_model *model = open_model(m, RVIT_F32);
    for (int p = 0; p < N_POLICIES; p++)
        for (int late = 0; late < 2; late++) {
            rvit_session_desc desc = desc_of(policies[p], late ? last_block : blocks, late ? 1 : 2);
            const rvit_session_desc plain = desc;
            desc.outputs = RVIT_OUTPUT_CLS_ATTENTION;
            rvit_session *session = open_session(model, &desc);
            const float *logits = run_session(session, m, images, N_IMAGES, NULL);
            assert_memory_equal(logits, run_session(open_session(model, &plain), m, images, N_IMAGES, NULL),
                                N_IMAGES * CLASSES * sizeof(float));
            const rvit_result_view view = session_result(session, RVIT_RESULT_CLS_ATTENTION, 0);
            const float *probs = view.data;
            assert_non_null(probs);
            assert_int_equal(view.stage, late ? -1 : 1);
            const int32_t *cu = session_cu_seqlens(session, view.stage);
            assert_int_equal(view.rows, cu[N_IMAGES]);
            assert_int_equal(view.width, m->n_heads);
            for (int32_t i = 0; i < N_IMAGES; i++)
                for (int32_t head = 0; head < m->n_heads; head++) {
                    double sum = 0;
                    for (int32_t row = cu[i]; row < cu[i + 1]; row++)
                        sum += (double)probs[row * m->n_heads + head];
                    assert_true(fabs(sum - 1.0) < 1e-5);
                }
        }
}

static int keep_same_tokens(const rvit_session *a, const rvit_session *b)
{
    for (int32_t stage = 0; stage < session_n_stages(a); stage++) {
        const int32_t *cu = session_cu_seqlens(a, stage);
        if (memcmp(cu, session_cu_seqlens(b, stage), (N_IMAGES + 1) * sizeof *cu) != 0)
            return 0;
        for (int32_t i = 0; i < N_IMAGES; i++)
            if (memcmp(session_kept(a, stage, i), session_kept(b, stage, i), (size_t)(cu[i + 1] - cu[i]) * sizeof *cu) != 0)
                return 0;
    }
    return 1;
}

/* A fixed batch changes results only by rounding. In float32 the same tokens are kept; in 16-bit types rounding may decide between nearly
   equal scores. */
static void fixed_batches(void **state)
{
    (void)state;
    static const rvit_dtype types[] = {RVIT_F32, RVIT_F16, RVIT_BF16};
    /* bfloat16 has 3 bits less than float16, and one of the two sessions may also round a GEMM's result before the activation. */
    static const float differences[] = {1e-5f, 4e-3f, 6.4e-2f};
    for (int t = 0; t < n_types(); t++) {
        const toy *m = toy_new(&spec);
        const float *images = toy_images(m, N_IMAGES, 4);
        rvit_model *model = open_model(m, types[t]);
        int n_same = 0;
        for (int p = 0; p < N_POLICIES; p++) {
            rvit_session_desc desc = desc_of(policies[p], blocks, 2);
            rvit_session *any = open_session(model, &desc);
            desc.fixed_batch = 1;
            rvit_session *fixed = open_session(model, &desc);
            const float *a = run_session(any, m, images, N_IMAGES, NULL), *b = run_session(fixed, m, images, N_IMAGES, NULL);
            const float difference = largest_difference(a, b, N_IMAGES * CLASSES);
            const int same = keep_same_tokens(any, fixed);
            n_same += same;
            assert_true(same || types[t] != RVIT_F32);
            if (same && !(difference < differences[t]))
                fail_msg("%s, policy %d: the logits differ by %g", rvit_enum_name(RVIT_ENUM_DTYPE, types[t]), (int)policies[p],
                         (double)difference);
            const float *again = run_session(fixed, m, images, N_IMAGES, NULL);
            assert_memory_equal(again, b, N_IMAGES * CLASSES * sizeof(float));
            rvit_run_args args = RVIT_RUN_ARGS_INIT;
            args.n_images = N_IMAGES - 1;
            args.input.data = images;
            expect_status(rvit_session_run(fixed, &args, NULL), RVIT_INVALID_ARGUMENT, "exactly");
        }
        assert_true(2 * n_same > N_POLICIES);
        model_teardown(NULL);
    }
}

/* Runs from device memory to device memory on the caller's stream, one after another without waiting. */
static void device_buffers(void **state)
{
    (void)state;
    enum { RUNS = 3 };
    const toy *m = toy_new(&spec);
    rvit_model *model = open_model(m, RVIT_F32);
    const int64_t image_size = (int64_t)N_IMAGES * m->pixels * 4, logits_size = N_IMAGES * CLASSES * 4;
    rvit_stream *stream = NULL;
    rvit_buffer *buffer = NULL;
    expect_ok(rvit_stream_create(H.device[DEVICE], &stream));
    expect_ok(rvit_buffer_create(H.device[DEVICE], 256 + RUNS * image_size + (RUNS + 1) * 256, RVIT_BUFFER_DEVICE, &buffer));
    const int64_t logits_at = 256 + image_size, results_at = logits_at + 256;
    rvit_session_desc desc = desc_of(RVIT_PRUNE_EVIT, blocks, 2);
    const rvit_session_desc plain = desc;
    desc.fixed_batch = 1;
    desc.stream = stream;
    desc.input_memory = RVIT_INPUT_FIXED;
    desc.input_view = (rvit_view){buffer, 256};
    desc.logits = (rvit_view){buffer, logits_at};
    rvit_session *session = open_session(model, &desc), *reference = open_session(model, &plain);
    assert_null(rvit_session_input_memory(session, NULL));
    rvit_run_args args = RVIT_RUN_ARGS_INIT;
    args.n_images = N_IMAGES;
    for (uint64_t run = 0; run < RUNS; run++) {
        const float *images = toy_images(m, N_IMAGES, 50 + run);
        expect_ok(rvit_stream_write(stream, desc.input_view, images, image_size));
        expect_ok(rvit_session_enqueue(session, &args));
        rvit_copy_args copy = RVIT_COPY_ARGS_INIT;
        copy.source = desc.logits;
        copy.destination = (rvit_view){buffer, results_at + (int64_t)run * 256};
        copy.size = logits_size;
        expect_ok(rvit_copy(stream, &copy));
        expect_ok(rvit_session_enqueue(session, &args));
    }
    expect_ok(rvit_session_wait(session));
    assert_null(session_floats(session, RVIT_RESULT_LOGITS));
    assert_non_null(session_kept(session, 1, 0));
    float logits[N_IMAGES * CLASSES];
    for (uint64_t run = 0; run < RUNS; run++) {
        expect_ok(rvit_stream_read(stream, (rvit_view){buffer, results_at + (int64_t)run * 256}, logits, logits_size));
        const float *wanted = run_session(reference, m, toy_images(m, N_IMAGES, 50 + run), N_IMAGES, NULL);
        assert_true(largest_difference(logits, wanted, N_IMAGES * CLASSES) < 1e-5);
    }
    const float *images = toy_images(m, N_IMAGES, 60);
    args.input.data = images;
    expect_status(rvit_session_enqueue(session, &args), RVIT_INVALID_ARGUMENT, "input.data is given");
    args.input.data = NULL;
    expect_status(rvit_session_run(session, &args, logits), RVIT_UNSUPPORTED, "out_logits");
    model_teardown(NULL);
    rvit_stream_destroy(stream);
    rvit_buffer_destroy(buffer);
}

/* With several runs pending, wait reports the error of any run, once. */
static void errors_of_pending_runs(void **state)
{
    (void)state;
    enum { RUNS = 3 };
    const toy *m = toy_new(&spec);
    rvit_model *model = open_model(m, RVIT_F32);
    const int64_t image_size = (int64_t)N_IMAGES * m->pixels * 4;
    rvit_stream *stream = NULL;
    rvit_buffer *buffer = NULL;
    expect_ok(rvit_stream_create(H.device[DEVICE], &stream));
    expect_ok(rvit_buffer_create(H.device[DEVICE], image_size, RVIT_BUFFER_DEVICE, &buffer));
    rvit_run_args args = RVIT_RUN_ARGS_INIT;
    args.n_images = N_IMAGES;
    float *images = toy_images(m, N_IMAGES, 70);
    for (int p = 0; p < N_POLICIES; p++) {
        if (policies[p] == RVIT_PRUNE_TOME || policies[p] == RVIT_PRUNE_RANDOM)
            continue; /* these policies do not check scores for NaN */
        rvit_session_desc desc = desc_of(policies[p], blocks, 2);
        desc.fixed_batch = 1;
        desc.stream = stream;
        desc.input_memory = RVIT_INPUT_FIXED;
        desc.input_view.buffer = buffer;
        rvit_session *session = open_session(model, &desc);
        for (int bad = -1; bad < RUNS; bad++) {
            for (int run = 0; run < RUNS; run++) {
                const float pixel = images[2 * m->pixels];
                if (run == bad)
                    images[2 * m->pixels] = NAN;
                expect_ok(rvit_stream_write(stream, desc.input_view, images, image_size));
                images[2 * m->pixels] = pixel;
                expect_ok(rvit_session_enqueue(session, &args));
            }
            if (bad < 0) {
                expect_ok(rvit_session_wait(session));
                continue;
            }
            expect_status(rvit_session_wait(session), RVIT_NOT_FINITE, "image 2");
            expect_ok(rvit_session_image_status(session, 1));
            expect_status(rvit_session_image_status(session, 2), RVIT_NOT_FINITE, "image 2");
            expect_ok(rvit_stream_write(stream, desc.input_view, images, image_size));
            expect_ok(rvit_session_run(session, &args, NULL));
        }
    }
    model_teardown(NULL);
    rvit_stream_destroy(stream);
    rvit_buffer_destroy(buffer);
}

static void bad_buffers(void **state)
{
    (void)state;
    const toy *m = toy_new(&spec);
    rvit_model *model = open_model(m, RVIT_F32);
    rvit_buffer *small = NULL;
    expect_ok(rvit_buffer_create(H.device[DEVICE], 1024, RVIT_BUFFER_DEVICE, &small));
    rvit_session *session = NULL;
    rvit_session_desc desc = session_desc(2, RVIT_PRUNE_NONE, -1.0, NULL, 0);
    desc.input_memory = RVIT_INPUT_FIXED;
    desc.input_view = (rvit_view){small, 0};
    expect_status(rvit_session_create(model, &desc, &session), RVIT_INVALID_ARGUMENT, "images");
    desc.input_view.buffer = NULL;
    expect_status(rvit_session_create(model, &desc, &session), RVIT_INVALID_ARGUMENT, "input_view is absent, but input_memory is FIXED");
    desc.input_memory = RVIT_INPUT_HOST;
    desc.logits = (rvit_view){small, 1008};
    expect_status(rvit_session_create(model, &desc, &session), RVIT_INVALID_ARGUMENT, "logits");
    desc.logits = (rvit_view){NULL, 0};
    desc.outputs = 512;
    expect_status(rvit_session_create(model, &desc, &session), RVIT_INVALID_ARGUMENT, "outputs");
    assert_null(session);
    rvit_buffer_destroy(small);
}

/* The session uses whichever variant had the shorter measured time. */
static void dense_fallback(void **state)
{
    (void)state;
    const toy *m = toy_new(&spec);
    const float *images = toy_images(m, N_IMAGES, 5);
    rvit_model *model = open_model(m, RVIT_F32);
    static const double keeps[] = {0.1, 0.99};
    for (int k = 0; k < 2; k++) {
        rvit_session_desc desc = session_desc(N_IMAGES, RVIT_PRUNE_L2, keeps[k], blocks, 1);
        rvit_session *pruned = open_session(model, &desc);
        desc.dense_fallback = 1;
        rvit_session *session = open_session(model, &desc);
        rvit_session_info info = RVIT_SESSION_INFO_INIT;
        expect_ok(rvit_session_get_info(pruned, &info));
        assert_true(info.n_stages == 1 && !info.fell_back && info.dense_us == 0.0 && info.pruned_us == 0.0);
        expect_ok(rvit_session_get_info(session, &info));
        assert_true(info.dense_us > 0.0 && info.pruned_us > 0.0);
        assert_int_equal(info.fell_back, info.dense_us <= info.pruned_us);
        assert_int_equal(info.n_stages, info.fell_back ? 0 : 1);
        assert_int_equal(session_n_stages(session), info.n_stages);
        const rvit_session_desc dense = session_desc(N_IMAGES, RVIT_PRUNE_NONE, -1.0, NULL, 0);
        const float *wanted = run_session(info.fell_back ? open_session(model, &dense) : pruned, m, images, N_IMAGES, NULL);
        assert_memory_equal(run_session(session, m, images, N_IMAGES, NULL), wanted, N_IMAGES * CLASSES * sizeof(float));
    }
}

/* Repeating a stage's select op on the traced scores keeps the same rows. */
static void selects_can_be_repeated(void **state)
{
    (void)state;
    const toy *m = toy_new(&spec);
    const float *images = toy_images(m, N_IMAGES, 6);
    rvit_model *model = open_model(m, RVIT_F32);
    for (int p = 0; p < N_POLICIES; p++) {
        rvit_session_desc desc = desc_of(policies[p], blocks, 2);
        desc.trace = 1;
        rvit_session *session = open_session(model, &desc);
        run_session(session, m, images, N_IMAGES, NULL);
        rvit_result_view recorded = RVIT_RESULT_VIEW_INIT;
        if (policies[p] == RVIT_PRUNE_TOME) {
            expect_status(rvit_session_get(session, RVIT_TRACE_SELECT, 0, &recorded), RVIT_UNSUPPORTED, "merges");
            continue;
        }
        expect_status(rvit_session_get(session, RVIT_TRACE_SELECT, 2, &recorded), RVIT_INVALID_ARGUMENT, "2");
        expect_ok(rvit_session_get(session, RVIT_TRACE_SELECT, 0, &recorded));
        rvit_select_args args = *(const rvit_select_args *)recorded.data;
        rvit_result_view scores = RVIT_RESULT_VIEW_INIT;
        expect_ok(rvit_session_get(session, RVIT_TRACE_SCORES, 0, &scores));
        const int64_t rows = scores.rows;
        assert_int_equal(rows, N_IMAGES * m->tokens);
        args.score = RVIT_SCORE_GIVEN;
        const int32_t *counts = session_result(session, RVIT_TRACE_COUNTS, 0).data;
        assert_true((counts != NULL) == (args.mode == RVIT_SELECT_TOP_K));
        array *counts_in = array_input("counts", (args.max_len + (int64_t)1) * 4), *scores_in = array_input("scores", rows * 4);
        array *cu_in = array_input("cu_seqlens", (N_IMAGES + 1) * 4), *cu_out = array_output("out_cu_seqlens", (N_IMAGES + 1) * 4);
        array *keep_out = array_output("keep", rows), *src_out = array_output("src_rows", rows * 4);
        if (counts != NULL)
            memcpy(counts_in->host, counts, (size_t)counts_in->size);
        memcpy(scores_in->host, scores.data, (size_t)scores_in->size);
        memcpy(cu_in->host, session_cu_seqlens(session, -1), (size_t)cu_in->size);
        arrays_upload();
        args.counts = array_view(counts == NULL ? NULL : counts_in, DEVICE);
        args.scores = array_view(scores_in, DEVICE);
        args.cu_seqlens = array_view(cu_in, DEVICE);
        args.keep = array_view(keep_out, DEVICE);
        args.out_cu_seqlens = array_view(cu_out, DEVICE);
        args.src_rows = array_view(src_out, DEVICE);
        expect_ok(rvit_select(H.stream[DEVICE], &args));
        arrays_fetch(DEVICE);
        const int32_t *cu = (const int32_t *)(const void *)cu_out->result[DEVICE];
        const int32_t *src = (const int32_t *)(const void *)src_out->result[DEVICE];
        for (int32_t i = 0; i < N_IMAGES; i++) {
            const int32_t *stage_cu = session_cu_seqlens(session, 0), *kept = session_kept(session, 0, i);
            const int32_t fused = policies[p] == RVIT_PRUNE_EVIT_FUSED;
            assert_int_equal(cu[i + 1] - cu[i], stage_cu[i + 1] - stage_cu[i] - fused);
            for (int32_t row = cu[i]; row < cu[i + 1]; row++)
                assert_int_equal(src[row] - i * m->tokens, kept[row - cu[i]]);
        }
    }
}

/* With RVIT_TRACE_GIVEN a session keeps the given sets, and traces its own decisions on the remaining rows. */
static void given_kept_tokens(void **state)
{
    (void)state;
    const toy *m = toy_new(&spec);
    const float *images = toy_images(m, N_IMAGES, 7);
    rvit_model *model = open_model(m, RVIT_F32);
    uint8_t *masks = scratch((size_t)(2 * N_IMAGES * m->tokens));
    for (int p = 0; p < N_POLICIES; p++) {
        rvit_session_desc desc = desc_of(policies[p], blocks, 2);
        rvit_session *session = open_session(model, &desc), *refused = NULL;
        desc.trace = RVIT_TRACE_GIVEN;
        if (policies[p] == RVIT_PRUNE_TOME || policies[p] == RVIT_PRUNE_EVIT_FUSED) {
            expect_status(rvit_session_create(model, &desc, &refused), RVIT_UNSUPPORTED, "trace is 2");
            continue;
        }
        rvit_session *given = open_session(model, &desc);
        const float *wanted = run_session(session, m, images, N_IMAGES, NULL);
        for (int32_t s = 0; s < 2; s++)
            for (int32_t i = 0; i < N_IMAGES; i++)
                expect_ok(rvit_session_keep_mask(session, s, i, masks + (s * N_IMAGES + i) * m->tokens));
        /* Given its own sets, it has the same decisions and bits. */
        assert_memory_equal(run_session(given, m, images, N_IMAGES, masks), wanted, N_IMAGES * CLASSES * sizeof *wanted);
        assert_null(session_result(session, RVIT_TRACE_DECISIONS, 0).data);
        assert_null(session_result(given, RVIT_TRACE_DECISIONS, 2).data);
        for (int32_t s = 0; s < 2; s++)
            for (int32_t i = 0; i < N_IMAGES; i++) {
                const uint8_t *mask = masks + (s * N_IMAGES + i) * m->tokens;
                const int32_t *cu = session_cu_seqlens(given, s - 1), *before = s > 0 ? session_kept(given, s - 1, i) : NULL;
                const uint8_t *decided = session_result(given, RVIT_TRACE_DECISIONS, s).data;
                for (int32_t row = cu[i]; row < cu[i + 1]; row++)
                    assert_int_equal(decided[row], mask[before ? before[row - cu[i]] : row - cu[i]]);
            }
        /* Given other sets, it has the same decisions only in the first stage. */
        const int32_t rows = N_IMAGES * m->tokens;
        uint8_t *decided = memcpy(scratch((size_t)rows), session_result(given, RVIT_TRACE_DECISIONS, 0).data, (size_t)rows);
        for (int32_t t = 0; t < 2 * rows; t++)
            masks[t] = t % m->tokens < m->n_prefix || t % m->tokens % (t < rows ? 2 : 4) == 0;
        run_session(given, m, images, N_IMAGES, masks);
        assert_memory_equal(session_result(given, RVIT_TRACE_DECISIONS, 0).data, decided, (size_t)rows);
        for (int32_t i = 0; i < N_IMAGES; i++)
            for (int32_t t = 0; t < m->tokens; t++) {
                uint8_t *kept = scratch((size_t)m->tokens);
                expect_ok(rvit_session_keep_mask(given, 1, i, kept));
                assert_int_equal(kept[t], masks[i * m->tokens + t] && masks[(N_IMAGES + i) * m->tokens + t]);
            }
        const int32_t *counts = session_result(given, RVIT_TRACE_COUNTS, 1).data, *cu = session_cu_seqlens(given, 0);
        int32_t n_decided = 0;
        const uint8_t *marks = session_result(given, RVIT_TRACE_DECISIONS, 1).data;
        for (int32_t row = cu[0]; row < cu[1]; row++)
            n_decided += marks[row];
        if (counts && policies[p] != RVIT_PRUNE_L2) /* l2 may drop prefix tokens */
            assert_int_equal(n_decided, m->n_prefix + counts[cu[1] - cu[0] - m->n_prefix]);
        rvit_run_args run = RVIT_RUN_ARGS_INIT;
        run.n_images = 1;
        run.input.data = images;
        expect_status(rvit_session_run(given, &run, NULL), RVIT_INVALID_ARGUMENT, "keep is NULL");
        /* Given sets with more tokens than the policy can keep, in the first stage or the second. */
        run.keep = masks;
        for (int32_t s = 0; s < (counts != NULL ? 2 : policies[p] == RVIT_PRUNE_ATS); s++) {
            memset(masks + s * m->tokens, 1, (size_t)m->tokens);
            expect_status(rvit_session_run(given, &run, NULL), RVIT_INVALID_ARGUMENT, "after stage");
            for (int32_t t = 0; t < m->tokens; t++)
                masks[t] = t < m->n_prefix || t % 2 == 0;
        }
    }
    rvit_session *refused = NULL;
    rvit_session_desc desc = session_desc(1, RVIT_PRUNE_NONE, -1.0, NULL, 0);
    desc.trace = RVIT_TRACE_GIVEN;
    expect_status(rvit_session_create(model, &desc, &refused), RVIT_UNSUPPORTED, "does not prune");
    desc = session_desc(1, RVIT_PRUNE_MASK, -1.0, NULL, 0);
    desc.trace = RVIT_TRACE_GIVEN;
    expect_status(rvit_session_create(model, &desc, &refused), RVIT_UNSUPPORTED, "mask");
    desc.trace = 4;
    expect_status(rvit_session_create(model, &desc, &refused), RVIT_INVALID_ARGUMENT, "trace is 4, expected 0 to 3");
}

/* The vectors that tome compares have length 1. hiprune's anchors have the best scores and the right number. */
static void traced_metric_and_anchors(void **state)
{
    (void)state;
    const toy *m = toy_new(&spec);
    const float *images = toy_images(m, N_IMAGES, 8);
    rvit_model *model = open_model(m, RVIT_F32);
    rvit_session_desc desc = desc_of(RVIT_PRUNE_TOME, blocks, 2);
    desc.trace = 1;
    rvit_session *session = open_session(model, &desc);
    run_session(session, m, images, N_IMAGES, NULL);
    rvit_result_view view = RVIT_RESULT_VIEW_INIT;
    for (int32_t s = 0; s < 2; s++) {
        expect_ok(rvit_session_get(session, RVIT_TRACE_METRIC, s, &view));
        assert_int_equal(view.rows, N_IMAGES * (m->tokens - 3 * s));
        for (int64_t row = 0; row < view.rows; row++) {
            double length = 0;
            for (int32_t i = 0; i < 64; i++)
                length += (double)((const float *)view.data)[row * 64 + i] * (double)((const float *)view.data)[row * 64 + i];
            assert_true(fabs(length - 1) < 1e-5);
        }
    }
    expect_status(rvit_session_get(session, RVIT_TRACE_METRIC, 2, &view), RVIT_INVALID_ARGUMENT, "metric");
    expect_status(rvit_session_get(session, RVIT_TRACE_SCORES, 2, &view), RVIT_INVALID_ARGUMENT, "scores");
    desc = session_desc(N_IMAGES, RVIT_PRUNE_HIPRUNE, 0.9, NULL, 0);
    prune_in(&desc)->alpha = 1.0;
    desc.trace = 1;
    session = open_session(model, &desc);
    run_session(session, m, images, N_IMAGES, NULL);
    expect_ok(rvit_session_get(session, RVIT_TRACE_SCORES, 1, &view));
    expect_status(rvit_session_get(session, RVIT_TRACE_METRIC, 0, &view), RVIT_INVALID_ARGUMENT, "metric");
    assert_int_equal(view.rows, N_IMAGES * m->tokens);
    const float *scores = view.data;
    for (int32_t i = 0; i < N_IMAGES; i++) {
        const uint8_t *anchors = (const uint8_t *)session_result(session, RVIT_TRACE_DECISIONS, 1).data + i * m->tokens;
        float worst_anchor = INFINITY, best_other = 0;
        int32_t n = 0;
        for (int32_t t = m->n_prefix; t < m->tokens; t++) {
            const float score = scores[i * m->tokens + t];
            n += anchors[t];
            worst_anchor = anchors[t] && score < worst_anchor ? score : worst_anchor;
            best_other = !anchors[t] && score > best_other ? score : best_other;
        }
        assert_int_equal(n, 2); /* trunc(0.9 * 16) = 14 patches, trunc(14 / 5) = 2 anchors */
        assert_true(worst_anchor >= best_other);
    }
}

SUITE(outputs_suite, MODEL_TEST(features_give_the_logits), MODEL_TEST(grids), MODEL_TEST(cls_attention), MODEL_TEST(fixed_batches),
      MODEL_TEST(device_buffers), MODEL_TEST(errors_of_pending_runs), MODEL_TEST(bad_buffers), MODEL_TEST(dense_fallback),
      MODEL_TEST(selects_can_be_repeated), MODEL_TEST(given_kept_tokens), MODEL_TEST(traced_metric_and_anchors));

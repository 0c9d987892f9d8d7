/* Checks that a bad image does not change the results of the others, whatever the policy, and that results stay within the plan's arrays.
   Also tests sessions with more images than tokens, and wrong results of a device. */
#include "core/session/results.h"

#include "model.h"

#include <math.h>
#include "tools/cli/session_results.h"

#define SIZES .dim = 64, .depth = 4, .mlp = 128, .image_size = 32, .patch_size = 8, .n_classes = 7, .stored = RVIT_F32
static const toy_spec with_cls = {SIZES, .seed = 111, .n_predictors = 2, .n_registers = 1};
static const toy_spec with_map = {SIZES, .seed = 112, .no_cls = 1, .pool = TOY_MAP};
static const toy_spec *const specs[] = {&with_cls, &with_map};
static const rvit_dtype types[] = {RVIT_F32, RVIT_F16, RVIT_BF16};

enum { N_IMAGES = 5, BAD = 1, CLASSES = 7, SIDE = 4, PATCHES = SIDE * SIDE, DIM = 64 };

static const float bad_values[] = {NAN, INFINITY, 3e38f};

/* policy_desc for all policies. Returns 0 if the model does not support the policy. */
static int desc_of(rvit_model *model, const toy *m, int policy, int variable_resolution, rvit_session_desc *out)
{
    rvit_session_desc desc = policy_desc(policy, N_IMAGES);
    desc.outputs = RVIT_OUTPUT_FEATURES | RVIT_OUTPUT_POOLED;
    desc.variable_resolution = variable_resolution;
    desc.input = variable_resolution ? RVIT_INPUT_PATCHES : RVIT_INPUT_TENSOR;
    if (variable_resolution) {
        desc.max_len = m->tokens;
        desc.max_tokens = N_IMAGES * m->tokens;
    }
    if (policy == RVIT_PRUNE_ATS)
        prune_in(&desc)->n_samples = 5;
    if (policy == RVIT_PRUNE_PIXELPRUNE) {
        *prune_in(&desc) = (rvit_prune_desc)RVIT_PRUNE_DESC_INIT;
        prune_in(&desc)->type = RVIT_PRUNE_PIXELPRUNE;
    }
    if (variable_resolution && policy == RVIT_PRUNE_DYNAMICVIT)
        prune_in(&desc)->n_blocks = 1;
    const rvit_session_plan *plan = NULL;
    const rvit_status status = rvit_session_plan_create(model, &desc, &plan);
    if (status != RVIT_OK)
        return 0;
    rvit_session_plan_destroy(model, plan);
    *out = desc;
    return 1;
}

/* The mask policy drops every second patch. */
static rvit_status run(rvit_session *session, const toy *m, const float *images, int32_t n, int variable_resolution)
{
    static int32_t grids[2 * N_IMAGES];
    uint8_t keep[2 * N_IMAGES * (PATCHES + 2)];
    for (int i = 0; i < 2 * N_IMAGES; i++)
        grids[i] = SIDE;
    for (int32_t t = 0; t < 2 * n * m->tokens; t++)
        keep[t] = t % m->tokens < m->n_prefix || t % m->tokens % 2 == 0;
    rvit_run_args args = RVIT_RUN_ARGS_INIT;
    args.n_images = n;
    if (variable_resolution) {
        args.input.kind = RVIT_INPUT_PATCHES;
        args.input.grids = grids;
        args.input.data = images;
    } else {
        args.input.data = images;
    }
    if (session->plan->schedule.policy->info.type == RVIT_PRUNE_MASK)
        args.keep = keep;
    return rvit_session_run(session, &args, NULL);
}

typedef struct image_results {
    uint8_t *bytes;
    size_t n;
} image_results;

static void append(image_results *f, const void *bytes, size_t n)
{
    if (n > 0)
        memcpy(f->bytes + f->n, bytes, n);
    f->n += n;
}

/* All results of an image. Checks that the host's functions do not write beyond their output arrays. */
static image_results results_of(const rvit_session *session, const toy *m, int32_t image)
{
    image_results f = {scratch(1 << 16), 0};
    const int32_t n_stages = session_n_stages(session);
    const size_t tokens = (size_t)m->tokens, patches = (size_t)(m->tokens - m->n_prefix);
    append(&f, session_floats(session, RVIT_RESULT_LOGITS) + image * CLASSES, CLASSES * sizeof(float));
    const rvit_result_view pooled = session_result(session, RVIT_RESULT_POOLED, 0);
    append(&f, (const float *)pooled.data + image * pooled.width, (size_t)pooled.width * sizeof(float));
    for (int32_t s = 0; s < n_stages; s++) {
        const rvit_segment *left = &session->plan->segments[s + 1];
        const int32_t *cu = session_cu_seqlens(session, s), n = cu[image + 1] - cu[image];
        assert_true(n >= 0 && n <= left->max_len && cu[N_IMAGES] <= left->rows);
        const int32_t *kept = session_kept(session, s, image);
        const float *sizes = session_sizes(session, s, image);
        uint8_t mask[PATCHES + 3];
        memset(mask, SENTINEL, sizeof mask);
        expect_ok(rvit_session_keep_mask(session, s, image, mask));
        assert_int_equal(mask[tokens], SENTINEL);
        for (int32_t row = 0; row < n; row++)
            assert_true(kept[row] >= -1 && kept[row] < m->tokens);
        append(&f, &n, sizeof n);
        append(&f, kept, (size_t)n * sizeof *kept);
        append(&f, sizes, sizes == NULL ? 0 : (size_t)n * sizeof *sizes);
        append(&f, mask, tokens);
    }
    const int32_t *cu = session_cu_seqlens(session, n_stages - 1);
    append(&f, session_floats(session, RVIT_RESULT_FEATURES) + (int64_t)cu[image] * DIM,
           (size_t)(cu[image + 1] - cu[image]) * DIM * sizeof(float));
    float *grid = scratch((patches * DIM + 1) * sizeof *grid);
    grid[patches * DIM] = 1.5f;
    expect_ok(rvit_session_feature_grid(session, image, 0.0f, grid));
    assert_true(grid[patches * DIM] == 1.5f);
    append(&f, grid, patches * DIM * sizeof *grid);
    return f;
}

static void spoil(float *image, const toy *m, float value, int all)
{
    for (int32_t i = 0; i < (all ? m->pixels : 1); i++)
        image[all ? i : m->pixels / 3] = value;
}

static void expect_neighbours(rvit_session *session, const toy *m, int policy, int variable_resolution)
{
    float *images = toy_images(m, N_IMAGES, 5), *good = images + BAD * m->pixels, *saved = scratch((size_t)m->pixels * sizeof *saved);
    memcpy(saved, good, (size_t)m->pixels * sizeof *saved);
    expect_ok(run(session, m, images, N_IMAGES, variable_resolution));
    image_results wanted[N_IMAGES];
    for (int32_t i = 0; i < N_IMAGES; i++)
        wanted[i] = results_of(session, m, i);
    for (int v = 0; v < 6; v++) {
        if (leaves_out(v + policy + variable_resolution, 3))
            continue;
        spoil(good, m, bad_values[v % 3], v / 3);
        const rvit_status status = run(session, m, images, N_IMAGES, variable_resolution);
        if (status != RVIT_OK)
            expect_status(status, RVIT_INVALID_ARGUMENT, "image 1");
        for (int32_t i = 0; i < N_IMAGES; i++) {
            const image_results now = results_of(session, m, i);
            if (i == BAD)
                continue;
            expect_ok(rvit_session_image_status(session, i));
            if (now.n != wanted[i].n || memcmp(now.bytes, wanted[i].bytes, now.n) != 0)
                fail_msg("policy %d%s: with %g in image %d, image %d has other results", policy,
                         variable_resolution ? " with variable resolution" : "", (double)bad_values[v % 3], BAD, (int)i);
        }
        memcpy(good, saved, (size_t)m->pixels * sizeof *saved);
    }
}

/* All types and policies, with varying batches, fixed batches and variable resolution. */
static void one_bad_image(void **state)
{
    (void)state;
    int n = 0;
    for (int i = 0; i < 2; i++)
        for (int t = 0; t < n_types(); t++)
            for (int policy = RVIT_PRUNE_NONE; policy <= RVIT_PRUNE_PIXELPRUNE; policy++)
                for (int how = 0; how < 3; how++) { /* varying batches, fixed batches, variable resolution */
                    if (leaves_out(i + t + policy + how, 4))
                        continue;
                    const toy *m = toy_new(specs[i]);
                    rvit_model *model = open_model(m, types[t]);
                    rvit_session_desc desc;
                    if (desc_of(model, m, policy, how == 2, &desc)) {
                        desc.fixed_batch = how == 1;
                        expect_neighbours(open_session(model, &desc), m, policy, how == 2);
                        n++;
                    }
                    model_teardown(NULL);
                }
    assert_true(n >= (H.is_slow ? 10 : 60 * n_types()));
}

/* Capacities with more images than tokens, which no batch can reach. Attention pooling has a row for each image. */
static void more_images_than_tokens(void **state)
{
    (void)state;
    static const int32_t most[] = {PATCHES + 1, 100, 5000};
    static const int policies[] = {RVIT_PRUNE_NONE, RVIT_PRUNE_L2, RVIT_PRUNE_TOME, RVIT_PRUNE_MAP_PROBE};
    const toy *m = toy_new(&with_map);
    const float *image = toy_images(m, 1, 6);
    for (int quantized = 0; quantized < 2; quantized++)
        for (int p = 0; p < 4; p++) {
            if (leaves_out(quantized + p, 2))
                continue;
            rvit_model_desc model_desc = RVIT_MODEL_DESC_INIT;
            model_desc.quantization = quantized ? RVIT_QUANTIZATION_INT8 : RVIT_QUANTIZATION_NONE;
            rvit_model *model = NULL;
            const rvit_status status = rvit_model_create(H.device[DEVICE], open_checkpoint(m, "toy.safetensors"), &model_desc, &model);
            if (status == RVIT_UNSUPPORTED && quantized)
                continue;
            expect_ok(status);
            rvit_session_desc desc = policy_desc(policies[p], 1);
            desc.outputs = RVIT_OUTPUT_FEATURES | RVIT_OUTPUT_POOLED;
            desc.variable_resolution = 1;
            desc.input = RVIT_INPUT_PATCHES;
            desc.max_len = desc.max_tokens = m->tokens;
            float wanted[CLASSES] = {0};
            for (int i = -1; i < 3; i++) {
                desc.max_images = i < 0 ? 1 : most[i];
                rvit_session *session = NULL;
                expect_ok(rvit_session_create(model, &desc, &session));
                expect_ok(run(session, m, image, 1, 1));
                if (i < 0)
                    memcpy(wanted, session_floats(session, RVIT_RESULT_LOGITS), sizeof wanted);
                else if (largest_difference(session_floats(session, RVIT_RESULT_LOGITS), wanted, CLASSES) > 1e-5f)
                    fail_msg("policy %d: the logits differ if max_images is %d", policies[p], (int)desc.max_images);
                rvit_session_destroy(session);
            }
            rvit_model_destroy(model);
        }
}

static void scramble(rvit_session *session, rvit_session_array of, int kind)
{
    uint8_t *bytes = rvit_session_host(session, of);
    for (int64_t i = 0; bytes != NULL && i + 4 <= of.size; i += 4) {
        const int32_t word = kind == 0 ? (int32_t)random_bits() : kind == 1 ? random_below(2 * PATCHES) : 0x01010101;
        memcpy(bytes + i, &word, 4);
    }
}

/* Wrong results of the device do no harm: lengths that exceed the plan are refused, and the host checks masks and row indices. */
static void results_are_not_trusted(void **state)
{
    (void)state;
    random_seed(7);
    for (int policy = RVIT_PRUNE_L2; policy <= LAST_POLICY; policy = next_policy(policy)) {
        if (leaves_out(policy, 4))
            continue;
        const toy *m = toy_new(&with_cls);
        rvit_model *model = open_model(m, RVIT_F32);
        rvit_session_desc desc;
        assert_true(desc_of(model, m, policy, 0, &desc));
        rvit_session *session = open_session(model, &desc);
        float *images = toy_images(m, N_IMAGES, 8);
        const int32_t n_stages = session_n_stages(session);
        for (int round = 0; round < 30; round++) {
            expect_ok(run(session, m, images, N_IMAGES, 0));
            for (int32_t s = 0; s < n_stages; s++) {
                scramble(session, session->plan->stages[s].keep, round % 3);
                scramble(session, session->plan->stages[s].next_rows, round % 3);
            }
            expect_ok(rvit_session_check_results(session));
            for (int32_t i = 0; i < N_IMAGES; i++)
                (void)results_of(session, m, i);
            const rvit_session_array lengths = session->plan->stages[round % n_stages].cu_seqlens;
            int32_t *cu = rvit_session_host(session, lengths);
            const int32_t i = 1 + random_below(N_IMAGES), wrong[] = {cu[i] + m->tokens, -1, INT32_MAX, INT32_MIN, N_IMAGES * m->tokens + 1};
            cu[i] = wrong[round % 5];
            expect_status(rvit_session_check_results(session), RVIT_INTERNAL, "the device has computed wrongly");
            int32_t *error = rvit_session_host(session, session->plan->stages[0].error);
            expect_ok(run(session, m, images, N_IMAGES, 0));
            for (int kind = 0; error != NULL && kind < 2; kind++) {
                error[0] = kind ? INT32_MIN : 1;
                error[1 + random_below(N_IMAGES)] = kind ? 1 : -7;
                expect_status(rvit_session_check_results(session), RVIT_INTERNAL, "reports an unknown error");
                assert_int_equal(error[0], 0); /* the error does not affect the next run */
            }
        }
        model_teardown(NULL);
    }
}

SUITE(neighbours_suite, MODEL_TEST(one_bad_image), MODEL_TEST(more_images_than_tokens), MODEL_TEST(results_are_not_trusted));

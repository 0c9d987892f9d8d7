/* Batches with one bad image among good ones: NaN, infinite or huge pixels. Every policy and type, with fixed and variable
   resolution. The good images keep status OK and the same bits of logits, outputs and kept tokens as in a batch without the bad image. The
   bad one fails, or its results are finite.

   neighbours [--batches N] [OPTIONS OF EVERY TEST PROGRAM]: N batches, distributed over all sessions */
#include "model/model.h"

#include <math.h>
#include "tools/cli/session_results.h"

enum { POOL = 12, CAPACITY = 6, CLASSES = 7, DIM = 64, MAX_STAGES = 2, SIDE = 4 /* patches */, PATCH = 16 };

static const toy_spec specs[] = {{.dim = DIM,
                                  .depth = 3,
                                  .mlp = 128,
                                  .image_size = SIDE * PATCH,
                                  .patch_size = PATCH,
                                  .n_classes = CLASSES,
                                  .stored = RVIT_F32,
                                  .seed = 171,
                                  .n_predictors = 2},
                                 {.dim = DIM,
                                  .depth = 3,
                                  .mlp = 128,
                                  .image_size = SIDE * PATCH,
                                  .patch_size = PATCH,
                                  .n_classes = CLASSES,
                                  .stored = RVIT_F16,
                                  .seed = 172,
                                  .n_registers = 4,
                                  .no_cls = 1,
                                  .pool = TOY_MAP}};
static const struct {
    rvit_dtype dtype;
    rvit_quantization quantization;
} types[] = {{RVIT_F32, RVIT_QUANTIZATION_NONE},
             {RVIT_F16, RVIT_QUANTIZATION_NONE},
             {RVIT_BF16, RVIT_QUANTIZATION_NONE},
             {RVIT_F16, RVIT_QUANTIZATION_INT8},
             {RVIT_F16, RVIT_QUANTIZATION_FP8}};
enum { N_SPECS = sizeof specs / sizeof *specs, N_TYPES = sizeof types / sizeof *types };

static long n_batches;

/* A session, and its results for each good image in a batch of one. */
typedef struct scene {
    char name[64];
    const toy *m;
    rvit_session *session;
    const float *images; /* [POOL, pixels], or patches with variable resolution */
    int32_t native, masked, n_stages;
    float logits[POOL][CLASSES];
    float first[POOL][DIM];         /* of the features, the first row */
    int32_t rows[POOL][MAX_STAGES]; /* kept */
    int32_t kept[POOL][MAX_STAGES][SIDE * SIDE + 8];
} scene;

static uint32_t next_random(uint32_t *state)
{
    *state = *state * 1664525u + 1013904223u;
    return *state >> 8;
}

/* One of ten kinds of bad pixels. */
static void spoil(float *image, int32_t n, int kind, uint32_t *random)
{
    static const float values[] = {NAN, INFINITY, -INFINITY, 1e30f, -3e38f, 7e4f, 6e4f};
    if (kind < 7) {
        image[next_random(random) % (uint32_t)n] = values[kind];
        return;
    }
    for (int32_t i = 0; i < n; i++)
        image[i] = kind == 7 ? NAN : kind == 8 ? (i % 2 ? 3e38f : -3e38f) : image[i] * 1e18f;
}

/* Runs images of the pool by index; the one at `bad` has bad pixels. */
static rvit_status run(const scene *s, const int32_t *numbers, int32_t n, int32_t bad, int kind, uint32_t *random)
{
    static float images[CAPACITY * 3 * SIDE * SIDE * PATCH * PATCH];
    static uint8_t keep[MAX_STAGES * CAPACITY * (SIDE * SIDE + 8)];
    static int32_t grids[2 * CAPACITY];
    for (int32_t i = 0; i < n; i++) {
        memcpy(images + i * s->m->pixels, s->images + numbers[i] * s->m->pixels, (size_t)s->m->pixels * sizeof *images);
        if (i == bad)
            spoil(images + i * s->m->pixels, s->m->pixels, kind, random);
        grids[2 * i] = grids[2 * i + 1] = SIDE;
    }
    const int32_t tokens = s->m->tokens, n_prefix = s->m->n_prefix;
    for (int32_t stage = 0; stage < MAX_STAGES; stage++)
        for (int32_t i = 0; i < n; i++)
            for (int32_t t = 0; t < tokens; t++)
                keep[(stage * n + i) * tokens + t] = t < n_prefix || (numbers[i] + t + stage) % 3 != 0;
    rvit_run_args args = RVIT_RUN_ARGS_INIT;
    args.n_images = n;
    args.keep = s->masked ? keep : NULL;
    if (s->native) {
        args.input.kind = RVIT_INPUT_PATCHES;
        args.input.data = images;
        args.input.grids = grids;
    } else {
        args.input.data = images;
    }
    return rvit_session_run(s->session, &args, NULL);
}

static const float *first_of(const scene *s, int32_t image)
{
    return session_floats(s->session, RVIT_RESULT_FEATURES) + (int64_t)session_cu_seqlens(s->session, s->n_stages - 1)[image] * DIM;
}

static void learn(scene *s)
{
    for (int32_t number = 0; number < POOL; number++) {
        expect_ok(run(s, &number, 1, -1, 0, NULL));
        memcpy(s->logits[number], session_floats(s->session, RVIT_RESULT_LOGITS), sizeof s->logits[number]);
        memcpy(s->first[number], first_of(s, 0), sizeof s->first[number]);
        for (int32_t stage = 0; stage < s->n_stages; stage++) {
            s->rows[number][stage] = session_cu_seqlens(s->session, stage)[1];
            memcpy(s->kept[number][stage], session_kept(s->session, stage, 0), (size_t)s->rows[number][stage] * sizeof(int32_t));
        }
    }
}

static void expect_good(const scene *s, int32_t image, int32_t number)
{
    expect_ok(rvit_session_image_status(s->session, image));
    if (memcmp(session_floats(s->session, RVIT_RESULT_LOGITS) + (int64_t)image * CLASSES, s->logits[number], sizeof s->logits[number]) != 0)
        fail_msg("image %d has other logits in %s", (int)image, s->name);
    assert_memory_equal(session_floats(s->session, RVIT_RESULT_LOGITS) + (int64_t)image * CLASSES, s->logits[number],
                        sizeof s->logits[number]);
    assert_memory_equal(first_of(s, image), s->first[number], sizeof s->first[number]);
    for (int32_t stage = 0; stage < s->n_stages; stage++) {
        const int32_t *cu = session_cu_seqlens(s->session, stage);
        assert_int_equal(cu[image + 1] - cu[image], s->rows[number][stage]);
        assert_memory_equal(session_kept(s->session, stage, image), s->kept[number][stage],
                            (size_t)s->rows[number][stage] * sizeof(int32_t));
    }
}

static void one_batch(const scene *s, uint32_t *random, long *out_failed)
{
    int32_t numbers[CAPACITY];
    const int32_t n = 2 + (int32_t)(next_random(random) % (CAPACITY - 1)), bad = (int32_t)(next_random(random) % (uint32_t)n);
    for (int32_t i = 0; i < n; i++)
        numbers[i] = (int32_t)(next_random(random) % POOL);
    const int kind = (int)(next_random(random) % 10);
    const rvit_status status = run(s, numbers, n, bad, kind, random);
    if (status != RVIT_OK && status != RVIT_INVALID_ARGUMENT && status != RVIT_NOT_FINITE)
        expect_ok(status);
    assert_int_equal(rvit_session_image_status(s->session, bad), status);
    assert_true(status != RVIT_OK || (kind > 2 && kind != 7));
    for (int c = 0; c < CLASSES && status == RVIT_OK; c++)
        assert_true(isfinite(session_floats(s->session, RVIT_RESULT_LOGITS)[bad * CLASSES + c]));
    for (int32_t i = 0; i < n; i++)
        if (i != bad)
            expect_good(s, i, numbers[i]);
    *out_failed += status != RVIT_OK;
}

static rvit_status open_scene(scene *s, rvit_model *model, const toy *m, int kind, int policy, int native)
{
    rvit_session_desc desc = policy_desc(policy, CAPACITY);
    desc.outputs = RVIT_OUTPUT_FEATURES;
    desc.variable_resolution = native;
    desc.input = native ? RVIT_INPUT_PATCHES : RVIT_INPUT_TENSOR;
    if (native && policy == RVIT_PRUNE_ATS)
        prune_in(&desc)->n_samples = 7;
    if (native && policy == RVIT_PRUNE_HIPRUNE)
        prune_in(&desc)->alpha = 0;
    if (policy == RVIT_PRUNE_PIXELPRUNE)
        prune_in(&desc)->keep = -1;
    *s = (scene){.m = m, .native = native, .masked = policy == RVIT_PRUNE_MASK};
    const rvit_status status = rvit_session_create(model, &desc, &s->session);
    if (status != RVIT_OK)
        return status;
    s->n_stages = session_n_stages(s->session);
    snprintf(s->name, sizeof s->name, "policy %d, model %d, type %d%s", policy, kind % N_SPECS, kind / N_SPECS, native ? ", native" : "");
    s->images = toy_images(m, POOL, 9);
    return RVIT_OK;
}

static void good_images_keep_their_bits(void **state)
{
    (void)state;
    static scene s;
    uint32_t random = 1;
    long n = 0, n_failed = 0, n_sessions = 0;
    const long rounds = n_batches < 150 ? 1 : n_batches / 150 < 20 ? n_batches / 150 : 20; /* there are about 150 kinds of sessions */
    for (int pass = 0; n < n_batches; pass++)
        for (int k = 0; k < N_SPECS * N_TYPES && n < n_batches; k++) {
            const toy *m = toy_new(&specs[k % N_SPECS]);
            rvit_checkpoint *checkpoint = NULL;
            rvit_model *model = NULL;
            rvit_model_desc desc = RVIT_MODEL_DESC_INIT;
            desc.dtype = types[k / N_SPECS].dtype;
            desc.quantization = types[k / N_SPECS].quantization;
            expect_ok(rvit_checkpoint_open(toy_write(m, "neighbours.safetensors"), NULL, &checkpoint));
            const rvit_status status = rvit_model_create(H.device[DEVICE], checkpoint, &desc, &model);
            rvit_checkpoint_destroy(checkpoint);
            assert_true(status == RVIT_OK || status == RVIT_UNSUPPORTED);
            for (int c = 0; c <= 2 * RVIT_PRUNE_PIXELPRUNE + 1 && status == RVIT_OK && n < n_batches; c++) {
                if (open_scene(&s, model, m, k, c / 2, c % 2) != RVIT_OK)
                    continue;
                learn(&s);
                for (int i = 0; i < rounds && n < n_batches; i++, n++)
                    one_batch(&s, &random, &n_failed);
                rvit_session_destroy(s.session);
                n_sessions += pass == 0;
            }
            rvit_model_destroy(model);
            harness_teardown(NULL);
        }
    printf("%ld batches of %ld kinds of sessions; the bad image failed in %ld\n", n, n_sessions, n_failed);
}

SUITE(neighbours_suite, TEST(good_images_keep_their_bits));

int main(int argc, char **argv)
{
    n_batches = atol(harness_first_option(&argc, &argv, "--batches", "10000"));
    static const suite *const suites[] = {&neighbours_suite};
    return harness_main(argc, argv, 0, suites, 1);
}

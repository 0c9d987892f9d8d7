/* Tests batches of images with different grids: pruned results against float64, and that images do not affect each other. */
#include "dumps.h"
#include "tools/cli/session_results.h"

static const char pruned_dump[] = "naflex_siglip2";
static const char *const dumps[] = {pruned_dump,         "naflex_timm_gap", "native_timm_distilled",
                                    "native_timm_eva02", "native_hf_clip",  "native_hf_dinov3"};
enum { N_DUMPS = sizeof dumps / sizeof *dumps };

typedef struct subject {
    json_t *dump;
    rvit_model *model;
    rvit_model_info info;
} subject;

static subject open_subject(const char *name)
{
    subject s = {.dump = dump_load(dump_file, name), .info = RVIT_MODEL_INFO_INIT};
    rvit_checkpoint *checkpoint = dump_open(s.dump, NULL);
    expect_ok(rvit_model_create(H.device[DEVICE], checkpoint, NULL, &s.model));
    expect_ok(rvit_model_get_info(s.model, &s.info));
    rvit_checkpoint_destroy(checkpoint);
    return s;
}

static void close_subject(subject *s)
{
    rvit_model_destroy(s->model);
    json_decref(s->dump);
}

/* Checks the number of tokens of each image after the last stage. */
static void expect_left(const json_t *left, const rvit_session *session)
{
    const int32_t *cu = session_cu_seqlens(session, session_n_stages(session) - 1);
    size_t i;
    json_t *n;
    json_array_foreach((json_t *)left, i, n) assert_int_equal(cu[i + 1] - cu[i], json_integer_value(n));
}

/* Compares l2, received attention, ToMe and PixelPrune with float64 on a ragged batch. */
static void pruned(void **state)
{
    (void)state;
    subject s = open_subject(pruned_dump);
    size_t index;
    json_t *prune;
    int n = 0;
    json_array_foreach(json_object_get(s.dump, "pruned"), index, prune)
    {
        rvit_session_desc desc = dump_session_desc(s.dump, &s.info);
        *prune_in(&desc) = dump_prune(prune);
        rvit_session *session = NULL;
        expect_ok(rvit_session_create(s.model, &desc, &session));
        float *patches = dump_patches(s.dump, &s.info);
        dump_repeat(prune, s.dump, &s.info, patches);
        dump_run_patches(s.dump, &s.info, session, patches);
        expect_left(json_object_get(prune, "left"), session);
        const double most = 1e-5 * dump_largest(s.dump);
        const double difference =
            dump_difference(json_object_get(prune, "outputs"), session_floats(session, RVIT_RESULT_LOGITS), s.info.n_classes, NULL);
        const double unpruned =
            dump_difference(json_object_get(s.dump, "outputs"), session_floats(session, RVIT_RESULT_LOGITS), s.info.n_classes, NULL);
        printf("%-10s %.2e of %.2e, difference from unpruned %.2e\n", dump_text(prune, "policy"), difference, most, unpruned);
        assert_true(difference <= most && unpruned > 1000 * most);
        rvit_session_destroy(session);
        n++;
    }
    assert_int_equal(n, 5);
    close_subject(&s);
}

/* Consecutive images of a batch. */
typedef struct image_range {
    int32_t n_images, grids[2 * 16];
    int64_t n_values;
    const float *patches;
} image_range;

static image_range range_of(const subject *s, int32_t n_images, const int32_t *grids, const float *patches)
{
    image_range b = {.n_images = n_images, .patches = patches};
    memcpy(b.grids, grids, 2 * (size_t)n_images * sizeof *grids);
    for (int32_t i = 0; i < n_images; i++)
        b.n_values += (int64_t)grids[2 * i] * grids[2 * i + 1] * s->info.channels * s->info.patch_size * s->info.patch_size;
    return b;
}

/* The results of a run, in scratch memory. */
typedef struct answer {
    const int32_t *lengths[3]; /* cu_seqlens before the first stage, after the first, and after the last */
    const float *features, *logits;
    const int32_t *kept; /* by the last stage; NULL without stages */
} answer;

static const void *keep_copy(const void *data, int64_t size)
{
    return data == NULL || size == 0 ? NULL : memcpy(scratch((size_t)size), data, (size_t)size);
}

static answer run(const subject *s, rvit_session *session, const image_range *b)
{
    rvit_run_args args = RVIT_RUN_ARGS_INIT;
    args.n_images = b->n_images;
    args.input.kind = RVIT_INPUT_PATCHES;
    args.input.grids = b->grids;
    args.input.data = b->patches;
    expect_ok(rvit_session_run(session, &args, NULL));
    const int32_t last = session_n_stages(session) - 1, stages[3] = {-1, last < 0 ? -1 : 0, last};
    answer a = {.features = NULL};
    for (int i = 0; i < 3; i++)
        a.lengths[i] = keep_copy(session_cu_seqlens(session, stages[i]), 4 * ((int64_t)b->n_images + 1));
    const int64_t rows = a.lengths[2][b->n_images];
    a.features = keep_copy(session_floats(session, RVIT_RESULT_FEATURES), rows * s->info.dim * 4);
    a.logits = keep_copy(session_floats(session, RVIT_RESULT_LOGITS), (int64_t)b->n_images * s->info.n_classes * 4);
    a.kept = keep_copy(session_kept(session, last, 0), rows * 4);
    return a;
}

/* Image i of `all` has the same results as the only image of `one`. */
static void expect_same_image(const subject *s, const answer *all, int32_t i, const answer *one)
{
    for (int stage = 0; stage < 3; stage++)
        assert_int_equal(all->lengths[stage][i + 1] - all->lengths[stage][i], one->lengths[stage][1]);
    const int64_t begin = all->lengths[2][i], rows = one->lengths[2][1];
    assert_memory_equal(all->features + begin * s->info.dim, one->features, (size_t)(rows * s->info.dim) * sizeof(float));
    assert_true((all->kept == NULL) == (one->kept == NULL));
    if (all->kept != NULL)
        assert_memory_equal(all->kept + begin, one->kept, (size_t)rows * sizeof *one->kept);
    if (s->info.n_classes > 0)
        assert_memory_equal(all->logits + (int64_t)i * s->info.n_classes, one->logits, (size_t)s->info.n_classes * sizeof(float));
}

static rvit_session *session_of(const subject *s, rvit_prune_type type, int32_t *out_n_stages)
{
    rvit_session_desc desc = dump_session_desc(s->dump, &s->info);
    desc.outputs = RVIT_OUTPUT_FEATURES;
    prune_in(&desc)->type = type;
    if (type != RVIT_PRUNE_NONE && type != RVIT_PRUNE_PIXELPRUNE) {
        prune_in(&desc)->n_blocks = 1;
        prune_in(&desc)->blocks[0] = type == RVIT_PRUNE_MAP_PROBE ? 1 : 0;
    }
    if (type == RVIT_PRUNE_L2_THRESHOLD)
        prune_in(&desc)->threshold = 10;
    if (type == RVIT_PRUNE_ATS)
        prune_in(&desc)->n_samples = 7;
    if (type == RVIT_PRUNE_TOME) {
        prune_in(&desc)->merges = 3;
        prune_in(&desc)->n_blocks = 2;
        prune_in(&desc)->blocks[1] = 1;
    }
    rvit_session *session = NULL;
    const rvit_status status = rvit_session_create(s->model, &desc, &session);
    if (status == RVIT_UNSUPPORTED) /* the model lacks an input of the policy's scores */
        return NULL;
    expect_ok(status);
    *out_n_stages = session_n_stages(session);
    return session;
}

/* The results of an image have the same bits in any batch, and each image keeps the right number of tokens. */
static void independent_images(void **state)
{
    (void)state;
    int n_pruned = 0;
    for (int d = 0; d < N_DUMPS; d++) {
        subject s = open_subject(dumps[d]);
        const float *patches = dump_patches(s.dump, &s.info);
        const int32_t *grids = dump_grids(s.dump), n_images = (int32_t)dump_integer(s.dump, "n_images");
        const image_range all = range_of(&s, n_images, grids, patches);
        rvit_prune_info policy = RVIT_PRUNE_INFO_INIT;
        for (int32_t p = 0; rvit_prune_list(p, &policy) == RVIT_OK; p++) {
            int32_t n_stages;
            rvit_session *session = policy.type == RVIT_PRUNE_MASK ? NULL : session_of(&s, policy.type, &n_stages);
            if (session == NULL)
                continue;
            const answer mixed = run(&s, session, &all);
            const float *at = patches;
            for (int32_t i = 0; i < n_images; i++) {
                const image_range one = range_of(&s, 1, grids + 2 * i, at);
                const answer single = run(&s, session, &one);
                expect_same_image(&s, &mixed, i, &single);
                at += one.n_values;
                if (policy.type != RVIT_PRUNE_L2 && policy.type != RVIT_PRUNE_RECEIVED)
                    continue;
                /* trunc(keep * n), at least one, of the tokens that can be pruned */
                const int32_t tokens = s.info.n_prefix + grids[2 * i] * grids[2 * i + 1];
                const int32_t exempt = policy.type == RVIT_PRUNE_L2 ? 0 : s.info.n_prefix, share = (tokens - exempt) / 2;
                const int32_t left = single.lengths[2][1];
                assert_true(policy.type == RVIT_PRUNE_L2 ? left >= share && left <= share + s.info.n_prefix + 1
                                                         : left == exempt + (share < 1 ? 1 : share));
            }
            n_pruned += n_stages > 0;
            rvit_session_destroy(session);
        }
        close_subject(&s);
    }
    printf("%d sessions that prune\n", n_pruned);
    assert_true(n_pruned > 30);
}

static uint32_t next(uint32_t *random)
{
    *random = *random * 1664525u + 1013904223u;
    return *random >> 8;
}

/* Replays one recording with random grids within the capacities, and compares with a new session of exactly the needed capacities. On CUDA
   the capacities choose the GEMMs, so the new session has the same capacities. */
static void replays(void **state)
{
    (void)state;
    enum { MAX_IMAGES = 6, MAX_TOKENS = 90, MAX_LEN = 40, RUNS = 170 };
    uint32_t random = 1;
    for (int d = 0; d < N_DUMPS; d++) {
        subject s = open_subject(dumps[d]);
        const int64_t width = (int64_t)s.info.channels * s.info.patch_size * s.info.patch_size;
        float *patches = scratch((size_t)(MAX_TOKENS * width) * sizeof *patches);
        rvit_session_desc desc = RVIT_SESSION_DESC_INIT;
        desc.outputs = RVIT_OUTPUT_FEATURES;
        desc.variable_resolution = 1;
        desc.input = RVIT_INPUT_PATCHES;
        desc.max_images = MAX_IMAGES;
        desc.max_tokens = MAX_TOKENS;
        desc.max_len = MAX_LEN;
        prune_in(&desc)->type = RVIT_PRUNE_RECEIVED;
        prune_in(&desc)->n_blocks = 1;
        rvit_session *session = NULL, *own = NULL;
        expect_ok(rvit_session_create(s.model, &desc, &session));
        for (int r = 0; r < (H.is_slow ? 3 : H.desc.backend == RVIT_BACKEND_CUDA ? RUNS / 10 : RUNS); r++) {
            int32_t grids[2 * MAX_IMAGES], n_images = 0, tokens = 0, longest = 0;
            for (const int32_t most = 1 + (int32_t)(next(&random) % MAX_IMAGES); n_images < most; n_images++) {
                const int32_t h = 1 + (int32_t)(next(&random) % 7), w = 1 + (int32_t)(next(&random) % 5);
                const int32_t len = s.info.n_prefix + h * w;
                if (tokens + len > MAX_TOKENS)
                    break;
                grids[2 * n_images] = h;
                grids[2 * n_images + 1] = w;
                tokens += len;
                longest = len > longest ? len : longest;
            }
            const image_range b = range_of(&s, n_images, grids, patches);
            for (int64_t i = 0; i < b.n_values; i++)
                patches[i] = (float)(int32_t)(next(&random) % 2049 - 1024) / 512;
            rvit_session_desc tight = desc;
            if (H.desc.backend != RVIT_BACKEND_CUDA) {
                tight.max_images = n_images;
                tight.max_tokens = tokens;
                tight.max_len = longest;
            }
            expect_ok(rvit_session_create(s.model, &tight, &own));
            const answer again = run(&s, session, &b), first = run(&s, own, &b);
            assert_memory_equal(again.lengths[2], first.lengths[2], ((size_t)n_images + 1) * sizeof(int32_t));
            assert_memory_equal(again.features, first.features, (size_t)(first.lengths[2][n_images] * s.info.dim) * sizeof(float));
            assert_memory_equal(again.kept, first.kept, (size_t)first.lengths[2][n_images] * sizeof(int32_t));
            if (s.info.n_classes > 0)
                assert_memory_equal(again.logits, first.logits, (size_t)(n_images * s.info.n_classes) * sizeof(float));
            rvit_session_destroy(own);
        }
        rvit_session_destroy(session);
        close_subject(&s);
    }
}

/* A keep mask for images of different lengths, and feature grids. */
static void masks_and_grids(void **state)
{
    (void)state;
    subject s = open_subject("native_timm_distilled");
    const int32_t *grids = dump_grids(s.dump), n_images = (int32_t)dump_integer(s.dump, "n_images"), dim = s.info.dim;
    rvit_session_desc desc = dump_session_desc(s.dump, &s.info);
    desc.outputs = RVIT_OUTPUT_FEATURES;
    prune_in(&desc)->type = RVIT_PRUNE_MASK;
    prune_in(&desc)->n_blocks = 2;
    prune_in(&desc)->blocks[1] = 1;
    uint8_t *keep = scratch(2 * (size_t)desc.max_tokens), *mask = scratch((size_t)desc.max_len);
    float *grid = scratch((size_t)(desc.max_len * dim) * sizeof *grid);
    memset(keep, 1, 2 * (size_t)desc.max_tokens);
    int32_t begin = 0;
    for (int32_t i = 0; i < n_images; i++) { /* the first stage drops the last patch of each image, the second the first */
        const int32_t tokens = s.info.n_prefix + grids[2 * i] * grids[2 * i + 1];
        keep[begin + tokens - 1] = keep[desc.max_tokens + begin + s.info.n_prefix] = 0;
        begin += tokens;
    }
    rvit_session *session = NULL;
    expect_ok(rvit_session_create(s.model, &desc, &session));
    rvit_run_args args = RVIT_RUN_ARGS_INIT;
    args.n_images = n_images;
    args.input.kind = RVIT_INPUT_PATCHES;
    args.input.grids = grids;
    args.input.data = dump_patches(s.dump, &s.info);
    args.keep = keep;
    expect_ok(rvit_session_run(session, &args, NULL));
    const int32_t *cu = session_cu_seqlens(session, 1);
    for (int32_t i = 0; i < n_images; i++) {
        const int32_t patches = grids[2 * i] * grids[2 * i + 1], tokens = s.info.n_prefix + patches;
        assert_int_equal(cu[i + 1] - cu[i], tokens - 2);
        expect_ok(rvit_session_keep_mask(session, 1, i, mask));
        for (int32_t t = 0; t < tokens; t++)
            assert_int_equal(mask[t], t != tokens - 1 && t != s.info.n_prefix);
        expect_ok(rvit_session_feature_grid(session, i, -7, grid));
        assert_true(grid[0] == -7 && grid[(patches - 1) * dim] == -7);
        assert_memory_equal(grid + dim, session_floats(session, RVIT_RESULT_FEATURES) + (cu[i] + s.info.n_prefix) * dim,
                            (size_t)((patches - 2) * dim) * sizeof *grid);
    }
    keep[0] = 0;
    expect_status(rvit_session_enqueue(session, &args), RVIT_INVALID_ARGUMENT, "keep of stage 0 drops prefix token 0 of image 0");
    rvit_session_destroy(session);
    close_subject(&s);
}

/* The size rule of NaFlex, with values from transformers. */
static void size_rule(void **state)
{
    (void)state;
    static const struct {
        int32_t height, width, patch_size, max_patches, grid[2];
    } cases[] = {{480, 640, 16, 256, {14, 18}}, {1080, 1920, 16, 256, {12, 21}}, {500, 333, 16, 256, {19, 13}},
                 {1000, 30, 16, 256, {85, 3}},  {1, 1, 16, 256, {7, 7}},         {480, 640, 16, 1024, {27, 36}},
                 {8000, 6000, 14, 1, {1, 1}}};
    rvit_image_recipe recipe = RVIT_IMAGE_RECIPE_INIT;
    int32_t grid[2];
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        recipe.patch_size = cases[i].patch_size;
        recipe.max_patches = cases[i].max_patches;
        expect_ok(rvit_image_recipe_grid(&recipe, cases[i].height, cases[i].width, grid));
        assert_memory_equal(grid, cases[i].grid, sizeof grid);
    }
    expect_status(rvit_image_recipe_grid(&recipe, 0, 5, grid), RVIT_INVALID_ARGUMENT, "the image has 0 x 5 pixels");
    expect_status(rvit_image_recipe_grid(&recipe, 5, (1 << 20) + 1, grid), RVIT_INVALID_ARGUMENT, "the image has 5 x 1048577 pixels");
    expect_status(rvit_image_recipe_grid(&recipe, 5, 5, NULL), RVIT_INVALID_ARGUMENT, "out_grid is NULL");
    recipe.patch_size = 0;
    expect_status(rvit_image_recipe_grid(&recipe, 5, 5, grid), RVIT_INVALID_ARGUMENT, "patch_size is 0");
    recipe.max_patches = 0;
    expect_status(rvit_image_recipe_grid(&recipe, 5, 5, grid), RVIT_UNSUPPORTED, "merge and max_patches are 0");
}

/* The message of a refused run names the image, and the session remains usable. */
static void refused_runs(void **state)
{
    (void)state;
    subject s = open_subject(pruned_dump);
    rvit_session_desc desc = RVIT_SESSION_DESC_INIT;
    desc.variable_resolution = 1;
    desc.input = RVIT_INPUT_PATCHES;
    desc.max_images = 3;
    desc.max_tokens = 60;
    desc.max_len = 30;
    rvit_session *session = NULL;
    expect_ok(rvit_session_create(s.model, &desc, &session));
    static const struct {
        int32_t n_images, grids[6];
        const char *word;
    } cases[] = {
        {2, {2, 3, 0, 4}, "image 1 has 0 x 4 patches, expected 1 to 32767 a side"},
        {1, {4, -1}, "image 0 has 4 x -1 patches"},
        {1, {1, 32768}, "image 0 has 1 x 32768 patches"},
        {3, {2, 3, 3, 3, 4, 8}, "image 2 has 4 x 8 patches and so 32 tokens, the session's max_len is 30"},
        {1, {32767, 32767}, "and so 1073676289 tokens"},
        {3, {5, 6, 5, 5, 2, 3}, "with image 2, of 2 x 3 patches, the batch has 61 tokens, the session's max_tokens is 60"},
        {4, {1, 1, 1, 1, 1, 1}, "n_images is 4, the session's capacity is 3"},
    };
    const float *patches = dump_patches(s.dump, &s.info), *image = scratch(4);
    rvit_run_args args = RVIT_RUN_ARGS_INIT;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        args.n_images = cases[i].n_images;
        args.input.kind = RVIT_INPUT_PATCHES;
        args.input.grids = cases[i].grids;
        args.input.data = patches;
        expect_status(rvit_session_enqueue(session, &args), RVIT_INVALID_ARGUMENT, cases[i].word);
    }
    args.n_images = 1;
    args.input = (rvit_input){.data = image};
    expect_status(rvit_session_enqueue(session, &args), RVIT_INVALID_ARGUMENT, "input.kind is TENSOR, the session's input is PATCHES");
    args.input = (rvit_input){.kind = RVIT_INPUT_PATCHES};
    expect_status(rvit_session_enqueue(session, &args), RVIT_INVALID_ARGUMENT, "input.grids is NULL");
    args.input.grids = (const int32_t[]){5, 6};
    expect_ok(rvit_session_run(session, &args, NULL));
    args.n_images = 0;
    args.input.grids = NULL;
    expect_ok(rvit_session_run(session, &args, NULL));
    assert_int_equal(session_cu_seqlens(session, -1)[0], 0);
    rvit_session_destroy(session);
    close_subject(&s);
}

static void refused_sessions(void **state)
{
    (void)state;
    static const struct {
        int32_t variable_resolution, max_tokens, max_len, fixed_batch, dense_fallback, n_blocks;
        rvit_prune_type prune;
        rvit_status status;
        const char *word;
    } cases[] = {
        {2, 0, 0, 0, 0, 0, RVIT_PRUNE_NONE, RVIT_INVALID_ARGUMENT, "variable_resolution is 2, expected 0 or 1"},
        {0, 9, 0, 0, 0, 0, RVIT_PRUNE_NONE, RVIT_INVALID_ARGUMENT, "max_tokens is given, but variable_resolution is 0"},
        {0, 0, 9, 0, 0, 0, RVIT_PRUNE_NONE, RVIT_INVALID_ARGUMENT, "max_len is given, but variable_resolution is 0"},
        {1, 20, 2, 0, 0, 0, RVIT_PRUNE_NONE, RVIT_INVALID_ARGUMENT, "max_len is 2, an image has 3 tokens or more"},
        {1, 20, -1, 0, 0, 0, RVIT_PRUNE_NONE, RVIT_INVALID_ARGUMENT, "max_len is -1"},
        {1, 20, 21, 0, 0, 0, RVIT_PRUNE_NONE, RVIT_INVALID_ARGUMENT, "max_tokens is 20, expected max_len (21) or more"},
        {1, INT32_MAX, 21, 0, 0, 0, RVIT_PRUNE_NONE, RVIT_INVALID_ARGUMENT, "max_tokens is 2147483647"},
        {1, 0, 0, 1, 0, 0, RVIT_PRUNE_NONE, RVIT_INVALID_ARGUMENT, "fixed_batch is 1, but with variable_resolution"},
        {1, 0, 0, 0, 1, 0, RVIT_PRUNE_NONE, RVIT_INVALID_ARGUMENT, "dense_fallback is 1, but with variable_resolution"},
        {1, 0, 0, 0, 0, 1, RVIT_PRUNE_ATS, RVIT_UNSUPPORTED, "set prune desc's n_samples"},
        {1, 0, 0, 0, 0, 1, RVIT_PRUNE_HIPRUNE, RVIT_UNSUPPORTED, "hiprune needs the same patch grid"},
        {1, 0, 0, 0, 0, 2, RVIT_PRUNE_DYNAMICVIT, RVIT_UNSUPPORTED, "set one block"},
    };
    subject s = open_subject("native_timm_distilled");
    rvit_session *session = NULL;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        rvit_session_desc desc = RVIT_SESSION_DESC_INIT;
        desc.variable_resolution = cases[i].variable_resolution;
        desc.input = cases[i].variable_resolution ? RVIT_INPUT_PATCHES : RVIT_INPUT_TENSOR;
        desc.max_tokens = cases[i].max_tokens;
        desc.max_len = cases[i].max_len;
        desc.fixed_batch = cases[i].fixed_batch;
        desc.dense_fallback = cases[i].dense_fallback;
        prune_in(&desc)->type = cases[i].prune;
        prune_in(&desc)->n_blocks = cases[i].n_blocks;
        prune_in(&desc)->blocks[1] = 1;
        expect_status(rvit_session_create(s.model, &desc, &session), cases[i].status, cases[i].word);
    }
    /* A position table that was resampled when the checkpoint was opened. */
    rvit_checkpoint *checkpoint = NULL;
    rvit_model *model = NULL;
    rvit_checkpoint_desc other = RVIT_CHECKPOINT_DESC_INIT;
    other.image_size = 48;
    expect_ok(rvit_checkpoint_open(dump_checkpoint(s.dump), &other, &checkpoint));
    expect_ok(rvit_model_create(H.device[DEVICE], checkpoint, NULL, &model));
    rvit_session_desc desc = RVIT_SESSION_DESC_INIT;
    desc.variable_resolution = 1;
    desc.input = RVIT_INPUT_PATCHES;
    expect_status(rvit_session_create(model, &desc, &session), RVIT_UNSUPPORTED, "(3 x 3 patches, not 4 x 4)");
    rvit_model_destroy(model);
    rvit_checkpoint_destroy(checkpoint);
    /* Grids, but the session has a fixed image size. */
    desc.variable_resolution = 0;
    desc.input = RVIT_INPUT_TENSOR;
    expect_ok(rvit_session_create(s.model, &desc, &session));
    rvit_run_args args = RVIT_RUN_ARGS_INIT;
    args.input.grids = dump_grids(s.dump);
    expect_status(rvit_session_enqueue(session, &args), RVIT_INVALID_ARGUMENT, "input.grids is given, but the session's input is TENSOR");
    rvit_session_destroy(session);
    close_subject(&s);
}

/* Each way to provide patches gives the same bits. */
static void expect_same_bits_from_all_inputs(rvit_prune_type type)
{
    subject s = open_subject("native_timm_distilled");
    rvit_session_desc plain = dump_session_desc(s.dump, &s.info);
    json_t *tiles = json_pack("{s:[i, i], s:f}", "tile", 2, 2, "step", 0.0);
    prune_in(&plain)->type = type;
    const int64_t row = (int64_t)s.info.channels * s.info.patch_size * s.info.patch_size * 4,
                  logits_size = plain.max_images * s.info.n_classes * 4;
    const int32_t *grids = dump_grids(s.dump);
    float *logits[4];
    rvit_buffer *patches = NULL, *out = NULL;
    rvit_stream *stream = NULL;
    float *values = dump_patches(s.dump, &s.info);
    dump_repeat(tiles, s.dump, &s.info, values);
    json_decref(tiles);
    const image_range b = range_of(&s, plain.max_images, grids, values);
    expect_ok(rvit_stream_create(H.device[DEVICE], &stream));
    expect_ok(rvit_buffer_create(H.device[DEVICE], plain.max_tokens * row, RVIT_BUFFER_DEVICE, &patches));
    expect_ok(rvit_buffer_create(H.device[DEVICE], logits_size, RVIT_BUFFER_DEVICE, &out));
    expect_ok(rvit_stream_write(stream, (rvit_view){patches, 0}, b.patches, b.n_values * 4));
    expect_ok(rvit_stream_synchronize(stream));
    for (int way = 0; way < 4; way++) { /* run args; the session's input memory; a view in the session desc; a view in the run args */
        rvit_session_desc desc = plain;
        rvit_session *session = NULL;
        rvit_run_args args = RVIT_RUN_ARGS_INIT;
        desc.input_view.buffer = way == 2 ? patches : NULL;
        desc.input_memory = way == 3 ? RVIT_INPUT_RUN : way == 2 ? RVIT_INPUT_FIXED : RVIT_INPUT_HOST;
        expect_ok(rvit_session_create(s.model, &desc, &session));
        args.n_images = b.n_images;
        args.input.kind = RVIT_INPUT_PATCHES;
        args.input.grids = grids;
        logits[way] = scratch((size_t)logits_size);
        if (way == 0)
            args.input.data = b.patches;
        if (way == 1)
            memcpy(rvit_session_input_memory(session, NULL), b.patches, (size_t)b.n_values * sizeof *b.patches);
        if (way == 3) {
            args.input.view.buffer = patches;
            args.logits.buffer = out;
        }
        for (int again = 0; again < 2; again++)
            expect_ok(rvit_session_run(session, &args, way == 3 ? NULL : logits[way]));
        if (way == 3)
            expect_ok(rvit_stream_read(stream, args.logits, logits[way], logits_size));
        expect_ok(rvit_stream_synchronize(stream));
        assert_memory_equal(logits[way], logits[0], (size_t)logits_size);
        if (type != RVIT_PRUNE_NONE)
            assert_true(session_cu_seqlens(session, 0)[b.n_images] < plain.max_tokens / 2);
        if (way == 2 || way == 3) {
            args.input.data = b.patches;
            expect_status(rvit_session_enqueue(session, &args), RVIT_INVALID_ARGUMENT,
                          way == 2 ? "input.data is given, but the session's input_memory is FIXED"
                                   : "input.data is given, but the session's input_memory is RUN");
        }
        rvit_session_destroy(session);
    }
    rvit_stream_destroy(stream);
    rvit_buffer_destroy(patches);
    rvit_buffer_destroy(out);
    close_subject(&s);
}

static void input_memory(void **state)
{
    (void)state;
    expect_same_bits_from_all_inputs(RVIT_PRUNE_NONE);
    expect_same_bits_from_all_inputs(RVIT_PRUNE_PIXELPRUNE);
}

/* A batch of many small images and a large one, which uses the whole capacity. Runs allocate nothing. */
static void small_images(void **state)
{
    (void)state;
    enum { SMALL = 15 };
    static const rvit_prune_type policies[] = {RVIT_PRUNE_NONE, RVIT_PRUNE_L2,     RVIT_PRUNE_RECEIVED,
                                               RVIT_PRUNE_TOME, RVIT_PRUNE_RANDOM, RVIT_PRUNE_PIXELPRUNE};
    for (int d = 0; d < N_DUMPS; d += 2)
        for (size_t p = 0; p < sizeof policies / sizeof *policies; p++) {
            subject s = open_subject(dumps[d]);
            const int64_t width = (int64_t)s.info.channels * s.info.patch_size * s.info.patch_size;
            float *patches = scratch((size_t)((2 * SMALL + 36) * width) * sizeof *patches);
            int32_t grids[2 * (SMALL + 1)] = {[2 * SMALL] = 6, 6};
            rvit_session_desc desc = RVIT_SESSION_DESC_INIT;
            desc.variable_resolution = 1;
            desc.input = RVIT_INPUT_PATCHES;
            desc.outputs = RVIT_OUTPUT_FEATURES;
            prune_in(&desc)->type = policies[p];
            prune_in(&desc)->n_blocks = policies[p] != RVIT_PRUNE_NONE && policies[p] != RVIT_PRUNE_PIXELPRUNE;
            desc.max_images = SMALL + 1;
            desc.max_len = s.info.n_prefix + 36;
            desc.max_tokens = desc.max_len;
            for (int32_t i = 0; i < SMALL; i++) {
                grids[2 * i] = 1;
                grids[2 * i + 1] = 1 + i % 2;
                desc.max_tokens += s.info.n_prefix + grids[2 * i + 1];
            }
            rvit_session *session = NULL;
            expect_ok(rvit_session_create(s.model, &desc, &session));
            const image_range all = range_of(&s, SMALL + 1, grids, patches);
            uint32_t random = 7;
            for (int64_t i = 0; i < all.n_values; i++)
                patches[i] = (float)(int32_t)(next(&random) % 2049 - 1024) / 512;
            const answer mixed = run(&s, session, &all);
            rvit_stats before = RVIT_STATS_INIT, after = RVIT_STATS_INIT;
            expect_ok(rvit_session_get_stats(session, &before));
            const float *at = patches;
            for (int32_t i = 0; i <= SMALL; i++) {
                const image_range one = range_of(&s, 1, grids + 2 * i, at);
                const answer single = run(&s, session, &one);
                expect_same_image(&s, &mixed, i, &single);
                at += one.n_values;
            }
            expect_ok(rvit_session_get_stats(session, &after));
            assert_int_equal(after.host_allocations, before.host_allocations);
            assert_int_equal(after.device_allocations, before.device_allocations);
            /* One dispatch and one wait per run. */
            assert_int_equal(after.submits - before.submits, SMALL + 1);
            assert_int_equal(after.synchronizations - before.synchronizations, SMALL + 1);
            rvit_session_destroy(session);
            close_subject(&s);
        }
}

static int64_t round_up_256(int64_t size)
{
    return (size + 255) / 256 * 256;
}

/* Checks rvit_session_memory for DINOv3 with l2 after the first block. */
static void memory(void **state)
{
    (void)state;
    subject s = open_subject("native_hf_dinov3");
    rvit_session_desc desc = RVIT_SESSION_DESC_INIT;
    rvit_memory_info info = RVIT_MEMORY_INFO_INIT;
    desc.variable_resolution = 1;
    desc.input = RVIT_INPUT_PATCHES;
    desc.max_images = 7;
    desc.max_tokens = 200;
    desc.max_len = 50;
    prune_in(&desc)->type = RVIT_PRUNE_L2;
    prune_in(&desc)->n_blocks = 1;
    expect_ok(rvit_session_memory(s.model, &desc, &info));
    const int64_t d = s.info.dim, b = desc.max_images, bt = desc.max_tokens, pixels = 3 * s.info.patch_size * s.info.patch_size;
    /* l2 keeps half of the tokens and the prefix: at most n / 2 + 1 + n_prefix of n tokens. */
    const int64_t stage = round_up_256(4 * bt) + round_up_256(4 * bt), results = round_up_256(bt) + round_up_256(4 * (b + 1));
    const int64_t tables = round_up_256(4 * 51) + round_up_256(2 * s.info.head_dim), wide = pixels > 3 * d ? pixels : 3 * d;
    const int64_t device = 2 * round_up_256(4 * bt * d) + round_up_256(4 * bt * d) + round_up_256(4 * bt * wide) +
                           2 * round_up_256(4 * (b + 1)) + round_up_256(16 * bt) + round_up_256(4 * bt * s.info.head_dim) + stage +
                           results + tables;
    const int64_t upload = 2 * round_up_256(4) + round_up_256(8 * b) + round_up_256(4 * bt * pixels) + tables;
    /* The positions of the kept rows are the only array that depends on their number. */
    const int64_t positions = info.device_size - device, least = round_up_256(4 * (desc.max_tokens / 2)), most = round_up_256(4 * bt);
    assert_int_equal(info.upload_size, upload);
    if (positions < least || positions > most)
        fail_msg("the positions of the kept rows take %lld bytes, expected %lld to %lld", (long long)positions, (long long)least,
                 (long long)most);
    close_subject(&s);
}

/* An update reaches a session with variable resolution, but is refused if it resamples the position table in another way. */
static void updates(void **state)
{
    (void)state;
    subject s = open_subject("native_hf_vit");
    rvit_session_desc desc = dump_session_desc(s.dump, &s.info);
    rvit_checkpoint *checkpoint = NULL;
    rvit_checkpoint_desc other = RVIT_CHECKPOINT_DESC_INIT;
    rvit_session *session = NULL;
    other.resample = RVIT_RESAMPLE_TIMM;
    expect_ok(rvit_checkpoint_open(dump_checkpoint(s.dump), &other, &checkpoint));
    expect_ok(rvit_session_create(s.model, &desc, &session));
    expect_status(rvit_model_update(s.model, checkpoint), RVIT_INVALID_ARGUMENT, "position table or its resampling");
    dump_run_all(s.dump, &s.info, session);
    assert_true(dump_difference(json_object_get(s.dump, "outputs"), session_floats(session, RVIT_RESULT_LOGITS), s.info.n_classes, NULL) <
                1e-4);
    rvit_session_destroy(session);
    /* Without sessions, the same update is allowed; a new session uses it. */
    expect_ok(rvit_model_update(s.model, checkpoint));
    expect_ok(rvit_session_create(s.model, &desc, &session));
    dump_run_all(s.dump, &s.info, session);
    assert_true(dump_difference(json_object_get(s.dump, "outputs"), session_floats(session, RVIT_RESULT_LOGITS), s.info.n_classes, NULL) >
                1e-3);
    rvit_session_destroy(session);
    rvit_checkpoint_destroy(checkpoint);
    close_subject(&s);
}

SUITE(dump_variable_resolution_suite, TEST(pruned), TEST(independent_images), TEST(input_memory), TEST(small_images), TEST(memory),
      TEST(updates), TEST(replays), TEST(masks_and_grids), TEST(size_rule), TEST(refused_runs), TEST(refused_sessions));

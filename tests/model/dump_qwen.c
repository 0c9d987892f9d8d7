/* Compares every result of the vision encoders of Qwen2.5-VL and Qwen3-VL with transformers in float64, checks that wrong settings change
   the results, and checks refusals. dump_qwen_batches.c tests that images do not affect each other. */
#include "dump_qwen.h"

#include <math.h>
#include <unistd.h>
#include "tools/cli/session_results.h"

const char *const qwen_dumps[N_QWEN_DUMPS] = {"qwen2_5_vl", "qwen2_5_vl_bare", "qwen2_5_vl_heads_80",
                                              "qwen3_vl",   "qwen3_vl_bare",   "qwen3_vl_heads_72"};

qwen_encoder qwen_open(const char *name)
{
    qwen_encoder t = {.dump = dump_load(dump_file, name), .info = RVIT_MODEL_INFO_INIT};
    rvit_checkpoint *checkpoint = dump_open(t.dump, NULL);
    expect_ok(rvit_model_create(H.device[DEVICE], checkpoint, NULL, &t.model));
    expect_ok(rvit_model_get_info(t.model, &t.info));
    rvit_checkpoint_destroy(checkpoint);
    return t;
}

void qwen_close(qwen_encoder *t)
{
    rvit_model_destroy(t->model);
    json_decref(t->dump);
}

static double largest_of(const json_t *rows)
{
    double largest = 1;
    size_t row, column;
    json_t *values, *value;
    json_array_foreach((json_t *)rows, row, values) json_array_foreach(values, column, value) largest =
        fmax(largest, fabs(json_number_value(value)));
    return largest;
}

static void expect_rows(const qwen_encoder *t, const char *what, const json_t *wanted, const float *got, int32_t width, const int32_t *from)
{
    assert_non_null(got);
    assert_true(json_array_size(wanted) > 0);
    const double difference = dump_difference(wanted, got, width, from), most = 1e-5 * largest_of(wanted);
    printf("%-20s %-12s %.2e of %.2e\n", dump_text(t->dump, "name"), what, difference, most);
    if (!(difference <= most))
        fail_msg("%s: %s differ by %g", dump_text(t->dump, "name"), what, difference);
}

/* Merged rows, deepstack rows and the rows of the last block, in one session. */
static void outputs(void **state)
{
    (void)state;
    for (int d = 0; d < N_QWEN_DUMPS; d++) {
        qwen_encoder t = qwen_open(qwen_dumps[d]);
        const json_t *deepstack = json_object_get(t.dump, "deepstack"), *rows = json_object_get(t.dump, "rows");
        assert_int_equal(t.info.merge, 2);
        assert_int_equal(t.info.patch_frames, 2);
        assert_int_equal(t.info.n_deepstack, json_array_size(deepstack));
        rvit_session_desc desc = dump_session_desc(t.dump, &t.info);
        desc.outputs = RVIT_OUTPUT_MERGED | RVIT_OUTPUT_FEATURES | RVIT_OUTPUT_BLOCK_FEATURES;
        desc.outputs |= t.info.n_deepstack > 0 ? RVIT_OUTPUT_DEEPSTACK : 0;
        rvit_session *session = NULL;
        expect_ok(rvit_session_create(t.model, &desc, &session));
        assert_null(session_floats(session, RVIT_RESULT_MERGED));
        dump_run_all(t.dump, &t.info, session);
        expect_rows(&t, "merged", json_object_get(t.dump, "outputs"), session_floats(session, RVIT_RESULT_MERGED), t.info.merged_dim, NULL);
        for (int32_t k = 0; k < t.info.n_deepstack; k++)
            expect_rows(&t, "deepstack", json_array_get(deepstack, (size_t)k), session_result(session, RVIT_RESULT_DEEPSTACK, k).data,
                        t.info.merged_dim, NULL);
        assert_null(session_result(session, RVIT_RESULT_DEEPSTACK, -1).data);
        assert_null(session_result(session, RVIT_RESULT_DEEPSTACK, t.info.n_deepstack).data);
        if (rows != NULL) {
            int32_t *from = scratch(json_array_size(rows) * sizeof *from);
            for (int32_t i = 0; i < (int32_t)json_array_size(rows); i++)
                from[i] = 3 * i;
            expect_rows(&t, "rows", rows, session_floats(session, RVIT_RESULT_FEATURES), t.info.dim, from);
            /* The last block gives the same rows, since no norm follows it. */
            expect_rows(&t, "block rows", rows, session_floats(session, RVIT_RESULT_BLOCK_FEATURES), t.info.dim, from);
        }
        rvit_session_destroy(session);
        qwen_close(&t);
    }
}

/* The same results in device memory, with no copy on the host, and refused views. */
static void rows_on_the_device(void **state)
{
    (void)state;
    for (int d = 0; d < N_QWEN_DUMPS; d++) {
        qwen_encoder t = qwen_open(qwen_dumps[d]);
        const int32_t n = t.info.n_deepstack;
        rvit_session_desc desc = dump_session_desc(t.dump, &t.info);
        desc.outputs = RVIT_OUTPUT_MERGED | (n > 0 ? RVIT_OUTPUT_DEEPSTACK : 0);
        rvit_session *host = NULL, *session = NULL;
        expect_ok(rvit_session_create(t.model, &desc, &host));
        dump_run_all(t.dump, &t.info, host);
        const int64_t tokens = desc.max_tokens > 0 ? desc.max_tokens : (int64_t)desc.max_images * desc.max_len;
        const int64_t size = tokens / 4 * t.info.merged_dim * 4, live = session_cu_seqlens(host, -1)[desc.max_images] / 4;
        rvit_stream *stream = NULL;
        rvit_buffer *buffer = NULL;
        expect_ok(rvit_stream_create(H.device[DEVICE], &stream));
        expect_ok(rvit_buffer_create(H.device[DEVICE], 32 + (n + 1) * size, RVIT_BUFFER_DEVICE, &buffer));
        desc.stream = stream;
        desc.merged = (rvit_view){buffer, 32};
        desc.deepstack = (rvit_view){n > 0 ? buffer : NULL, n > 0 ? 32 + size : 0};
        expect_ok(rvit_session_create(t.model, &desc, &session));
        dump_run_all(t.dump, &t.info, session);
        assert_null(session_floats(session, RVIT_RESULT_MERGED));
        float *found = scratch((size_t)size);
        for (int32_t k = -1; k < n; k++) {
            const rvit_result what = k < 0 ? RVIT_RESULT_MERGED : RVIT_RESULT_DEEPSTACK;
            const rvit_result_view wanted = session_result(host, what, k < 0 ? 0 : k);
            rvit_result_view got = RVIT_RESULT_VIEW_INIT;
            expect_ok(rvit_stream_read(stream, (rvit_view){buffer, 32 + (k + 1) * size}, found, size));
            assert_memory_equal(found, wanted.data, (size_t)(live * t.info.merged_dim * 4));
            expect_ok(rvit_session_get(session, what, k < 0 ? 0 : k, &got));
            assert_null(got.data);
            assert_int_equal(got.stage, wanted.stage);
            assert_int_equal(got.rows, live);
        }
        rvit_session_destroy(session);
        rvit_session_destroy(host);
        desc.merged.offset = 40;
        expect_status(rvit_session_create(t.model, &desc, &session), RVIT_INVALID_ARGUMENT,
                      "merged is at offset 40, expected a multiple of 16");
        desc.merged.offset = 48 + n * size;
        expect_status(rvit_session_create(t.model, &desc, &session), RVIT_INVALID_ARGUMENT, "merged is at offset");
        desc.outputs = RVIT_OUTPUT_FEATURES;
        expect_status(rvit_session_create(t.model, &desc, &session), RVIT_INVALID_ARGUMENT,
                      "merged is given, but outputs does not ask for it");
        rvit_buffer_destroy(buffer);
        rvit_stream_destroy(stream);
        qwen_close(&t);
    }
}

/* rvit_session_feature_grid puts features into the grid's order, line by line. */
static void grids(void **state)
{
    (void)state;
    for (int d = 0; d < N_QWEN_DUMPS; d++) {
        qwen_encoder t = qwen_open(qwen_dumps[d]);
        rvit_session_desc desc = dump_session_desc(t.dump, &t.info);
        desc.outputs = RVIT_OUTPUT_FEATURES;
        rvit_session *session = NULL;
        expect_ok(rvit_session_create(t.model, &desc, &session));
        dump_run_all(t.dump, &t.info, session);
        const int32_t *sides = dump_grids(t.dump), *cu = session_cu_seqlens(session, -1), dim = t.info.dim;
        for (int32_t image = 0; image < desc.max_images; image++) {
            const int32_t height = sides[2 * image], width = sides[2 * image + 1];
            const float *row = session_floats(session, RVIT_RESULT_FEATURES) + (int64_t)cu[image] * dim;
            float *grid = scratch((size_t)(height * width * dim) * sizeof *grid);
            expect_ok(rvit_session_feature_grid(session, image, NAN, grid));
            for (int32_t top = 0; top < height; top += 2)
                for (int32_t left = 0; left < width; left += 2)
                    for (int32_t k = 0; k < 4; k++, row += dim)
                        assert_memory_equal(grid + ((top + k / 2) * width + left + k % 2) * dim, row, (size_t)dim * sizeof *row);
        }
        rvit_session_destroy(session);
        qwen_close(&t);
    }
}

/* Received attention of a block with windows and of one without: over the rows of a window it sums to 1 for each head. */
static void received(void **state)
{
    (void)state;
    qwen_encoder t = qwen_open("qwen2_5_vl");
    for (int32_t block = 0; block < 2; block++) {
        rvit_session_desc desc = dump_session_desc(t.dump, &t.info);
        desc.outputs = RVIT_OUTPUT_RECEIVED_ATTENTION;
        desc.received_block = block;
        rvit_session *session = NULL;
        expect_ok(rvit_session_create(t.model, &desc, &session));
        dump_run_all(t.dump, &t.info, session);
        const float *got = session_floats(session, RVIT_RESULT_RECEIVED_ATTENTION);
        const int32_t *sides = dump_grids(t.dump), *cu = session_cu_seqlens(session, -1);
        assert_non_null(got);
        for (int32_t image = 0; image < desc.max_images; image++) {
            const int32_t height = sides[2 * image] / 2, width = sides[2 * image + 1] / 2;
            /* Block 1 is the only one without windows. */
            const int32_t reach = block == 1 ? height + width : t.info.window;
            for (int32_t top = 0; top < height; top += reach)
                for (int32_t left = 0; left < width; left += reach)
                    for (int32_t head = 0; head < t.info.n_heads; head++) {
                        double sum = 0;
                        for (int32_t y = top; y < top + reach && y < height; y++)
                            for (int32_t x = left; x < left + reach && x < width; x++)
                                for (int32_t k = 0; k < 4; k++)
                                    sum += (double)got[(cu[image] + 4 * (y * width + x) + k) * t.info.n_heads + head];
                        assert_true(fabs(sum - 1) < 1e-5);
                    }
        }
        rvit_session_destroy(session);
    }
    qwen_close(&t);
}

/* Images of any size, preprocessed as in the processor config of the checkpoint, compared with transformers. */
static void from_images(void **state)
{
    (void)state;
    static const char *const names[] = {"qwen2_5_vl", "qwen3_vl"};
    for (int d = 0; d < 2; d++) {
        json_t *dump = dump_load(dump_file, names[d]);
        const json_t *dumped = json_object_get(dump, "images"), *sizes = json_object_get(dumped, "sizes");
        const char *preprocessor_path = temporary_path("preprocessor_config.json");
        assert_int_equal(json_dump_file(json_object_get(dumped, "processor"), preprocessor_path, 0), 0);
        qwen_encoder t = qwen_open(names[d]);
        (void)unlink(preprocessor_path);
        rvit_image_recipe recipe = RVIT_IMAGE_RECIPE_INIT;
        expect_ok(rvit_model_get_recipe(t.model, &recipe));
        assert_int_equal(recipe.min_pixels, 256);
        assert_int_equal(recipe.max_pixels, 2048);
        assert_int_equal(recipe.fit, RVIT_FIT_SQUASH);
        enum { N = 3 };
        assert_int_equal(json_array_size(sizes), N);
        rvit_image images[N];
        rvit_session_desc desc = RVIT_SESSION_DESC_INIT;
        desc.variable_resolution = 1;
        desc.max_images = N;
        desc.max_len = 200;
        desc.outputs = RVIT_OUTPUT_MERGED;
        desc.input = RVIT_INPUT_IMAGES;
        desc.input_bytes = 1 << 17;
        for (int32_t i = 0; i < N; i++) {
            const json_t *size = json_array_get(sizes, (size_t)i), *wanted = json_array_get(json_object_get(dumped, "grids"), (size_t)i);
            int32_t grid[2];
            images[i] = (rvit_image)RVIT_IMAGE_INIT;
            images[i].height = (int32_t)json_integer_value(json_array_get(size, 0));
            images[i].width = (int32_t)json_integer_value(json_array_get(size, 1));
            images[i].data = dump_image_bytes(i, 3 * (int64_t)images[i].height * images[i].width);
            expect_ok(rvit_image_recipe_grid(&recipe, images[i].height, images[i].width, grid));
            for (int k = 0; k < 2; k++)
                assert_int_equal(grid[k], json_integer_value(json_array_get(wanted, (size_t)k)));
            images[i].target_height = grid[0] * t.info.patch_size;
            images[i].target_width = grid[1] * t.info.patch_size;
        }
        rvit_session *session = NULL;
        expect_ok(rvit_session_create(t.model, &desc, &session));
        rvit_run_args args = RVIT_RUN_ARGS_INIT;
        args.n_images = N;
        args.input.kind = RVIT_INPUT_IMAGES;
        args.input.data = images;
        expect_ok(rvit_session_run(session, &args, NULL));
        expect_rows(&t, "from images", json_object_get(dumped, "outputs"), session_floats(session, RVIT_RESULT_MERGED), t.info.merged_dim,
                    NULL);
        images[1].target_height += t.info.patch_size;
        expect_status(rvit_session_run(session, &args, NULL), RVIT_INVALID_ARGUMENT,
                      "image 1 has 3 x 10 patches, expected multiples of 2 a side");
        rvit_session_destroy(session);
        json_decref(dump);
        qwen_close(&t);
    }
}

/* The grids equal those of transformers' smart_resize. */
static void size_rule(void **state)
{
    (void)state;
    static const struct {
        int32_t height, width, patch_size;
        int64_t least, most;
        int32_t grid[2];
    } cases[] = {{480, 640, 14, 3136, 1003520, {34, 46}},
                 {1080, 1920, 14, 3136, 1003520, {52, 94}},
                 {480, 640, 16, 65536, 16777216, {30, 40}},
                 {5, 7, 14, 3136, 1003520, {4, 6}},
                 {42, 70, 14, 3136, 1003520, {4, 4}},
                 {14, 98, 14, 1, 1003520, {2, 2}},
                 {2000, 11, 16, 65536, 16777216, {216, 2}},
                 {4000, 6000, 14, 3136, 1003520, {58, 86}},
                 {3, 500, 4, 64, 4096, {2, 26}},
                 {20, 20, 4, 64, 4096, {4, 4}},
                 {12, 36, 4, 64, 4096, {4, 8}}};
    rvit_image_recipe recipe = RVIT_IMAGE_RECIPE_INIT;
    int32_t grid[2];
    recipe.merge = 2;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        recipe.patch_size = cases[i].patch_size;
        recipe.min_pixels = cases[i].least;
        recipe.max_pixels = cases[i].most;
        expect_ok(rvit_image_recipe_grid(&recipe, cases[i].height, cases[i].width, grid));
        assert_memory_equal(grid, cases[i].grid, sizeof grid);
    }
    expect_status(rvit_image_recipe_grid(&recipe, 1, 201, grid), RVIT_INVALID_ARGUMENT, "aspect ratio of at most 200");
    expect_status(rvit_image_recipe_grid(NULL, 5, 5, grid), RVIT_INVALID_ARGUMENT, "image recipe");
    const struct {
        int32_t patch_size, merge;
        int64_t least, most;
        const char *word;
    } wrong[] = {{0, 2, 1, 9, "patch_size is 0"},
                 {14, 17, 1, 9, "merge is 17"},
                 {14, 2, 0, 9, "min_pixels is 0"},
                 {14, 2, 10, 9, "max_pixels is 9"}};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        recipe.patch_size = wrong[i].patch_size;
        recipe.merge = wrong[i].merge;
        recipe.min_pixels = wrong[i].least;
        recipe.max_pixels = wrong[i].most;
        expect_status(rvit_image_recipe_grid(&recipe, 5, 5, grid), RVIT_INVALID_ARGUMENT, wrong[i].word);
    }
}

/* Exchanges the first two patches of each merge group, in the columns of the mergers' first layers. */
static void swap_patches(const char *name, int32_t rank, const int64_t *shape, float *values)
{
    if (rank != 2 || (strstr(name, "merger.mlp.0.weight") == NULL && strstr(name, "merger.linear_fc1.weight") == NULL))
        return;
    const int64_t dim = shape[1] / 4;
    for (int64_t row = 0; row < shape[0]; row++)
        for (int64_t i = 0; i < dim; i++) {
            float *at = values + row * shape[1] + i, first = at[0];
            at[0] = at[dim];
            at[dim] = first;
        }
}

/* Config values that the weights do not reveal: a wrong one, one at a time, changes the outputs. */
static void mistakes(void **state)
{
    (void)state;
    static const char old[] = "qwen2_5_vl", new[] = "qwen3_vl";
    static const struct {
        const char *name, *key, *value;
        int deepstack; /* 1: changes only the deepstack rows */
    } wrong[] = {{old, "fullatt_block_indexes", "[0, 1, 2]", 0},
                 {old, "fullatt_block_indexes", "[]", 0},
                 {old, "fullatt_block_indexes", "[2]", 0},
                 {old, "window_size", "8", 0},
                 {old, "window_size", "24", 0},
                 {old, "rope_theta", "100", 0},
                 {old, "hidden_act", "\"gelu\"", 0},
                 {new, "deepstack_visual_indexes", "[1, 2]", 1},
                 {new, "rope_theta", "100", 0},
                 {new, "hidden_act", "\"silu\"", 0},
                 {old, NULL, NULL, 0},
                 {new, NULL, NULL, 0}};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        json_t *dump = dump_load(dump_file, wrong[i].name);
        json_t *vision = json_object_get(json_object_get(dump, "config"), "vision_config");
        if (wrong[i].key != NULL)
            assert_int_equal(json_object_set_new(vision, wrong[i].key, json_loads(wrong[i].value, JSON_DECODE_ANY, NULL)), 0);
        else
            dump_change = swap_patches;
        rvit_checkpoint *checkpoint = dump_open(dump, NULL);
        dump_change = NULL;
        rvit_model *model = NULL;
        rvit_model_info info = RVIT_MODEL_INFO_INIT;
        expect_ok(rvit_checkpoint_get_model_info(checkpoint, &info));
        expect_ok(rvit_model_create(H.device[DEVICE], checkpoint, NULL, &model));
        rvit_session_desc desc = dump_session_desc(dump, &info);
        desc.outputs |= wrong[i].deepstack ? RVIT_OUTPUT_DEEPSTACK : 0;
        rvit_session *session = NULL;
        expect_ok(rvit_session_create(model, &desc, &session));
        dump_run_all(dump, &info, session);
        const json_t *wanted =
            wrong[i].deepstack ? json_array_get(json_object_get(dump, "deepstack"), 0) : json_object_get(dump, "outputs");
        const float *got = session_floats(session, wrong[i].deepstack ? RVIT_RESULT_DEEPSTACK : RVIT_RESULT_MERGED);
        const double difference = dump_difference(wanted, got, info.merged_dim, NULL);
        if (!(difference >= 1e-3))
            fail_msg("%s: a wrong %s (%s) changes the outputs by only %g", wrong[i].name,
                     wrong[i].key == NULL ? "order in a merge group" : wrong[i].key, wrong[i].key == NULL ? "" : wrong[i].value,
                     difference);
        rvit_session_destroy(session);
        rvit_model_destroy(model);
        rvit_checkpoint_destroy(checkpoint);
        json_decref(dump);
    }
}

static void refused_sessions(void **state)
{
    (void)state;
    qwen_encoder old = qwen_open("qwen2_5_vl"), new = qwen_open("qwen3_vl");
    rvit_session *session = NULL;
    rvit_session_desc desc = RVIT_SESSION_DESC_INIT;
    expect_status(rvit_session_create(new.model, &desc, &session), RVIT_UNSUPPORTED, "variable_resolution is 0, but the model merges");
    desc.variable_resolution = 1;
    desc.input = RVIT_INPUT_PATCHES;
    desc.max_len = 3;
    expect_status(rvit_session_create(new.model, &desc, &session), RVIT_INVALID_ARGUMENT, "max_len is 3, an image has 4 tokens or more");
    desc.max_len = 40;
    rvit_prune_info policy = RVIT_PRUNE_INFO_INIT;
    for (int32_t p = 0; rvit_prune_list(p, &policy) == RVIT_OK; p++) {
        prune_in(&desc)->type = policy.type;
        const rvit_prune_type type = policy.type;
        const int by_groups = type == RVIT_PRUNE_L2 || type == RVIT_PRUNE_RECEIVED || type == RVIT_PRUNE_RANDOM ||
                              type == RVIT_PRUNE_PIXELPRUNE || type == RVIT_PRUNE_TOME;
        prune_in(&desc)->n_blocks = (policy.parameters & RVIT_PRUNE_BLOCKS) != 0;
        prune_in(&desc)->blocks[0] = 1;
        prune_in(&desc)->threshold = type == RVIT_PRUNE_L2_THRESHOLD ? 1 : -1;
        prune_in(&desc)->n_samples = type == RVIT_PRUNE_ATS ? 3 : 0;
        prune_in(&desc)->alpha = type == RVIT_PRUNE_HIPRUNE ? 0 : -1;
        if (type == RVIT_PRUNE_NONE)
            continue;
        if (!by_groups) {
            expect_status(rvit_session_create(new.model, &desc, &session), RVIT_UNSUPPORTED, "drops single patches, but the model merges");
            continue;
        }
        expect_ok(rvit_session_create(new.model, &desc, &session));
        rvit_session_destroy(session);
    }
    *prune_in(&desc) = (rvit_prune_desc)RVIT_PRUNE_DESC_INIT;
    prune_in(&desc)->type = RVIT_PRUNE_RECEIVED;
    prune_in(&desc)->n_blocks = 1;
    expect_status(rvit_session_create(old.model, &desc, &session), RVIT_UNSUPPORTED,
                  "received would prune in block 0, whose attention is within windows");
    *prune_in(&desc) = (rvit_prune_desc)RVIT_PRUNE_DESC_INIT;
    desc.outputs = RVIT_OUTPUT_DEEPSTACK;
    expect_status(rvit_session_create(old.model, &desc, &session), RVIT_UNSUPPORTED, "but the model has no deepstack mergers");
    desc.outputs = 2 * RVIT_OUTPUT_DEEPSTACK;
    expect_status(rvit_session_create(new.model, &desc, &session), RVIT_INVALID_ARGUMENT, "outputs is 512");
    desc.outputs = RVIT_OUTPUT_POOLED;
    expect_status(rvit_session_create(new.model, &desc, &session), RVIT_UNSUPPORTED, "the model pools nothing");
    qwen_close(&old);
    qwen_close(&new);
}

static void refused_runs(void **state)
{
    (void)state;
    qwen_encoder t = qwen_open("qwen3_vl");
    rvit_session_desc desc = RVIT_SESSION_DESC_INIT;
    desc.variable_resolution = 1;
    desc.input = RVIT_INPUT_PATCHES;
    desc.max_images = 3;
    desc.max_tokens = 60;
    desc.max_len = 32;
    desc.outputs = RVIT_OUTPUT_MERGED;
    rvit_session *session = NULL;
    expect_ok(rvit_session_create(t.model, &desc, &session));
    static const struct {
        int32_t n_images, grids[6];
        const char *word;
    } cases[] = {{2, {2, 4, 3, 4}, "image 1 has 3 x 4 patches, expected multiples of 2 a side"},
                 {1, {4, 5}, "image 0 has 4 x 5 patches, expected multiples of 2"},
                 {1, {0, 4}, "image 0 has 0 x 4 patches"},
                 {2, {2, 2, 4, 10}, "image 1 has 4 x 10 patches and so 40 tokens, the session's max_len is 32"},
                 {3, {4, 8, 4, 6, 2, 4}, "with image 2, of 2 x 4 patches, the batch has 64 tokens, the session's max_tokens is 60"}};
    const float *patches = dump_patches(t.dump, &t.info);
    rvit_run_args args = RVIT_RUN_ARGS_INIT;
    args.input.kind = RVIT_INPUT_PATCHES;
    args.input.data = patches;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        args.n_images = cases[i].n_images;
        args.input.kind = RVIT_INPUT_PATCHES;
        args.input.grids = cases[i].grids;
        expect_status(rvit_session_enqueue(session, &args), RVIT_INVALID_ARGUMENT, cases[i].word);
    }
    args.n_images = 1;
    args.input.kind = RVIT_INPUT_PATCHES;
    args.input.grids = (const int32_t[]){4, 8};
    expect_ok(rvit_session_run(session, &args, NULL));
    args.n_images = 0;
    expect_ok(rvit_session_run(session, &args, NULL));
    assert_int_equal(session_cu_seqlens(session, -1)[0], 0);
    rvit_session_destroy(session);
    qwen_close(&t);
}

SUITE(dump_qwen_suite, TEST(outputs), TEST(rows_on_the_device), TEST(grids), TEST(received), TEST(from_images), TEST(size_rule),
      TEST(mistakes), TEST(refused_sessions), TEST(refused_runs));

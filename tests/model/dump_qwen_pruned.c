/* Qwen's vision encoders, pruned by merge groups. Merged rows, deepstack rows, kept tokens and sizes are compared with a float64 reference,
   and images must not affect each other. */
#include "dump_qwen.h"

#include <math.h>
#include "tools/cli/session_results.h"

static const char *const names[] = {"qwen2_5_vl", "qwen3_vl"};
enum { N_ENCODERS = 2, MAX_IMAGES = 4, MAX_LEN = 60 };

/* A model with a preprocessor_config.json that sets std to 0.5. */
static qwen_encoder open_with_std(const char *name)
{
    const char *preprocessor_path = temporary_path("preprocessor_config.json");
    json_t *processor = json_pack("{s:[f, f, f], s:[f, f, f]}", "image_mean", 0.5, 0.5, 0.5, "image_std", 0.5, 0.5, 0.5);
    assert_int_equal(json_dump_file(processor, preprocessor_path, 0), 0);
    const qwen_encoder t = qwen_open(name);
    json_decref(processor);
    (void)remove(preprocessor_path);
    return t;
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

static void expect_rows(const qwen_encoder *t, const char *what, const json_t *wanted, const float *got)
{
    const double difference = dump_difference(wanted, got, t->info.merged_dim, NULL), most = 1e-5 * largest_of(wanted);
    printf("%-12s %-10s %.2e of %.2e\n", dump_text(t->dump, "name"), what, difference, most);
    if (!(difference <= most))
        fail_msg("%s: %s differ by %g", dump_text(t->dump, "name"), what, difference);
}

/* The merge groups that are kept, and their sizes with tome. */
static void expect_kept(const json_t *prune, const rvit_session *session)
{
    const int32_t last = session_n_stages(session) - 1, *cu = session_cu_seqlens(session, last);
    const json_t *sizes = json_object_get(prune, "sizes");
    size_t image, group;
    json_t *groups, *number;
    json_array_foreach(json_object_get(prune, "kept"), image, groups)
    {
        const int32_t *kept = session_kept(session, last, (int32_t)image);
        const float *found = session_sizes(session, last, (int32_t)image);
        assert_int_equal(cu[image + 1] - cu[image], 4 * json_array_size(groups));
        assert_true((found != NULL) == (sizes != NULL));
        json_array_foreach(groups, group, number) for (size_t r = 0; r < 4; r++)
        {
            assert_int_equal(kept[4 * group + r], 4 * json_integer_value(number) + (json_int_t)r);
            if (found != NULL)
                assert_true((double)found[4 * group + r] == json_number_value(json_array_get(json_array_get(sizes, image), group)));
        }
    }
}

/* Only whole merge groups are kept, in the order of the patches. */
static void expect_whole_groups(const rvit_session *session, int32_t n_images)
{
    const int32_t last = session_n_stages(session) - 1, *cu = session_cu_seqlens(session, last);
    for (int32_t i = 0; i < n_images; i++) {
        const int32_t *kept = session_kept(session, last, i), n = cu[i + 1] - cu[i];
        assert_true(n > 0 && n % 4 == 0);
        for (int32_t r = 0; r < n; r++)
            assert_true(r % 4 == 0 ? kept[r] % 4 == 0 && (r == 0 || kept[r] > kept[r - 1]) : kept[r] == kept[r - 1] + 1);
    }
}

static void pruned(void **state)
{
    (void)state;
    for (int d = 0; d < N_ENCODERS; d++) {
        qwen_encoder t = open_with_std(names[d]);
        size_t index, image;
        json_t *prune, *left;
        int n = 0;
        json_array_foreach(json_object_get(t.dump, "pruned"), index, prune)
        {
            rvit_session_desc desc = dump_session_desc(t.dump, &t.info);
            const json_t *deepstack = json_object_get(prune, "deepstack");
            desc.outputs = RVIT_OUTPUT_MERGED | (t.info.n_deepstack > 0 ? RVIT_OUTPUT_DEEPSTACK : 0);
            *prune_in(&desc) = dump_prune(prune);
            rvit_session *session = NULL;
            expect_ok(rvit_session_create(t.model, &desc, &session));
            float *patches = dump_patches(t.dump, &t.info);
            dump_repeat(prune, t.dump, &t.info, patches);
            dump_run_patches(t.dump, &t.info, session, patches);
            const int32_t last = session_n_stages(session) - 1, *cu = session_cu_seqlens(session, last);
            json_array_foreach(json_object_get(prune, "left"), image, left)
                assert_int_equal(cu[image + 1] - cu[image], json_integer_value(left));
            expect_kept(prune, session);
            expect_rows(&t, dump_text(prune, "policy"), json_object_get(prune, "outputs"), session_floats(session, RVIT_RESULT_MERGED));
            assert_int_equal(json_array_size(deepstack), t.info.n_deepstack);
            for (int32_t k = 0; k < t.info.n_deepstack; k++) {
                const rvit_result_view view = session_result(session, RVIT_RESULT_DEEPSTACK, k);
                const json_t *wanted = json_array_get(deepstack, (size_t)k);
                expect_rows(&t, "deepstack", wanted, view.data);
                assert_int_equal(session_cu_seqlens(session, view.stage)[desc.max_images], 4 * json_array_size(wanted));
            }
            expect_whole_groups(session, desc.max_images);
            rvit_session_destroy(session);
            n++;
        }
        assert_int_equal(n, 7);
        qwen_close(&t);
    }
}

/* Each mistake in a step of merging, as make_dumps.py measured it, changes some output by far more than expect_rows allows. */
static void merging_mistakes(void **state)
{
    (void)state;
    for (int d = 0; d < N_ENCODERS; d++) {
        json_t *dump = dump_load(dump_file, names[d]), *largest = json_object(), *prune, *moved;
        const char *mistake;
        size_t index;
        json_array_foreach(json_object_get(dump, "pruned"), index, prune)
            json_object_foreach(json_object_get(prune, "mistakes"), mistake, moved)
        {
            /* null: the mistake changes the number of rows */
            const double by = json_is_null(moved) ? INFINITY : json_number_value(moved);
            if (json_object_get(largest, mistake) == NULL || by > json_number_value(json_object_get(largest, mistake)))
                json_object_set_new(largest, mistake, json_real(fmin(by, 1e9)));
        }
        assert_int_equal(json_object_size(largest), d == 0 ? 5 : 4);
        json_object_foreach(largest, mistake, moved) if (json_number_value(moved) < 1e-2)
            fail_msg("%s: the mistake '%s' changes the outputs by only %g", names[d], mistake, json_number_value(moved));
        json_decref(largest);
        json_decref(dump);
    }
}

static rvit_session *session_of(const qwen_encoder *t, rvit_prune_type type)
{
    rvit_session_desc desc = RVIT_SESSION_DESC_INIT;
    desc.variable_resolution = 1;
    desc.input = RVIT_INPUT_PATCHES;
    desc.max_images = MAX_IMAGES;
    desc.max_len = MAX_LEN;
    desc.max_tokens = 120;
    desc.outputs = RVIT_OUTPUT_MERGED | RVIT_OUTPUT_FEATURES;
    prune_in(&desc)->type = type;
    if (type == RVIT_PRUNE_TOME) {
        prune_in(&desc)->merges = 2; /* in every block */
    } else if (type != RVIT_PRUNE_PIXELPRUNE) {
        prune_in(&desc)->n_blocks = 1;
        prune_in(&desc)->blocks[0] = 1;
    }
    rvit_session *session = NULL;
    expect_ok(rvit_session_create(t->model, &desc, &session));
    return session;
}

/* In a feature grid, the patches of each merge group have the rows of a kept group: its own, or the one it was merged into, which is in the
   same window. Each kept group appears `size` times. */
static void expect_merged_grid(const qwen_encoder *t, const rvit_session *session, int32_t image, int32_t columns, const float *grid)
{
    const int32_t last = session_n_stages(session) - 1, *cu = session_cu_seqlens(session, last), dim = t->info.dim;
    const int32_t *first = session_cu_seqlens(session, -1), tokens = first[image + 1] - first[image], n = cu[image + 1] - cu[image];
    const int32_t *kept = session_kept(session, last, image), across = columns / 2, window = t->info.window > 0 ? t->info.window : 64;
    const float *features = session_floats(session, RVIT_RESULT_FEATURES) + (int64_t)cu[image] * dim;
    const float *sizes = session_sizes(session, last, image);
    int32_t all = 0;
    for (int32_t r = 0; r < n; r++) {
        int32_t shown = 0;
        for (int32_t v = 0; v < tokens; v++) {
            if (memcmp(grid + (int64_t)v * dim, features + (int64_t)r * dim, (size_t)dim * 4) != 0)
                continue;
            const int32_t y = v / columns, x = v % columns, group = kept[r] / 4;
            assert_int_equal(y % 2 * 2 + x % 2, r % 4);
            assert_int_equal(y / 2 / window, group / across / window);
            assert_int_equal(x / 2 / window, group % across / window);
            shown++;
        }
        assert_true((float)shown == sizes[r]);
        all += shown;
    }
    assert_int_equal(all, tokens);
}

/* Each image gives the same bits as in a run by itself, its features go to the right places of the grid, and runs allocate nothing. */
static void independent_images(void **state)
{
    (void)state;
    static const rvit_prune_type types[] = {RVIT_PRUNE_L2, RVIT_PRUNE_RECEIVED, RVIT_PRUNE_RANDOM, RVIT_PRUNE_PIXELPRUNE, RVIT_PRUNE_TOME};
    for (int d = 0; d < N_ENCODERS; d++)
        for (int p = 0; p < 5; p++) {
            qwen_encoder t = qwen_open(names[d]);
            const int32_t *grids = dump_grids(t.dump), dim = t.info.dim, width = t.info.merged_dim;
            const int64_t values = (int64_t)t.info.channels * t.info.patch_size * t.info.patch_size * t.info.patch_frames;
            float *patches = dump_patches(t.dump, &t.info);
            json_t *tiles = json_pack("{s:[i, i], s:f}", "tile", 2, 2, "step", 0.0);
            if (types[p] == RVIT_PRUNE_PIXELPRUNE)
                dump_repeat(tiles, t.dump, &t.info, patches);
            json_decref(tiles);
            rvit_session *all = session_of(&t, types[p]), *one = session_of(&t, types[p]);
            rvit_run_args args = RVIT_RUN_ARGS_INIT;
            args.n_images = MAX_IMAGES;
            args.input.kind = RVIT_INPUT_PATCHES;
            args.input.grids = grids;
            args.input.data = patches;
            expect_ok(rvit_session_run(all, &args, NULL));
            rvit_stats before = RVIT_STATS_INIT, after = RVIT_STATS_INIT;
            expect_ok(rvit_session_get_stats(all, &before));
            expect_ok(rvit_session_run(all, &args, NULL));
            expect_ok(rvit_session_get_stats(all, &after));
            assert_int_equal(after.device_allocations, before.device_allocations);
            expect_whole_groups(all, MAX_IMAGES);
            const int32_t last = session_n_stages(all) - 1, *cu = session_cu_seqlens(all, last);
            int64_t at = 0;
            for (int32_t i = 0; i < MAX_IMAGES; i++) {
                const int32_t n = cu[i + 1] - cu[i], tokens = grids[2 * i] * grids[2 * i + 1];
                args.n_images = 1;
                args.input.kind = RVIT_INPUT_PATCHES;
                args.input.grids = grids + 2 * i;
                args.input.data = patches + at * values;
                expect_ok(rvit_session_run(one, &args, NULL));
                assert_int_equal(session_cu_seqlens(one, last)[1], n);
                assert_memory_equal(session_kept(one, last, 0), session_kept(all, last, i), (size_t)n * 4);
                assert_memory_equal(session_floats(one, RVIT_RESULT_MERGED),
                                    session_floats(all, RVIT_RESULT_MERGED) + (int64_t)cu[i] / 4 * width, (size_t)(n / 4 * width) * 4);
                const float *features = session_floats(all, RVIT_RESULT_FEATURES) + (int64_t)cu[i] * dim;
                assert_memory_equal(session_floats(one, RVIT_RESULT_FEATURES), features, (size_t)(n * dim) * 4);
                if (types[p] != RVIT_PRUNE_PIXELPRUNE && types[p] != RVIT_PRUNE_TOME)
                    assert_int_equal(n, 4 * (tokens / 4 / 2 > 0 ? tokens / 4 / 2 : 1));
                float *grid = scratch((size_t)(tokens * dim) * sizeof *grid);
                expect_ok(rvit_session_feature_grid(all, i, -7, grid));
                if (types[p] == RVIT_PRUNE_TOME) {
                    expect_merged_grid(&t, all, i, grids[2 * i + 1], grid);
                    at += tokens;
                    continue;
                }
                const int32_t *kept = session_kept(all, 0, i), across = grids[2 * i + 1] / 2;
                for (int32_t r = 0; r < n; r++) {
                    const int32_t group = kept[r] / 4, y = group / across * 2 + kept[r] % 4 / 2, x = group % across * 2 + kept[r] % 2;
                    float *place = grid + (y * across * 2 + x) * dim;
                    assert_memory_equal(place, features + (int64_t)r * dim, (size_t)dim * 4);
                    place[0] = -7;
                }
                for (int32_t v = 0; v < tokens; v++)
                    assert_true(grid[v * dim] == -7);
                at += tokens;
            }
            rvit_session_destroy(all);
            rvit_session_destroy(one);
            qwen_close(&t);
        }
}

/* PixelPrune on images compares merge groups by their 8-bit pixels, whatever the order of their patches. */
static void from_images(void **state)
{
    (void)state;
    static const int32_t grids[] = {4, 6, 8, 4};
    for (int d = 0; d < N_ENCODERS; d++)
        for (int tau = 0; tau < 2; tau++) {
            qwen_encoder t = open_with_std(names[d]);
            const int32_t patch = t.info.patch_size, edge = 2 * patch;
            rvit_image images[2];
            rvit_session_desc desc = RVIT_SESSION_DESC_INIT;
            rvit_session *session = NULL;
            desc.variable_resolution = 1;
            desc.max_images = 2;
            desc.max_len = MAX_LEN;
            desc.outputs = RVIT_OUTPUT_MERGED;
            desc.input = RVIT_INPUT_IMAGES;
            desc.input_bytes = 1 << 16;
            rvit_image_recipe recipe = RVIT_IMAGE_RECIPE_INIT;
            recipe.height = t.info.image_height;
            recipe.width = t.info.image_width;
            for (int c = 0; c < 3; c++) {
                recipe.mean[c] = 0.5f;
                recipe.std[c] = 0.5f;
            }
            desc.recipe = &recipe;
            prune_in(&desc)->type = RVIT_PRUNE_PIXELPRUNE;
            prune_in(&desc)->tau = 2 * tau / 255.0;
            int32_t wanted[2][32] = {{0}}, n_wanted[2] = {0};
            for (int32_t i = 0; i < 2; i++) {
                const int32_t height = grids[2 * i] * patch, width = grids[2 * i + 1] * patch;
                uint8_t *data = scratch((size_t)(3 * height * width));
                images[i] = (rvit_image)RVIT_IMAGE_INIT;
                images[i].data = data;
                images[i].height = images[i].target_height = height;
                images[i].width = images[i].target_width = width;
                /* Every merge group has the same noise, except its last value: one level higher in group 1, nine in the last group. */
                uint8_t noise[1024];
                for (int32_t v = 0; v < 3 * edge * edge; v++)
                    noise[v] = (uint8_t)(40 + random_below(100));
                const int32_t across = width / edge, n = across * (height / edge);
                for (int32_t v = 0; v < 3 * height * width; v++) {
                    const int32_t y = v / 3 / width, x = v / 3 % width, group = y / edge * across + x / edge;
                    const int is_last = y % edge == edge - 1 && x % edge == edge - 1 && v % 3 == 2;
                    data[v] =
                        (uint8_t)(noise[(y % edge * edge + x % edge) * 3 + v % 3] + (is_last ? (group == n - 1) * 9 + (group == 1) : 0));
                }
                /* If tau is 0, group 1 is kept, and so are the groups that it predicts: the next one and the one below. */
                for (int32_t group = 0; group < n; group++) {
                    const int32_t x = group % across, y = group / across;
                    const int is_odd = group == 1, after_odd = (x > 0 && group - 1 == 1) || (y > 0 && group - across == 1);
                    int is_new = group == 0 || group == n - 1;
                    if (tau == 0 && is_odd)
                        is_new = 1;
                    if (tau == 0 && after_odd)
                        is_new = 1;
                    for (int32_t k = 0; is_new && k < 4; k++)
                        wanted[i][n_wanted[i]++] = 4 * group + k;
                }
            }
            expect_ok(rvit_session_create(t.model, &desc, &session));
            rvit_run_args args = RVIT_RUN_ARGS_INIT;
            args.n_images = 2;
            args.input.kind = RVIT_INPUT_IMAGES;
            args.input.data = images;
            expect_ok(rvit_session_run(session, &args, NULL));
            for (int32_t i = 0; i < 2; i++) {
                const int32_t *cu = session_cu_seqlens(session, 0);
                assert_int_equal(cu[i + 1] - cu[i], n_wanted[i]);
                assert_memory_equal(session_kept(session, 0, i), wanted[i], (size_t)n_wanted[i] * 4);
            }
            rvit_session_destroy(session);
            qwen_close(&t);
        }
}

static int64_t round_up_256(int64_t size)
{
    return (size + 255) / 256 * 256;
}

/* A stage adds the memory that session.h states. */
static void memory(void **state)
{
    (void)state;
    enum { B = 4, BT = 200, LEN = 80, MERGES = 3 };
    static const rvit_prune_type types[] = {RVIT_PRUNE_L2, RVIT_PRUNE_PIXELPRUNE, RVIT_PRUNE_TOME};
    for (int d = 0; d < N_ENCODERS; d++)
        for (int p = 0; p < 3; p++) {
            qwen_encoder t = qwen_open(names[d]);
            const int by_pixels = types[p] == RVIT_PRUNE_PIXELPRUNE, merges = types[p] == RVIT_PRUNE_TOME, ranks = !by_pixels && !merges;
            rvit_memory_info plain = RVIT_MEMORY_INFO_INIT, pruned = RVIT_MEMORY_INFO_INIT;
            rvit_session_desc desc = RVIT_SESSION_DESC_INIT;
            desc.variable_resolution = 1;
            desc.input = RVIT_INPUT_PATCHES;
            desc.max_images = B;
            desc.max_tokens = BT;
            desc.max_len = LEN;
            desc.outputs = RVIT_OUTPUT_MERGED;
            expect_ok(rvit_session_memory(t.model, &desc, &plain));
            prune_in(&desc)->type = types[p];
            prune_in(&desc)->n_blocks = !by_pixels;
            prune_in(&desc)->merges = merges ? MERGES : -1;
            expect_ok(rvit_session_memory(t.model, &desc, &pruned));
            const int64_t w = t.info.window;
            int64_t left = BT; /* half of the merge groups, or all but the merged ones, plus rounding for each image */
            if (ranks || (merges && w == 0)) {
                int64_t above = 0;
                const int64_t slope = merges ? LEN - 4 * MERGES : 4 * (LEN / 4 / 2);
                for (int64_t n = 1; n <= LEN; n++) {
                    const int64_t pairs = n / 8 < MERGES ? n / 8 : MERGES;
                    const int64_t f = merges ? n - 4 * pairs : n < 4 ? 0 : n < 8 ? 4 : 4 * (n / 4 / 2);
                    above = LEN * f - slope * n > above ? LEN * f - slope * n : above;
                }
                left = (slope * BT + B * above) / LEN;
            }
            const int64_t values = (int64_t)t.info.channels * t.info.patch_frames * t.info.patch_size * t.info.patch_size;
            const int64_t groups = BT / 4, most = w == 0 ? 0 : (groups + (w - 1) * B) / w, windows = most < groups ? most : groups;
            const int64_t results = round_up_256(BT) + round_up_256(4 * (B + 1)) + (w > 0 ? 2 * round_up_256(4 * groups) : 0) +
                                    (merges ? round_up_256(4 * BT) : 0);
            int64_t device = round_up_256(4 * BT) + round_up_256(4 * left) + round_up_256(4 * (B + 1)) +
                             (w > 0 ? round_up_256(4 * (windows + 1)) - round_up_256(4 * groups) : 0);
            if (by_pixels)
                device += round_up_256(4 * BT * values) + round_up_256(BT);
            else if (merges)
                device += 2 * round_up_256(4 * left) + round_up_256(4 * BT * t.info.head_dim);
            else
                device += round_up_256(4 * BT) + round_up_256(4 * (LEN + 1));
            assert_int_equal(pruned.device_size - plain.device_size, device + results);
            assert_int_equal(pruned.readback_size - plain.readback_size, results + (merges ? 0 : round_up_256(4)));
            assert_int_equal(pruned.upload_size - plain.upload_size, ranks ? round_up_256(4 * (LEN + 1)) : 0);
            qwen_close(&t);
        }
}

SUITE(dump_qwen_pruned_suite, TEST(pruned), TEST(merging_mistakes), TEST(independent_images), TEST(from_images), TEST(memory));

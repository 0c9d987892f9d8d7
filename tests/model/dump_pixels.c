/* Tests PixelPrune on images: which patches it keeps, and the results. */
#include "dumps.h"

#include <math.h>
#include "tools/cli/session_results.h"

enum { PATCH = 4, MAX_IMAGES = 5, LEVELS = 3 };
static const int32_t grids[2 * MAX_IMAGES] = {5, 7, 1, 1, 3, 4, 8, 2, 6, 6};

typedef struct raw_images {
    uint8_t *data[MAX_IMAGES];
    rvit_image images[MAX_IMAGES];
} raw_images;

/* Images of tiles with few colours, in which some pixels are changed by one level or a few. Their size is the target size. */
static raw_images random_images(void)
{
    raw_images p = {.data = {NULL}};
    for (int32_t i = 0; i < MAX_IMAGES; i++) {
        const int32_t height = grids[2 * i] * PATCH, width = grids[2 * i + 1] * PATCH, tile = PATCH * (2 + i % 3);
        uint8_t colours[64];
        for (int c = 0; c < 64; c++)
            colours[c] = (uint8_t)(20 + random_below(200));
        p.data[i] = scratch((size_t)(height * width * 3));
        for (int32_t at = 0; at < height * width * 3; at++) {
            const int32_t y = at / 3 / width, x = at / 3 % width;
            p.data[i][at] = colours[(y / tile * 5 + x / tile * 3 + at % 3) % 64];
        }
        for (int32_t n = grids[2 * i] * grids[2 * i + 1] / 5; n > 0; n--) {
            const int32_t y = random_below(height), x = random_below(width), change = 1 + random_below(2 * LEVELS);
            uint8_t *value = &p.data[i][(y * width + x) * 3 + random_below(3)];
            *value = (uint8_t)(*value + (random_below(2) ? change : -change));
        }
        p.images[i] = (rvit_image)RVIT_IMAGE_INIT;
        p.images[i].data = p.data[i];
        p.images[i].height = p.images[i].target_height = height;
        p.images[i].width = p.images[i].target_width = width;
    }
    return p;
}

static int alike(const uint8_t *data, int32_t columns, int32_t a, int32_t b, int32_t levels)
{
    for (int32_t i = 0; i < PATCH * PATCH * 3; i++) {
        const int32_t y = i / 3 / PATCH, x = i / 3 % PATCH;
        const int32_t line_a = a / columns * PATCH + y, line_b = b / columns * PATCH + y;
        const int32_t at_a = a % columns * PATCH + x, at_b = b % columns * PATCH + x;
        if (abs(data[(line_a * columns * PATCH + at_a) * 3 + i % 3] - data[(line_b * columns * PATCH + at_b) * 3 + i % 3]) > levels)
            return 0;
    }
    return 1;
}

/* The indices of the patches that PixelPrune keeps, computed on the 8-bit pixels. */
static int32_t kept_patches(const uint8_t *data, const int32_t *grid, int32_t levels, int32_t *out)
{
    int32_t n = 0, *source = scratch((size_t)(grid[0] * grid[1]) * sizeof *source);
    for (int32_t own = 0; own < grid[0] * grid[1]; own++) {
        const int32_t y = own / grid[1], x = own % grid[1];
        int32_t prediction = x > 0 ? source[own - 1] : y > 0 ? source[own - grid[1]] : own;
        if (x > 0 && y > 0) {
            const int32_t corner = source[own - grid[1] - 1], above = source[own - grid[1]];
            if (alike(data, grid[1], corner, prediction, levels) && !alike(data, grid[1], corner, above, levels))
                prediction = above;
        }
        source[own] = own > 0 && alike(data, grid[1], own, prediction, levels) ? prediction : own;
        if (source[own] == own)
            out[n++] = own;
    }
    return n;
}

static rvit_session *session_of(rvit_model *model, int with_images, double tau, const rvit_image_recipe *recipe)
{
    rvit_session_desc desc = RVIT_SESSION_DESC_INIT;
    rvit_session *session = NULL;
    desc.max_images = MAX_IMAGES;
    desc.variable_resolution = 1;
    desc.max_len = 40;
    desc.max_tokens = 110;
    prune_in(&desc)->type = RVIT_PRUNE_PIXELPRUNE;
    prune_in(&desc)->tau = tau;
    desc.input = with_images ? RVIT_INPUT_IMAGES : RVIT_INPUT_PATCHES;
    desc.input_bytes = with_images ? 1 << 16 : 0;
    desc.recipe = with_images ? recipe : NULL;
    expect_ok(rvit_session_create(model, &desc, &session));
    return session;
}

/* The preprocessed patches of the images, values in the order (y, x, channel). */
static float *patches_of(const raw_images *p, const rvit_image_recipe *recipe)
{
    float *patches = scratch(110 * PATCH * PATCH * 3 * sizeof *patches), *at = patches;
    for (int32_t i = 0; i < MAX_IMAGES; i++)
        for (int32_t n = 0; n < grids[2 * i] * grids[2 * i + 1]; n++)
            for (int32_t v = 0; v < PATCH * PATCH * 3; v++) {
                const int32_t width = grids[2 * i + 1], y = n / width * PATCH + v / 3 / PATCH, x = n % width * PATCH + v / 3 % PATCH;
                *at++ = ((float)p->data[i][(y * width * PATCH + x) * 3 + v % 3] / 255.0f - recipe->mean[v % 3]) / recipe->std[v % 3];
            }
    return patches;
}

static void expect_kept(const raw_images *p, const rvit_session *session, int32_t levels, int32_t *left)
{
    for (int32_t i = 0; i < MAX_IMAGES; i++) {
        int32_t wanted[64];
        const int32_t n = kept_patches(p->data[i], &grids[2 * i], levels, wanted);
        const int32_t *cu = session_cu_seqlens(session, 0), *kept = session_kept(session, 0, i);
        assert_int_equal(cu[i + 1] - cu[i], n);
        assert_memory_equal(kept, wanted, (size_t)n * sizeof *wanted);
        *left += n;
    }
}

/* The policy compares 8-bit pixels, for every dtype of the model and every source of images; tau counts levels. */
static void pixels(void **state)
{
    (void)state;
    static const struct {
        double tau;
        int32_t levels;
    } taus[] = {{0, 0}, {1.0 / 255, 1}, {0.0039215, 1}, {LEVELS / 255.0, LEVELS}, {0.0159, 4}, {1, 255}, {0.003, 0}};
    json_t *dump = dump_load(dump_file, "naflex_siglip2");
    rvit_checkpoint *checkpoint = dump_open(dump, NULL);
    rvit_image_recipe recipe = RVIT_IMAGE_RECIPE_INIT;
    recipe.height = recipe.width = 5 * PATCH;
    for (int c = 0; c < 3; c++) {
        recipe.mean[c] = 0.5f;
        recipe.std[c] = 0.5f;
    }
    for (int dtype = RVIT_F32; dtype < n_types(); dtype++) {
        rvit_model_desc model_desc = RVIT_MODEL_DESC_INIT;
        rvit_model *model = NULL;
        model_desc.dtype = (rvit_dtype)dtype;
        expect_ok(rvit_model_create(H.device[DEVICE], checkpoint, &model_desc, &model));
        for (size_t t = 0; t < sizeof taus / sizeof *taus; t++) {
            rvit_session *of_images = session_of(model, 1, taus[t].tau, &recipe), *of_patches = session_of(model, 0, taus[t].tau, NULL);
            int32_t left = 0;
            for (int run = 0; run < (H.is_slow ? 2 : 8); run++) {
                const raw_images p = random_images();
                rvit_run_args args = RVIT_RUN_ARGS_INIT;
                args.n_images = MAX_IMAGES;
                args.input = (rvit_input){.kind = RVIT_INPUT_IMAGES, .data = p.images};
                expect_ok(rvit_session_run(of_images, &args, NULL));
                expect_kept(&p, of_images, taus[t].levels, &left);
                args.input = (rvit_input){.kind = RVIT_INPUT_PATCHES, .data = patches_of(&p, &recipe), .grids = grids};
                expect_ok(rvit_session_run(of_patches, &args, NULL));
                expect_kept(&p, of_patches, taus[t].levels, &left);
            }
            printf("%s, tau %.4f: %d of %d patches kept\n",
                   dtype == RVIT_F32   ? "f32"
                   : dtype == RVIT_F16 ? "f16"
                                       : "bf16",
                   taus[t].tau, left, (H.is_slow ? 2 : 8) * 2 * 100);
            rvit_session_destroy(of_images);
            rvit_session_destroy(of_patches);
        }
        rvit_model_destroy(model);
    }
    rvit_checkpoint_destroy(checkpoint);
    json_decref(dump);
}

/* If no patch repeats, all patches are kept, and the logits equal those of a session without pruning. */
static void distinct_patches_are_kept(void **state)
{
    (void)state;
    static const char *const dumps[] = {"naflex_siglip2",    "naflex_timm_gap", "native_timm_distilled",
                                        "native_timm_eva02", "native_hf_clip",  "native_hf_dinov3"};
    for (size_t d = 0; d < sizeof dumps / sizeof *dumps; d++) {
        json_t *dump = dump_load(dump_file, dumps[d]);
        rvit_checkpoint *checkpoint = dump_open(dump, NULL);
        rvit_model *model = NULL;
        rvit_model_info info = RVIT_MODEL_INFO_INIT;
        expect_ok(rvit_model_create(H.device[DEVICE], checkpoint, NULL, &model));
        expect_ok(rvit_model_get_info(model, &info));
        rvit_session_desc desc = dump_session_desc(dump, &info);
        rvit_session *session = NULL;
        prune_in(&desc)->type = RVIT_PRUNE_PIXELPRUNE;
        desc.outputs = RVIT_OUTPUT_FEATURES;
        expect_ok(rvit_session_create(model, &desc, &session));
        dump_run_all(dump, &info, session);
        assert_int_equal(session_cu_seqlens(session, 0)[desc.max_images], session_cu_seqlens(session, -1)[desc.max_images]);
        const float *rows =
            dump_integer(dump, "features") ? session_floats(session, RVIT_RESULT_FEATURES) : session_floats(session, RVIT_RESULT_LOGITS);
        assert_true(dump_difference(json_object_get(dump, "outputs"), rows, dump_integer(dump, "features") ? info.dim : info.n_classes,
                                    dump_integer(dump, "features") ? session_cu_seqlens(session, 0) : NULL) <= 1e-5 * dump_largest(dump));
        rvit_session_destroy(session);
        rvit_model_destroy(model);
        rvit_checkpoint_destroy(checkpoint);
        json_decref(dump);
    }
}

static void refused(void **state)
{
    (void)state;
    json_t *dump = dump_load(dump_file, "naflex_siglip2"), *bare = dump_load(dump_file, "native_hf_clip");
    rvit_checkpoint *checkpoint = dump_open(dump, NULL), *untold;
    rvit_model *model = NULL, *other = NULL;
    expect_ok(rvit_model_create(H.device[DEVICE], checkpoint, NULL, &model));
    untold = dump_open(bare, NULL);
    expect_ok(rvit_model_create(H.device[DEVICE], untold, NULL, &other));
    static const struct {
        rvit_prune_type type;
        double tau;
        int32_t native, n_blocks, is_bare;
        rvit_status status;
        const char *word;
    } cases[] = {
        {RVIT_PRUNE_PIXELPRUNE, -0.1, 1, 0, 0, RVIT_INVALID_ARGUMENT, "tau is -0.1, expected 0..1"},
        {RVIT_PRUNE_PIXELPRUNE, 1.5, 1, 0, 0, RVIT_INVALID_ARGUMENT, "tau is 1.5, expected 0..1"},
        {RVIT_PRUNE_PIXELPRUNE, NAN, 1, 0, 0, RVIT_INVALID_ARGUMENT, "tau"},
        {RVIT_PRUNE_PIXELPRUNE, INFINITY, 1, 0, 0, RVIT_INVALID_ARGUMENT, "tau is inf"},
        {RVIT_PRUNE_L2, 0.1, 1, 0, 0, RVIT_INVALID_ARGUMENT, "tau is given, but the policy l2 has no such parameter"},
        {RVIT_PRUNE_NONE, 0.1, 1, 0, 0, RVIT_INVALID_ARGUMENT, "tau is given, but the policy none"},
        {RVIT_PRUNE_PIXELPRUNE, 0, 1, 1, 0, RVIT_INVALID_ARGUMENT, "blocks is given, but the policy pixelprune"},
        {RVIT_PRUNE_PIXELPRUNE, 0, 0, 0, 0, RVIT_UNSUPPORTED, "variable_resolution is 0, but pixelprune needs it"},
        {RVIT_PRUNE_PIXELPRUNE, 0.1, 1, 0, 1, RVIT_UNSUPPORTED, "has the std of its pixels"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        rvit_session_desc desc = RVIT_SESSION_DESC_INIT;
        rvit_session *session = NULL;
        desc.variable_resolution = cases[i].native;
        desc.input = cases[i].native ? RVIT_INPUT_PATCHES : RVIT_INPUT_TENSOR;
        prune_in(&desc)->type = cases[i].type;
        prune_in(&desc)->tau = cases[i].tau;
        prune_in(&desc)->n_blocks = cases[i].n_blocks;
        expect_status(rvit_session_create(cases[i].is_bare ? other : model, &desc, &session), cases[i].status, cases[i].word);
    }
    rvit_model_destroy(other);
    rvit_model_destroy(model);
    rvit_checkpoint_destroy(untold);
    rvit_checkpoint_destroy(checkpoint);
    json_decref(bare);
    json_decref(dump);
}

SUITE(dump_pixels_suite, TEST(pixels), TEST(distinct_patches_are_kept), TEST(refused));

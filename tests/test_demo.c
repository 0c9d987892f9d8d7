/* Compares the demo checkpoint on real images with timm's float64 logits and known probabilities.

   usage: test_demo BACKEND[:TIER] DATA_FOLDER [few|all]
   few: compares the logits of 16 tiles instead of 64, unless RVIT_TEST_CASES is all; all: also checks the accuracy on the sheet's 1000
   tiles. Exits with 77 if the backend is not available. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <raggedvit/raggedvit.h>

#include "tests/deit_recipe.h"
#include "tools/cli/image_file.h"
#include "tools/cli/preprocess.h"
#include "tools/cli/session_results.h"

enum { CLASSES = 10, SIZE = 224, TILE = 32, COLUMNS = 40, TILES = 1000, BATCH = 16, CAT = 3, DEER = 4, FROG = 6 };
#define IMAGE_LENGTH ((size_t)3 * SIZE * SIZE)

static const char *data_folder;
static rvit_device *device;
static rvit_checkpoint *checkpoint;
static rvit_model *model;
static int32_t n_tiles_of_logits = 64;

static const char *data_path(const char *name)
{
    static char path[1024];
    snprintf(path, sizeof path, "%s/%s", data_folder, name);
    return path;
}

static void ok(rvit_status status)
{
    if (status != RVIT_OK)
        fail_msg("%s: %s", rvit_status_name(status), rvit_status_detail());
}

static rvit_session *open_session_of(rvit_model *of, rvit_prune_type type, double keep, int32_t max_images)
{
    rvit_session_desc desc = RVIT_SESSION_DESC_INIT;
    rvit_prune_desc prune = RVIT_PRUNE_DESC_INIT;
    rvit_session *session = NULL;
    desc.max_images = max_images;
    desc.prune = &prune;
    prune.type = type;
    prune.keep = keep;
    ok(rvit_session_create(of, &desc, &session));
    return session;
}

static rvit_session *open_session(rvit_prune_type type, double keep, int32_t max_images)
{
    return open_session_of(model, type, keep, max_images);
}

static struct image load(const char *name)
{
    struct image image;
    struct image_error error;
    if (!image_load(data_path(name), &image, &error))
        fail_msg("%s: %s", name, error.text);
    return image;
}

/* Runs tiles first .. first + n - 1 and returns their logits. */
static void run_tiles(rvit_session *session, const struct image *sheet, int32_t first, int32_t n, float *out_logits)
{
    struct image_error error;
    float *input = rvit_session_input_memory(session, NULL);
    for (int32_t i = 0; i < n; i++) {
        const int32_t tile = first + i;
        const size_t corner = ((size_t)(tile / COLUMNS) * TILE * (size_t)sheet->width + (size_t)(tile % COLUMNS) * TILE) * 3;
        const struct image_view cut = {sheet->pixels + corner, (int64_t)sheet->width * 3, TILE, TILE};
        const rvit_image_recipe recipe = deit_recipe(SIZE);
        rvit_image image = preprocess_source(cut);
        image.target_width = image.target_height = SIZE;
        assert_true(preprocess_image(&recipe, &image, input + (size_t)i * IMAGE_LENGTH, NULL, &error));
    }
    rvit_run_args run = RVIT_RUN_ARGS_INIT;
    run.n_images = n;
    ok(rvit_session_run(session, &run, out_logits));
}

typedef struct logits_error {
    double largest, mean_square;
} logits_error;

static logits_error error_of_logits(rvit_model *of)
{
    struct image sheet = load("cifar10_test_1000.png");
    rvit_session *session = open_session_of(of, RVIT_PRUNE_NONE, -1, BATCH);
    FILE *reference = fopen(data_path("cifar10_test_logits_64.txt"), "r");
    assert_non_null(reference);
    logits_error error = {0, 0};
    for (int32_t first = 0; first < n_tiles_of_logits; first += BATCH) {
        float logits[BATCH * CLASSES];
        run_tiles(session, &sheet, first, BATCH, logits);
        for (int32_t i = 0; i < BATCH * CLASSES; i++) {
            double expected;
            assert_int_equal(fscanf(reference, "%lf", &expected), 1);
            assert_true(isfinite(logits[i]));
            const double difference = (double)logits[i] - expected;
            error.largest = fmax(error.largest, fabs(difference));
            error.mean_square += difference * difference / (n_tiles_of_logits * CLASSES);
        }
    }
    fclose(reference);
    rvit_session_destroy(session);
    image_free(&sheet);
    print_message("differences to timm's logits: at most %.3g, root mean square %.3g\n", error.largest, sqrt(error.mean_square));
    return error;
}

static void expect_logits(rvit_model *of, double tolerance)
{
    assert_true(error_of_logits(of).largest <= tolerance);
}

static void test_logits_equal_timm(void **state)
{
    (void)state;
    expect_logits(model, 1e-4);
}

static void test_logits_in_16_bits(void **state)
{
    (void)state;
    static const rvit_dtype types[] = {RVIT_F16, RVIT_BF16};
    static const double tolerances[] = {4e-3, 3.2e-2};
    rvit_device_info info = RVIT_DEVICE_INFO_INIT;
    ok(rvit_device_get_info(device, &info));
    for (int t = 0; t < 2; t++) {
        rvit_model_desc desc = RVIT_MODEL_DESC_INIT;
        rvit_model *narrow = NULL;
        desc.dtype = types[t];
        const rvit_status status = rvit_model_create(device, checkpoint, &desc, &narrow);
        if (info.backend == RVIT_BACKEND_VULKAN && types[t] == RVIT_BF16 && status == RVIT_UNSUPPORTED)
            continue;
        ok(status);
        expect_logits(narrow, tolerances[t]);
        rvit_model_destroy(narrow);
    }
}

/* A float64 emulation over 128 tiles has RMS errors of 0.013 (int8) and 0.028 (e4m3, with proj), and maximum errors of 0.10 and 0.23. A
   much smaller error would mean that nothing was quantized. */
static void test_logits_in_8_bits(void **state)
{
    (void)state;
    static const rvit_quantization kinds[] = {RVIT_QUANTIZATION_INT8, RVIT_QUANTIZATION_FP8};
    static const double means[] = {0.013, 0.028}, largest[] = {0.10, 0.23};
    for (int k = 0; k < 2; k++) {
        rvit_model_desc desc = RVIT_MODEL_DESC_INIT;
        rvit_model *narrow = NULL;
        desc.quantization = kinds[k];
        const rvit_status status = rvit_model_create(device, checkpoint, &desc, &narrow);
        if (status == RVIT_UNSUPPORTED) {
            rvit_device_info info = RVIT_DEVICE_INFO_INIT;
            ok(rvit_device_get_info(device, &info));
            assert_int_not_equal(info.backend, RVIT_BACKEND_CPU);
            print_message("%s\n", rvit_status_detail());
            continue;
        }
        ok(status);
        const logits_error error = error_of_logits(narrow);
        rvit_model_destroy(narrow);
        assert_true(error.largest <= 1.5 * largest[k]);
        assert_true(sqrt(error.mean_square) <= 1.5 * means[k]);
        assert_true(sqrt(error.mean_square) >= 0.3 * means[k]);
    }
}

static void classify_cat(rvit_prune_type type, double keep, double *out_probabilities, int32_t *out_tokens)
{
    struct image photo = load("chelsea.png");
    struct image_error error;
    float logits[CLASSES];
    rvit_session *session = open_session(type, keep, 1);
    const rvit_image_recipe recipe = deit_recipe(SIZE);
    const rvit_image image = preprocess_source(image_whole(&photo));
    assert_true(preprocess_image(&recipe, &image, rvit_session_input_memory(session, NULL), NULL, &error));
    rvit_run_args run = RVIT_RUN_ARGS_INIT;
    run.n_images = 1;
    ok(rvit_session_run(session, &run, logits));
    double sum = 0;
    for (int c = 0; c < CLASSES; c++)
        sum += exp((double)logits[c]);
    for (int c = 0; c < CLASSES; c++)
        out_probabilities[c] = exp((double)logits[c]) / sum;
    for (int32_t s = 0; s < session_n_stages(session); s++)
        out_tokens[s] = session_cu_seqlens(session, s)[1];
    rvit_session_destroy(session);
    image_free(&photo);
}

static void test_photo_dense(void **state)
{
    (void)state;
    double probabilities[CLASSES];
    int32_t tokens[RVIT_PRUNE_MAX_STAGES];
    classify_cat(RVIT_PRUNE_NONE, -1, probabilities, tokens);
    assert_float_equal(probabilities[CAT], 0.822, 6e-4);
    assert_float_equal(probabilities[FROG], 0.045, 6e-4);
    assert_float_equal(probabilities[DEER], 0.035, 6e-4);
}

static void test_photo_pruned(void **state)
{
    (void)state;
    double probabilities[CLASSES];
    int32_t tokens[RVIT_PRUNE_MAX_STAGES];
    classify_cat(RVIT_PRUNE_L2, 0.5, probabilities, tokens);
    print_message("l2 0.5: cat %.3f, %d tokens\n", probabilities[CAT], tokens[0]);
    assert_true(probabilities[CAT] > 0.5);
    assert_in_range(tokens[0], 98, 99);
    classify_cat(RVIT_PRUNE_EVIT, 0.5, probabilities, tokens);
    print_message("evit 0.5: cat %.3f, %d, %d, %d tokens\n", probabilities[CAT], tokens[0], tokens[1], tokens[2]);
    assert_true(probabilities[CAT] > 0.5);
    assert_int_equal(tokens[0], 99);
    assert_int_equal(tokens[1], 50);
    assert_int_equal(tokens[2], 26);
}

static void test_accuracy(void **state)
{
    (void)state;
    struct image sheet = load("cifar10_test_1000.png");
    rvit_session *session = open_session(RVIT_PRUNE_NONE, -1, 2 * BATCH);
    const char *classes = rvit_checkpoint_metadata(checkpoint, "classes");
    assert_non_null(classes);
    FILE *labels = fopen(data_path("cifar10_test_1000.txt"), "r");
    assert_non_null(labels);
    int n_right = 0;
    for (int32_t first = 0; first < TILES; first += 2 * BATCH) {
        const int32_t n = TILES - first < 2 * BATCH ? TILES - first : 2 * BATCH;
        float logits[2 * BATCH * CLASSES];
        run_tiles(session, &sheet, first, n, logits);
        for (int32_t i = 0; i < n; i++) {
            const float *row = logits + (size_t)i * CLASSES;
            char name[32], wanted[32];
            int best = 0;
            for (int c = 1; c < CLASSES; c++)
                if (row[c] > row[best])
                    best = c;
            const char *at = classes;
            for (int c = 0; c < best; c++)
                at = strchr(at, ',') + 1;
            snprintf(name, sizeof name, "%.*s", (int)strcspn(at, ","), at);
            assert_int_equal(fscanf(labels, "%31s", wanted), 1);
            n_right += strcmp(name, wanted) == 0;
        }
    }
    fclose(labels);
    rvit_session_destroy(session);
    image_free(&sheet);
    print_message("%d of %d right\n", n_right, TILES);
    assert_in_range(n_right, 846, 848);
}

static void close_all(void)
{
    rvit_model_destroy(model);
    rvit_checkpoint_destroy(checkpoint);
    rvit_device_destroy(device);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_logits_equal_timm), cmocka_unit_test(test_logits_in_16_bits), cmocka_unit_test(test_logits_in_8_bits),
        cmocka_unit_test(test_photo_dense),       cmocka_unit_test(test_photo_pruned),
    };
    const struct CMUnitTest long_tests[] = {cmocka_unit_test(test_accuracy)};
    if (argc < 3) {
        fprintf(stderr, "usage: %s BACKEND[:TIER] DATA_FOLDER [few|all]\n", argv[0]);
        return 2;
    }
    rvit_device_desc desc = RVIT_DEVICE_DESC_INIT;
    desc.backend = strncmp(argv[1], "vulkan", 6) == 0 ? RVIT_BACKEND_VULKAN
                   : strcmp(argv[1], "cuda") == 0     ? RVIT_BACKEND_CUDA
                                                      : RVIT_BACKEND_CPU;
    const char *tier = strchr(argv[1], ':');
    if (tier != NULL)
        desc.tier = strcmp(tier, ":scalar") == 0     ? RVIT_TIER_SCALAR
                    : strcmp(tier, ":subgroup") == 0 ? RVIT_TIER_SUBGROUP
                                                     : RVIT_TIER_MATRIX;
    data_folder = argv[2];
    const char *cases = getenv("RVIT_TEST_CASES");
    if (argc > 3 && strcmp(argv[3], "few") == 0 && !(cases != NULL && strcmp(cases, "all") == 0))
        n_tiles_of_logits = BATCH;
    rvit_status status = rvit_device_create(&desc, &device);
    if (status == RVIT_UNAVAILABLE || status == RVIT_UNSUPPORTED) {
        fprintf(stderr, "skipped: %s\n", rvit_status_detail());
        return 77;
    }
    if (status == RVIT_OK)
        status = rvit_checkpoint_open(data_path("deit_tiny_cifar10.safetensors"), NULL, &checkpoint);
    if (status == RVIT_OK)
        status = rvit_model_create(device, checkpoint, NULL, &model);
    if (status != RVIT_OK) {
        fprintf(stderr, "%s: %s\n", rvit_status_name(status), rvit_status_detail());
        return 1;
    }
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    if (argc > 3 && strcmp(argv[3], "all") == 0)
        failed += cmocka_run_group_tests(long_tests, NULL, NULL);
    close_all();
    return failed ? 1 : 0;
}

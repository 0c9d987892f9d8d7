/* An invalid request fails with a message; the answers of the other requests of its batch do not change. */
#include <math.h>

#include "scene.h"
#include "tests/image_files.h"

enum { N_GOOD = 3 };

static struct test_image good[N_GOOD];
static float pixels[8 * PIXELS_OF_IMAGE];

/* Runs the invalid request in a batch with valid ones before and after it. */
static void expect_failure(TRITONBACKEND_ModelInstance *instance, TRITONBACKEND_Request *bad, TRITONSERVER_Error_Code code,
                           const char *words)
{
    TRITONBACKEND_Request *requests[N_GOOD + 2] = {request_image(&good[0]), request_encoded(good[1].file, good[1].file_size), bad,
                                                   request_pixels(pixels, 2), request_image(&good[2])};
    run_batch(instance, requests, N_GOOD + 2);
    fake_request_expect_error(bad, code, words);
    for (int i = 0; i < N_GOOD; i++)
        expect_logits(requests[i < 2 ? i : 4], 0, direct_logits("l2", 0.5, &good[i]));
    for (int i = 0; i < 2; i++)
        expect_logits(requests[3], i, direct_logits_of_pixels("l2", 0.5, pixels + i * PIXELS_OF_IMAGE));
}

static TRITONBACKEND_Request *request_of(const fake_input *input)
{
    TRITONBACKEND_Request *request = fake_request_new("bad");
    fake_request_input(request, input);
    return request;
}

static TRITONBACKEND_ModelInstance *begin(void)
{
    for (int i = 0; i < N_GOOD; i++)
        good[i] = test_image_new(40 + i, 30 + 20 * i, 50 - 10 * i);
    for (int i = 0; i < 8; i++)
        pixels_of(i, pixels + i * PIXELS_OF_IMAGE);
    return scene_instance(scene_load("model", "{\"parameters\": {\"policy\": {\"string_value\": \"l2\"},"
                                              " \"blocks\": {\"string_value\": \"0\"}}}"));
}

static void end(void)
{
    for (int i = 0; i < N_GOOD; i++)
        test_image_free(&good[i]);
}

/* An IMAGE of zeros with any shape; size: the bytes sent. */
static TRITONBACKEND_Request *image(int64_t n, int64_t height, int64_t width, int64_t channels, uint64_t size)
{
    return request_of(&(fake_input){.name = "IMAGE",
                                    .type = TRITONSERVER_TYPE_UINT8,
                                    .shape = {n, height, width, channels},
                                    .n_dims = 4,
                                    .size = size,
                                    .misaligned = 1});
}

static void wrong_shapes(void **state)
{
    (void)state;
    static const struct {
        int64_t shape[4];
        uint64_t size;
        const char *words;
    } cases[] = {
        {{1, 0, 0, 3}, 0, "[1, 0, 0, 3]"},
        {{1, 5, 0, 3}, 0, "[1, 5, 0, 3]"},
        {{1, 1, 70000, 3}, 210000, "70000"},
        {{1, 70000, 1, 3}, 210000, "70000"},
        {{1, 4, 4, 4}, 64, "[1, 4, 4, 4], expected [n, h, w, 3]"},
        {{1, 4, 4, 1}, 16, "[1, 4, 4, 1]"},
        {{1, 4, 4, 3}, 47, "47 bytes, but its shape takes 48"}, /* too few bytes */
        {{1, 4, 4, 3}, 49, "49 bytes"},                         /* too many */
        {{1, 4, 4, 3}, 0, "0 bytes"},
        {{1, INT64_MAX, INT64_MAX, 3}, 48, "9223372036854775807"}, /* the product overflows */
        {{1, INT64_C(1) << 32, INT64_C(1) << 32, 3}, 0, "4294967296"},
        {{1, 65535, 65535, 3}, 48, "48 bytes, but its shape takes 12884508675"},
        {{1, -1, 4, 3}, 12, "-1"},
        {{-1, 4, 4, 3}, 48, "-1"},
        {{0, 4, 4, 3}, 0, "[0, 4, 4, 3]"}, /* no image */
        {{INT64_C(1) << 62, 4, 4, 3}, 48, "4611686018427387904"},
    };
    TRITONBACKEND_ModelInstance *instance = begin();
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const int64_t *s = cases[i].shape;
        expect_failure(instance, image(s[0], s[1], s[2], s[3], cases[i].size), TRITONSERVER_ERROR_INVALID_ARG, cases[i].words);
    }
    end();
}

static void unknown_inputs(void **state)
{
    (void)state;
    TRITONBACKEND_ModelInstance *instance = begin();
    const TRITONSERVER_Error_Code code = TRITONSERVER_ERROR_INVALID_ARG;
    /* No input, two inputs, an unknown input. */
    expect_failure(instance, fake_request_new("none"), code, "IMAGE");
    TRITONBACKEND_Request *two = request_image(&good[0]);
    fake_request_input(
        two,
        &(fake_input){
            .name = "PIXELS", .type = TRITONSERVER_TYPE_FP32, .shape = {1, 3, LINES, COLUMNS}, .n_dims = 4, .size = PIXELS_OF_IMAGE * 4});
    expect_failure(instance, two, code, "PIXELS");
    expect_failure(
        instance,
        request_of(&(fake_input){.name = "IMAGES", .type = TRITONSERVER_TYPE_UINT8, .shape = {1, 2, 2, 3}, .n_dims = 4, .size = 12}), code,
        "IMAGES");
    /* Wrong types and ranks. */
    expect_failure(
        instance,
        request_of(&(fake_input){.name = "IMAGE", .type = TRITONSERVER_TYPE_FP32, .shape = {1, 2, 2, 3}, .n_dims = 4, .size = 48}), code,
        "FP32");
    expect_failure(instance,
                   request_of(&(fake_input){.name = "IMAGE", .type = TRITONSERVER_TYPE_UINT8, .shape = {2, 2, 3}, .n_dims = 3, .size = 12}),
                   code, "IMAGE");
    expect_failure(instance, request_of(&(fake_input){.name = "IMAGE", .type = TRITONSERVER_TYPE_UINT8, .n_dims = 0, .size = 1}), code,
                   "IMAGE");
    expect_failure(
        instance,
        request_of(&(fake_input){
            .name = "PIXELS", .type = TRITONSERVER_TYPE_FP16, .shape = {1, 3, LINES, COLUMNS}, .n_dims = 4, .size = PIXELS_OF_IMAGE * 2}),
        code, "FP16");
    expect_failure(
        instance,
        request_of(&(fake_input){
            .name = "PIXELS", .type = TRITONSERVER_TYPE_FP32, .shape = {1, 3, COLUMNS, LINES}, .n_dims = 4, .size = PIXELS_OF_IMAGE * 4}),
        code, "56");
    expect_failure(instance,
                   request_of(&(fake_input){.name = "PIXELS",
                                            .type = TRITONSERVER_TYPE_FP32,
                                            .shape = {1, 3, LINES, COLUMNS},
                                            .n_dims = 4,
                                            .size = PIXELS_OF_IMAGE * 4 - 1}),
                   code, "21503");
    /* An unknown output. */
    TRITONBACKEND_Request *output = request_image(&good[0]);
    fake_request_output(output, "EMBEDDING");
    expect_failure(instance, output, code, "EMBEDDING");
    end();
}

static void nan_values(void **state)
{
    (void)state;
    TRITONBACKEND_ModelInstance *instance = begin();
    static const float bad_values[] = {NAN, INFINITY, -INFINITY};
    static float two[2 * PIXELS_OF_IMAGE];
    for (int i = 0; i < 3; i++) {
        memcpy(two, pixels, sizeof two);
        two[PIXELS_OF_IMAGE + 100 * i] = bad_values[i];
        expect_failure(instance, request_pixels(two, 2), TRITONSERVER_ERROR_INVALID_ARG, "PIXELS");
    }
    /* Pixels that give NaN scores. */
    for (int i = 0; i < PIXELS_OF_IMAGE; i++)
        two[i] = i % 2 ? 3e38f : -3e38f;
    expect_failure(instance, request_pixels(two, 1), TRITONSERVER_ERROR_INVALID_ARG,
                   "image 0: a score is NaN at prune stage 0 (block 0): its pixels are NaN, infinite or beyond 65504");
    end();
}

/* Replaces the first values of a float16 tensor in a file. */
static void overwrite(char *file, const char *tensor, const uint16_t *values, size_t n)
{
    uint64_t header;
    memcpy(&header, file, sizeof header);
    const char *entry = strstr(file + 8, tensor), *offsets = entry ? strstr(entry, "\"data_offsets\":[") : NULL;
    assert_non_null(offsets);
    memcpy(file + 8 + header + strtoull(offsets + strlen("\"data_offsets\":["), NULL, 10), values, n * sizeof *values);
}

/* A model that overflows float16 on every image except black ones: each policy reports an error, and the metric counts it. */
static void float16_overflow(void **state)
{
    (void)state;
    static const uint16_t patch[4] = {0x7bff, 0x7bff, 0x7bff, 0x7bff}, qkv[1] = {0x74e2};
    static char file[1 << 18];
    FILE *original = fopen(RVIT_TEST_MODEL "/model.safetensors", "rb");
    assert_non_null(original);
    const size_t size = fread(file, 1, sizeof file - 1, original);
    assert_int_equal(fclose(original), 0);
    assert_true(size < sizeof file - 1);
    overwrite(file, "\"patch_embed.proj.weight\"", patch, 4);
    overwrite(file, "\"blocks.0.attn.qkv.weight\"", qkv, 1);
    static const struct {
        const char *name, *policy, *words;
    } cases[] = {{"dense", "none", "IMAGE: image 0: its logits are not finite: the model overflows float16; use bf16 or f32"},
                 {"merging", "tome", "IMAGE: image 0: its logits are not finite: the model overflows float16; use bf16 or f32"},
                 {"pruned", "l2", "IMAGE: image 0: a score is NaN at prune stage 0 (block 1): the model overflows float16"}};
    struct test_image black = test_image_new(1, 40, 30), bright = test_image_new(2, 30, 40);
    memset(black.pixels, 0, (size_t)(3 * black.width * black.height));
    for (int i = 0; i < 3; i++) {
        char name[64], config[512];
        snprintf(config, sizeof config,
                 "{\"parameters\": {\"policy\": {\"string_value\": \"%s\"}, %s\"dtype\": {\"string_value\": \"f16\"}, "
                 "\"mean\": {\"string_value\": \"0\"}, \"std\": {\"string_value\": \"1\"}}}",
                 cases[i].policy, i > 0 ? "\"blocks\": {\"string_value\": \"1\"}, " : "");
        TRITONBACKEND_Model *model = scene_add_model(cases[i].name, config);
        snprintf(name, sizeof name, "%s/1/model.safetensors", cases[i].name);
        scene_write(name, file, size);
        scene_initialize(model);
        TRITONBACKEND_Request *requests[] = {request_image(&black), request_image(&bright), request_image(&black)};
        run_batch(scene_instance(model), requests, 3);
        fake_request_expect_error(requests[1], TRITONSERVER_ERROR_INTERNAL, cases[i].words);
        assert_int_equal((int)fake_metric("raggedvit_images_total", cases[i].name, NULL), 2);
        assert_int_equal((int)fake_metric("raggedvit_failed_images_total", cases[i].name, NULL), 1);
    }
    test_image_free(&black);
    test_image_free(&bright);
}

/* ENCODED: the bytes of one string, in two buffers. */
static TRITONBACKEND_Request *strings(const void *data, size_t size, int64_t n)
{
    return request_of(&(fake_input){.name = "ENCODED",
                                    .type = TRITONSERVER_TYPE_BYTES,
                                    .shape = {n, 1},
                                    .n_dims = 2,
                                    .data = data,
                                    .size = size,
                                    .n_buffers = size > 1 ? 2 : 0,
                                    .misaligned = 3});
}

static void broken_files(void **state)
{
    (void)state;
    TRITONBACKEND_ModelInstance *instance = begin();
    const TRITONSERVER_Error_Code code = TRITONSERVER_ERROR_INVALID_ARG;
    expect_failure(instance, request_encoded(jpeg_420, sizeof jpeg_420 / 2), code, "ENCODED");
    expect_failure(instance, request_encoded(jpeg_progressive, 40), code, "ENCODED");
    expect_failure(instance, request_encoded("GIF89a, not an image of ours", 28), code, "ENCODED");
    expect_failure(instance, request_encoded("", 0), code, "ENCODED");
    uint8_t damaged[sizeof png_rgb];
    memcpy(damaged, png_rgb, sizeof damaged);
    damaged[50] ^= 0x40;
    expect_failure(instance, request_encoded(damaged, sizeof damaged), code, "ENCODED");
    /* The header says a width of 70000. */
    uint8_t wide[sizeof png_rgb];
    memcpy(wide, png_rgb, sizeof wide);
    wide[17] = 1;
    wide[18] = 0x11;
    wide[19] = 0x70;
    expect_failure(instance, request_encoded(wide, sizeof wide), code, "ENCODED");
    /* Wrong length fields. */
    static const uint8_t too_long[] = {200, 0, 0, 0, 0xff, 0xd8}, huge[] = {0xff, 0xff, 0xff, 0xff, 1}, cut[] = {4, 0},
                         more[] = {1, 0, 0, 0, 7, 0, 0, 0, 0};
    expect_failure(instance, strings(too_long, sizeof too_long, 1), code, "ENCODED");
    expect_failure(instance, strings(huge, sizeof huge, 1), code, "ENCODED");
    expect_failure(instance, strings(cut, sizeof cut, 1), code, "ENCODED");
    expect_failure(instance, strings(more, sizeof more, 1), code, "ENCODED"); /* two strings, but a shape of one */
    expect_failure(instance, strings(more, sizeof more, 3), code, "ENCODED");
    uint8_t longer[4 + sizeof png_rgb + 1] = {sizeof png_rgb};
    memcpy(longer + 4, png_rgb, sizeof png_rgb);
    expect_failure(instance, strings(longer, sizeof longer, 1), code, "1 bytes follow the last of 1 images");
    expect_failure(instance, strings(NULL, 0, 1), code, "ENCODED");
    expect_failure(instance, strings(NULL, 0, INT64_MAX), code, "ENCODED");
    end();
}

static void inaccessible_memory(void **state)
{
    (void)state;
    TRITONBACKEND_ModelInstance *instance = begin();
    expect_failure(instance,
                   request_of(&(fake_input){.name = "IMAGE",
                                            .type = TRITONSERVER_TYPE_UINT8,
                                            .shape = {1, 4, 4, 3},
                                            .n_dims = 4,
                                            .size = 48,
                                            .memory = TRITONSERVER_MEMORY_GPU}),
                   TRITONSERVER_ERROR_UNSUPPORTED, "GPU");
    TRITONBACKEND_Request *on_gpu = request_image(&good[0]), *failing = request_image(&good[0]);
    fake_request_output_memory(on_gpu, FAKE_OUTPUT_ON_GPU);
    expect_failure(instance, on_gpu, TRITONSERVER_ERROR_UNSUPPORTED, "GPU");
    fake_request_output_memory(failing, FAKE_OUTPUT_FAILS);
    expect_failure(instance, failing, TRITONSERVER_ERROR_INTERNAL, "TRITONBACKEND_OutputBuffer fails");
    end();
}

static void cancelled_requests(void **state)
{
    (void)state;
    TRITONBACKEND_ModelInstance *instance = begin();
    TRITONBACKEND_Request *cancelled = request_image(&good[0]);
    fake_request_cancel(cancelled);
    expect_failure(instance, cancelled, TRITONSERVER_ERROR_CANCELLED, "cancel");
    assert_int_equal((int)fake_metric("raggedvit_images_total", "model", NULL), N_GOOD + 2);
    /* A batch of invalid requests only. */
    TRITONBACKEND_Request *all[2] = {request_image(&good[0]), request_pixels(pixels, 3)};
    for (int i = 0; i < 2; i++)
        fake_request_cancel(all[i]);
    run_batch(instance, all, 2);
    for (int i = 0; i < 2; i++)
        fake_request_expect_error(all[i], TRITONSERVER_ERROR_CANCELLED, "cancel");
    assert_int_equal((int)fake_metric("raggedvit_images_total", "model", NULL), N_GOOD + 2);
    end();
}

/* A request over a limit is rejected with a message that names the limit; the others run, in several runs if necessary. */
static void limits(void **state)
{
    (void)state;
    begin();
    TRITONBACKEND_ModelInstance *few = scene_instance(
        scene_load("few", "{\"max_batch_size\": 4, \"parameters\": {\"max_tokens\": {\"string_value\": \"90\"}}}")); /* 3 images */
    TRITONBACKEND_Request *requests[] = {request_pixels(pixels, 3), request_pixels(pixels, 4), request_pixels(pixels, 5),
                                         request_pixels(pixels + PIXELS_OF_IMAGE, 2), request_image(&good[0])};
    run_batch(few, requests, 5);
    for (int i = 0; i < 3; i++)
        expect_logits(requests[0], i, direct_logits_of_pixels(NULL, 0, pixels + i * PIXELS_OF_IMAGE));
    fake_request_expect_error(requests[1], TRITONSERVER_ERROR_INVALID_ARG, "max_tokens");
    fake_request_expect_error(requests[2], TRITONSERVER_ERROR_INVALID_ARG, "max_batch_size");
    for (int i = 0; i < 2; i++)
        expect_logits(requests[3], i, direct_logits_of_pixels(NULL, 0, pixels + (1 + i) * PIXELS_OF_IMAGE));
    expect_logits(requests[4], 0, direct_logits(NULL, 0, &good[0]));
    end();
}

/* When the batching functions close a batch. */
static void batches_close_by_tokens(void **state)
{
    (void)state;
    begin();
    TRITONBACKEND_Model *model =
        scene_load("few", "{\"max_batch_size\": 64, \"parameters\": {\"max_tokens\": {\"string_value\": \"145\"}}}"); /* 5 images */
    TRITONBACKEND_Batcher *batcher = NULL;
    fake_expect_success(TRITONBACKEND_ModelBatcherInitialize(&batcher, model));
    for (int turn = 0; turn < 2; turn++) {
        void *batch = NULL;
        bool include[4];
        TRITONBACKEND_Request *requests[] = {request_pixels(pixels, 2), request_image(&good[0]), request_pixels(pixels, 3),
                                             request_encoded(good[1].file, good[1].file_size)};
        fake_expect_success(TRITONBACKEND_ModelBatchInitialize(batcher, &batch));
        for (int i = 0; i < 4; i++)
            fake_expect_success(TRITONBACKEND_ModelBatchIncludeRequest(requests[i], batch, &include[i]));
        fake_expect_success(TRITONBACKEND_ModelBatchFinalize(batch));
        assert_true(include[0]);
        assert_true(include[1]);
        assert_false(include[2]); /* 6 images */
        for (int i = 0; i < 4; i++)
            fake_expect_success(TRITONBACKEND_RequestRelease(requests[i], TRITONSERVER_REQUEST_RELEASE_ALL));
        /* The first request is always included: Execute rejects it if it is too large. */
        TRITONBACKEND_Request *large = request_pixels(pixels, 8), *wrong = fake_request_new("without input");
        fake_expect_success(TRITONBACKEND_ModelBatchInitialize(batcher, &batch));
        fake_expect_success(TRITONBACKEND_ModelBatchIncludeRequest(large, batch, &include[0]));
        assert_true(include[0]);
        fake_expect_success(TRITONBACKEND_ModelBatchFinalize(batch));
        fake_expect_success(TRITONBACKEND_ModelBatchInitialize(batcher, &batch));
        fake_expect_success(TRITONBACKEND_ModelBatchIncludeRequest(wrong, batch, &include[0]));
        assert_true(include[0]);
        fake_expect_success(TRITONBACKEND_ModelBatchFinalize(batch));
        fake_expect_success(TRITONBACKEND_RequestRelease(large, TRITONSERVER_REQUEST_RELEASE_ALL));
        fake_expect_success(TRITONBACKEND_RequestRelease(wrong, TRITONSERVER_REQUEST_RELEASE_ALL));
    }
    /* The server does not finish every batch that it starts. */
    for (int i = 0; i < 20; i++) {
        void *batch = NULL;
        bool include = false;
        TRITONBACKEND_Request *request = request_pixels(pixels, 5);
        fake_expect_success(TRITONBACKEND_ModelBatchInitialize(batcher, &batch));
        fake_expect_success(TRITONBACKEND_ModelBatchIncludeRequest(request, batch, &include));
        assert_true(include);
        fake_expect_success(TRITONBACKEND_RequestRelease(request, TRITONSERVER_REQUEST_RELEASE_ALL));
    }
    fake_expect_success(TRITONBACKEND_ModelBatcherFinalize(batcher));
    end();
}

static void metrics_count(void **state)
{
    (void)state;
    TRITONBACKEND_ModelInstance *instance = begin();
    static float two[2 * PIXELS_OF_IMAGE]; /* if one image is invalid, the whole request fails */
    two[PIXELS_OF_IMAGE] = NAN;
    TRITONBACKEND_Request *requests[] = {request_pixels(pixels, 3), image(1, 4, 4, 4, 64), request_encoded(good[1].file, good[1].file_size),
                                         request_pixels(two, 2), request_image(&good[0])};
    run_batch(instance, requests, 5);
    uint64_t n_runs;
    assert_int_equal((int)fake_metric("raggedvit_images_total", "model", NULL), 5);
    assert_int_equal((int)fake_metric("raggedvit_failed_images_total", "model", NULL), 3);
    assert_int_equal((int)fake_metric("raggedvit_tokens_total", "model", NULL), 5 * TOKENS);
    (void)direct_logits("l2", 0.5, &good[0]);
    assert_int_equal((int)fake_metric("raggedvit_tokens_kept_total", "model", NULL), 5 * direct_kept());
    assert_int_equal((int)fake_metric("raggedvit_runs_total", "model", NULL), 1);
    assert_int_equal((int)fake_metric("raggedvit_run_images", "model", &n_runs), 5);
    assert_int_equal(n_runs, 1);
    assert_true(fake_metric("raggedvit_decode_seconds_total", "model", NULL) > 0);
    assert_int_equal(fake_instance_images(instance), 5);
    end();
}

GROUP(bad_requests, SCENE_TEST(wrong_shapes), SCENE_TEST(unknown_inputs), SCENE_TEST(nan_values), SCENE_TEST(float16_overflow),
      SCENE_TEST(broken_files), SCENE_TEST(inaccessible_memory), SCENE_TEST(cancelled_requests), SCENE_TEST(limits),
      SCENE_TEST(batches_close_by_tokens), SCENE_TEST(metrics_count));

/* Valid requests: every answer equals that of the library run on the image by itself, bit for bit. */
#include <math.h>

#include "scene.h"
#include "tests/image_files.h"
#include "tools/cli/image_file.h"

static const json_t *named(const json_t *list, const char *name)
{
    size_t i;
    json_t *entry;
    json_array_foreach((json_t *)(uintptr_t)list, i, entry)
    {
        const char *found = json_string_value(json_object_get(entry, "name"));
        if (found && strcmp(found, name) == 0)
            return entry;
    }
    return NULL;
}

/* Reads a dimension as the server does: a number or a string of digits. */
static int64_t dim(const json_t *entry, size_t i)
{
    const json_t *value = json_array_get(json_object_get(entry, "dims"), i);
    return json_is_string(value) ? strtoll(json_string_value(value), NULL, 10) : json_integer_value(value);
}

static void minimal_config(void **state)
{
    (void)state;
    TRITONBACKEND_Model *model = scene_load("plain", "{}");
    const json_t *config = fake_model_config(model), *inputs = json_object_get(config, "input"),
                 *outputs = json_object_get(config, "output");
    assert_int_equal(json_integer_value(json_object_get(config, "max_batch_size")), 64);
    assert_true(json_is_object(json_object_get(config, "dynamic_batching")));
    assert_int_equal(json_array_size(inputs), 3);
    static const char *const input_names[] = {"IMAGE", "ENCODED", "PIXELS"};
    for (int i = 0; i < 3; i++) {
        assert_non_null(named(inputs, input_names[i]));
        assert_true(json_is_true(json_object_get(named(inputs, input_names[i]), "optional")));
    }
    assert_true(json_is_true(json_object_get(named(inputs, "IMAGE"), "allow_ragged_batch")));
    assert_int_equal(dim(named(inputs, "IMAGE"), 0), -1);
    assert_int_equal(dim(named(inputs, "PIXELS"), 1), LINES);
    assert_int_equal(dim(named(inputs, "PIXELS"), 2), COLUMNS);
    assert_int_equal(dim(named(outputs, "LOGITS"), 0), CLASSES);
    assert_int_equal(dim(named(outputs, "MASK"), 0), TOKENS);
    assert_int_equal(dim(named(outputs, "TOKENS"), 0), 1);
    assert_int_equal(dim(named(outputs, "CLASSES"), 0), 5);
    assert_null(named(outputs, "POOLED"));    /* only on request */
    assert_null(named(outputs, "EMBEDDING")); /* it has no projection */

    /* Existing fields are kept. */
    TRITONBACKEND_Model *other = scene_load("other", "{\"max_batch_size\": 3, \"parameters\": {\"top\": {\"string_value\": \"2\"}}}");
    config = fake_model_config(other);
    assert_int_equal(json_integer_value(json_object_get(config, "max_batch_size")), 3);
    assert_int_equal(dim(named(json_object_get(config, "output"), "CLASSES"), 0), 2);
}

static void preferred_instances(void **state)
{
    (void)state;
    TRITONBACKEND_Backend *backend = fake_backend_new();
    TRITONBACKEND_BackendAttribute *attribute = fake_attribute_new();
    const TRITONSERVER_InstanceGroupKind *kinds;
    fake_expect_success(TRITONBACKEND_GetBackendAttribute(backend, attribute));
    assert_int_equal(fake_attribute_kinds(attribute, &kinds), 2);
    assert_int_equal(kinds[0], TRITONSERVER_INSTANCEGROUPKIND_GPU);
    assert_int_equal(kinds[1], TRITONSERVER_INSTANCEGROUPKIND_CPU);
}

static float f32_at(const fake_output *output, int64_t i)
{
    float value;
    memcpy(&value, output->data + i * 4, 4);
    return value;
}

static int32_t i32_at(const fake_output *output, int64_t i)
{
    int32_t value;
    memcpy(&value, output->data + i * 4, 4);
    return value;
}

/* Checks that string i of the output is the beginning of the text. */
static void expect_text(const fake_output *output, int i, const char *text)
{
    const uint8_t *p = output->data;
    uint32_t length;
    for (;; p += 4 + length) {
        memcpy(&length, p, 4);
        if (i-- == 0)
            break;
    }
    if (length != strlen(text) || memcmp(p + 4, text, length) != 0)
        fail_msg("found \"%.*s\", expected \"%s\"", (int)length, (const char *)p + 4, text);
}

/* Checks the answer for one image. */
static void check_outputs(const TRITONBACKEND_Request *request, const float *logits, int top, const char *const *labels, int32_t kept)
{
    const fake_output *classes = fake_request_result(request, "CLASSES"), *scores = fake_request_result(request, "SCORES"),
                      *names = fake_request_result(request, "LABELS"), *mask = fake_request_result(request, "MASK"),
                      *tokens = fake_request_result(request, "TOKENS");
    assert_int_equal(classes->shape[1], top);
    assert_int_equal(scores->shape[1], top);
    assert_int_equal(names->shape[1], top);
    double sum = 0;
    for (int c = 0; c < CLASSES; c++)
        sum += exp((double)logits[c]);
    uint32_t seen = 0;
    for (int i = 0; i < top; i++) {
        const int32_t c = i32_at(classes, i);
        assert_in_range(c, 0, CLASSES - 1);
        assert_false(seen >> c & 1);
        seen |= 1u << c;
        for (int other = 0; other < CLASSES; other++)
            assert_true(seen >> other & 1 || logits[other] <= logits[c]);
        assert_true(fabs(f32_at(scores, i) - exp((double)logits[c]) / sum) < 1e-6);
        char number[16];
        snprintf(number, sizeof number, "%d", (int)c);
        expect_text(names, i, labels ? labels[c] : number);
    }
    int32_t n = 0;
    assert_int_equal(mask->shape[1], TOKENS);
    for (int i = 0; i < TOKENS; i++) {
        assert_in_range(mask->data[i], 0, 1);
        n += mask->data[i];
    }
    assert_int_equal(i32_at(tokens, 0), kept);
    assert_int_equal(n, kept);
    assert_int_equal(mask->data[0], 1); /* the CLS token */
}

static void all_outputs(void **state)
{
    (void)state;
    static const char *const labels[] = {"tench", "a goldfish", "white shark", "4", "h\xc3\xa9ron", "ray", "cock"};
    static const char file[] = "tench\na goldfish\nwhite shark\n4\nh\xc3\xa9ron\nray\ncock\n";
    struct test_image image = test_image_new(1, 70, 40);
    TRITONBACKEND_ModelInstance *plain = scene_instance(scene_load("plain", "{}"));
    TRITONBACKEND_Request *request = request_image(&image);
    run_batch(plain, &request, 1);
    const float *logits = direct_logits(NULL, 0, &image);
    expect_logits(request, 0, logits);
    check_outputs(request, logits, 5, NULL, TOKENS);
    assert_int_equal(fake_request_answer(request)->n_outputs, 6);

    scene_add_model("labelled", "{}");
    scene_write("labelled/1/names.txt", file, sizeof file - 1);
    TRITONBACKEND_ModelInstance *labelled = scene_instance(
        scene_load("labelled", "{\"parameters\": {\"top\": {\"string_value\": \"3\"}, \"labels\": {\"string_value\": \"names.txt\"},"
                               " \"policy\": {\"string_value\": \"l2\"}, \"blocks\": {\"string_value\": \"0\"}}}"));
    request = request_image(&image);
    run_batch(labelled, &request, 1);
    logits = direct_logits("l2", 0.5, &image);
    expect_logits(request, 0, logits);
    check_outputs(request, logits, 3, labels, direct_kept());
    assert_true(direct_kept() < TOKENS);

    /* Only the requested outputs; the fake server checks that there are no others. */
    request = request_image(&image);
    fake_request_output(request, "TOKENS");
    fake_request_output(request, "LOGITS");
    run_batch(labelled, &request, 1);
    expect_logits(request, 0, logits);
    assert_int_equal(fake_request_answer(request)->n_outputs, 2);

    /* Only if the configuration requests it. */
    TRITONBACKEND_ModelInstance *pooled =
        scene_instance(scene_load("pooled", "{\"output\": [{\"name\": \"POOLED\", \"data_type\": \"TYPE_FP32\", \"dims\": [32]}]}"));
    request = request_image(&image);
    run_batch(pooled, &request, 1);
    const fake_output *vector = fake_request_result(request, "POOLED");
    assert_int_equal(vector->shape[1], 32);
    assert_int_equal(fake_request_answer(request)->n_outputs, 1);
    double length = 0;
    for (int i = 0; i < 32; i++)
        length += (double)f32_at(vector, i) * f32_at(vector, i);
    assert_true(length > 0 && isfinite(length));
    test_image_free(&image);
}

/* Images of many sizes, several per request, split into unaligned buffers, as files and as pixels. */
static void mixed_requests(void **state)
{
    (void)state;
    static const int32_t sizes[][2] = {{1, 1}, {56, 32}, {300, 5}, {33, 290}, {640, 480}, {57, 33}, {224, 224}, {2, 900}};
    static const struct {
        const uint8_t *data;
        size_t size;
    } files[] = {
        {jpeg_420, sizeof jpeg_420},
        {jpeg_exif, sizeof jpeg_exif}, /* EXIF orientation must be applied */
#if RVIT_HAVE_WEBP
        {webp_exif, sizeof webp_exif},
#endif
        {png_palette, sizeof png_palette},
        {bmp_rle8, sizeof bmp_rle8}
    };
    enum { N_SIZES = sizeof sizes / sizeof sizes[0], N_FILES = sizeof files / sizeof files[0], N = N_SIZES + 2 + N_FILES };
    TRITONBACKEND_ModelInstance *instance = scene_instance(
        scene_load("mixed", "{\"parameters\": {\"policy\": {\"string_value\": \"l2\"}, \"blocks\": {\"string_value\": \"0\"}}}"));
    struct test_image images[N_SIZES][2];
    for (int i = 0; i < N_SIZES; i++)
        for (int j = 0; j < 2; j++)
            images[i][j] = test_image_new(2 * i + j, sizes[i][0], sizes[i][1]);
    static float pixels[3 * PIXELS_OF_IMAGE];
    for (int i = 0; i < 3; i++)
        pixels_of(i, pixels + i * PIXELS_OF_IMAGE);
    for (int turn = 0; turn < 2; turn++) {
        TRITONBACKEND_Request *requests[N];
        for (int i = 0; i < N_SIZES; i++) {
            const struct test_image *p = images[i];
            const uint64_t size = 3 * (uint64_t)p->width * (uint64_t)p->height;
            uint8_t *both = malloc(2 * size);
            assert_non_null(both);
            memcpy(both, p[0].pixels, size);
            memcpy(both + size, p[1].pixels, size);
            requests[i] = fake_request_new(NULL);
            fake_request_input(requests[i], &(fake_input){.name = "IMAGE",
                                                          .type = TRITONSERVER_TYPE_UINT8,
                                                          .shape = {2, p->height, p->width, 3},
                                                          .n_dims = 4,
                                                          .data = both,
                                                          .size = 2 * size,
                                                          .n_buffers = 1 + (uint32_t)(i + turn) % 5,
                                                          .misaligned = (uint32_t)(7 * i + turn)});
            free(both);
        }
        requests[N_SIZES] = request_pixels(pixels, 3);
        requests[N_SIZES + 1] = request_encoded(images[3][0].file, images[3][0].file_size);
        for (int i = 0; i < N_FILES; i++)
            requests[N_SIZES + 2 + i] = request_encoded(files[i].data, files[i].size);
        run_batch(instance, requests, N);
        for (int i = 0; i < N_SIZES; i++)
            for (int j = 0; j < 2; j++)
                expect_logits(requests[i], j, direct_logits("l2", 0.5, &images[i][j]));
        for (int i = 0; i < 3; i++)
            expect_logits(requests[N_SIZES], i, direct_logits_of_pixels("l2", 0.5, pixels + i * PIXELS_OF_IMAGE));
        expect_logits(requests[N_SIZES + 1], 0, direct_logits("l2", 0.5, &images[3][0]));
        for (int i = 0; i < N_FILES; i++) {
            struct image decoded;
            struct image_error error;
            assert_true(image_decode(files[i].data, files[i].size, &decoded, &error));
            const struct test_image p = {.width = decoded.width, .height = decoded.height, .pixels = decoded.pixels};
            expect_logits(requests[N_SIZES + 2 + i], 0, direct_logits("l2", 0.5, &p));
            image_free(&decoded);
        }
    }
    for (int i = 0; i < N_SIZES; i++)
        for (int j = 0; j < 2; j++)
            test_image_free(&images[i][j]);
}

/* Several files in a request: in one buffer, and in buffers split in the middle of a length field. */
static void several_files_in_a_request(void **state)
{
    (void)state;
    TRITONBACKEND_ModelInstance *instance = scene_instance(scene_load("files", "{}"));
    struct test_image images[3] = {test_image_new(20, 40, 30), test_image_new(21, 8, 90), test_image_new(22, 56, 32)};
    uint8_t *data = malloc(3 * 4 + images[0].file_size + images[1].file_size + images[2].file_size);
    assert_non_null(data);
    size_t size = 0;
    for (int i = 0; i < 3; i++) {
        const uint32_t length = (uint32_t)images[i].file_size;
        memcpy(data + size, &length, 4);
        memcpy(data + size + 4, images[i].file, length);
        size += 4 + length;
    }
    for (uint32_t n_buffers = 1; n_buffers <= 64; n_buffers += 21) {
        TRITONBACKEND_Request *request = fake_request_new("several");
        fake_request_input(request, &(fake_input){.name = "ENCODED",
                                                  .type = TRITONSERVER_TYPE_BYTES,
                                                  .shape = {3, 1},
                                                  .n_dims = 2,
                                                  .data = data,
                                                  .size = size,
                                                  .n_buffers = n_buffers,
                                                  .misaligned = 1});
        run_batch(instance, &request, 1);
        for (int i = 0; i < 3; i++)
            expect_logits(request, i, direct_logits(NULL, 0, &images[i]));
    }
    free(data);
    for (int i = 0; i < 3; i++)
        test_image_free(&images[i]);
}

static void settings_of_requests(void **state)
{
    (void)state;
    static const char known[] = "l2 keep=0.5";
    TRITONBACKEND_ModelInstance *instance = scene_instance(scene_load(
        "settings", "{\"parameters\": {\"policy\": {\"string_value\": \"l2\"}, \"blocks\": {\"string_value\": \"0\"},"
                    " \"keep\": {\"string_value\": \"0.5\"}, \"small_batch\": {\"string_value\": \"1\"}," /* some images run one by one,
                                                                                                             some together */
                    " \"settings\": {\"string_value\": \"l2 keep=0.7 blocks=0; none; evit-paper keep=0.3 blocks=0\"}}}"));
    struct test_image p = test_image_new(30, 90, 60);
    static const double keep = 0.7;
    static const int64_t one = 1, two = 2;
    static const bool yes = true;
    enum { N_GOOD = 6, N = N_GOOD + 7 };
    TRITONBACKEND_Request *r[N];
    for (int i = 0; i < N; i++)
        r[i] = request_image(&p);
    fake_request_string(r[1], "policy", "l2");
    fake_request_parameter(r[1], "keep", TRITONSERVER_PARAMETER_DOUBLE, &keep);
    fake_request_string(r[2], "policy", "none");
    fake_request_string(r[3], "policy", "evit-paper");
    fake_request_string(r[4], "keep", "0.7");
    fake_request_string(r[5], "policy", "l2");
    fake_request_string(r[5], "keep", "0.5");
    fake_request_string(r[6], "policy", "evit"); /* known, but not declared */
    fake_request_parameter(r[7], "keep", TRITONSERVER_PARAMETER_INT, &one);
    fake_request_string(r[8], "keep", "many");
    fake_request_parameter(r[9], "policy", TRITONSERVER_PARAMETER_BOOL, &yes);
    fake_request_string(r[10], "kep", "0.5");
    fake_request_parameter(r[11], "keep", TRITONSERVER_PARAMETER_INT, &two);
    fake_request_string(r[12], "policy", "");
    run_batch(instance, r, N);
    expect_logits(r[0], 0, direct_logits("l2", 0.5, &p));
    expect_logits(r[1], 0, direct_logits("l2", 0.7, &p));
    expect_logits(r[2], 0, direct_logits(NULL, 0, &p));
    expect_logits(r[3], 0, direct_logits("evit-paper", 0.3, &p));
    expect_logits(r[4], 0, direct_logits("l2", 0.7, &p));
    expect_logits(r[5], 0, direct_logits("l2", 0.5, &p));
    for (int i = N_GOOD; i < N; i++)
        fake_request_expect_error(r[i], TRITONSERVER_ERROR_INVALID_ARG, known);
    fake_request_expect_error(r[6], TRITONSERVER_ERROR_INVALID_ARG, "none");
    test_image_free(&p);
}

/* Quantized types and an automatically chosen one: their logits are close to those of f32, and those of int8 differ from them. */
static void dtype_names(void **state)
{
    (void)state;
    static const char *const names[] = {"int8", "fp8", "auto"};
    struct test_image p = test_image_new(3, 70, 40);
    for (int i = 0; i < 3; i++) {
        char config[96];
        snprintf(config, sizeof config, "{\"parameters\": {\"dtype\": {\"string_value\": \"%s\"}}}", names[i]);
        TRITONBACKEND_Request *request = request_image(&p);
        run_batch(scene_instance(scene_load(names[i], config)), &request, 1);
        const float *wanted = direct_logits(NULL, 0, &p);
        float got[CLASSES];
        memcpy(got, fake_request_result(request, "LOGITS")->data, sizeof got);
        float largest = 0, difference = 0;
        for (int c = 0; c < CLASSES; c++) {
            largest = fmaxf(largest, fabsf(wanted[c]));
            difference = fmaxf(difference, fabsf(got[c] - wanted[c]));
        }
        assert_true(difference < 0.3f * largest);
        assert_true(i == 2 || difference > 1e-4f * largest);
    }
    test_image_free(&p);
}

GROUP(answers, SCENE_TEST(dtype_names), SCENE_TEST(minimal_config), SCENE_TEST(preferred_instances), SCENE_TEST(all_outputs),
      SCENE_TEST(mixed_requests), SCENE_TEST(several_files_in_a_request), SCENE_TEST(settings_of_requests));

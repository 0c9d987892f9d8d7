/* Tests preprocessing from a model's config files: the input equals that of timm and transformers, bit for bit. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "core/model/config/read.h"
#include "core/model/describe.h"
#include "tests/deit_recipe.h"
#include "tools/cli/preprocess.h"
#include "tools/cli/recipe.h"

#include "preprocess_vectors.h"

enum { MOST_VALUES = 3 * 400 * 400 };

static char folder[64];
static const char *const names[] = {"config.json", "preprocessor_config.json", "open_clip_config.json"};
static float values[MOST_VALUES];
static rvit_device *device;
static rvit_stream *stream;

/* The preprocessing in the tool's output format. */
void complain(const char *subject, const char *format, ...)
{
    (void)subject;
    (void)format;
}

static void write_config_file(const char *name, const char *text)
{
    char path[128];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    (void)unlink(path);
    if (text == NULL)
        return;
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    assert_int_equal(fwrite(text, 1, strlen(text), file), strlen(text));
    assert_int_equal(fclose(file), 0);
}

static int set_up(void **state)
{
    (void)state;
    strcpy(folder, "/tmp/raggedvit-test-XXXXXX");
    rvit_device_desc desc = RVIT_DEVICE_DESC_INIT;
    desc.backend = RVIT_BACKEND_CPU;
    if (rvit_device_create(&desc, &device) != RVIT_OK || rvit_stream_create(device, &stream) != RVIT_OK)
        return -1;
    return mkdtemp(folder) == NULL ? -1 : 0;
}

static int tear_down(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        write_config_file(names[i], NULL);
    rvit_stream_destroy(stream);
    rvit_device_destroy(device);
    return rmdir(folder);
}

/* The preprocessing from the files, for a model with this input size. */
static rvit_image_recipe read_files(const char *config, const char *preprocessor, const char *open_clip, int32_t height, int32_t width)
{
    static rvit_vit_config described;
    rvit_facts facts = {0};
    rvit_unsupported unsupported = {0};
    rvit_class_names classes = {0};
    rvit_alloc alloc = {0};
    char path[128];
    write_config_file(names[0], config);
    write_config_file(names[1], preprocessor);
    write_config_file(names[2], open_clip);
    snprintf(path, sizeof path, "%s/model.safetensors", folder);
    rvit_alloc_init(&alloc, NULL);
    const rvit_config_source source = {.path = path};
    const rvit_status status = rvit_config_files(&source, &alloc, &facts, &unsupported, &classes);
    rvit_class_names_free(&alloc, &classes);
    if (status != RVIT_OK)
        fail_msg("%s", rvit_status_detail());
    described.recipe = (rvit_image_recipe)RVIT_IMAGE_RECIPE_INIT;
    described.info.image_height = height;
    described.info.image_width = width;
    rvit_describe_recipe(&described, &facts);
    return described.recipe;
}

static bool recipe_of(const rvit_image_recipe *known, rvit_image_recipe *out)
{
    static const struct recipe_options none;
    return recipe_geometry(&none, known, out);
}

static struct image noise(int32_t width, int32_t height)
{
    struct image out;
    struct image_error error;
    uint32_t x = 12345;
    assert_true(image_create(width, height, &out, &error));
    for (size_t i = 0; i < (size_t)width * (size_t)height * 3; i++) {
        x = x * 1664525u + 1013904223u;
        out.pixels[i] = (uint8_t)(x >> 24);
    }
    return out;
}

static uint32_t crc32_of(const void *data, size_t size)
{
    const uint8_t *bytes = data;
    uint32_t crc = 0xffffffffu;
    for (size_t i = 0; i < size; i++) {
        crc ^= bytes[i];
        for (int bit = 0; bit < 8; bit++)
            crc = crc >> 1 ^ (crc & 1 ? 0xedb88320u : 0);
    }
    return ~crc;
}

/* Preprocesses the image with the op, which must give the same bits. */
static void compare_with_op(const struct vector *vector, const rvit_image_recipe *recipe, const struct image *whole)
{
    enum { PATCH = 2 };
    rvit_image image = RVIT_IMAGE_INIT;
    rvit_images_args images = RVIT_IMAGES_ARGS_INIT;
    rvit_preprocess_args op = RVIT_PREPROCESS_ARGS_INIT;
    rvit_buffer *staging = NULL, *out = NULL;
    image.data = whole->pixels;
    image.width = whole->width;
    image.height = whole->height;
    images.recipe = recipe;
    images.images = &image;
    images.n_images = images.max_images = 1;
    images.max_rows = op.rows = vector->height / PATCH * (vector->width / PATCH);
    images.patch_size = op.patch_size = PATCH;
    op.n_images = 1;
    assert_int_equal(rvit_images_write(&images, NULL, 0, &op.source_size), RVIT_OK);
    assert_int_equal(rvit_buffer_create(device, op.source_size, RVIT_BUFFER_UPLOAD, &staging), RVIT_OK);
    assert_int_equal(rvit_buffer_create(device, op.rows * 3 * PATCH * PATCH * 4, RVIT_BUFFER_READBACK, &out), RVIT_OK);
    assert_int_equal(rvit_images_write(&images, rvit_buffer_host(staging), op.source_size, &op.source_size), RVIT_OK);
    op.source.buffer = staging;
    op.out.buffer = out;
    assert_int_equal(rvit_preprocess(stream, &op), RVIT_OK);
    assert_int_equal(rvit_stream_synchronize(stream), RVIT_OK);
    const float *rows = rvit_buffer_host(out);
    for (int32_t c = 0; c < 3; c++)
        for (int32_t y = 0; y < vector->height / PATCH * PATCH; y++)
            for (int32_t x = 0; x < vector->width / PATCH * PATCH; x++) {
                const int64_t row = y / PATCH * (vector->width / PATCH) + x / PATCH;
                const float got = rows[((row * 3 + c) * PATCH + y % PATCH) * PATCH + x % PATCH];
                if (memcmp(&got, &values[(c * vector->height + y) * vector->width + x], sizeof got) != 0)
                    fail_msg("%s, image %d x %d: the op gives another value at (%d, %d, %d) of %d x %d", vector->name, whole->width,
                             whole->height, (int)c, (int)y, (int)x, (int)vector->width, (int)vector->height);
            }
    rvit_buffer_destroy(staging);
    rvit_buffer_destroy(out);
}

static void compare(const struct vector *vector, const rvit_image_recipe *recipe, int p)
{
    struct image image = noise(image_sizes[p][0], image_sizes[p][1]);
    struct image_error error;
    const size_t n = 3 * (size_t)vector->height * (size_t)vector->width;
    const rvit_image source = preprocess_source(image_whole(&image));
    if (!preprocess_image(recipe, &source, values, NULL, &error))
        fail_msg("%s, image %d: %s", vector->name, p, error.text);
    if (vector->n_values == 0 && crc32_of(values, n * sizeof *values) != vector->crc[p])
        fail_msg("%s, image %d x %d: other values", vector->name, image.width, image.height);
    for (int32_t i = 0; i < vector->n_values; i++)
        if (!(values[97 * i] - vector->values[p][i] < 1e-5f && vector->values[p][i] - values[97 * i] < 1e-5f))
            fail_msg("%s, image %d, value %d: %.9g, expected %.9g", vector->name, p, (int)i, (double)values[97 * i],
                     (double)vector->values[p][i]);
    if (recipe->processor != RVIT_PROCESSOR_HF_FLOAT)
        compare_with_op(vector, recipe, &image);
    image_free(&image);
}

static void equal_to_timm_and_transformers(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof vectors / sizeof *vectors; i++) {
        const struct vector *vector = &vectors[i];
        const rvit_image_recipe known = read_files(vector->config, vector->preprocessor, NULL, vector->height, vector->width);
        rvit_image_recipe recipe;
        if (!recipe_of(&known, &recipe))
            fail_msg("%s: refused", vector->name);
        for (int p = 0; p < N_IMAGES; p++)
            compare(vector, &recipe, p);
    }
}

/* Resize sizes and crop offsets of timm and torchvision. */
static void sizes_and_offsets(void **state)
{
    (void)state;
    static const struct {
        int32_t width, height, edge, crop;
        int64_t to_width, to_height, left, top;
    } cases[] = {
        {500, 375, 256, 224, 341, 256, 58, 16},  {500, 375, 248, 224, 330, 248, 53, 12},   {500, 375, 384, 384, 512, 384, 64, 0},
        {500, 375, 438, 384, 584, 438, 100, 27}, {375, 500, 256, 224, 256, 341, 16, 58},   {375, 500, 248, 224, 248, 330, 12, 53},
        {333, 500, 256, 224, 256, 384, 16, 80},  {1000, 1000, 248, 224, 248, 248, 12, 12}, {203, 101, 102, 99, 205, 102, 53, 2},
        {500, 375, 20, 24, 26, 20, 1, -2},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        rvit_image_recipe recipe = deit_recipe(cases[i].crop);
        rvit_image image = RVIT_IMAGE_INIT;
        rvit_image_geometry geometry = RVIT_IMAGE_GEOMETRY_INIT;
        recipe.resize_width = recipe.resize_height = cases[i].edge;
        image.width = cases[i].width;
        image.height = cases[i].height;
        assert_int_equal(rvit_image_prepare(&recipe, &image, NULL, NULL, &geometry), RVIT_OK);
        assert_int_equal(geometry.width, cases[i].to_width);
        assert_int_equal(geometry.height, cases[i].to_height);
        assert_int_equal(geometry.left, cases[i].left);
        assert_int_equal(geometry.top, cases[i].top);
    }
}

static void unsupported_files(void **state)
{
    (void)state;
    static const char *const preprocessors[] = {
        "{\"image_processor_type\":\"Siglip2ImageProcessor\",\"max_num_patches\":256,\"do_resize\":false}",
        "{\"image_processor_type\":\"Siglip2ImageProcessor\",\"max_num_patches\":256,\"size\":{\"height\":224,\"width\":224}}",
        "{\"image_processor_type\":\"Siglip2ImageProcessor\",\"do_center_crop\":true,\"crop_size\":224}",
        "{\"image_processor_type\":\"Siglip3ImageProcessor\",\"max_num_patches\":256}",
        "{\"image_processor_type\":\"ViTImageProcessor\",\"do_resize\":false}",
        "{\"image_processor_type\":\"CLIPImageProcessor\",\"do_center_crop\":false}",
        "{\"image_processor_type\":\"CLIPImageProcessor\",\"size\":{\"longest_edge\":224}}",
        "{\"image_processor_type\":\"CLIPImageProcessor\",\"size\":{\"shortest_edge\":224,\"longest_edge\":300}}",
        "{\"image_processor_type\":\"ViTImageProcessor\",\"rescale_factor\":0.00784313725490196}",
        "{\"image_processor_type\":\"ViTImageProcessor\",\"do_rescale\":false}",
        "{\"image_processor_type\":\"ViTImageProcessor\",\"resample\":1}",
        "{\"image_processor_type\":\"DINOv3ViTImageProcessor\",\"do_center_crop\":true,\"crop_size\":200}",
        "{\"size\":224}", /* ambiguous: the shorter edge, or both edges */
    };
    rvit_image_recipe recipe;
    for (size_t i = 0; i < sizeof preprocessors / sizeof *preprocessors; i++) {
        const rvit_image_recipe known = read_files(NULL, preprocessors[i], NULL, 224, 224);
        if (recipe_of(&known, &recipe))
            fail_msg("%s was taken", preprocessors[i]);
    }
    const rvit_image_recipe timm =
        read_files("{\"architecture\":\"deit_tiny_patch16_224\",\"pretrained_cfg\":{\"interpolation\":\"lanczos\"}}", NULL, NULL, 224, 224);
    assert_false(recipe_of(&timm, &recipe));
}

static void open_clip_and_other_sizes(void **state)
{
    (void)state;
    static const char open_clip[] = "{\"model_cfg\":{\"embed_dim\":8,\"vision_cfg\":{\"layers\":1,\"width\":64,\"patch_size\":16}},"
                                    "\"preprocess_cfg\":{\"mean\":[0.5,0.5,0.5],\"std\":[0.5,0.5,0.5],\"interpolation\":\"bilinear\","
                                    "\"resize_mode\":\"%s\",\"fill_color\":7}}";
    static const char *const modes[] = {"shortest", "squash", "longest"};
    static const rvit_fit fits[] = {RVIT_FIT_CROP, RVIT_FIT_SQUASH, RVIT_FIT_BORDER};
    rvit_image_recipe recipe;
    char text[512];
    for (int i = 0; i < 3; i++) {
        snprintf(text, sizeof text, open_clip, modes[i]);
        const rvit_image_recipe known = read_files(NULL, NULL, text, 28, 28);
        assert_true(recipe_of(&known, &recipe) && recipe.fit == fits[i] && recipe.filter == RVIT_FILTER_BILINEAR);
        assert_true(recipe.resize_width == 28 && recipe.resize_height == 28 && recipe.fill[1] == (i == 2 ? 7 : 0));
    }
    /* A processor for 224 x 224 with a model that runs at 518 x 518: the same crop ratio. */
    const rvit_image_recipe known = read_files(NULL,
                                               "{\"image_processor_type\":\"BitImageProcessor\",\"size\":{\"shortest_edge\":256},"
                                               "\"crop_size\":{\"height\":224,\"width\":224}}",
                                               NULL, 518, 518);
    assert_true(recipe_of(&known, &recipe) && recipe.resize_height == 592 && recipe.resize_width == 592);
    assert_int_equal(known.processor_height, 224);
}

/* Resizing these images completely would take gigabytes. */
static void thin_images(void **state)
{
    (void)state;
    static const int32_t sizes[][2] = {{1, 100000}, {100000, 1}, {1, 1}};
    rvit_image_recipe recipes[3] = {deit_recipe(224), deit_recipe(224), deit_recipe(224)};
    recipes[1].processor = RVIT_PROCESSOR_HF;
    recipes[2].fit = RVIT_FIT_BORDER;
    for (int r = 0; r < 3; r++)
        for (int i = 0; i < 3; i++) {
            struct image in = noise(sizes[i][0], sizes[i][1]);
            struct image_error error = {""};
            /* PyTorch's weights depend on the whole axis, and padding leaves no pixel of such an image. */
            const bool refused = r > 0 && i < 2;
            const rvit_image source = preprocess_source(image_whole(&in));
            assert_int_equal(preprocess_image(&recipes[r], &source, values, NULL, &error), !refused);
            assert_true(!refused || strstr(error.text, "too thin") != NULL);
            image_free(&in);
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(equal_to_timm_and_transformers), cmocka_unit_test(sizes_and_offsets), cmocka_unit_test(unsupported_files),
        cmocka_unit_test(open_clip_and_other_sizes),      cmocka_unit_test(thin_images),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}

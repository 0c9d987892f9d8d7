#include "scene.h"

#include <dirent.h>
#include <png.h>
#include <sys/stat.h>
#include <unistd.h>

enum { MAX_MODELS = 16, MAX_INSTANCES = 8 };

static TRITONBACKEND_Backend *backend;
static char folder[64];
static struct loaded {
    TRITONBACKEND_Model *model;
    TRITONBACKEND_ModelInstance *instances[MAX_INSTANCES];
    int n_instances;
} loaded[MAX_MODELS];

static void remove_folder(const char *path)
{
    DIR *d = opendir(path);
    assert_non_null(d);
    for (struct dirent *e; (e = readdir(d));) {
        char name[512];
        struct stat s;
        if (strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0)
            continue;
        snprintf(name, sizeof name, "%s/%s", path, e->d_name);
        assert_int_equal(lstat(name, &s), 0);
        if (S_ISDIR(s.st_mode))
            remove_folder(name);
        else
            assert_int_equal(unlink(name), 0);
    }
    closedir(d);
    assert_int_equal(rmdir(path), 0);
}

int scene_setup(void **state)
{
    (void)state;
    strcpy(folder, "/tmp/raggedvit-test-XXXXXX");
    if (!mkdtemp(folder))
        return -1;
    memset(loaded, 0, sizeof loaded);
    fake_server_begin();
    backend = fake_backend_new();
    fake_expect_success(TRITONBACKEND_Initialize(backend));
    return 0;
}

int scene_teardown(void **state)
{
    (void)state;
    for (int i = 0; i < MAX_MODELS; i++)
        if (loaded[i].model)
            scene_unload(loaded[i].model);
    fake_expect_success(TRITONBACKEND_Finalize(backend));
    remove_folder(folder);
    fake_server_end();
    return 0;
}

const char *scene_path(const char *name)
{
    static char paths[4][320];
    static int next;
    char *path = paths[next++ % 4];
    snprintf(path, sizeof paths[0], "%s/%s", folder, name);
    return path;
}

void scene_write(const char *name, const void *data, size_t size)
{
    (void)unlink(scene_path(name)); /* it may be a link to a file of the source tree */
    FILE *file = fopen(scene_path(name), "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(data, 1, size, file), size);
    assert_int_equal(fclose(file), 0);
}

TRITONBACKEND_Model *scene_add_model(const char *name, const char *config)
{
    char version[64], file[128];
    static const char *const files[] = {"model.safetensors", "config.json"};
    if (mkdir(scene_path(name), 0700) == 0) {
        snprintf(version, sizeof version, "%s/1", name);
        assert_int_equal(mkdir(scene_path(version), 0700), 0);
        for (size_t i = 0; i < sizeof files / sizeof files[0]; i++) {
            snprintf(file, sizeof file, "%s/%s", version, files[i]);
            char target[512];
            snprintf(target, sizeof target, RVIT_TEST_MODEL "/%s", files[i]);
            assert_int_equal(symlink(target, scene_path(file)), 0);
        }
    }
    return fake_model_new(backend, name, scene_path(name), config);
}

TRITONBACKEND_Model *scene_load(const char *name, const char *config)
{
    TRITONBACKEND_Model *model = scene_add_model(name, config);
    scene_initialize(model);
    return model;
}

void scene_initialize(TRITONBACKEND_Model *model)
{
    fake_expect_success(TRITONBACKEND_ModelInitialize(model));
    int i = 0;
    while (i < MAX_MODELS && loaded[i].model)
        i++;
    assert_true(i < MAX_MODELS);
    loaded[i] = (struct loaded){.model = model};
}

static struct loaded *find(const TRITONBACKEND_Model *model)
{
    for (int i = 0; i < MAX_MODELS; i++)
        if (loaded[i].model == model)
            return &loaded[i];
    fail_msg("the model is not loaded");
    return NULL;
}

TRITONSERVER_Error *scene_try_instance(TRITONBACKEND_Model *model, TRITONSERVER_InstanceGroupKind kind, int32_t device,
                                       TRITONBACKEND_ModelInstance **instance)
{
    struct loaded *l = find(model);
    char name[32];
    assert_true(l->n_instances < MAX_INSTANCES);
    snprintf(name, sizeof name, "instance_%d", l->n_instances);
    *instance = fake_instance_new(model, name, kind, device);
    TRITONSERVER_Error *error = TRITONBACKEND_ModelInstanceInitialize(*instance);
    if (!error)
        l->instances[l->n_instances++] = *instance;
    return error;
}

TRITONBACKEND_ModelInstance *scene_instance(TRITONBACKEND_Model *model)
{
    TRITONBACKEND_ModelInstance *instance;
    fake_expect_success(scene_try_instance(model, TRITONSERVER_INSTANCEGROUPKIND_CPU, 0, &instance));
    return instance;
}

void scene_unload(TRITONBACKEND_Model *model)
{
    struct loaded *l = find(model);
    for (int i = 0; i < l->n_instances; i++)
        fake_expect_success(TRITONBACKEND_ModelInstanceFinalize(l->instances[i]));
    l->model = NULL;
    fake_expect_success(TRITONBACKEND_ModelFinalize(model));
}

void scene_expect_refused(const char *config, TRITONSERVER_Error_Code code, const char *words)
{
    TRITONBACKEND_Model *model = scene_add_model("refused", config);
    TRITONSERVER_Error *error = TRITONBACKEND_ModelInitialize(model);
    if (!error) {
        /* Some limits are checked only when an instance is initialised. */
        TRITONBACKEND_ModelInstance *instance = fake_instance_new(model, "refused_0", TRITONSERVER_INSTANCEGROUPKIND_CPU, 0);
        error = TRITONBACKEND_ModelInstanceInitialize(instance);
        if (!error)
            fake_expect_success(TRITONBACKEND_ModelInstanceFinalize(instance));
        fake_expect_success(TRITONBACKEND_ModelFinalize(model));
    }
    if (!error)
        fail_msg("loaded: %s", config);
    fake_expect_error(error, code, words);
}

static uint32_t next_random(uint32_t *state)
{
    *state = *state * 1664525u + 1013904223u;
    return *state >> 8;
}

struct test_image test_image_new(int number, int32_t width, int32_t height)
{
    struct test_image p = {.width = width, .height = height};
    uint32_t state = (uint32_t)number * 2654435761u + 1;
    const size_t n = 3 * (size_t)width * (size_t)height;
    p.pixels = malloc(n);
    assert_non_null(p.pixels);
    for (size_t i = 0; i < n; i++)
        p.pixels[i] = (uint8_t)next_random(&state);
    png_image image = {.version = PNG_IMAGE_VERSION, .width = (uint32_t)width, .height = (uint32_t)height, .format = PNG_FORMAT_RGB};
    png_alloc_size_t size = 0;
    assert_true(png_image_write_to_memory(&image, NULL, &size, 0, p.pixels, 0, NULL));
    p.file = malloc(size);
    assert_non_null(p.file);
    assert_true(png_image_write_to_memory(&image, p.file, &size, 0, p.pixels, 0, NULL));
    p.file_size = size;
    return p;
}

void test_image_free(struct test_image *image)
{
    free(image->pixels);
    free(image->file);
}

TRITONBACKEND_Request *request_image(const struct test_image *p)
{
    TRITONBACKEND_Request *request = fake_request_new("image");
    fake_request_input(request, &(fake_input){.name = "IMAGE",
                                              .type = TRITONSERVER_TYPE_UINT8,
                                              .shape = {1, p->height, p->width, 3},
                                              .n_dims = 4,
                                              .data = p->pixels,
                                              .size = 3 * (uint64_t)p->width * (uint64_t)p->height});
    return request;
}

TRITONBACKEND_Request *request_encoded(const void *file, size_t size)
{
    uint8_t *data = malloc(4 + size);
    const uint32_t length = (uint32_t)size;
    assert_non_null(data);
    memcpy(data, &length, 4);
    memcpy(data + 4, file, size);
    TRITONBACKEND_Request *request = fake_request_new("encoded");
    fake_request_input(
        request,
        &(fake_input){.name = "ENCODED", .type = TRITONSERVER_TYPE_BYTES, .shape = {1, 1}, .n_dims = 2, .data = data, .size = 4 + size});
    free(data);
    return request;
}

TRITONBACKEND_Request *request_pixels(const float *pixels, int64_t n_images)
{
    TRITONBACKEND_Request *request = fake_request_new("pixels");
    fake_request_input(request, &(fake_input){.name = "PIXELS",
                                              .type = TRITONSERVER_TYPE_FP32,
                                              .shape = {n_images, 3, LINES, COLUMNS},
                                              .n_dims = 4,
                                              .data = pixels,
                                              .size = (uint64_t)n_images * PIXELS_OF_IMAGE * sizeof *pixels,
                                              .misaligned = 18});
    return request;
}

void pixels_of(int number, float *out)
{
    uint32_t state = (uint32_t)number * 40503u + 7;
    for (int i = 0; i < PIXELS_OF_IMAGE; i++)
        out[i] = (float)(next_random(&state) & 0xffff) / 32768 - 1;
}

void run_batch(TRITONBACKEND_ModelInstance *instance, TRITONBACKEND_Request **requests, uint32_t n_requests)
{
    fake_expect_success(fake_execute(instance, requests, n_requests));
}

void expect_logits(const TRITONBACKEND_Request *request, int64_t image, const float *logits)
{
    const fake_output *got = fake_request_result(request, "LOGITS");
    assert_int_equal(got->type, TRITONSERVER_TYPE_FP32);
    assert_int_equal(got->n_dims, 2);
    assert_int_equal(got->shape[1], CLASSES);
    assert_true(image < got->shape[0]);
    if (memcmp(got->data + (size_t)image * CLASSES * sizeof(float), logits, CLASSES * sizeof(float)) != 0)
        fail_msg("the logits of image %d differ from those of a direct run", (int)image);
}

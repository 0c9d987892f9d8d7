/* Invalid configurations: each is rejected with a message, and nothing leaks. */
#include "scene.h"

#define PARAMETER(name, value) "{\"parameters\": {\"" name "\": {\"string_value\": \"" value "\"}}}"

static void bad_parameters(void **state)
{
    (void)state;
    static const struct {
        const char *config, *words;
    } cases[] = {
        {PARAMETER("polcy", "l2"), "unknown parameter 'polcy', expected one of backend, dtype, policy"},
        {PARAMETER("policy", "l3"), "l3"},
        {PARAMETER("policy", "mask"), "mask"},
        {PARAMETER("policy", "l2"), "block"}, /* block 3 of a model with two */
        {PARAMETER("keep", "0.5"), "policy 'none"},
        {"{\"parameters\": {\"policy\": {\"string_value\": \"l2\"}, \"keep\": {\"string_value\": \"1.5\"}}}", "keep"},
        {"{\"parameters\": {\"policy\": {\"string_value\": \"l2\"}, \"keep\": {\"string_value\": \"half\"}}}", "half"},
        {PARAMETER("settings", "l2 kep=0.5"), "kep"},
        {PARAMETER("settings", "none; no-such-policy"), "no-such-policy"},
        {PARAMETER("settings", "l2 blocks=0 keep=2"), "keep"},
        {PARAMETER("backend", "gpu"), "gpu"},
        {PARAMETER("dtype", "f64"), "f64"},
        {PARAMETER("max_tokens", "many"), "many"},
        {PARAMETER("max_tokens", "28"), "max_tokens"}, /* fewer than one image has */
        {PARAMETER("max_tokens", "-1"), "max_tokens"},
        {PARAMETER("max_tokens", "99999999999999999999"), "max_tokens"},
        {PARAMETER("max_image_bytes", "0"), "max_image_bytes"},
        {PARAMETER("max_image_bytes", "100"), "max_image_bytes"},
        {PARAMETER("small_batch", "0"), "small_batch"},
        {PARAMETER("small_batch", "64"), "small_batch is 64, expected less than the 64 images"},
        {PARAMETER("top", "0"), "top"},
        {PARAMETER("threads", "0"), "threads"},
        {PARAMETER("decode_threads", "x"), "decode_threads"},
        {PARAMETER("architecture", "vit_of_nobody"), "vit_of_nobody"},
        {PARAMETER("checkpoint", "other.safetensors"), "other.safetensors"},
        {PARAMETER("labels", "missing.txt"), "missing.txt"},
        {PARAMETER("fit", "stretch"), "stretch"},
        {PARAMETER("crop", "2"), "crop"},
        {PARAMETER("mean", "0.5,0.5"), "mean"},
        {PARAMETER("std", "0"), "std"},
        {PARAMETER("policy", ""), "policy"},
        {"{\"max_batch_size\": -1}", "max_batch_size"},
        {"{\"max_batch_size\": 100000}", "max_batch_size"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        scene_expect_refused(cases[i].config, TRITONSERVER_ERROR_INVALID_ARG, cases[i].words);
    /* Known parameters that do not apply to this model. */
    scene_expect_refused(PARAMETER("image_size", "64"), TRITONSERVER_ERROR_UNSUPPORTED, "image_size is 64");
    scene_expect_refused(PARAMETER("settings", "dynamicvit blocks=0"), TRITONSERVER_ERROR_UNSUPPORTED, "predictor");
    /* A valid configuration still loads. */
    (void)scene_instance(scene_load("refused", "{}"));
}

static void bad_tensors(void **state)
{
    (void)state;
    static const struct {
        const char *config, *words;
    } cases[] = {
        {"{\"output\": [{\"name\": \"LOGITS\", \"data_type\": \"TYPE_FP32\", \"dims\": [8]}]}", "LOGITS"},
        {"{\"output\": [{\"name\": \"LOGITS\", \"data_type\": \"TYPE_FP16\", \"dims\": [7]}]}", "LOGITS"},
        {"{\"output\": [{\"name\": \"EMBEDDING\", \"data_type\": \"TYPE_FP32\", \"dims\": [7]}]}", "EMBEDDING"},
        {"{\"output\": [{\"name\": \"PROBABILITIES\", \"data_type\": \"TYPE_FP32\", \"dims\": [7]}]}", "PROBABILITIES"},
        {"{\"input\": [{\"name\": \"IMAGES\", \"data_type\": \"TYPE_UINT8\", \"dims\": [-1, -1, 3]}]}", "IMAGES"},
        {"{\"input\": [{\"name\": \"IMAGE\", \"data_type\": \"TYPE_FP32\", \"dims\": [-1, -1, 3]}]}", "IMAGE"},
        {"{\"input\": [{\"name\": \"PIXELS\", \"data_type\": \"TYPE_FP32\", \"dims\": [3, 224, 224]}]}", "PIXELS"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        scene_expect_refused(cases[i].config, TRITONSERVER_ERROR_INVALID_ARG, cases[i].words);
}

static void bad_files(void **state)
{
    (void)state;
    static const char damaged[] = "\x20\0\0\0\0\0\0\0{\"a\": 1}";
    scene_add_model("refused", "{}");
    scene_write("refused/1/damaged.safetensors", damaged, sizeof damaged - 1);
    scene_write("refused/1/few.txt", "one\ntwo\n", 8);
    scene_write("refused/1/empty.txt", "", 0);
    scene_expect_refused(PARAMETER("checkpoint", "damaged.safetensors"), TRITONSERVER_ERROR_INVALID_ARG, "damaged.safetensors");
    scene_expect_refused(PARAMETER("checkpoint", "empty.txt"), TRITONSERVER_ERROR_INVALID_ARG, "empty.txt");
    scene_expect_refused(PARAMETER("labels", "few.txt"), TRITONSERVER_ERROR_INVALID_ARG, "few.txt");
    scene_expect_refused(PARAMETER("labels", "empty.txt"), TRITONSERVER_ERROR_INVALID_ARG, "empty.txt");
    scene_expect_refused(PARAMETER("labels", "../1"), TRITONSERVER_ERROR_INVALID_ARG, "1"); /* a folder */
}

/* With --disable-auto-complete-config an incomplete configuration is an error of the backend, and a complete one loads. */
static void configs_without_completion(void **state)
{
    (void)state;
    TRITONBACKEND_Model *bare = scene_add_model("bare", "{}");
    fake_model_do_not_complete(bare);
    TRITONSERVER_Error *error = TRITONBACKEND_ModelInitialize(bare);
    assert_non_null(error);
    fake_expect_error(error, TRITONSERVER_ERROR_INVALID_ARG, "max_batch_size");
    TRITONBACKEND_Model *whole = scene_add_model(
        "whole", "{\"max_batch_size\": 2, \"input\": [{\"name\": \"IMAGE\", \"data_type\": \"TYPE_UINT8\", \"dims\": [-1, -1, 3],"
                 " \"allow_ragged_batch\": true, \"optional\": true}],"
                 " \"output\": [{\"name\": \"LOGITS\", \"data_type\": \"TYPE_FP32\", \"dims\": [7]}]}");
    fake_model_do_not_complete(whole);
    fake_expect_success(TRITONBACKEND_ModelInitialize(whole));
    fake_expect_success(TRITONBACKEND_ModelFinalize(whole));
}

static void expect_no_gpu(const char *config)
{
    TRITONBACKEND_ModelInstance *instance;
    TRITONBACKEND_Model *model = scene_load("gpu", config);
    TRITONSERVER_Error *error = scene_try_instance(model, TRITONSERVER_INSTANCEGROUPKIND_GPU, 999, &instance);
    assert_non_null(error);
    const char *text = TRITONSERVER_ErrorMessage(error);
    const int names_cuda = strstr(text, "cuda") || strstr(text, "CUDA");
    if (!names_cuda)
        print_error("%s\n", text);
    fake_expect_error(error, TRITONSERVER_ERROR_UNAVAILABLE, ""); /* the message depends on the build and the driver */
    assert_true(names_cuda);
    scene_unload(model);
}

static void instances_on_missing_devices(void **state)
{
    (void)state;
    expect_no_gpu("{\"instance_group\": [{\"kind\": \"KIND_GPU\", \"count\": 1, \"gpus\": [999]}]}");
    expect_no_gpu(PARAMETER("backend", "cuda"));
    (void)scene_instance(scene_load("gpu", PARAMETER("backend", "cpu")));
}

GROUP(bad_configs, SCENE_TEST(bad_parameters), SCENE_TEST(bad_tensors), SCENE_TEST(bad_files), SCENE_TEST(configs_without_completion),
      SCENE_TEST(instances_on_missing_devices));

/* Other kinds of models: variable resolution, and embeddings. */
#include "scene.h"

/* With max_patches each image has its own grid. */
static void variable_resolution(void **state)
{
    (void)state;
    enum { N = 6, MAX_PATCHES = 40 };
    static const int32_t sizes[N][2] = {{300, 20}, {33, 290}, {64, 64}, {1, 1}, {8, 320}, {57, 33}};
    TRITONBACKEND_Model *model =
        scene_load("variable", "{\"max_batch_size\": 8, \"parameters\": {\"max_patches\": {\"string_value\": \"40\"},"
                               " \"max_tokens\": {\"string_value\": \"90\"},"
                               " \"policy\": {\"string_value\": \"l2\"}, \"blocks\": {\"string_value\": \"0\"}}}");
    TRITONBACKEND_ModelInstance *instance = scene_instance(model);
    struct test_image images[N];
    TRITONBACKEND_Request *requests[N + 1];
    for (int i = 0; i < N; i++) {
        images[i] = test_image_new(70 + i, sizes[i][0], sizes[i][1]);
        requests[i] = i % 2 ? request_encoded(images[i].file, images[i].file_size) : request_image(&images[i]);
        fake_request_output(requests[i], "LOGITS");
        fake_request_output(requests[i], "TOKENS");
    }
    /* Three images of 40 patches and a CLS token exceed max_tokens. */
    static float planes[3 * 3 * 64 * 40];
    requests[N] = fake_request_new("planes");
    fake_request_input(
        requests[N],
        &(fake_input){
            .name = "PIXELS", .type = TRITONSERVER_TYPE_FP32, .shape = {3, 3, 64, 40}, .n_dims = 4, .data = planes, .size = sizeof planes});
    run_batch(instance, requests, N + 1);
    int32_t fewest = MAX_PATCHES, most = 0, n_runs = 1, in_run = 0;
    for (int i = 0; i < N; i++) {
        int32_t tokens;
        expect_logits(requests[i], 0, direct_logits_variable("l2", 0.5, MAX_PATCHES, &images[i]));
        memcpy(&tokens, fake_request_result(requests[i], "TOKENS")->data, sizeof tokens);
        assert_int_equal(tokens, direct_kept());
        /* Each run takes as many images as max_tokens allows. */
        int32_t grid[2];
        rvit_image_recipe recipe = RVIT_IMAGE_RECIPE_INIT;
        recipe.patch_size = 8;
        recipe.max_patches = MAX_PATCHES;
        assert_int_equal(rvit_image_recipe_grid(&recipe, images[i].height, images[i].width, grid), RVIT_OK);
        n_runs += in_run + 1 + grid[0] * grid[1] > 90;
        in_run = (in_run + 1 + grid[0] * grid[1] > 90 ? 0 : in_run) + 1 + grid[0] * grid[1];
        fewest = tokens < fewest ? tokens : fewest;
        most = tokens > most ? tokens : most;
    }
    assert_true(fewest < most);
    assert_int_equal((int)fake_metric("raggedvit_runs_total", "variable", NULL), n_runs);
    fake_request_expect_error(requests[N], TRITONSERVER_ERROR_INVALID_ARG, "123 tokens, more than the 90 of max_tokens");

    /* A batch closes by its number of tokens: 41, 37, and then at most 12 more. */
    TRITONBACKEND_Batcher *batcher = NULL;
    void *batch = NULL;
    bool include[3];
    fake_expect_success(TRITONBACKEND_ModelBatcherInitialize(&batcher, model));
    fake_expect_success(TRITONBACKEND_ModelBatchInitialize(batcher, &batch));
    for (int i = 0; i < 3; i++) {
        TRITONBACKEND_Request *request = request_image(&images[i == 0 ? 4 : 2]);
        fake_expect_success(TRITONBACKEND_ModelBatchIncludeRequest(request, batch, &include[i]));
        fake_expect_success(TRITONBACKEND_RequestRelease(request, TRITONSERVER_REQUEST_RELEASE_ALL));
    }
    fake_expect_success(TRITONBACKEND_ModelBatchFinalize(batch));
    fake_expect_success(TRITONBACKEND_ModelBatcherFinalize(batcher));
    assert_true(include[0]);
    assert_true(include[1]);
    assert_false(include[2]);
    for (int i = 0; i < N; i++)
        test_image_free(&images[i]);
}

static void embeddings(void **state)
{
    (void)state;
    static const char config[] =
        "{\"architecture\": \"vit_base_patch16_clip_224\", \"num_classes\": 7, \"global_pool\": \"token\", \"model_args\": {\"img_size\": "
        "[32, 56],"
        " \"patch_size\": 8, \"embed_dim\": 32, \"depth\": 2, \"num_heads\": 2, \"mlp_ratio\": 2, \"pre_norm\": false}, \"pretrained_cfg\":"
        " {\"input_size\": [3, 32, 56], \"mean\": [0.5, 0.5, 0.5], \"std\": [0.5, 0.5, 0.5], \"interpolation\": \"bicubic\", \"crop_pct\": "
        "0.9}}";
    scene_add_model("clip", "{}");
    scene_write("clip/1/config.json", config, sizeof config - 1);
    TRITONBACKEND_ModelInstance *instance = scene_instance(scene_load("clip", "{}"));
    struct test_image image = test_image_new(80, 120, 45);
    TRITONBACKEND_Request *request = request_image(&image);
    fake_request_output(request, "EMBEDDING");
    run_batch(instance, &request, 1);
    const fake_output *got = fake_request_result(request, "EMBEDDING");
    assert_int_equal(got->shape[1], CLASSES);
    assert_memory_equal(got->data, direct_embedding(scene_path("clip/1/model.safetensors"), &image), CLASSES * sizeof(float));
    test_image_free(&image);
}

GROUP(families, SCENE_TEST(variable_resolution), SCENE_TEST(embeddings));

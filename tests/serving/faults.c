/* Makes every server call and every allocation fail, one at a time: no request is lost, nothing leaks, and the next attempt succeeds. */
#include "scene.h"

static const char config[] = "{\"max_batch_size\": 8, \"parameters\": {\"policy\": {\"string_value\": \"l2\"},"
                             " \"blocks\": {\"string_value\": \"0\"}, \"labels\": {\"string_value\": \"names.txt\"},"
                             " \"settings\": {\"string_value\": \"none\"}, \"decode_threads\": {\"string_value\": \"2\"},"
                             " \"max_image_bytes\": {\"string_value\": \"200000\"}}}";

enum { N = 3 };
static struct test_image images[2];
static float logits[N][CLASSES];

static void begin(void)
{
    images[0] = test_image_new(50, 60, 60);
    images[1] = test_image_new(51, 31, 44);
    for (int i = 0; i < N; i++)
        memcpy(logits[i], direct_logits(i < 2 ? "l2" : NULL, 0.5, &images[i > 0]), sizeof logits[i]);
    scene_add_model("model", "{}");
    scene_write("model/1/names.txt", "a\nb\nc\nd\ne\nf\ng\n", 14);
}

static void end(void)
{
    for (int i = 0; i < 2; i++)
        test_image_free(&images[i]);
}

static void drop(TRITONSERVER_Error *error)
{
    if (error)
        TRITONSERVER_ErrorDelete(error);
}

/* Each answer must be correct or an error with a message. Returns whether all requests got correct answers. */
static int run(TRITONBACKEND_ModelInstance *instance)
{
    int worked = 1;
    TRITONBACKEND_Request *requests[N] = {request_image(&images[0]), request_encoded(images[1].file, images[1].file_size),
                                          request_image(&images[1])};
    fake_request_string(requests[2], "policy", "none");
    drop(fake_execute_failing(instance, requests, N));
    for (int i = 0; i < N; i++) {
        const fake_answer *answer = fake_request_answer(requests[i]);
        if (answer->n_responses == 1 && !answer->error)
            expect_logits(requests[i], 0, logits[i]);
        else
            worked = 0;
    }
    return worked;
}

/* Loads a model, runs a batch, unloads the model. Returns whether all of that succeeded. */
static int live(void)
{
    int worked = 0;
    TRITONBACKEND_Model *model = scene_add_model("model", config);
    TRITONSERVER_Error *error = TRITONBACKEND_ModelInitialize(model);
    if (error) {
        drop(error);
        return 0;
    }
    TRITONBACKEND_ModelInstance *instance = fake_instance_new(model, "model_0", TRITONSERVER_INSTANCEGROUPKIND_CPU, 0);
    error = TRITONBACKEND_ModelInstanceInitialize(instance);
    drop(error);
    if (!error) {
        worked = run(instance);
        drop(TRITONBACKEND_ModelInstanceFinalize(instance));
    }
    drop(TRITONBACKEND_ModelFinalize(model));
    return worked;
}

static void failing_server_calls(void **state)
{
    (void)state;
    begin();
    fake_server_fail_at(-1);
    assert_true(live());
    const int64_t n = fake_server_calls();
    int n_unseen = 0;
    assert_true(n > 40);
    for (int64_t i = 0; i < n; i++) {
        fake_server_fail_at(i);
        n_unseen += live();
    }
    fake_server_fail_at(-1);
    assert_true(live());
    /* A failure of metrics, statistics or the log is harmless; other failures must be visible. */
    print_message("%d server calls; %d may fail without an effect\n", (int)n, n_unseen);
    assert_true(n_unseen < n);
    end();
}

static void failing_allocations(void **state)
{
    (void)state;
    begin();
    assert_true(live());
    failing_malloc_at(-1);
    assert_true(live());
    const int64_t n = failing_malloc_calls();
    int n_unseen = 0;
    assert_true(n > 100);
    for (int64_t i = 0; i < n; i++) {
        failing_malloc_at(i);
        n_unseen += live();
    }
    failing_malloc_at(-1);
    assert_true(live());
    print_message("%d allocations; %d may fail without an effect\n", (int)n, n_unseen);
    assert_true(n_unseen < n);
    end();
}

GROUP(faults, SCENE_TEST(failing_server_calls), SCENE_TEST(failing_allocations));

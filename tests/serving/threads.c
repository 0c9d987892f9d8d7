/* Two models with two instances each, one thread per instance as in the server, while a third model is loaded and unloaded. */
#include <pthread.h>

#include "scene.h"

enum { N_IMAGES = 6, N_TURNS = 12 };

static struct test_image images[N_IMAGES];
static float wanted[2][N_IMAGES][CLASSES];

struct worker {
    pthread_t thread;
    TRITONBACKEND_ModelInstance *instance;
    int model;   /* 0: l2, 1: no pruning */
    int n_wrong; /* a counter, because cmocka's assertions work only in the main thread */
    TRITONBACKEND_Request *requests[N_TURNS][N_IMAGES];
};

static void *work(void *user)
{
    struct worker *self = user;
    for (int turn = 0; turn < N_TURNS; turn++) {
        TRITONSERVER_Error *error = fake_execute(self->instance, self->requests[turn], N_IMAGES);
        if (error) {
            TRITONSERVER_ErrorDelete(error);
            self->n_wrong++;
        }
    }
    return NULL;
}

static void concurrent_models(void **state)
{
    (void)state;
    static struct worker workers[4];
    for (int i = 0; i < N_IMAGES; i++) {
        images[i] = test_image_new(60 + i, 20 + 30 * i, 80 - 10 * i);
        memcpy(wanted[0][i], direct_logits("l2", 0.5, &images[i]), sizeof wanted[0][i]);
        memcpy(wanted[1][i], direct_logits(NULL, 0, &images[i]), sizeof wanted[1][i]);
    }
    TRITONBACKEND_Model *models[2] = {
        scene_load("pruned", "{\"parameters\": {\"policy\": {\"string_value\": \"l2\"}, \"blocks\": {\"string_value\": \"0\"},"
                             " \"decode_threads\": {\"string_value\": \"2\"}},"
                             " \"instance_group\": [{\"kind\": \"KIND_CPU\", \"count\": 2}]}"),
        scene_load("dense", "{\"parameters\": {\"threads\": {\"string_value\": \"2\"}},"
                            " \"instance_group\": [{\"kind\": \"KIND_CPU\", \"count\": 2}]}")};
    for (int w = 0; w < 4; w++) {
        workers[w] = (struct worker){.model = w / 2, .instance = scene_instance(models[w / 2])};
        for (int turn = 0; turn < N_TURNS; turn++)
            for (int i = 0; i < N_IMAGES; i++) {
                const struct test_image *p = &images[(i + turn) % N_IMAGES];
                workers[w].requests[turn][i] = (i + turn + w) % 3 == 0 ? request_encoded(p->file, p->file_size) : request_image(p);
            }
        fake_request_cancel(workers[w].requests[w][w]);
    }
    for (int w = 0; w < 4; w++)
        assert_int_equal(pthread_create(&workers[w].thread, NULL, work, &workers[w]), 0);
    for (int i = 0; i < 3; i++) {
        TRITONBACKEND_Model *passing = scene_load("passing", "{}");
        (void)scene_instance(passing);
        scene_unload(passing);
    }
    for (int w = 0; w < 4; w++)
        assert_int_equal(pthread_join(workers[w].thread, NULL), 0);
    for (int w = 0; w < 4; w++) {
        assert_int_equal(workers[w].n_wrong, 0);
        for (int turn = 0; turn < N_TURNS; turn++)
            for (int i = 0; i < N_IMAGES; i++)
                if (turn == w && i == w)
                    fake_request_expect_error(workers[w].requests[turn][i], TRITONSERVER_ERROR_CANCELLED, "cancel");
                else
                    expect_logits(workers[w].requests[turn][i], 0, wanted[workers[w].model][(i + turn) % N_IMAGES]);
    }
    static const char *const names[] = {"pruned", "dense"};
    for (int m = 0; m < 2; m++)
        assert_int_equal((int)fake_metric("raggedvit_images_total", names[m], NULL), 2 * (N_TURNS * N_IMAGES - 1));
    for (int i = 0; i < N_IMAGES; i++)
        test_image_free(&images[i]);
}

GROUP(threads, SCENE_TEST(concurrent_models));

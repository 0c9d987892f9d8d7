/* Batches with one invalid request, for every policy and type: the answers of the valid requests must have the same bits as without it.
   Runs a selection of batches; 10,000 with RVIT_TEST_CASES=all. */
#include <math.h>

#include "scene.h"

enum { N_GOOD = 4, N_KINDS = 6 };

static const char *const policies[] = {"none",      "l2",   "evit",   "evit-fused", "evit-paper", "ats",
                                       "ats-paper", "tome", "random", "received",   "hiprune"};
static const char *const types[] = {"f32", "f16", "bf16", "int8"};
enum { N_POLICIES = sizeof policies / sizeof *policies, N_TYPES = sizeof types / sizeof *types };

static float good[N_GOOD][PIXELS_OF_IMAGE];

static void spoil(float *pixels, int kind, int at)
{
    static const float values[] = {NAN, INFINITY, 1e30f, 7e4f};
    if (kind < 4)
        pixels[(at * 977) % PIXELS_OF_IMAGE] = values[kind];
    for (int i = 0; i < PIXELS_OF_IMAGE && kind >= 4; i++)
        pixels[i] = kind == 4 ? pixels[i] * 1e18f : i % 2 ? 3e38f : -3e38f;
}

static const float *answer_of(const TRITONBACKEND_Request *request)
{
    const fake_output *output = fake_request_result(request, "LOGITS");
    assert_int_equal(output->size, CLASSES * sizeof(float));
    return (const float *)(const void *)output->data;
}

/* Whether the invalid request got an error or an answer. */
static int has_failed(const TRITONBACKEND_Request *request)
{
    if (fake_request_answer(request)->error)
        return 1;
    for (int c = 0; c < CLASSES; c++)
        assert_true(isfinite(answer_of(request)[c]));
    return 0;
}

/* Returns how many of the invalid requests failed. */
static int run_batches(TRITONBACKEND_ModelInstance *instance, int n, const float wanted[N_GOOD][CLASSES], const char *what)
{
    int n_failed = 0;
    for (int batch = 0; batch < n; batch++) {
        static float bad[PIXELS_OF_IMAGE];
        TRITONBACKEND_Request *requests[N_GOOD];
        const int place = batch % N_GOOD;
        memcpy(bad, good[place], sizeof bad);
        spoil(bad, batch / N_GOOD % N_KINDS, batch);
        for (int i = 0; i < N_GOOD; i++)
            requests[i] = request_pixels(i == place ? bad : good[i], 1);
        run_batch(instance, requests, N_GOOD);
        for (int i = 0; i < N_GOOD; i++)
            if (i != place && memcmp(answer_of(requests[i]), wanted[i], sizeof wanted[i]) != 0)
                fail_msg("request %d has another answer if the batch has an invalid request: %s", i, what);
        n_failed += has_failed(requests[place]);
    }
    return n_failed;
}

static void valid_requests_are_unchanged(void **state)
{
    const char *cases = getenv("RVIT_TEST_CASES");
    const int n = cases && !strcmp(cases, "all") ? 10000 / (N_POLICIES * N_TYPES) + 1 : N_GOOD * N_KINDS;
    int n_batches = 0, n_failed = 0;
    for (int i = 0; i < N_GOOD; i++)
        pixels_of(200 + i, good[i]);
    for (int k = 0; k < N_POLICIES * N_TYPES; k++) {
        const char *policy = policies[k / N_TYPES], *type = types[k % N_TYPES];
        char config[512];
        snprintf(config, sizeof config,
                 "{\"parameters\": {\"policy\": {\"string_value\": \"%s\"}, \"dtype\": {\"string_value\": \"%s\"}%s}}", policy, type,
                 k < N_TYPES ? "" : ", \"blocks\": {\"string_value\": \"1\"}");
        TRITONBACKEND_ModelInstance *instance = scene_instance(scene_load("model", config));
        float wanted[N_GOOD][CLASSES];
        for (int i = 0; i < N_GOOD; i++) {
            TRITONBACKEND_Request *single = request_pixels(good[i], 1);
            run_batch(instance, &single, 1);
            memcpy(wanted[i], answer_of(single), sizeof wanted[i]);
        }
        n_failed += run_batches(instance, n, (const float(*)[CLASSES])wanted, config);
        n_batches += n;
        scene_teardown(state);
        scene_setup(state);
    }
    assert_true(n_failed > n_batches / 3);
    printf("%d batches; the bad request failed in %d\n", n_batches, n_failed);
}

GROUP(neighbours, SCENE_TEST(valid_requests_are_unchanged));

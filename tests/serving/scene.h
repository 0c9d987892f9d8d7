/* Shared by the tests of the Triton backend: the fake server with the backend loaded, a model repository, requests, and the expected
   answers, computed with the library. */
#ifndef RVIT_TESTS_SCENE_H
#define RVIT_TESTS_SCENE_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <raggedvit/raggedvit.h>

#include "failing_malloc.h"
#include "fake_server.h"

/* tests/data/reference: 32 x 56 pixels, patches of 8, 2 blocks, a head. */
enum { LINES = 32, COLUMNS = 56, PIXELS_OF_IMAGE = 3 * LINES * COLUMNS, TOKENS = 29, CLASSES = 7 };

/* Setup and teardown of each test: starts the fake server and initialises the backend. */
int scene_setup(void **state);
int scene_teardown(void **state);
#define SCENE_TEST(function) cmocka_unit_test_setup_teardown(function, scene_setup, scene_teardown)

/* A group of tests. */
struct group {
    const char *name;
    const struct CMUnitTest *tests;
    size_t n_tests;
};
#define GROUP(id, ...)                                           \
    static const struct CMUnitTest id##_tests[] = {__VA_ARGS__}; \
    const struct group id = {#id, id##_tests, sizeof id##_tests / sizeof id##_tests[0]}

/* The path of a file in the test's folder, which the teardown removes. */
const char *scene_path(const char *name);
void scene_write(const char *name, const void *data, size_t size);

/* Adds a model to the repository, with a link to the checkpoint. config: the fields of config.pbtxt as JSON. */
TRITONBACKEND_Model *scene_add_model(const char *name, const char *config);
/* The same, and initialises the model and a CPU instance of it. Fails the test on errors. The teardown finalises them if the test did not.
 */
TRITONBACKEND_Model *scene_load(const char *name, const char *config);
/* Initialises an added model, whose files may have been replaced, and a CPU instance of it. */
void scene_initialize(TRITONBACKEND_Model *model);
TRITONBACKEND_ModelInstance *scene_instance(TRITONBACKEND_Model *model);
/* An instance of any kind; may fail. */
TRITONSERVER_Error *scene_try_instance(TRITONBACKEND_Model *model, TRITONSERVER_InstanceGroupKind kind, int32_t device,
                                       TRITONBACKEND_ModelInstance **instance);
void scene_unload(TRITONBACKEND_Model *model);
/* Fails the test unless loading the model fails with this code and a message that contains these words. */
void scene_expect_refused(const char *config, TRITONSERVER_Error_Code code, const char *words);

/* An RGB image; the same number gives the same pixels. */
struct test_image {
    int32_t width, height;
    uint8_t *pixels;
    uint8_t *file; /* as PNG */
    size_t file_size;
};
struct test_image test_image_new(int number, int32_t width, int32_t height);
void test_image_free(struct test_image *image);

/* Requests. */
TRITONBACKEND_Request *request_image(const struct test_image *image);
TRITONBACKEND_Request *request_encoded(const void *file, size_t size);
TRITONBACKEND_Request *request_pixels(const float *pixels, int64_t n_images);
/* A request with a PIXELS input of the image. */
void pixels_of(int number, float *out);
/* Runs the requests as one batch. */
void run_batch(TRITONBACKEND_ModelInstance *instance, TRITONBACKEND_Request **requests, uint32_t n_requests);

/* The library's answer for one image or its pixels. policy: NULL: none. */
const float *direct_logits(const char *policy, double keep, const struct test_image *image);
const float *direct_logits_of_pixels(const char *policy, double keep, const float *pixels);
/* The same, at variable resolution. */
const float *direct_logits_variable(const char *policy, double keep, int32_t max_patches, const struct test_image *image);
/* The normalised embedding of a checkpoint with a projection to CLASSES values. */
const float *direct_embedding(const char *checkpoint, const struct test_image *image);
/* The number of tokens kept in the previous run. */
int32_t direct_kept(void);
/* Frees the sessions of these functions. */
void direct_end(void);
/* Fails the test unless image i of the request has exactly these logits. */
void expect_logits(const TRITONBACKEND_Request *request, int64_t image, const float *logits);

#endif

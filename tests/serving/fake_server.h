/* A fake Triton Inference Server inside the test program, with every function of serving/triton/api.h that a backend calls. It records each
   incorrect use (double deletion, use after deletion, a request answered twice or never, decreasing counters ...) with the function's name;
   fake_server_end fails the test for these and for leaks. The contents of deleted objects are freed immediately, so that an address
   sanitizer sees a use after deletion. All functions are thread-safe, with few locks, which would hide data races from a thread sanitizer.
   */
#ifndef RVIT_TESTS_FAKE_SERVER_H
#define RVIT_TESTS_FAKE_SERVER_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <jansson.h>

#include "serving/triton/api.h"

void fake_server_begin(void);
/* Resets the server. Fails the test after an incorrect use, or if the backend leaked an object or did not release a request. */
void fake_server_end(void);
/* The same, but returns the first violation instead of failing; NULL: none. */
const char *fake_server_finish(void);
/* The log since fake_server_begin. */
const char *fake_server_log(void);

/* From now on call number `call` (the first is 0) of the functions that can fail does so, once; -1: none. */
void fake_server_fail_at(int64_t call);
/* The number of such calls since then. */
int64_t fake_server_calls(void);

/* Deletes the error. Fails the test unless it has this code and contains these words. */
void fake_expect_error(TRITONSERVER_Error *error, TRITONSERVER_Error_Code code, const char *words);
/* Fails the test with the error's text if there is an error. */
void fake_expect_success(TRITONSERVER_Error *error);

/* Objects owned by the server, freed by fake_server_end. */
TRITONBACKEND_Backend *fake_backend_new(void);
TRITONBACKEND_BackendAttribute *fake_attribute_new(void);
/* The instance kinds that the backend prefers, in order; returns how many. */
uint32_t fake_attribute_kinds(const TRITONBACKEND_BackendAttribute *attribute, const TRITONSERVER_InstanceGroupKind **kinds);
/* directory: the model's folder in the repository. config: the fields of config.pbtxt as JSON; defaults are added as the server does. */
TRITONBACKEND_Model *fake_model_new(TRITONBACKEND_Backend *backend, const char *name, const char *directory, const char *config);
/* --disable-auto-complete-config */
void fake_model_do_not_complete(TRITONBACKEND_Model *model);
/* The current configuration, with the fields completed by the backend. */
const json_t *fake_model_config(const TRITONBACKEND_Model *model);
TRITONBACKEND_ModelInstance *fake_instance_new(TRITONBACKEND_Model *model, const char *name, TRITONSERVER_InstanceGroupKind kind,
                                               int32_t device);

/* The value of a model's counter or gauge, or the sum of a histogram with its number of observations in *count (may be NULL). NAN: not
   found. */
double fake_metric(const char *family, const char *model, uint64_t *count);

/* An input as a client might send it; its fields need not be consistent. */
typedef struct fake_input {
    const char *name;
    TRITONSERVER_DataType type;
    int64_t shape[8];
    uint32_t n_dims;
    const void *data; /* copied; NULL: zeros */
    uint64_t size;
    uint32_t n_buffers;             /* number of buffers for the data. 0: one, or none if size is 0 */
    uint32_t misaligned;            /* each buffer begins this many bytes past a multiple of 64 */
    TRITONSERVER_MemoryType memory; /* GPU: reading it crashes */
} fake_input;

typedef enum fake_output_memory {
    FAKE_OUTPUT_WORKS,
    FAKE_OUTPUT_FAILS,
    FAKE_OUTPUT_ON_GPU /* writing it crashes */
} fake_output_memory;

TRITONBACKEND_Request *fake_request_new(const char *id);
void fake_request_input(TRITONBACKEND_Request *request, const fake_input *input);
void fake_request_output(TRITONBACKEND_Request *request, const char *name);
/* value: in the form that RequestParameter returns; copied. */
void fake_request_parameter(TRITONBACKEND_Request *request, const char *name, TRITONSERVER_ParameterType type, const void *value);
void fake_request_string(TRITONBACKEND_Request *request, const char *name, const char *value);
void fake_request_cancel(TRITONBACKEND_Request *request);
void fake_request_output_memory(TRITONBACKEND_Request *request, fake_output_memory memory);

/* Calls TRITONBACKEND_ModelInstanceExecute and returns its error, after which no request may have been changed. Without an error each
   request must have been released, answered once and reported once. */
TRITONSERVER_Error *fake_execute(TRITONBACKEND_ModelInstance *instance, TRITONBACKEND_Request **requests, uint32_t n_requests);
/* Like fake_execute, for a run in which a server call fails: requests may go unanswered, but all must be released, or none if there is an
   error. */
TRITONSERVER_Error *fake_execute_failing(TRITONBACKEND_ModelInstance *instance, TRITONBACKEND_Request **requests, uint32_t n_requests);
/* The number of images in the batches that an instance reported. */
uint64_t fake_instance_images(const TRITONBACKEND_ModelInstance *instance);

typedef struct fake_output {
    char name[64];
    TRITONSERVER_DataType type;
    int64_t shape[8];
    uint32_t n_dims;
    const uint8_t *data;
    uint64_t size;
} fake_output;

typedef struct fake_answer {
    int n_responses, n_reports;
    int succeeded; /* as reported by the backend */
    TRITONSERVER_Error_Code code;
    const char *error; /* NULL: answered with outputs */
    uint32_t n_outputs;
    fake_output outputs[16];
} fake_answer;

const fake_answer *fake_request_answer(const TRITONBACKEND_Request *request);
/* Fails the test if the answer is an error or lacks this output. */
const fake_output *fake_request_result(const TRITONBACKEND_Request *request, const char *name);
/* Fails the test unless the answer is an error with this code that contains these words. */
void fake_request_expect_error(const TRITONBACKEND_Request *request, TRITONSERVER_Error_Code code, const char *words);

#endif

/* A stand-in for Triton Inference Server in the test's own process: all of serving/triton/api.h that a backend calls. It is strict. What a
   backend must not do (deleting twice, using what was deleted, answering a request twice or never, counting backwards ...) is noted with
   the function's name, and fails the test in fake_server_end; so does whatever is left then. An object that was deleted is remembered
   until then, its contents are freed at once, so that an address sanitizer sees a use of them. Functions may be called from any thread,
   and, as far as can be, without making threads wait for each other, which would hide races from a thread sanitizer. */
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
/* Forgets everything. Fails the test if a rule was broken, or if an object of the backend's is left, or a request that was not released. */
void fake_server_end(void);
/* The same, but returns the first rule that was broken; NULL: none was. */
const char *fake_server_finish(void);
/* The log since fake_server_begin. */
const char *fake_server_log(void);

/* From now on the call-th of the functions that can fail does (the first is 0), once; -1: none does. */
void fake_server_fail_at(int64_t call);
/* Such calls since then. */
int64_t fake_server_calls(void);

/* Deletes the error. Fails the test unless it has this code and these words in it. */
void fake_expect_error(TRITONSERVER_Error *error, TRITONSERVER_Error_Code code, const char *words);
/* Deletes the error. Fails the test, with its text, if there is one. */
void fake_expect_success(TRITONSERVER_Error *error);

/* Objects of the server, which live until fake_server_end. */
TRITONBACKEND_Backend *fake_backend_new(void);
TRITONBACKEND_BackendAttribute *fake_attribute_new(void);
/* The kinds of instance that were preferred, in order; returns how many. */
uint32_t fake_attribute_kinds(const TRITONBACKEND_BackendAttribute *attribute, const TRITONSERVER_InstanceGroupKind **kinds);
/* directory: the model's in the repository. config: the fields of config.pbtxt as JSON; the defaults are added as the server does it. */
TRITONBACKEND_Model *fake_model_new(TRITONBACKEND_Backend *backend, const char *name, const char *directory, const char *config);
/* --disable-auto-complete-config */
void fake_model_do_not_complete(TRITONBACKEND_Model *model);
/* As it is now, with what the backend completed. */
const json_t *fake_model_config(const TRITONBACKEND_Model *model);
TRITONBACKEND_ModelInstance *fake_instance_new(TRITONBACKEND_Model *model, const char *name, TRITONSERVER_InstanceGroupKind kind,
                                               int32_t device);

/* Value of a counter or gauge of a model now; of a histogram the sum, and *count (may be NULL) its observations. NAN: there is none. */
double fake_metric(const char *family, const char *model, uint64_t *count);

/* An input as a client might send it: nothing has to fit. */
typedef struct fake_input {
    const char *name;
    TRITONSERVER_DataType type;
    int64_t shape[8];
    uint32_t n_dims;
    const void *data; /* copied; NULL: zeros */
    uint64_t size;
    uint32_t n_buffers;             /* that the data is cut into. 0: one, or none if size is 0 */
    uint32_t misaligned;            /* bytes past a multiple of 64 that each buffer begins at */
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
/* value: as RequestParameter gives it; copied. */
void fake_request_parameter(TRITONBACKEND_Request *request, const char *name, TRITONSERVER_ParameterType type, const void *value);
void fake_request_string(TRITONBACKEND_Request *request, const char *name, const char *value);
void fake_request_cancel(TRITONBACKEND_Request *request);
void fake_request_output_memory(TRITONBACKEND_Request *request, fake_output_memory memory);

/* Calls TRITONBACKEND_ModelInstanceExecute. Without an error each request must then be released, answered once and reported once. Returns
 * the error, with which no request may have been touched. */
TRITONSERVER_Error *fake_execute(TRITONBACKEND_ModelInstance *instance, TRITONBACKEND_Request **requests, uint32_t n_requests);
/* What a call of the server's failing allows: requests may go unanswered, but all of them must be released, or none if there is an error.
 */
TRITONSERVER_Error *fake_execute_failing(TRITONBACKEND_ModelInstance *instance, TRITONBACKEND_Request **requests, uint32_t n_requests);
/* The images of the batches reported by an instance. */
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
    int succeeded; /* as reported */
    TRITONSERVER_Error_Code code;
    const char *error; /* NULL: answered with outputs */
    uint32_t n_outputs;
    fake_output outputs[16];
} fake_answer;

const fake_answer *fake_request_answer(const TRITONBACKEND_Request *request);
/* Fails the test if the request was answered with an error, or without this output. */
const fake_output *fake_request_result(const TRITONBACKEND_Request *request, const char *name);
/* Fails the test unless the request was answered with an error of this code that has these words in it. */
void fake_request_expect_error(const TRITONBACKEND_Request *request, TRITONSERVER_Error_Code code, const char *words);

#endif

/* The fake server's requests and responses. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "fake_model.h"

enum { GPU_PAGE = 1 << 16, MAX_BUFFERS = 64, MAX_PARAMETERS = 8, MAX_INPUTS = 4, MAX_OUTPUTS = 16 };

struct TRITONBACKEND_Input {
    fake_object object;
    char name[64];
    TRITONSERVER_DataType type;
    int64_t shape[8];
    uint32_t n_dims, n_buffers;
    TRITONSERVER_MemoryType memory;
    struct {
        uint8_t *begin; /* passed to free */
        uint32_t offset;
        uint64_t size;
    } buffers[MAX_BUFFERS];
};

typedef struct parameter {
    char *name;
    TRITONSERVER_ParameterType type;
    union {
        char *text;
        int64_t integer;
        bool boolean;
        double real;
    } value;
} parameter;

struct TRITONBACKEND_Request {
    fake_object object;
    char *id;
    TRITONBACKEND_Input *inputs[MAX_INPUTS];
    char *outputs[MAX_OUTPUTS];
    parameter parameters[MAX_PARAMETERS];
    uint32_t n_inputs, n_outputs, n_parameters;
    atomic_bool is_cancelled;
    fake_output_memory output_memory;
    int n_pending; /* responses created but not yet sent */
    fake_answer answer;
};

struct TRITONBACKEND_Output {
    fake_object object;
    TRITONBACKEND_Request *request;
    fake_output *result;
    uint8_t *begin;
    int is_given; /* its buffer */
};

struct TRITONBACKEND_Response {
    fake_object object;
    TRITONBACKEND_Request *request;
    TRITONBACKEND_Output *outputs[MAX_OUTPUTS];
    uint32_t n_outputs;
    fake_output results[MAX_OUTPUTS];
};

/* Memory that crashes when accessed, like a GPU's memory on the host. */
static uint8_t *gpu_memory(void)
{
    void *p = mmap(NULL, GPU_PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    return p == MAP_FAILED ? NULL : p;
}

static void free_input(TRITONBACKEND_Input *input)
{
    for (uint32_t i = 0; i < input->n_buffers; i++) {
        if (input->memory == TRITONSERVER_MEMORY_GPU && input->buffers[i].begin)
            munmap(input->buffers[i].begin, GPU_PAGE);
        else
            free(input->buffers[i].begin);
        input->buffers[i].begin = NULL;
    }
}

/* The data that a backend may read until it releases the request. */
static void free_readable(TRITONBACKEND_Request *request)
{
    for (uint32_t i = 0; i < request->n_inputs; i++) {
        atomic_store(&request->inputs[i]->object.live, 0);
        free_input(request->inputs[i]);
    }
    for (uint32_t i = 0; i < request->n_outputs; i++)
        free(request->outputs[i]);
    for (uint32_t i = 0; i < request->n_parameters; i++) {
        free(request->parameters[i].name);
        if (request->parameters[i].type == TRITONSERVER_PARAMETER_STRING)
            free(request->parameters[i].value.text);
    }
    free(request->id);
    request->id = NULL;
    request->n_inputs = request->n_outputs = request->n_parameters = 0;
}

static void free_request(void *object)
{
    TRITONBACKEND_Request *request = object;
    free_readable(request);
    for (uint32_t i = 0; i < request->answer.n_outputs; i++)
        free((void *)(uintptr_t)request->answer.outputs[i].data);
    free((void *)(uintptr_t)request->answer.error);
}

TRITONBACKEND_Request *fake_request_new(const char *id)
{
    TRITONBACKEND_Request *request = fake_object_new(FAKE_REQUEST, sizeof *request, free_request);
    request->id = fake_copy_text(id);
    return request;
}

void fake_request_input(TRITONBACKEND_Request *request, const fake_input *in)
{
    assert_true(request->n_inputs < MAX_INPUTS && in->n_buffers <= MAX_BUFFERS && in->n_dims <= 8);
    TRITONBACKEND_Input *input = fake_object_new(FAKE_INPUT, sizeof *input, NULL);
    request->inputs[request->n_inputs++] = input;
    snprintf(input->name, sizeof input->name, "%s", in->name);
    input->type = in->type;
    memcpy(input->shape, in->shape, sizeof input->shape);
    input->n_dims = in->n_dims;
    input->memory = in->memory;
    input->n_buffers = in->n_buffers > 0 ? in->n_buffers : in->size > 0;
    uint64_t at = 0;
    for (uint32_t i = 0; i < input->n_buffers; i++) {
        const uint64_t left = in->size - at, size = i + 1 < input->n_buffers ? left / (input->n_buffers - i) : left;
        input->buffers[i].size = size;
        if (in->memory == TRITONSERVER_MEMORY_GPU) {
            input->buffers[i].begin = gpu_memory();
        } else {
            /* It ends where the allocation ends, so that a sanitizer sees a read past the end. */
            input->buffers[i].offset = in->misaligned;
            input->buffers[i].begin = malloc(in->misaligned + size > 0 ? in->misaligned + size : 1);
            if (!input->buffers[i].begin)
                fail_msg("out of memory");
            if (in->data)
                memcpy(input->buffers[i].begin + in->misaligned, (const uint8_t *)in->data + at, size);
            else
                memset(input->buffers[i].begin, 0, in->misaligned + size);
        }
        at += size;
    }
}

void fake_request_output(TRITONBACKEND_Request *request, const char *name)
{
    assert_true(request->n_outputs < MAX_OUTPUTS);
    request->outputs[request->n_outputs++] = fake_copy_text(name);
}

void fake_request_parameter(TRITONBACKEND_Request *request, const char *name, TRITONSERVER_ParameterType type, const void *value)
{
    assert_true(request->n_parameters < MAX_PARAMETERS);
    parameter *p = &request->parameters[request->n_parameters++];
    p->name = fake_copy_text(name);
    p->type = type;
    switch (type) {
    case TRITONSERVER_PARAMETER_STRING:
        p->value.text = fake_copy_text(value);
        break;
    case TRITONSERVER_PARAMETER_INT:
        p->value.integer = *(const int64_t *)value;
        break;
    case TRITONSERVER_PARAMETER_BOOL:
        p->value.boolean = *(const bool *)value;
        break;
    case TRITONSERVER_PARAMETER_DOUBLE:
        p->value.real = *(const double *)value;
        break;
    default:
        fail_msg("requests have no such parameters");
    }
}

void fake_request_string(TRITONBACKEND_Request *request, const char *name, const char *value)
{
    fake_request_parameter(request, name, TRITONSERVER_PARAMETER_STRING, value);
}

void fake_request_cancel(TRITONBACKEND_Request *request)
{
    atomic_store(&request->is_cancelled, true);
}

void fake_request_output_memory(TRITONBACKEND_Request *request, fake_output_memory memory)
{
    request->output_memory = memory;
}

const fake_answer *fake_request_answer(const TRITONBACKEND_Request *request)
{
    return &request->answer;
}

const fake_output *fake_request_result(const TRITONBACKEND_Request *request, const char *name)
{
    const fake_answer *answer = &request->answer;
    if (answer->error)
        fail_msg("the request failed: %s", answer->error);
    for (uint32_t i = 0; i < answer->n_outputs; i++)
        if (strcmp(answer->outputs[i].name, name) == 0)
            return &answer->outputs[i];
    fail_msg("the request was answered without %s", name);
    return NULL;
}

/* The batch. */
static TRITONSERVER_Error *execute(TRITONBACKEND_ModelInstance *instance, TRITONBACKEND_Request **requests, uint32_t n_requests,
                                   int is_strict)
{
    static const char what[] = "TRITONBACKEND_ModelInstanceExecute";
    /* The server owns the array and frees it after the call. */
    TRITONBACKEND_Request **given = malloc((n_requests > 0 ? n_requests : 1) * sizeof *given);
    memcpy(given, requests, n_requests * sizeof *given);
    TRITONSERVER_Error *error = TRITONBACKEND_ModelInstanceExecute(instance, given, n_requests);
    free(given);
    for (uint32_t i = 0; i < n_requests; i++) {
        TRITONBACKEND_Request *request = requests[i];
        const fake_answer *answer = &request->answer;
        if (error) {
            if (!atomic_load(&request->object.live) || answer->n_responses > 0 || request->n_pending > 0)
                fake_broken_rule(what, "request %u was answered or released, and an error returned", i);
            atomic_store(&request->object.live, 0); /* owned by the server again */
            free_readable(request);
            continue;
        }
        if (atomic_load(&request->object.live))
            fake_broken_rule(what, "request %u was not released", i);
        if (answer->n_responses > 1 || (is_strict && answer->n_responses != 1))
            fake_broken_rule(what, "request %u was answered %d times", i, answer->n_responses);
        if (answer->n_reports > 1 || (is_strict && answer->n_reports != 1))
            fake_broken_rule(what, "request %u was reported %d times", i, answer->n_reports);
        if (is_strict && answer->n_reports == 1 && answer->succeeded == (answer->error != NULL))
            fake_broken_rule(what, "request %u was reported with the wrong outcome", i);
    }
    return error;
}

TRITONSERVER_Error *fake_execute(TRITONBACKEND_ModelInstance *instance, TRITONBACKEND_Request **requests, uint32_t n_requests)
{
    return execute(instance, requests, n_requests, 1);
}

TRITONSERVER_Error *fake_execute_failing(TRITONBACKEND_ModelInstance *instance, TRITONBACKEND_Request **requests, uint32_t n_requests)
{
    return execute(instance, requests, n_requests, 0);
}

static void check_times(const char *function, uint64_t begin, uint64_t compute_begin, uint64_t compute_end, uint64_t end)
{
    if (begin == 0 || begin > compute_begin || compute_begin > compute_end || compute_end > end)
        fake_broken_rule(function, "the times do not ascend");
}

TRITONSERVER_Error *TRITONBACKEND_ModelInstanceReportStatistics(TRITONBACKEND_ModelInstance *instance, TRITONBACKEND_Request *request,
                                                                bool success, uint64_t begin, uint64_t compute_begin, uint64_t compute_end,
                                                                uint64_t end)
{
    FAKE_CALL(instance, FAKE_INSTANCE);
    if (!fake_object_check(request, FAKE_REQUEST, __func__))
        return fake_failure(__func__);
    check_times(__func__, begin, compute_begin, compute_end, end);
    request->answer.n_reports++;
    request->answer.succeeded = success;
    return NULL;
}

TRITONSERVER_Error *TRITONBACKEND_ModelInstanceReportBatchStatistics(TRITONBACKEND_ModelInstance *instance, uint64_t batch_size,
                                                                     uint64_t begin, uint64_t compute_begin, uint64_t compute_end,
                                                                     uint64_t end)
{
    FAKE_CALL(instance, FAKE_INSTANCE);
    check_times(__func__, begin, compute_begin, compute_end, end);
    instance->n_images += batch_size;
    return NULL;
}

/* A request. */
TRITONSERVER_Error *TRITONBACKEND_RequestId(TRITONBACKEND_Request *request, const char **id)
{
    FAKE_CALL(request, FAKE_REQUEST);
    *id = request->id;
    return NULL;
}

TRITONSERVER_Error *TRITONBACKEND_RequestIsCancelled(TRITONBACKEND_Request *request, bool *is_cancelled)
{
    FAKE_CALL(request, FAKE_REQUEST);
    *is_cancelled = atomic_load(&request->is_cancelled);
    return NULL;
}

TRITONSERVER_Error *TRITONBACKEND_RequestParameterCount(TRITONBACKEND_Request *request, uint32_t *count)
{
    FAKE_CALL(request, FAKE_REQUEST);
    *count = request->n_parameters;
    return NULL;
}

TRITONSERVER_Error *TRITONBACKEND_RequestParameter(TRITONBACKEND_Request *request, uint32_t index, const char **name,
                                                   TRITONSERVER_ParameterType *type, const void **value)
{
    FAKE_CALL(request, FAKE_REQUEST);
    if (index >= request->n_parameters)
        return fake_failure(__func__);
    const parameter *p = &request->parameters[index];
    *name = p->name;
    *type = p->type;
    *value = p->type == TRITONSERVER_PARAMETER_STRING ? (const void *)p->value.text : (const void *)&p->value;
    return NULL;
}

TRITONSERVER_Error *TRITONBACKEND_RequestInputCount(TRITONBACKEND_Request *request, uint32_t *count)
{
    FAKE_CALL(request, FAKE_REQUEST);
    *count = request->n_inputs;
    return NULL;
}

TRITONSERVER_Error *TRITONBACKEND_RequestInput(TRITONBACKEND_Request *request, const char *name, TRITONBACKEND_Input **input)
{
    FAKE_CALL(request, FAKE_REQUEST);
    for (uint32_t i = 0; i < request->n_inputs; i++)
        if (strcmp(request->inputs[i]->name, name) == 0) {
            *input = request->inputs[i];
            return NULL;
        }
    return TRITONSERVER_ErrorNew(TRITONSERVER_ERROR_INVALID_ARG, "unknown request input name");
}

TRITONSERVER_Error *TRITONBACKEND_RequestInputByIndex(TRITONBACKEND_Request *request, uint32_t index, TRITONBACKEND_Input **input)
{
    FAKE_CALL(request, FAKE_REQUEST);
    if (index >= request->n_inputs)
        return TRITONSERVER_ErrorNew(TRITONSERVER_ERROR_INVALID_ARG, "out of bounds index of an input");
    *input = request->inputs[index];
    return NULL;
}

TRITONSERVER_Error *TRITONBACKEND_RequestOutputCount(TRITONBACKEND_Request *request, uint32_t *count)
{
    FAKE_CALL(request, FAKE_REQUEST);
    *count = request->n_outputs;
    return NULL;
}

TRITONSERVER_Error *TRITONBACKEND_RequestOutputName(TRITONBACKEND_Request *request, uint32_t index, const char **name)
{
    FAKE_CALL(request, FAKE_REQUEST);
    if (index >= request->n_outputs)
        return TRITONSERVER_ErrorNew(TRITONSERVER_ERROR_INVALID_ARG, "out of bounds index of an output");
    *name = request->outputs[index];
    return NULL;
}

TRITONSERVER_Error *TRITONBACKEND_RequestRelease(TRITONBACKEND_Request *request, uint32_t flags)
{
    if (flags != TRITONSERVER_REQUEST_RELEASE_ALL)
        fake_broken_rule(__func__, "flags %u", flags);
    if (!fake_object_end(request, FAKE_REQUEST, __func__))
        return fake_failure(__func__);
    if (request->n_pending > 0)
        fake_broken_rule(__func__, "the request's response was not sent");
    free_readable(request);
    return NULL;
}

TRITONSERVER_Error *TRITONBACKEND_InputProperties(TRITONBACKEND_Input *input, const char **name, TRITONSERVER_DataType *type,
                                                  const int64_t **shape, uint32_t *n_dims, uint64_t *size, uint32_t *n_buffers)
{
    FAKE_CALL(input, FAKE_INPUT);
    if (name)
        *name = input->name;
    if (type)
        *type = input->type;
    if (shape)
        *shape = input->shape;
    if (n_dims)
        *n_dims = input->n_dims;
    if (n_buffers)
        *n_buffers = input->n_buffers;
    if (size) {
        *size = 0;
        for (uint32_t i = 0; i < input->n_buffers; i++)
            *size += input->buffers[i].size;
    }
    return NULL;
}

TRITONSERVER_Error *TRITONBACKEND_InputBuffer(TRITONBACKEND_Input *input, uint32_t index, const void **buffer, uint64_t *size,
                                              TRITONSERVER_MemoryType *memory, int64_t *memory_id)
{
    FAKE_CALL(input, FAKE_INPUT);
    if (index >= input->n_buffers)
        return TRITONSERVER_ErrorNew(TRITONSERVER_ERROR_INVALID_ARG, "out of bounds index of a buffer");
    if (*memory > TRITONSERVER_MEMORY_GPU)
        fake_broken_rule(__func__, "the preferred memory type is not set");
    *buffer = input->buffers[index].begin + input->buffers[index].offset;
    *size = input->buffers[index].size;
    *memory = input->memory;
    *memory_id = 0;
    return NULL;
}

/* Responses. */
static void free_output(void *object)
{
    free(((TRITONBACKEND_Output *)object)->begin);
}

TRITONSERVER_Error *TRITONBACKEND_ResponseNew(TRITONBACKEND_Response **response, TRITONBACKEND_Request *request)
{
    FAKE_CALL(request, FAKE_REQUEST);
    TRITONBACKEND_Response *r = fake_object_new(FAKE_RESPONSE, sizeof *r, NULL);
    r->request = request;
    request->n_pending++;
    *response = r;
    return NULL;
}

static int is_requested(const TRITONBACKEND_Request *request, const char *name)
{
    for (uint32_t i = 0; i < request->n_outputs; i++)
        if (strcmp(request->outputs[i], name) == 0)
            return 1;
    return request->n_outputs == 0;
}

TRITONSERVER_Error *TRITONBACKEND_ResponseOutput(TRITONBACKEND_Response *response, TRITONBACKEND_Output **output, const char *name,
                                                 TRITONSERVER_DataType type, const int64_t *shape, uint32_t n_dims)
{
    FAKE_CALL(response, FAKE_RESPONSE);
    if (!fake_object_check(response->request, FAKE_REQUEST, __func__))
        return fake_failure(__func__);
    if (!is_requested(response->request, name))
        fake_broken_rule(__func__, "%s was not requested", name);
    for (uint32_t i = 0; i < response->n_outputs; i++)
        if (strcmp(response->results[i].name, name) == 0)
            fake_broken_rule(__func__, "%s is created a second time", name);
    if (response->n_outputs == MAX_OUTPUTS || n_dims > 8)
        return fake_failure(__func__);
    fake_output *result = &response->results[response->n_outputs];
    snprintf(result->name, sizeof result->name, "%s", name);
    result->type = type;
    memcpy(result->shape, shape, n_dims * sizeof *shape);
    result->n_dims = n_dims;
    TRITONBACKEND_Output *o = fake_object_new(FAKE_OUTPUT, sizeof *o, free_output);
    response->outputs[response->n_outputs++] = o;
    o->request = response->request;
    o->result = result;
    *output = o;
    return NULL;
}

static int64_t element_size(TRITONSERVER_DataType type)
{
    switch (type) {
    case TRITONSERVER_TYPE_UINT8:
        return 1;
    case TRITONSERVER_TYPE_FP32:
    case TRITONSERVER_TYPE_INT32:
        return 4;
    default:
        return 0;
    }
}

static int64_t n_elements(const fake_output *result)
{
    int64_t n = 1;
    for (uint32_t i = 0; i < result->n_dims; i++)
        n *= result->shape[i];
    return n;
}

TRITONSERVER_Error *TRITONBACKEND_OutputBuffer(TRITONBACKEND_Output *output, void **buffer, uint64_t size, TRITONSERVER_MemoryType *memory,
                                               int64_t *memory_id)
{
    FAKE_CALL(output, FAKE_OUTPUT);
    if (output->is_given)
        fake_broken_rule(__func__, "%s already has a buffer", output->result->name);
    if (*memory > TRITONSERVER_MEMORY_GPU)
        fake_broken_rule(__func__, "the preferred memory type is not set");
    if (output->result->type != TRITONSERVER_TYPE_BYTES && (int64_t)size != n_elements(output->result) * element_size(output->result->type))
        fake_broken_rule(__func__, "%s: %llu bytes do not fit its shape", output->result->name, (unsigned long long)size);
    if (output->request->output_memory == FAKE_OUTPUT_FAILS)
        return fake_failure(__func__);
    output->is_given = 1;
    *memory_id = 0;
    if (output->request->output_memory == FAKE_OUTPUT_ON_GPU) {
        *memory = TRITONSERVER_MEMORY_GPU;
        *buffer = (void *)(uintptr_t)64; /* an invalid address */
        return NULL;
    }
    *memory = TRITONSERVER_MEMORY_CPU;
    output->begin = malloc(size + 3); /* unaligned on purpose */
    if (!output->begin)
        return fake_failure(__func__);
    memset(output->begin, 0xa5, size + 3);
    output->result->size = size;
    *buffer = output->begin + 3;
    return NULL;
}

/* Whether the bytes hold exactly as many strings as the shape says. */
static int are_strings(const fake_output *result, const uint8_t *data)
{
    uint64_t at = 0;
    for (int64_t i = 0; i < n_elements(result); i++) {
        uint32_t length;
        if (at + 4 > result->size)
            return 0;
        memcpy(&length, data + at, 4);
        at += 4 + (uint64_t)length;
        if (at > result->size)
            return 0;
    }
    return at == result->size;
}

static void keep_results(TRITONBACKEND_Response *response, fake_answer *answer)
{
    static const char what[] = "TRITONBACKEND_ResponseSend";
    TRITONBACKEND_Request *request = response->request;
    for (uint32_t i = 0; i < request->n_outputs; i++) {
        uint32_t j = 0;
        while (j < response->n_outputs && strcmp(response->results[j].name, request->outputs[i]) != 0)
            j++;
        if (j == response->n_outputs)
            fake_broken_rule(what, "a successful answer lacks %s", request->outputs[i]);
    }
    for (uint32_t i = 0; i < response->n_outputs; i++) {
        fake_output *result = &response->results[i];
        const uint8_t *data = response->outputs[i]->begin;
        if (!data) {
            fake_broken_rule(what, "a successful answer has no buffer for %s", result->name);
            continue;
        }
        if (result->type == TRITONSERVER_TYPE_BYTES && !are_strings(result, data + 3))
            fake_broken_rule(what, "%s does not have the strings of its shape", result->name);
        uint8_t *copy = malloc(result->size > 0 ? result->size : 1);
        memcpy(copy, data + 3, result->size);
        result->data = copy;
        answer->outputs[answer->n_outputs++] = *result;
    }
}

static void end_response(TRITONBACKEND_Response *response)
{
    response->request->n_pending--;
    for (uint32_t i = 0; i < response->n_outputs; i++) {
        atomic_store(&response->outputs[i]->object.live, 0);
        free(response->outputs[i]->begin);
        response->outputs[i]->begin = NULL;
    }
}

TRITONSERVER_Error *TRITONBACKEND_ResponseSend(TRITONBACKEND_Response *response, uint32_t flags, TRITONSERVER_Error *error)
{
    if (error && !fake_object_check(error, FAKE_ERROR, __func__))
        error = NULL;
    if (flags != TRITONSERVER_RESPONSE_COMPLETE_FINAL)
        fake_broken_rule(__func__, "flags %u", flags);
    if (!fake_object_end(response, FAKE_RESPONSE, __func__) || !fake_object_check(response->request, FAKE_REQUEST, __func__))
        return fake_failure(__func__);
    fake_answer *answer = &response->request->answer;
    if (fake_call_fails()) {
        end_response(response);
        return fake_failure(__func__);
    }
    if (answer->n_responses++ > 0) {
        fake_broken_rule(__func__, "a second answer");
    } else if (error) {
        answer->code = TRITONSERVER_ErrorCode(error);
        answer->error = fake_copy_text(TRITONSERVER_ErrorMessage(error));
    } else {
        keep_results(response, answer);
    }
    end_response(response);
    return NULL;
}

TRITONSERVER_Error *TRITONBACKEND_ResponseDelete(TRITONBACKEND_Response *response)
{
    if (!fake_object_end(response, FAKE_RESPONSE, __func__))
        return fake_failure(__func__);
    end_response(response);
    return NULL;
}

/* A Triton backend that computes nothing, to measure the cost of the server and its clients. It reads the buffers of every input and
   answers with zero LOGITS of the size in config.pbtxt. */
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <jansson.h>

#include "serving/triton/api.h"

/* Returns the server's error, if any, from the calling function. */
#define TRY(call)                               \
    do {                                        \
        TRITONSERVER_Error *try_error = (call); \
        if (try_error)                          \
            return try_error;                   \
    } while (0)

static void drop(TRITONSERVER_Error *error)
{
    if (error)
        TRITONSERVER_ErrorDelete(error);
}

static uint64_t now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

/* The number of logits per image; 0 if config.pbtxt does not set it. */
static int64_t n_classes_of(const char *text, size_t size)
{
    json_t *config = json_loadb(text, size, 0, NULL), *output;
    int64_t n = 0;
    size_t i;
    json_array_foreach(json_object_get(config, "output"), i, output)
    {
        const char *name = json_string_value(json_object_get(output, "name"));
        json_t *dims = json_object_get(output, "dims");
        /* The server writes 64-bit numbers as strings or as numbers. */
        json_t *last = json_array_get(dims, json_array_size(dims) - 1);
        if (name && strcmp(name, "LOGITS") == 0)
            n = json_is_string(last) ? strtoll(json_string_value(last), NULL, 10) : json_integer_value(last);
    }
    json_decref(config);
    return n;
}

TRITONSERVER_Error *TRITONBACKEND_ModelInitialize(TRITONBACKEND_Model *model)
{
    TRITONSERVER_Message *message;
    TRY(TRITONBACKEND_ModelConfig(model, 1, &message));
    const char *text;
    size_t size;
    TRITONSERVER_Error *error = TRITONSERVER_MessageSerializeToJson(message, &text, &size);
    const int64_t n = error ? 0 : n_classes_of(text, size);
    drop(TRITONSERVER_MessageDelete(message));
    if (error)
        return error;
    if (n <= 0)
        return TRITONSERVER_ErrorNew(TRITONSERVER_ERROR_INVALID_ARG, "the no-op backend: config.pbtxt has no output LOGITS with a size");
    return TRITONBACKEND_ModelSetState(model, (void *)(intptr_t)n);
}

static TRITONSERVER_Error *read_inputs(TRITONBACKEND_Request *request, int64_t *n_images)
{
    uint32_t n_inputs;
    *n_images = 1;
    TRY(TRITONBACKEND_RequestInputCount(request, &n_inputs));
    for (uint32_t i = 0; i < n_inputs; i++) {
        TRITONBACKEND_Input *input;
        const int64_t *shape;
        uint32_t n_dims, n_buffers;
        TRY(TRITONBACKEND_RequestInputByIndex(request, i, &input));
        TRY(TRITONBACKEND_InputProperties(input, NULL, NULL, &shape, &n_dims, NULL, &n_buffers));
        *n_images = n_dims > 0 ? shape[0] : 1;
        for (uint32_t j = 0; j < n_buffers; j++) {
            const void *buffer;
            uint64_t size;
            TRITONSERVER_MemoryType memory = TRITONSERVER_MEMORY_CPU;
            int64_t memory_id = 0;
            TRY(TRITONBACKEND_InputBuffer(input, j, &buffer, &size, &memory, &memory_id));
        }
    }
    return NULL;
}

static TRITONSERVER_Error *write_logits(TRITONBACKEND_Response *response, int64_t n_images, int64_t n_classes)
{
    TRITONBACKEND_Output *output;
    const int64_t shape[2] = {n_images, n_classes};
    const uint64_t size = (uint64_t)(n_images * n_classes) * sizeof(float);
    void *buffer;
    TRITONSERVER_MemoryType memory = TRITONSERVER_MEMORY_CPU;
    int64_t memory_id = 0;
    TRY(TRITONBACKEND_ResponseOutput(response, &output, "LOGITS", TRITONSERVER_TYPE_FP32, shape, 2));
    TRY(TRITONBACKEND_OutputBuffer(output, &buffer, size, &memory, &memory_id));
    if (memory == TRITONSERVER_MEMORY_GPU)
        return TRITONSERVER_ErrorNew(TRITONSERVER_ERROR_UNSUPPORTED, "the no-op backend does not write to GPU memory");
    memset(buffer, 0, size);
    return NULL;
}

static int64_t answer(TRITONBACKEND_ModelInstance *instance, TRITONBACKEND_Request *request, int64_t n_classes, uint64_t begin)
{
    int64_t n_images;
    TRITONBACKEND_Response *response = NULL;
    TRITONSERVER_Error *error = read_inputs(request, &n_images);
    const uint64_t seen = now();
    drop(TRITONBACKEND_ResponseNew(&response, request));
    if (!error && response)
        error = write_logits(response, n_images, n_classes);
    if (response)
        drop(TRITONBACKEND_ResponseSend(response, TRITONSERVER_RESPONSE_COMPLETE_FINAL, error));
    drop(TRITONBACKEND_ModelInstanceReportStatistics(instance, request, !error && response, begin, seen, seen, now()));
    drop(error);
    drop(TRITONBACKEND_RequestRelease(request, TRITONSERVER_REQUEST_RELEASE_ALL));
    return n_images;
}

TRITONSERVER_Error *TRITONBACKEND_ModelInstanceExecute(TRITONBACKEND_ModelInstance *instance, TRITONBACKEND_Request **requests,
                                                       uint32_t n_requests)
{
    TRITONBACKEND_Model *model;
    void *state;
    const uint64_t begin = now();
    TRY(TRITONBACKEND_ModelInstanceModel(instance, &model));
    TRY(TRITONBACKEND_ModelState(model, &state));
    int64_t n_images = 0;
    for (uint32_t i = 0; i < n_requests; i++)
        n_images += answer(instance, requests[i], (int64_t)(intptr_t)state, begin);
    const uint64_t end = now();
    drop(TRITONBACKEND_ModelInstanceReportBatchStatistics(instance, (uint64_t)n_images, begin, end, end, end));
    return NULL;
}

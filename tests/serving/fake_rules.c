/* Tests of the fake server: it reports each violation, and nothing for correct use. */
#include "scene.h"

static int begin(void **state)
{
    (void)state;
    fake_server_begin();
    return 0;
}

static TRITONBACKEND_Request *request_new(void)
{
    static const uint8_t bytes[12];
    TRITONBACKEND_Request *request = fake_request_new("r");
    fake_request_input(
        request,
        &(fake_input){.name = "IMAGE", .type = TRITONSERVER_TYPE_UINT8, .shape = {1, 2, 2, 3}, .n_dims = 4, .data = bytes, .size = 12});
    return request;
}

static TRITONBACKEND_Response *response_new(TRITONBACKEND_Request *request)
{
    TRITONBACKEND_Response *response = NULL;
    fake_expect_success(TRITONBACKEND_ResponseNew(&response, request));
    return response;
}

static void send(TRITONBACKEND_Response *response)
{
    fake_expect_success(TRITONBACKEND_ResponseSend(response, TRITONSERVER_RESPONSE_COMPLETE_FINAL, NULL));
}

static void release(TRITONBACKEND_Request *request)
{
    TRITONSERVER_Error *error = TRITONBACKEND_RequestRelease(request, TRITONSERVER_REQUEST_RELEASE_ALL);
    if (error)
        TRITONSERVER_ErrorDelete(error);
}

static void *output_of(TRITONBACKEND_Response *response, const char *name, int64_t n, uint64_t size)
{
    TRITONBACKEND_Output *output = NULL;
    TRITONSERVER_MemoryType memory = TRITONSERVER_MEMORY_CPU;
    int64_t memory_id = 0;
    void *buffer = NULL;
    fake_expect_success(TRITONBACKEND_ResponseOutput(response, &output, name, TRITONSERVER_TYPE_FP32, (int64_t[]){1, n}, 2));
    fake_expect_success(TRITONBACKEND_OutputBuffer(output, &buffer, size, &memory, &memory_id));
    return buffer;
}

static void expect_rule(const char *words)
{
    const char *rule = fake_server_finish();
    if (!rule || !strstr(rule, words))
        fail_msg("found \"%s\", expected \"%s\"", rule ? rule : "no broken rule", words);
    fake_server_begin();
}

static void correct_use(void **state)
{
    (void)state;
    TRITONBACKEND_Request *request = request_new();
    fake_request_output(request, "LOGITS");
    TRITONBACKEND_Response *response = response_new(request);
    memset(output_of(response, "LOGITS", 2, 8), 0, 8);
    send(response);
    release(request);
    assert_int_equal(fake_request_result(request, "LOGITS")->size, 8);
    TRITONSERVER_Error *error = TRITONSERVER_ErrorNew(TRITONSERVER_ERROR_INTERNAL, "text");
    TRITONSERVER_ErrorDelete(error);
    assert_null(fake_server_finish());
}

static void incorrect_use(void **state)
{
    (void)state;
    TRITONBACKEND_Request *request = request_new();
    expect_rule("a request was never released");
    request = request_new();
    release(request);
    release(request);
    expect_rule("released before");
    request = request_new();
    TRITONBACKEND_Input *input;
    const char *name;
    fake_expect_success(TRITONBACKEND_RequestInputByIndex(request, 0, &input));
    release(request);
    TRITONSERVER_ErrorDelete(TRITONBACKEND_InputProperties(input, &name, NULL, NULL, NULL, NULL, NULL));
    expect_rule("TRITONBACKEND_InputProperties: the object was deleted or released before");
    request = request_new();
    response_new(request);
    release(request);
    expect_rule("the request's response was not sent");
    request = request_new();
    send(response_new(request));
    send(response_new(request));
    release(request);
    expect_rule("a second answer");
    request = request_new();
    fake_request_output(request, "LOGITS");
    send(response_new(request));
    release(request);
    expect_rule("a successful answer lacks LOGITS");
    request = request_new();
    fake_request_output(request, "LOGITS");
    TRITONBACKEND_Response *response = response_new(request);
    output_of(response, "MASK", 2, 12);
    fake_expect_success(TRITONBACKEND_ResponseDelete(response));
    release(request);
    expect_rule("MASK was not requested");
    request = request_new();
    response = response_new(request);
    output_of(response, "LOGITS", 2, 12);
    fake_expect_success(TRITONBACKEND_ResponseDelete(response));
    release(request);
    expect_rule("12 bytes do not fit");
    TRITONSERVER_Error *error = TRITONSERVER_ErrorNew(TRITONSERVER_ERROR_INTERNAL, "text");
    (void)error;
    expect_rule("an error was never deleted");
    error = TRITONSERVER_ErrorNew(TRITONSERVER_ERROR_INTERNAL, "text");
    TRITONSERVER_ErrorDelete(error);
    TRITONSERVER_ErrorDelete(error);
    expect_rule("TRITONSERVER_ErrorDelete: the object was deleted");
    TRITONSERVER_Message *message;
    fake_expect_success(TRITONSERVER_MessageNewFromSerializedJson(&message, "{}", 2));
    expect_rule("a message was never deleted");
    TRITONSERVER_MetricFamily *family;
    fake_expect_success(TRITONSERVER_MetricFamilyNew(&family, TRITONSERVER_METRIC_KIND_COUNTER, "n", "n"));
    expect_rule("a family of metrics was never deleted");
    fake_server_fail_at(1);
    fake_expect_success(TRITONSERVER_MessageNewFromSerializedJson(&message, "{}", 2));
    fake_expect_error(TRITONSERVER_MessageNewFromSerializedJson(&message, "{}", 2), TRITONSERVER_ERROR_INTERNAL, "on purpose");
    fake_expect_success(TRITONSERVER_MessageDelete(message));
    assert_null(fake_server_finish());
}

GROUP(fake_rules, cmocka_unit_test_setup(correct_use, begin), cmocka_unit_test_setup(incorrect_use, begin));

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "infer_transport.h"

enum { JSON_MOST = 1024 };

/* {"id":"7","inputs":[...],"outputs":[...]}; returns its length. */
static size_t write_request(const infer_client *client, const infer_span *span, uint64_t id, char *out)
{
    const infer_target *target = client->target;
    char shape[96], in[192], answer[192] = "\"binary_data\":true";
    int at = 0;
    for (int i = 0; i < span->n_dims; i++)
        at += snprintf(shape + at, sizeof shape - (size_t)at, "%s%lld", i > 0 ? "," : "", (long long)span->shape[i]);
    snprintf(in, sizeof in, "\"binary_data_size\":%zu", span->size);
    if (target->is_shared) {
        static const char place[] = "\"shared_memory_region\":\"%s\",\"shared_memory_offset\":%zu,\"shared_memory_byte_size\":%zu";
        snprintf(in, sizeof in, place, target->inputs.name, span->offset, span->size);
        snprintf(answer, sizeof answer, place, target->outputs.name, span->answer_offset, span->answer_size);
    }
    return (size_t)snprintf(out, JSON_MOST,
                            "{\"id\":\"%llu\",\"inputs\":[{\"name\":\"%s\",\"shape\":[%s],\"datatype\":\"%s\",\"parameters\":{%s}}],"
                            "\"outputs\":[{\"name\":\"LOGITS\",\"parameters\":{%s}}]}",
                            (unsigned long long)id, span->name, shape, span->datatype, in, answer);
}

static int is_text(const json_t *value, const char *wanted)
{
    const char *text = json_string_value(value);
    return text != NULL && strcmp(text, wanted) == 0;
}

static infer_result read_logits(infer_client *client, const infer_span *span, uint64_t id, const json_t *answer)
{
    char wanted[24];
    const json_t *output = json_array_get(json_object_get(answer, "outputs"), 0), *shape = json_object_get(output, "shape");
    snprintf(wanted, sizeof wanted, "%llu", (unsigned long long)id);
    if (!is_text(json_object_get(answer, "id"), wanted))
        return infer_fail(client, "the answer is to another request");
    if (!is_text(json_object_get(output, "name"), "LOGITS") || !is_text(json_object_get(output, "datatype"), "FP32") ||
        json_array_size(shape) != 2 || json_integer_value(json_array_get(shape, 0)) != span->shape[0] ||
        json_integer_value(json_array_get(shape, 1)) != client->target->n_classes)
        return infer_fail(client, "the answer is not LOGITS, FP32 [%d, %d]", (int)span->shape[0], (int)client->target->n_classes);
    const json_t *size = json_object_get(json_object_get(output, "parameters"), "binary_data_size");
    if (client->target->is_shared)
        return INFER_ANSWERED;
    if (json_integer_value(size) != (json_int_t)span->answer_size || client->http.size - client->http.json_size != span->answer_size)
        return infer_fail(client, "the answer has %zu bytes of logits, not %zu", client->http.size - client->http.json_size,
                          span->answer_size);
    client->logits = client->http.body + client->http.json_size;
    return INFER_ANSWERED;
}

infer_result infer_run_http(infer_client *client, const infer_span *span, uint64_t id)
{
    char json[JSON_MOST], path[256];
    const size_t length = write_request(client, span, id, json);
    const struct iovec body[] = {{json, length}, {(void *)(uintptr_t)span->bytes, span->size}};
    const int n = client->target->is_shared ? 1 : 2;
    snprintf(path, sizeof path, "/v2/models/%s/infer", client->target->model);
    if (http_request(&client->http, "POST", path, length, body, n) != 0)
        return INFER_LOST;
    json_t *answer = json_loadb((const char *)client->http.body, client->http.json_size, 0, NULL);
    infer_result result;
    if (client->http.status != 200) {
        const char *text = json_string_value(json_object_get(answer, "error"));
        result = infer_fail(client, "%d %s", client->http.status, text != NULL ? text : "");
    } else {
        result = read_logits(client, span, id, answer);
    }
    json_decref(answer);
    return result;
}

#include "infer.h"

#include <errno.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "report.h"

enum { PAUSE_US = 50000, TRIES = 40 };

static const struct {
    const char *name;
    int is_grpc, is_shared;
} transports[INFER_TRANSPORTS] = {{"http", 0, 0}, {"grpc", 1, 0}, {"http-shared", 0, 1}, {"grpc-shared", 1, 1}};

static const struct {
    const char *name, *tensor, *datatype;
} inputs[INFER_INPUTS] = {{"image", "IMAGE", "UINT8"}, {"encoded", "ENCODED", "BYTES"}};

const char *infer_transport_name(int transport)
{
    return transport >= 0 && transport < INFER_TRANSPORTS ? transports[transport].name : NULL;
}

const char *infer_input_name(int input)
{
    return input >= 0 && input < INFER_INPUTS ? inputs[input].name : NULL;
}

static void fail(const infer_target *target, const char *what, const char *why)
{
    fprintf(stderr, "bench: %s: %s: %s\n", target->model, what, why);
    exit(1);
}

/* One exchange of JSON on a connection of its own; the answer's status must be 200. body NULL: GET. */
static json_t *exchange(const infer_target *target, const char *path, const char *body)
{
    http server;
    const struct iovec piece = {(void *)(uintptr_t)body, body != NULL ? strlen(body) : 0};
    if (http_open(&server, target->http_port) != 0)
        fail(target, "no connection", strerror(errno));
    if (http_request(&server, body != NULL ? "POST" : "GET", path, 0, &piece, body != NULL) != 0)
        fail(target, path, "no answer");
    if (server.status != 200) {
        fprintf(stderr, "bench: %s: %d %.*s\n", path, server.status, (int)server.size, (const char *)server.body);
        exit(1);
    }
    json_t *answer = json_loadb((const char *)server.body, server.size, 0, NULL);
    http_close(&server);
    return answer;
}

void infer_wait(const infer_target *target, double seconds)
{
    char path[256];
    const double end = report_seconds() + seconds;
    snprintf(path, sizeof path, "/v2/models/%s/ready", target->model);
    for (int ready = 0; !ready;) {
        http server;
        ready = http_open(&server, target->http_port) == 0 && http_request(&server, "GET", path, 0, NULL, 0) == 0 && server.status == 200;
        http_close(&server);
        if (!ready && report_seconds() > end)
            fail(target, "the server", "the model is not ready");
        if (!ready)
            usleep(PAUSE_US);
    }
}

void infer_server(const infer_target *target, char *out, size_t size)
{
    json_t *answer = exchange(target, "/v2", NULL);
    const char *name = json_string_value(json_object_get(answer, "name")), *version = json_string_value(json_object_get(answer, "version"));
    snprintf(out, size, "%s %s", name != NULL ? name : "unknown", version != NULL ? version : "");
    json_decref(answer);
}

static int32_t query_n_classes(const infer_target *target)
{
    char path[256];
    size_t i;
    json_t *output, *metadata;
    int32_t n = 0;
    snprintf(path, sizeof path, "/v2/models/%s", target->model);
    metadata = exchange(target, path, NULL);
    json_array_foreach(json_object_get(metadata, "outputs"), i, output)
    {
        const char *name = json_string_value(json_object_get(output, "name"));
        const json_t *shape = json_object_get(output, "shape");
        if (name != NULL && strcmp(name, "LOGITS") == 0)
            n = (int32_t)json_integer_value(json_array_get(shape, json_array_size(shape) - 1));
    }
    json_decref(metadata);
    if (n <= 0)
        fail(target, "metadata", "there is no output LOGITS of a known width");
    return n;
}

static void register_region(const infer_target *target, region *memory)
{
    char path[160], body[192];
    snprintf(path, sizeof path, "/v2/systemsharedmemory/region/%s/register", memory->name);
    snprintf(body, sizeof body, "{\"key\":\"%s\",\"offset\":0,\"byte_size\":%zu}", memory->key, memory->size);
    json_decref(exchange(target, path, body));
    region_unlink(memory); /* the server has mapped it, so nothing is left behind even if this process crashes */
}

/* The server may use the memory of the last requests for a moment after it has answered. */
static void unregister_region(const infer_target *target, region *memory)
{
    char path[160];
    int done = 0;
    snprintf(path, sizeof path, "/v2/systemsharedmemory/region/%s/unregister", memory->name);
    for (int i = 0; i < TRIES && !done; i++) {
        http server;
        if (i > 0)
            usleep(PAUSE_US);
        done = http_open(&server, target->http_port) == 0 && http_request(&server, "POST", path, 0, NULL, 0) == 0 && server.status == 200;
        http_close(&server);
    }
    if (!done)
        fprintf(stderr, "bench: %s: the server keeps the shared memory %s\n", target->model, memory->name);
    region_destroy(memory);
}

static size_t slot_size(const infer_target *target)
{
    return (size_t)target->most_images * (size_t)target->n_classes * sizeof(float);
}

void infer_attach(infer_target *target, int32_t n_clients)
{
    target->n_classes = query_n_classes(target);
    target->is_shared = transports[target->transport].is_shared;
    if (!target->is_shared)
        return;
    const image_set *p = target->image_set;
    target->inputs = region_create("in", p->payload_at[p->n]);
    memcpy(target->inputs.memory, p->payload, p->payload_at[p->n]);
    target->outputs = region_create("out", slot_size(target) * (size_t)n_clients);
    register_region(target, &target->inputs);
    register_region(target, &target->outputs);
}

void infer_detach(infer_target *target)
{
    if (!target->is_shared)
        return;
    unregister_region(target, &target->inputs);
    unregister_region(target, &target->outputs);
}

int infer_open(infer_client *client, const infer_target *target, int32_t slot)
{
    *client = (infer_client){.target = target, .slot = slot, .http = {.socket = -1}};
    if (transports[target->transport].is_grpc)
        client->is_open = (client->grpc = grpc_open(target->grpc_port)) != NULL;
    else
        client->is_open = http_open(&client->http, target->http_port) == 0;
    if (client->is_open)
        return 0;
    infer_fail(client, "no connection: %s", errno == ENOSYS ? "built without libnghttp2 (Debian: libnghttp2-dev)" : strerror(errno));
    http_close(&client->http);
    return -1;
}

void infer_close(infer_client *client)
{
    grpc_close(client->grpc);
    http_close(&client->http);
    client->grpc = NULL;
    client->is_open = 0;
}

static infer_span span_of(const infer_client *client, int32_t first, int32_t n)
{
    const infer_target *target = client->target;
    const image_set *p = target->image_set;
    infer_span span = {.bytes = p->payload + p->payload_at[first],
                       .offset = p->payload_at[first],
                       .size = p->payload_at[first + n] - p->payload_at[first],
                       .shape = {n, p->heights[first], p->widths[first], 3},
                       .n_dims = 4,
                       .name = inputs[target->input].tensor,
                       .datatype = inputs[target->input].datatype,
                       .answer_offset = (size_t)client->slot * slot_size(target),
                       .answer_size = (size_t)n * (size_t)target->n_classes * sizeof(float)};
    if (target->input == INFER_FILES) {
        span.shape[1] = 1;
        span.n_dims = 2;
    }
    return span;
}

infer_result infer_run(infer_client *client, int32_t first, int32_t n, uint64_t id)
{
    const infer_target *target = client->target;
    const infer_span span = span_of(client, first, n);
    client->logits = NULL;
    client->error[0] = '\0';
    if (!client->is_open)
        return INFER_LOST;
    if (target->is_shared) /* no logits have these bytes, which reveals an answer that wrote none */
        memset(target->outputs.memory + span.answer_offset, 0xff, span.answer_size);
    const infer_result result = client->grpc != NULL ? infer_run_grpc(client, &span, id) : infer_run_http(client, &span, id);
    if (result == INFER_LOST)
        client->is_open = 0;
    if (result == INFER_ANSWERED && target->is_shared)
        client->logits = target->outputs.memory + span.answer_offset;
    return result;
}

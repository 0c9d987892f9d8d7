#include <stdio.h>
#include <string.h>

#include "infer_transport.h"
#include "protobuf.h"

enum { MESSAGE_MOST = 1024, PART_MOST = 400 };

/* Numbers of the fields, from Triton's grpc_service.proto. */
enum {
    REQUEST_MODEL = 1,
    REQUEST_ID = 3,
    REQUEST_INPUTS = 5,
    REQUEST_OUTPUTS = 6,
    REQUEST_RAW = 7,
    ANSWER_ID = 3,
    ANSWER_OUTPUTS = 5,
    ANSWER_RAW = 6,
    TENSOR_NAME = 1,
    TENSOR_DATATYPE = 2,
    TENSOR_SHAPE = 3,
    INPUT_PARAMETERS = 4,
    OUTPUT_PARAMETERS = 2,
    ENTRY_KEY = 1,
    ENTRY_VALUE = 2,
    VALUE_INTEGER = 2,
    VALUE_TEXT = 3
};

/* An entry of a map of parameters. text NULL: the number. */
static void write_parameter(proto_out *out, int field, const char *key, const char *text, uint64_t number)
{
    uint8_t value_bytes[96], entry_bytes[160];
    proto_out value = {.bytes = value_bytes, .capacity = sizeof value_bytes},
              entry = {.bytes = entry_bytes, .capacity = sizeof entry_bytes};
    if (text != NULL)
        proto_text(&value, VALUE_TEXT, text);
    else
        proto_number(&value, VALUE_INTEGER, number);
    proto_text(&entry, ENTRY_KEY, key);
    proto_bytes(&entry, ENTRY_VALUE, value.bytes, value.size);
    proto_bytes(out, field, entry.bytes, entry.size);
    out->overflow |= value.overflow | entry.overflow;
}

static void write_place(proto_out *out, int field, const region *memory, size_t offset, size_t size)
{
    write_parameter(out, field, "shared_memory_region", memory->name, 0);
    write_parameter(out, field, "shared_memory_offset", NULL, offset);
    write_parameter(out, field, "shared_memory_byte_size", NULL, size);
}

/* Writes all of the request before the bytes of the images. */
static void write_request(const infer_client *client, const infer_span *span, uint64_t id, proto_out *out)
{
    const infer_target *target = client->target;
    uint8_t in_bytes[PART_MOST], out_bytes[PART_MOST];
    proto_out in = {.bytes = in_bytes, .capacity = sizeof in_bytes}, answer = {.bytes = out_bytes, .capacity = sizeof out_bytes};
    char text[24];
    snprintf(text, sizeof text, "%llu", (unsigned long long)id);
    proto_text(out, REQUEST_MODEL, target->model);
    proto_text(out, REQUEST_ID, text);
    proto_text(&in, TENSOR_NAME, span->name);
    proto_text(&in, TENSOR_DATATYPE, span->datatype);
    for (int i = 0; i < span->n_dims; i++)
        proto_number(&in, TENSOR_SHAPE, (uint64_t)span->shape[i]);
    proto_text(&answer, TENSOR_NAME, "LOGITS");
    if (target->is_shared) {
        write_place(&in, INPUT_PARAMETERS, &target->inputs, span->offset, span->size);
        write_place(&answer, OUTPUT_PARAMETERS, &target->outputs, span->answer_offset, span->answer_size);
    }
    proto_bytes(out, REQUEST_INPUTS, in.bytes, in.size);
    proto_bytes(out, REQUEST_OUTPUTS, answer.bytes, answer.size);
    out->overflow |= in.overflow | answer.overflow;
    if (!target->is_shared)
        proto_head(out, REQUEST_RAW, span->size);
}

static int is_text(const proto_field *field, const char *text)
{
    return field->is_bytes && field->size == strlen(text) && memcmp(field->bytes, text, field->size) == 0;
}

/* Whether a message is LOGITS of the right type. The number of its bytes implies its shape. */
static int is_logits(const uint8_t *bytes, size_t size)
{
    proto_field field;
    int code, right = 0;
    while ((code = proto_next(&bytes, &size, &field)) > 0)
        right += (field.field == TENSOR_NAME && is_text(&field, "LOGITS")) || (field.field == TENSOR_DATATYPE && is_text(&field, "FP32"));
    return code == 0 && right == 2;
}

static infer_result read_answer(infer_client *client, const infer_span *span, uint64_t id)
{
    size_t size;
    const uint8_t *bytes = grpc_answer(client->grpc, &size);
    char wanted[24];
    proto_field field, raw = {0};
    int code, n_outputs = 0, id_is_right = 0;
    snprintf(wanted, sizeof wanted, "%llu", (unsigned long long)id);
    while ((code = proto_next(&bytes, &size, &field)) > 0) {
        if (field.field == ANSWER_ID)
            id_is_right = is_text(&field, wanted);
        else if (field.field == ANSWER_OUTPUTS)
            n_outputs += is_logits(field.bytes, field.size);
        else if (field.field == ANSWER_RAW)
            raw = field;
    }
    if (code < 0 || n_outputs != 1)
        return infer_fail(client, "the answer is not LOGITS, FP32");
    if (!id_is_right)
        return infer_fail(client, "the answer is to another request");
    if (client->target->is_shared)
        return INFER_ANSWERED;
    if (raw.size != span->answer_size)
        return infer_fail(client, "the answer has %zu bytes of logits, not %zu", raw.size, span->answer_size);
    client->logits = raw.bytes;
    return INFER_ANSWERED;
}

infer_result infer_run_grpc(infer_client *client, const infer_span *span, uint64_t id)
{
    uint8_t bytes[MESSAGE_MOST];
    proto_out head = {.bytes = bytes, .capacity = sizeof bytes};
    write_request(client, span, id, &head);
    if (head.overflow)
        return infer_fail(client, "the request's head is longer than %d bytes", MESSAGE_MOST);
    const struct iovec message[GRPC_PIECES] = {{bytes, head.size},
                                               {(void *)(uintptr_t)span->bytes, client->target->is_shared ? 0 : span->size}};
    if (grpc_call(client->grpc, "/inference.GRPCInferenceService/ModelInfer", message) != 0)
        return INFER_LOST;
    if (grpc_status(client->grpc) != 0)
        return infer_fail(client, "gRPC status %d %s", grpc_status(client->grpc), grpc_text(client->grpc));
    return read_answer(client, span, id);
}

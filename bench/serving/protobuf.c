#include "protobuf.h"

#include <string.h>

enum { WIRE_VARINT = 0, WIRE_FIXED64 = 1, WIRE_BYTES = 2, WIRE_FIXED32 = 5 };

static void put(proto_out *out, const void *bytes, size_t size)
{
    if (size > out->capacity - out->size) {
        out->overflow = 1;
        return;
    }
    memcpy(out->bytes + out->size, bytes, size);
    out->size += size;
}

static void put_varint(proto_out *out, uint64_t value)
{
    uint8_t bytes[10];
    size_t n = 0;
    for (; value > 127; value >>= 7)
        bytes[n++] = (uint8_t)(value | 128);
    bytes[n++] = (uint8_t)value;
    put(out, bytes, n);
}

static void put_tag(proto_out *out, int field, int wire)
{
    put_varint(out, (uint64_t)field << 3 | (uint64_t)wire);
}

void proto_number(proto_out *out, int field, uint64_t value)
{
    put_tag(out, field, WIRE_VARINT);
    put_varint(out, value);
}

void proto_head(proto_out *out, int field, size_t size)
{
    put_tag(out, field, WIRE_BYTES);
    put_varint(out, size);
}

void proto_bytes(proto_out *out, int field, const void *bytes, size_t size)
{
    proto_head(out, field, size);
    put(out, bytes, size);
}

void proto_text(proto_out *out, int field, const char *text)
{
    proto_bytes(out, field, text, strlen(text));
}

static int get_varint(const uint8_t **bytes, size_t *size, uint64_t *out)
{
    *out = 0;
    for (int shift = 0; shift < 64 && *size > 0; shift += 7) {
        const uint8_t byte = *(*bytes)++;
        --*size;
        *out |= (uint64_t)(byte & 127) << shift;
        if (byte < 128)
            return 0;
    }
    return -1;
}

int proto_next(const uint8_t **bytes, size_t *size, proto_field *out)
{
    uint64_t tag, length;
    if (*size == 0)
        return 0;
    if (get_varint(bytes, size, &tag) != 0)
        return -1;
    *out = (proto_field){.field = (int)(tag >> 3)};
    switch (tag & 7) {
    case WIRE_VARINT:
        return get_varint(bytes, size, &out->number) == 0 ? 1 : -1;
    case WIRE_FIXED64:
        length = 8;
        break;
    case WIRE_FIXED32:
        length = 4;
        break;
    case WIRE_BYTES:
        if (get_varint(bytes, size, &length) != 0)
            return -1;
        out->is_bytes = 1;
        break;
    default:
        return -1;
    }
    if (length > *size)
        return -1;
    out->bytes = *bytes;
    out->size = (size_t)length;
    *bytes += length;
    *size -= (size_t)length;
    return 1;
}

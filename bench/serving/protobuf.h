/* The part of the protobuf wire format that KServe's messages need: numbers, strings and nested messages. */
#ifndef RVIT_SERVING_PROTOBUF_H
#define RVIT_SERVING_PROTOBUF_H

#include <stddef.h>
#include <stdint.h>

/* A message being written. `overflow` is set if it did not fit and was truncated. */
typedef struct proto_out {
    uint8_t *bytes;
    size_t size, capacity;
    int overflow;
} proto_out;

void proto_number(proto_out *out, int field, uint64_t value);
void proto_bytes(proto_out *out, int field, const void *bytes, size_t size);
void proto_text(proto_out *out, int field, const char *text);
/* Writes the tag and the length of a field of `size` bytes. The caller writes the bytes. */
void proto_head(proto_out *out, int field, size_t size);

/* One field of a message being read. */
typedef struct proto_field {
    int field;
    int is_bytes;
    uint64_t number; /* unless is_bytes */
    const uint8_t *bytes;
    size_t size;
} proto_field;

/* Takes the next field from *bytes, *size. 1: there was one; 0: the end; -1: the message is malformed. */
int proto_next(const uint8_t **bytes, size_t *size, proto_field *out);

#endif

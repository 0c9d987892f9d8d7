#include "input.h"

#include <string.h>

#include "failure.h"

/* Values checked at a time, while they are in the L1 cache. */
enum { CHUNK = 1024 };

static TRITONSERVER_Error *open_buffer(struct input *self, uint32_t index)
{
    TRITONSERVER_MemoryType memory = TRITONSERVER_MEMORY_CPU;
    int64_t memory_id = 0;
    const void *buffer = NULL;
    uint64_t size = 0;
    TRY(TRITONBACKEND_InputBuffer(self->handle, index, &buffer, &size, &memory, &memory_id));
    if (memory == TRITONSERVER_MEMORY_GPU)
        return failure(TRITONSERVER_ERROR_UNSUPPORTED, "%s is in the memory of GPU %lld, expected host memory",
                       tensors_inputs[self->kind].name, (long long)memory_id);
    self->buffer = index;
    self->at = buffer;
    self->rest = size;
    return NULL;
}

/* Checks all buffers before reading, so that reading does not fail halfway. */
static TRITONSERVER_Error *open_buffers(struct input *self)
{
    uint64_t size = 0;
    for (uint32_t i = self->n_buffers; i-- > 0;) {
        TRY(open_buffer(self, i));
        if (__builtin_add_overflow(size, self->rest, &size))
            size = UINT64_MAX;
    }
    self->size = size;
    self->whole = self->n_buffers == 1 ? self->at : NULL;
    return NULL;
}

TRITONSERVER_Error *input_open(TRITONBACKEND_Request *request, unsigned declared, struct input *out)
{
    uint32_t n = 0;
    uint64_t size = 0;
    const char *name = "";
    TRITONSERVER_DataType type = TRITONSERVER_TYPE_INVALID;
    *out = (struct input){0};
    TRY(TRITONBACKEND_RequestInputCount(request, &n));
    if (n != 1)
        return invalid("the request has %u inputs, expected exactly one of IMAGE, ENCODED and PIXELS", n);
    TRY(TRITONBACKEND_RequestInputByIndex(request, 0, &out->handle));
    TRY(TRITONBACKEND_InputProperties(out->handle, &name, &type, &out->shape, &out->n_dims, &size, &out->n_buffers));
    const int kind = tensors_find_input(name);
    if (kind < 0 || !(declared & 1U << kind))
        return invalid("this model does not declare the input '%.100s'", name);
    if (type != tensors_inputs[kind].type)
        return invalid("%s has the data type %s, expected %s", name, TRITONSERVER_DataTypeString(type),
                       TRITONSERVER_DataTypeString(tensors_inputs[kind].type));
    out->kind = (enum input_kind)kind;
    return open_buffers(out);
}

TRITONSERVER_Error *input_rewind(struct input *self)
{
    return open_buffer(self, 0);
}

TRITONSERVER_Error *input_read(struct input *self, void *out, uint64_t size)
{
    uint8_t *to = out;
    while (size > 0) {
        while (self->rest == 0) {
            if (self->buffer + 1 >= self->n_buffers)
                return failure(TRITONSERVER_ERROR_INTERNAL, "%s: its buffers have shrunk", tensors_inputs[self->kind].name);
            TRY(open_buffer(self, self->buffer + 1));
        }
        const uint64_t n = size < self->rest ? size : self->rest;
        memcpy(to, self->at, n);
        to += n;
        size -= n;
        self->at += n;
        self->rest -= n;
    }
    return NULL;
}

static bool all_finite(const uint32_t *values, uint64_t n)
{
    uint32_t found = 0;
    for (uint64_t i = 0; i < n; i++)
        found |= (values[i] & 0x7f800000) == 0x7f800000;
    return !found;
}

/* Copies through the stack, which is aligned, because `out` may be slow to read. */
TRITONSERVER_Error *input_read_floats(struct input *self, float *out, uint64_t n, bool *out_finite)
{
    uint32_t values[CHUNK];
    *out_finite = true;
    for (uint64_t done = 0; done < n; done += CHUNK) {
        const uint64_t now = n - done < CHUNK ? n - done : CHUNK;
        TRY(input_read(self, values, now * 4));
        *out_finite &= now == CHUNK ? all_finite(values, CHUNK) : all_finite(values, now);
        memcpy(out + done, values, now * 4);
    }
    return NULL;
}

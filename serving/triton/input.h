/* The input of a request, in one or more unaligned buffers. */
#ifndef RVIT_TRITON_INPUT_H
#define RVIT_TRITON_INPUT_H

#include "tensors.h"

struct input {
    TRITONBACKEND_Input *handle;
    enum input_kind kind;
    const int64_t *shape;
    uint32_t n_dims, n_buffers;
    uint64_t size;        /* bytes of all buffers */
    const uint8_t *whole; /* the data if it is in one buffer, else NULL */
    /* Position of the next input_read. */
    uint32_t buffer;
    const uint8_t *at;
    uint64_t rest; /* remaining bytes of the buffer */
};

/* Rejects requests that do not have exactly one declared input of the right type in host memory. */
TRITONSERVER_Error *input_open(TRITONBACKEND_Request *request, unsigned declared, struct input *out);
TRITONSERVER_Error *input_rewind(struct input *self);
/* Reads the next bytes; the caller has checked the size. */
TRITONSERVER_Error *input_read(struct input *self, void *out, uint64_t size);
/* Reads the next n float32 values. *out_finite: whether all are finite. */
TRITONSERVER_Error *input_read_floats(struct input *self, float *out, uint64_t n, bool *out_finite);

#endif

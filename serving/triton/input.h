/* The one input of a request: its buffers, which may be several and are not aligned. */
#ifndef RVIT_TRITON_INPUT_H
#define RVIT_TRITON_INPUT_H

#include "tensors.h"

struct input {
    TRITONBACKEND_Input *handle;
    enum input_kind kind;
    const int64_t *shape;
    uint32_t n_dims, n_buffers;
    uint64_t size;        /* bytes of all buffers together */
    const uint8_t *whole; /* all of it, if it lies in one buffer; else NULL */
    /* Where input_read goes on. */
    uint32_t buffer;
    const uint8_t *at;
    uint64_t rest; /* of that buffer */
};

/* Refuses a request that does not bring exactly one input, one of those declared, of the right type and in memory of the host. */
TRITONSERVER_Error *input_open(TRITONBACKEND_Request *request, unsigned declared, struct input *out);
TRITONSERVER_Error *input_rewind(struct input *self);
/* The next bytes; the caller has checked that so many are left. */
TRITONSERVER_Error *input_read(struct input *self, void *out, uint64_t size);
/* The next n values of float32. *out_finite: whether none of them is NaN or infinite. */
TRITONSERVER_Error *input_read_floats(struct input *self, float *out, uint64_t n, bool *out_finite);

#endif

/* A request of a batch: what it brings, what it wants, and what became of it. */
#ifndef RVIT_TRITON_REQUEST_H
#define RVIT_TRITON_REQUEST_H

#include "input.h"
#include "batch_image.h"

struct request {
    TRITONBACKEND_Request *handle;
    TRITONSERVER_Error *error; /* why it fails; ours */
    struct input input;
    int32_t setting;  /* of the model's settings */
    unsigned outputs; /* wanted; bits 1 << output_kind */
    int32_t first, n; /* its images, of those of the batch */
    int64_t tokens;   /* of them, before pruning */
    int64_t bytes;    /* that they take of a run's memory */
    bool alone;       /* it gets a run of its own: a run with others failed */
    bool is_answered;
    int32_t run_first;      /* in the run: number of its first image */
    uint8_t *gathered;      /* memory for an input in several buffers, which grows; stays with the slot of the batch */
    uint64_t gathered_size; /* its capacity */
};

struct batch_images {
    struct batch_image *list;
    int32_t n, capacity;
};

/* Opens the request in a slot of a batch: checks it, finds its setting and measures its images, which are appended to `images`. On
   failure the request has the error and no images. */
void request_open(struct request *self, TRITONBACKEND_Request *handle, const struct model *model, struct batch_images *images);
/* The same for a batcher, which only has to know how large it is: images and tokens. False: it will fail. */
bool request_size(TRITONBACKEND_Request *handle, const struct model *model, int64_t *out_images, int64_t *out_tokens);
/* Copies images that come as pixels to their places. */
void request_copy(struct request *self, struct batch_image *images);
/* Gives back memory that only an unusually large request needs. */
void request_trim(struct request *self);
void request_free(struct request *self);

#endif

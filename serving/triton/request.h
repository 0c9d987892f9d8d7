/* A request of a batch: its input, requested outputs and result. */
#ifndef RVIT_TRITON_REQUEST_H
#define RVIT_TRITON_REQUEST_H

#include "input.h"
#include "batch_image.h"

struct request {
    TRITONBACKEND_Request *handle;
    TRITONSERVER_Error *error; /* set if it fails; owned */
    struct input input;
    int32_t setting;  /* index in the model's settings */
    unsigned outputs; /* requested; bits 1 << output_kind */
    int32_t first, n; /* its images in the batch */
    int64_t tokens;   /* of its images before pruning */
    int64_t bytes;    /* of a run's memory for its images */
    bool separate;    /* needs its own run, because a run with others failed */
    bool is_answered;
    int32_t run_first;      /* number of its first image in the run */
    uint8_t *gathered;      /* buffer for an input in several parts, reused by later requests of the slot */
    uint64_t gathered_size; /* its capacity */
};

struct batch_images {
    struct batch_image *list;
    int32_t n, capacity;
};

/* Opens a request in a slot of a batch: checks it, finds its setting, measures its images and appends them to `images`. On failure the
   request has an error and no images. */
void request_open(struct request *self, TRITONBACKEND_Request *handle, const struct model *model, struct batch_images *images);
/* Gets the number of images and tokens for the batcher. Returns false if the request will fail. */
bool request_size(TRITONBACKEND_Request *handle, const struct model *model, int64_t *out_images, int64_t *out_tokens);
/* Copies images that are pixels to the session's memory. */
void request_copy(struct request *self, struct batch_image *images);
/* Frees memory that only unusually large requests need. */
void request_trim(struct request *self);
void request_free(struct request *self);

#endif

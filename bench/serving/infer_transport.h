/* What the transports of infer.h share: a target, a client, and the offset of a request's images. */
#ifndef RVIT_SERVING_INFER_TRANSPORT_H
#define RVIT_SERVING_INFER_TRANSPORT_H

#include "grpc.h"
#include "http.h"
#include "image_set.h"
#include "region.h"

typedef enum infer_transport { INFER_HTTP, INFER_GRPC, INFER_HTTP_SHARED, INFER_GRPC_SHARED, INFER_TRANSPORTS } infer_transport;

/* What a request carries. */
typedef enum infer_input { INFER_PIXELS, INFER_FILES, INFER_INPUTS } infer_input;

/* A model of a server, and what is shared with it. */
typedef struct infer_target {
    const char *model;
    int http_port, grpc_port;
    infer_transport transport;
    infer_input input;
    const image_set *image_set;
    int32_t most_images; /* of a request */
    int32_t n_classes;   /* as the server says */
    int is_shared;
    region inputs, outputs; /* with is_shared: all payloads; room for the logits of each client's request */
} infer_target;

typedef enum infer_result {
    INFER_ANSWERED,
    INFER_FAILED, /* the server refused, or its answer cannot be read; infer_client.error says why */
    INFER_LOST    /* there was no answer; the connection is closed */
} infer_result;

/* One client's connection. Belongs to one thread. */
typedef struct infer_client {
    const infer_target *target;
    int32_t slot; /* of the outputs' region */
    http http;
    grpc *grpc;
    int is_open;
    const uint8_t *logits; /* of the last request, f32 [n, n_classes], of any alignment */
    char error[256];
} infer_client;

/* The offset of a request's images in the payload, or in the inputs' region. */
typedef struct infer_span {
    const uint8_t *bytes;
    size_t offset, size;
    int64_t shape[4];
    int n_dims;
    const char *name, *datatype;
    size_t answer_offset, answer_size; /* logits: within the outputs' region */
} infer_span;
/* Records the sentence. */
__attribute__((format(printf, 2, 3))) infer_result infer_fail(infer_client *client, const char *format, ...);

/* Send the request and read the answer. */
infer_result infer_run_http(infer_client *client, const infer_span *span, uint64_t id);
infer_result infer_run_grpc(infer_client *client, const infer_span *span, uint64_t id);

#endif

/* Types that the transports of infer.h share: a target, a client, and the data of a request. */
#ifndef RVIT_SERVING_INFER_TRANSPORT_H
#define RVIT_SERVING_INFER_TRANSPORT_H

#include "grpc.h"
#include "http.h"
#include "image_set.h"
#include "region.h"

typedef enum infer_transport { INFER_HTTP, INFER_GRPC, INFER_HTTP_SHARED, INFER_GRPC_SHARED, INFER_TRANSPORTS } infer_transport;

/* The input format of requests. */
typedef enum infer_input { INFER_PIXELS, INFER_FILES, INFER_INPUTS } infer_input;

/* A model in a server, and the memory shared with the server. */
typedef struct infer_target {
    const char *model;
    int http_port, grpc_port;
    infer_transport transport;
    infer_input input;
    const image_set *image_set;
    int32_t most_images; /* per request */
    int32_t n_classes;   /* reported by the server */
    int is_shared;
    region inputs, outputs; /* with is_shared: all payloads; room for the logits of each client's request */
} infer_target;

typedef enum infer_result {
    INFER_ANSWERED,
    INFER_FAILED, /* the server returned an error, or an unreadable answer; infer_client.error has the reason */
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
/* Stores the message in client->error and returns INFER_FAILED. */
__attribute__((format(printf, 2, 3))) infer_result infer_fail(infer_client *client, const char *format, ...);

/* Send the request and read the answer. */
infer_result infer_run_http(infer_client *client, const infer_span *span, uint64_t id);
infer_result infer_run_grpc(infer_client *client, const infer_span *span, uint64_t id);

#endif

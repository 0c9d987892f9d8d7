/* Inference by the KServe v2 protocol: one picture or several of one shape in, their logits out, over any of the transports. */
#ifndef RVIT_SERVING_INFER_H
#define RVIT_SERVING_INFER_H

#include "grpc.h"
#include "http.h"
#include "pictures.h"
#include "region.h"

typedef enum infer_transport { INFER_HTTP, INFER_GRPC, INFER_HTTP_SHARED, INFER_GRPC_SHARED, INFER_TRANSPORTS } infer_transport;
/* "http", "grpc", "http-shared", "grpc-shared" */
const char *infer_transport_name(int transport);

/* What a request carries. */
typedef enum infer_input { INFER_PIXELS, INFER_FILES, INFER_INPUTS } infer_input;
/* "image", "encoded" */
const char *infer_input_name(int input);

/* A model of a server, and what is shared with it. */
typedef struct infer_target {
    const char *model;
    int http_port, grpc_port;
    infer_transport transport;
    infer_input input;
    const pictures *pictures;
    int32_t most_images; /* of a request */
    int32_t n_classes;   /* as the server says */
    int is_shared;
    region inputs, outputs; /* with is_shared: all payloads; room for the logits of each client's request */
} infer_target;

/* Waits up to so many seconds until the server answers that the model is ready. */
void infer_wait(const infer_target *target, double seconds);
/* Asks the server for the width of LOGITS, and registers the regions if the transport wants them. Ends the program on failure, as
   infer_wait does. */
void infer_attach(infer_target *target, int32_t n_clients);
/* The server's name and version go to out. */
void infer_server(const infer_target *target, char *out, size_t size);
void infer_detach(infer_target *target);

typedef enum infer_result {
    INFER_ANSWERED,
    INFER_FAILED, /* the server said no, or what cannot be read; infer_client.error has the sentence */
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

/* Returns 0, or -1 with a sentence in error. */
int infer_open(infer_client *client, const infer_target *target, int32_t slot);
void infer_close(infer_client *client);
/* Pictures first .. first + n - 1, which are of one group. The answer has to carry the id, too. */
infer_result infer_run(infer_client *client, int32_t first, int32_t n, uint64_t id);

/* Shared by the transports: the place of a request's pictures in the payload, or in the inputs' region. */
typedef struct infer_span {
    const uint8_t *bytes;
    size_t offset, size;
    int64_t shape[4];
    int n_dims;
    const char *name, *datatype;
    size_t answer_offset, answer_size; /* logits: within the outputs' region */
} infer_span;
infer_span infer_span_of(const infer_client *client, int32_t first, int32_t n);
/* Records the sentence. */
__attribute__((format(printf, 2, 3))) infer_result infer_fail(infer_client *client, const char *format, ...);

infer_result infer_run_http(infer_client *client, const infer_span *span, uint64_t id);
infer_result infer_run_grpc(infer_client *client, const infer_span *span, uint64_t id);

#endif

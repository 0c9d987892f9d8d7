/* Inference by the KServe v2 protocol: one image or several of one shape in, their logits out, over any of the transports. */
#ifndef RVIT_SERVING_INFER_H
#define RVIT_SERVING_INFER_H

#include "infer_transport.h"

/* "http", "grpc", "http-shared", "grpc-shared" */
const char *infer_transport_name(int transport);
/* "image", "encoded" */
const char *infer_input_name(int input);

/* Waits until the server reports that the model is ready, for at most `seconds`. */
void infer_wait(const infer_target *target, double seconds);
/* Gets the width of LOGITS from the server, and registers the shared memory regions if the transport uses them. Ends the program on
   failure, as infer_wait does. */
void infer_attach(infer_target *target, int32_t n_clients);
/* Writes the server's name and version to out. */
void infer_server(const infer_target *target, char *out, size_t size);
void infer_detach(infer_target *target);

/* Returns 0, or -1 with a sentence in error. */
int infer_open(infer_client *client, const infer_target *target, int32_t slot);
void infer_close(infer_client *client);
/* Runs images first .. first + n - 1, which must be in one group. The answer must repeat the id. */
infer_result infer_run(infer_client *client, int32_t first, int32_t n, uint64_t id);

#endif

/* Load of one server by many clients, each a thread with a connection of its own. Every answer is compared with what is expected. */
#ifndef RVIT_SERVING_LOAD_H
#define RVIT_SERVING_LOAD_H

#include "infer.h"
#include "server.h"

enum { LOAD_CLIENTS_MOST = 1024 };

typedef struct load_options {
    int32_t n_clients;
    double rate;      /* requests a second, at random times (Poisson). 0: each client sends the next one after its answer */
    double seconds;   /* of measuring, after the warm-up */
    double warm_up;   /* seconds */
    int64_t requests; /* above 0: this many are measured, however long that takes */
    int32_t images;   /* of a request */
    /* f32 [n, n_classes]: what the images give; NULL: zeros */
    const float *expected;
    int server_pid, metrics_port;
} load_options;

typedef struct load_result {
    /* Of all requests, those of the warm-up too. Each is counted once. */
    uint64_t sent, right, failed, lost;
    uint64_t swapped; /* answered with what belongs to another image */
    uint64_t wrong;   /* answered with something else */
    uint64_t unsent;  /* their time came, but no client was free until long after the end */
    /* Of the measured time. */
    double seconds, images_per_second;
    int64_t n_latencies;
    double mean, p50, p90, p95, p99, most; /* seconds from the sending, with a rate from the appointed time, to the answer */
    double server_cpu, client_cpu;         /* seconds for each image; -1: unknown */
    double mean_batch;                     /* images of a run; -1: unknown */
    double queue_us, infer_us;             /* of a request, as the server measures it; -1: unknown */
    char error[256];                       /* the first */
} load_result;

/* Ends the program if a client cannot connect. */
load_result load_run(const infer_target *target, const load_options *options);
/* The logits of all images, asked for one by one: f32 [n, n_classes]; free with free(). Ends the program if one fails. */
float *load_expect(const infer_target *target);

#endif

/* Loads one server from many clients, each a thread with its own connection. Every answer is compared with the expected one. */
#ifndef RVIT_SERVING_LOAD_H
#define RVIT_SERVING_LOAD_H

#include "infer.h"
#include "server.h"

enum { LOAD_CLIENTS_MOST = 1024 };

typedef struct load_options {
    int32_t n_clients;
    double rate;      /* requests per second, at random times (Poisson). 0: each client sends a request after each answer */
    double seconds;   /* measured, after the warm-up */
    double warm_up;   /* seconds */
    int64_t requests; /* above 0: measures this many, however long that takes */
    int32_t images;   /* per request */
    /* f32 [n, n_classes]: the right logits of the images; NULL: zeros */
    const float *expected;
    int server_pid, metrics_port;
} load_options;

typedef struct load_result {
    /* Counts of all requests, including those of the warm-up. Each is counted once. */
    uint64_t sent, right, failed, lost;
    uint64_t swapped; /* answered with the logits of another image */
    uint64_t wrong;   /* answered with something else */
    uint64_t unsent;  /* scheduled, but no client was free until long after the end */
    /* In the measured time. */
    double seconds, images_per_second;
    int64_t n_latencies;
    double mean, p50, p90, p95, p99, most; /* seconds to the answer, from the sending or, with a rate, from the scheduled time */
    double server_cpu, client_cpu;         /* seconds per image; -1: unknown */
    double mean_batch;                     /* images per run; -1: unknown */
    double queue_us, infer_us;             /* per request, measured by the server; -1: unknown */
    char error[256];                       /* the first one */
} load_result;

/* Ends the program if a client cannot connect. */
load_result load_run(const infer_target *target, const load_options *options);
/* The logits of all images from the server, one request each: f32 [n, n_classes]; free with free(). Ends the program if one fails. */
float *load_expect(const infer_target *target);

#endif

/* The CPU time of a server's process, and its metrics. */
#ifndef RVIT_SERVING_SERVER_H
#define RVIT_SERVING_SERVER_H

typedef struct server_counts {
    double cpu_seconds;        /* user and system, all threads; -1: unknown */
    double inferences, runs;   /* images, and executions of a batch; -1: unknown */
    double queue_us, infer_us; /* sums over all requests */
} server_counts;

/* pid 0: without CPU time. metrics_port 0: without metrics. model: the one to read metrics of. */
server_counts server_read(int pid, int metrics_port, const char *model);

#endif

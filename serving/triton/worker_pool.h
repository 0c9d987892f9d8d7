/* Threads of a model that decode and copy images, and resize those that the device does not. */
#ifndef RVIT_TRITON_WORKER_POOL_H
#define RVIT_TRITON_WORKER_POOL_H

#include <pthread.h>

#include "api.h"

/* A job: work(user, 0) .. work(user, n - 1), in any order and concurrently. */
struct worker_job {
    void (*work)(void *user, int32_t index);
    void *user;
    int32_t n;
    int32_t next, n_pending; /* these and the fields below are internal */
    pthread_cond_t done;
    struct worker_job *next_job;
};
void worker_job_init(struct worker_job *job);
void worker_job_destroy(struct worker_job *job);

struct worker_pool;
TRITONSERVER_Error *worker_pool_create(int32_t n_threads, struct worker_pool **out);
/* No job may be running. */
void worker_pool_destroy(struct worker_pool *self);

void worker_pool_start(struct worker_pool *self, struct worker_job *job);
/* Runs the parts that are not started, and returns when the whole job is done. */
void worker_pool_finish(struct worker_pool *self, struct worker_job *job);

#endif

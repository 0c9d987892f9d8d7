/* Threads of a model that decode pictures, resize those that the device does not, and copy. */
#ifndef RVIT_TRITON_CREW_H
#define RVIT_TRITON_CREW_H

#include <pthread.h>

#include "api.h"

/* Work for the crew: work(user, 0) .. work(user, n - 1), in any order and several at a time. */
struct crew_job {
    void (*work)(void *user, int32_t index);
    void *user;
    int32_t n;
    int32_t next, n_pending; /* the crew's, as all that follows */
    pthread_cond_t done;
    struct crew_job *behind;
};
void crew_job_init(struct crew_job *job);
void crew_job_destroy(struct crew_job *job);

struct crew;
TRITONSERVER_Error *crew_create(int32_t n_threads, struct crew **out);
/* No job may be under way. */
void crew_destroy(struct crew *self);

void crew_start(struct crew *self, struct crew_job *job);
/* Does what nobody has begun yet, and returns when all of the job is done. */
void crew_finish(struct crew *self, struct crew_job *job);

#endif

/* Sends responses to requests. */
#ifndef RVIT_TRITON_ANSWER_H
#define RVIT_TRITON_ANSWER_H

#include "instance.h"

/* CLOCK_MONOTONIC in nanoseconds, as in the server's statistics. */
uint64_t answer_now(void);

struct answer_times {
    uint64_t begin, compute_begin, compute_end;
};

/* Answers and releases a request, with its error or with the results of its images in the last run of the session. */
void answer_request(const struct instance *instance, struct request *request, rvit_session *session, const struct answer_times *times);

#endif

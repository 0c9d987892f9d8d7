/* Answers to requests. */
#ifndef RVIT_TRITON_ANSWER_H
#define RVIT_TRITON_ANSWER_H

#include "instance.h"

/* CLOCK_MONOTONIC in nanoseconds, as the server's statistics are. */
uint64_t answer_now(void);

struct answer_times {
    uint64_t begin, compute_begin, compute_end;
};

/* Answers a request and releases it: with its error, or with results of its images in the run that session has done. */
void answer_request(const struct instance *instance, struct request *request, rvit_session *session, const struct answer_times *times);

#endif

#ifndef RVIT_CLI_NOW_H
#define RVIT_CLI_NOW_H

#include <time.h>

/* Seconds of a monotonic clock. */
static inline double now(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + 1e-9 * (double)time.tv_nsec;
}

#endif

/* The clock, and a progress bar on standard error, shown only on a terminal and for long work. One at a time. */
#ifndef RVIT_CLI_PROGRESS_H
#define RVIT_CLI_PROGRESS_H

#include <stdint.h>
#include <time.h>

/* Seconds of a monotonic clock. */
static inline double now(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + 1e-9 * (double)time.tv_nsec;
}

/* total 0: not known; shown are then the number and the rate. */
void progress_begin(int64_t total, const char *unit);
void progress_update(int64_t done);
/* Clears the line, so that something else can be printed; the next update draws it again. */
void progress_wipe(void);
void progress_end(void);

#endif

/* A clock, and a progress bar on standard error, which is shown only on a terminal and for long work. One bar at a time. */
#ifndef RVIT_CLI_PROGRESS_H
#define RVIT_CLI_PROGRESS_H

#include <stdint.h>

#include "core/base/os.h"

/* Seconds of a monotonic clock. */
static inline double now(void)
{
    return 1e-9 * (double)rvit_nanoseconds();
}

/* total 0: unknown, so only the number and the rate are shown. */
void progress_begin(int64_t total, const char *unit);
void progress_update(int64_t done);
/* Clears the line for other output; the next update draws the bar again. */
void progress_wipe(void);
void progress_end(void);

#endif

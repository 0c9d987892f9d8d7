/* classify --timings: what of the time is decoding. */
#ifndef RVIT_CLI_PICTURE_TIMINGS_H
#define RVIT_CLI_PICTURE_TIMINGS_H

#include "classify_batch.h"

/* After a run of all pictures: the rate of decoding alone, of the same pictures by the same threads, and that of everything but decoding,
   of the first batches repeated, into the report. Prints a message on failure; returns an exit code. */
int picture_timings_measure(struct classify *self);

#endif

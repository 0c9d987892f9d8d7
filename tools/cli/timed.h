/* Sessions and the times of their runs, for bench and selftest. */
#ifndef RVIT_CLI_TIMED_H
#define RVIT_CLI_TIMED_H

#include "engine.h"

#define MAX_SAMPLES 1000

struct times {
    double seconds[MAX_SAMPLES];
    int32_t n;
};

/* Sorts the samples. */
double times_median(struct times *self);
/* {"median": ..., "p10": ..., "p90": ..., "count": ...} in milliseconds. */
json_t *times_to_json(struct times *self);

struct timed {
    rvit_session *session;
    int32_t batch;
    struct times times;
    int64_t launches; /* per forward */
};

/* These print a message on failure and return an exit code. */
/* images: [batch] of the engine's model. Destroy out->session, also after a failure. */
int timed_open(struct engine *engine, const rvit_prune_desc *prune, int32_t batch, const float *images, struct timed *out);
/* Times runs for `seconds`, but at least `min` of each, after warm_ups. Alternates the sessions, so that changes of clock or load affect
   both equally. b may be NULL. */
int timed_measure(struct timed *a, struct timed *b, double seconds, int min, int warm_ups);
int timed_count_launches(struct timed *self);

#endif

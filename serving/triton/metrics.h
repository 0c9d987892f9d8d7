/* Metrics of a model, in addition to those of the server. */
#ifndef RVIT_TRITON_METRICS_H
#define RVIT_TRITON_METRICS_H

#include "api.h"

enum metric {
    METRIC_IMAGES,
    METRIC_FAILED_IMAGES,
    METRIC_TOKENS,
    METRIC_TOKENS_KEPT,
    METRIC_RUNS,
    METRIC_DECODE_SECONDS,
    METRIC_RUN_IMAGES, /* a histogram */
    N_METRICS
};

/* One for the backend, because the server never forgets a family. */
struct metric_families {
    TRITONSERVER_MetricFamily *list[N_METRICS]; /* NULL: the server has no metrics */
};
void metric_families_make(struct metric_families *self);
void metric_families_free(struct metric_families *self);

struct metrics {
    TRITONSERVER_Metric *list[N_METRICS]; /* NULL: not available */
};
void metrics_make(struct metrics *self, const struct metric_families *families, const char *model, uint64_t version);
void metrics_free(struct metrics *self);
/* Adds to a counter, or a value to a histogram. Can be called from any thread. */
void metrics_add(const struct metrics *self, enum metric which, double value);

#endif

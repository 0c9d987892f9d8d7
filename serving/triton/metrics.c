#include "metrics.h"

#include <inttypes.h>
#include <stdio.h>

#include "failure.h"

static const struct {
    TRITONSERVER_MetricKind kind;
    const char *name, *help;
} rows[N_METRICS] = {
    [METRIC_IMAGES] = {TRITONSERVER_METRIC_KIND_COUNTER, "raggedvit_images_total", "Images answered"},
    [METRIC_FAILED_IMAGES] = {TRITONSERVER_METRIC_KIND_COUNTER, "raggedvit_failed_images_total",
                              "Images of requests answered with an error"},
    [METRIC_TOKENS] = {TRITONSERVER_METRIC_KIND_COUNTER, "raggedvit_tokens_total", "Tokens of the images before pruning"},
    [METRIC_TOKENS_KEPT] = {TRITONSERVER_METRIC_KIND_COUNTER, "raggedvit_tokens_kept_total", "Tokens kept after the last prune stage"},
    [METRIC_RUNS] = {TRITONSERVER_METRIC_KIND_COUNTER, "raggedvit_runs_total", "Runs of the model"},
    [METRIC_DECODE_SECONDS] = {TRITONSERVER_METRIC_KIND_COUNTER, "raggedvit_decode_seconds_total",
                               "Thread time spent decoding and resizing images"},
    [METRIC_RUN_IMAGES] = {TRITONSERVER_METRIC_KIND_HISTOGRAM, "raggedvit_run_images", "Images per run"},
};
static const double buckets[] = {1, 2, 4, 8, 16, 32, 64, 128, 256};

/* Deletes the error, because a server without metrics returns one. */
static bool works(TRITONSERVER_Error *error)
{
    if (error)
        TRITONSERVER_ErrorDelete(error);
    return !error;
}

void metric_families_make(struct metric_families *self)
{
    *self = (struct metric_families){0};
    for (int i = 0; i < N_METRICS; i++)
        if (!works(TRITONSERVER_MetricFamilyNew(&self->list[i], rows[i].kind, rows[i].name, rows[i].help)))
            self->list[i] = NULL;
}

void metric_families_free(struct metric_families *self)
{
    for (int i = 0; i < N_METRICS; i++)
        if (self->list[i])
            works(TRITONSERVER_MetricFamilyDelete(self->list[i]));
    *self = (struct metric_families){0};
}

static TRITONSERVER_Error *make_histogram(TRITONSERVER_Metric **out, TRITONSERVER_MetricFamily *family,
                                          const TRITONSERVER_Parameter **labels)
{
    TRITONSERVER_MetricArgs *args = NULL;
    TRY(TRITONSERVER_MetricArgsNew(&args));
    TRITONSERVER_Error *error = TRITONSERVER_MetricArgsSetHistogram(args, buckets, sizeof buckets / sizeof buckets[0]);
    if (!error)
        error = TRITONSERVER_MetricNewWithArgs(out, family, labels, 2, args);
    works(TRITONSERVER_MetricArgsDelete(args));
    return error;
}

void metrics_make(struct metrics *self, const struct metric_families *families, const char *model, uint64_t version)
{
    char text[24];
    snprintf(text, sizeof text, "%" PRIu64, version);
    TRITONSERVER_Parameter *labels[2] = {TRITONSERVER_ParameterNew("model", TRITONSERVER_PARAMETER_STRING, model),
                                         TRITONSERVER_ParameterNew("version", TRITONSERVER_PARAMETER_STRING, text)};
    const TRITONSERVER_Parameter *const given[2] = {labels[0], labels[1]};
    const TRITONSERVER_Parameter **list = (const TRITONSERVER_Parameter **)(uintptr_t)given;
    *self = (struct metrics){0};
    for (int i = 0; i < N_METRICS && labels[0] && labels[1]; i++) {
        if (!families->list[i])
            continue;
        if (!works(rows[i].kind == TRITONSERVER_METRIC_KIND_HISTOGRAM ? make_histogram(&self->list[i], families->list[i], list)
                                                                      : TRITONSERVER_MetricNew(&self->list[i], families->list[i], list, 2)))
            self->list[i] = NULL;
    }
    for (int i = 0; i < 2; i++)
        if (labels[i])
            TRITONSERVER_ParameterDelete(labels[i]);
}

void metrics_free(struct metrics *self)
{
    for (int i = 0; i < N_METRICS; i++)
        if (self->list[i])
            works(TRITONSERVER_MetricDelete(self->list[i]));
    *self = (struct metrics){0};
}

void metrics_add(const struct metrics *self, enum metric which, double value)
{
    if (!self->list[which] || (value == 0 && which != METRIC_RUN_IMAGES))
        return;
    works(rows[which].kind == TRITONSERVER_METRIC_KIND_HISTOGRAM ? TRITONSERVER_MetricObserve(self->list[which], value)
                                                                 : TRITONSERVER_MetricIncrement(self->list[which], value));
}

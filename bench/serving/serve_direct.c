/* Measures the throughput of direct sessions, to compare a server with them: threads with one session each, sharing a model on a device,
   images of mixed sizes in host memory, and batches of a fixed size. */
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "device.h"
#include "direct.h"
#include "options.h"
#include "report.h"
#include "session_results.h"

enum { LIST = 8, THREADS_MOST = 64, BATCH_MOST = 256 };

typedef struct options {
    const char *json, *sheet;
    direct_options direct;
    int32_t batches[LIST], n_batches, threads, n_distinct, edge;
    double seconds, warm_up;
} options;

static const struct option_row option_rows[] = {
    {"threads", "N", "threads per device, each with a session, %s (default: 2)", OPTION_INTEGER(options, threads, 1, THREADS_MOST)},
    {"batch", "LIST", "images per run, each %s (default: 64)", OPTION_INTEGERS(options, batches, n_batches, 1, BATCH_MOST)},
    {"seconds", "S", "measured time per point, %s (default: 10)", OPTION_NUMBER(options, seconds, 0.1, 86400)},
    {"warm-up", "S", "seconds before that, %s (default: 1)", OPTION_NUMBER(options, warm_up, 0, 3600)},
    {"distinct", "N", "distinct images, %s (default: 100), of 25 sizes", OPTION_INTEGER(options, n_distinct, 1, IMAGE_SET_MOST)},
    {"edge", "N", "makes all of them N x N pixels, %s", OPTION_INTEGER(options, edge, 1, 640)},
    {"sheet", "FILE", "a PNG that they are cut from (default: drawn)", OPTION_TEXT(options, sheet)},
    DIRECT_ROWS(options, direct),
    {"json", "FILE", "also writes the results to FILE", OPTION_TEXT(options, json)},
};
static const struct option_command command = {
    .name = "",
    .arguments = "CHECKPOINT",
    .text =
        "Measures how many images of mixed sizes in host memory direct sessions process per second, and how long one call takes. The point "
        "with a batch of 1 has one thread and measures the latency of one caller. Batches smaller than the largest run twice: in "
        "sessions for as many images, and in sessions for the largest batch.",
    .min_arguments = 1,
    .max_arguments = 1,
};

/* One thread of a point. */
typedef struct worker {
    const direct *direct;
    const image_set *image_set;
    const float *expected;
    rvit_session *session;
    int32_t batch;
    double begin, end;
    uint64_t random;
    int64_t images, different, n, capacity;
    double *latencies;
    pthread_t thread;
} worker;

static void keep_latency(worker *self, double seconds)
{
    if (self->n == self->capacity) {
        self->capacity = self->capacity > 0 ? 2 * self->capacity : 1024;
        self->latencies = realloc(self->latencies, (size_t)self->capacity * sizeof *self->latencies);
        if (self->latencies == NULL) {
            fprintf(stderr, "bench: latencies: out of memory\n");
            exit(1);
        }
    }
    self->latencies[self->n++] = seconds;
}

static void *work(void *user)
{
    worker *self = user;
    const size_t length = (size_t)self->direct->info.n_classes;
    rvit_image images[BATCH_MOST];
    int32_t indices[BATCH_MOST];
    rvit_run_args run = RVIT_RUN_ARGS_INIT;
    run.n_images = self->batch;
    run.input.kind = RVIT_INPUT_IMAGES;
    run.input.data = images;
    for (double start = report_seconds(); start < self->end;) {
        for (int32_t i = 0; i < self->batch; i++) {
            indices[i] = image_set_pick(self->image_set, 1, &self->random);
            images[i] = direct_image(self->image_set, indices[i]);
        }
        bench_check(rvit_session_enqueue(self->session, &run), "enqueue");
        bench_check(rvit_session_wait(self->session), "wait");
        const double now = report_seconds();
        const float *logits = session_floats(self->session, RVIT_RESULT_LOGITS);
        for (int32_t i = 0; i < self->batch; i++)
            self->different +=
                memcmp(logits + (size_t)i * length, self->expected + (size_t)indices[i] * length, length * sizeof *logits) != 0;
        if (start >= self->begin)
            keep_latency(self, now - start);
        self->images += now >= self->begin && now < self->end ? self->batch : 0;
        start = report_seconds();
    }
    return NULL;
}

static int compare_numbers(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* Measures runs of `batch` images in sessions for max_images. */
static json_t *measure(const options *o, const direct *devices, int32_t n_devices, const image_set *p, const float *expected, int32_t batch,
                       int32_t max_images, int64_t *out_different)
{
    const int32_t threads = batch == 1 ? 1 : o->threads, n = threads * n_devices;
    static worker workers[DIRECT_DEVICES * THREADS_MOST];
    int64_t images = 0, different = 0, n_latencies = 0;
    uint64_t seed = 1;
    for (int32_t i = 0; i < n; i++) {
        const direct *d = &devices[i % n_devices];
        workers[i] = (worker){.direct = d, .image_set = p, .expected = expected, .batch = batch, .random = image_set_random(&seed)};
        workers[i].session = direct_session(d, p, max_images);
    }
    const double begin = report_seconds() + o->warm_up;
    for (int32_t i = 0; i < n; i++) {
        workers[i].begin = begin;
        workers[i].end = begin + o->seconds;
        if (pthread_create(&workers[i].thread, NULL, work, &workers[i]) != 0) {
            fprintf(stderr, "bench: thread %d cannot be made\n", (int)i);
            exit(1);
        }
    }
    for (int32_t i = 0; i < n; i++) {
        pthread_join(workers[i].thread, NULL);
        rvit_session_destroy(workers[i].session);
        images += workers[i].images, different += workers[i].different, n_latencies += workers[i].n;
    }
    double *all = malloc((size_t)(n_latencies + 1) * sizeof *all), sum = 0;
    if (all == NULL || n_latencies == 0) {
        fprintf(stderr, "bench: no run was done within %g s\n", o->seconds);
        exit(1);
    }
    for (int64_t i = 0, at = 0; i < n; at += workers[i].n, i++)
        memcpy(all + at, workers[i].latencies, (size_t)workers[i].n * sizeof *all);
    for (int32_t i = 0; i < n; i++)
        free(workers[i].latencies);
    qsort(all, (size_t)n_latencies, sizeof *all, compare_numbers);
    for (int64_t i = 0; i < n_latencies; i++)
        sum += all[i];
    const double rate = (double)images / o->seconds, p50 = 1e3 * all[n_latencies / 2], p99 = 1e3 * all[n_latencies - 1 - n_latencies / 100];
    printf("%7d %7d %7d %10d %10.1f %9.3f %9.3f %9lld\n", (int)n_devices, (int)threads, (int)batch, (int)max_images, rate, p50, p99,
           (long long)different);
    fflush(stdout);
    json_t *latency = json_pack("{s:f, s:f, s:f, s:f, s:I}", "mean", 1e3 * sum / (double)n_latencies, "p50", p50, "p99", p99, "max",
                                1e3 * all[n_latencies - 1], "count", (json_int_t)n_latencies);
    free(all);
    *out_different = different;
    return json_pack("{s:i, s:i, s:i, s:i, s:f, s:o, s:I}", "devices", (int)n_devices, "threads", (int)threads, "batch", (int)batch,
                     "max_images", (int)max_images, "images_per_second", rate, "latency_ms", latency, "different", (json_int_t)different);
}

int main(int argc, char **argv)
{
    options o = {
        .direct = DIRECT_OPTIONS_INIT, .batches = {64}, .n_batches = 1, .threads = 2, .n_distinct = 100, .seconds = 10, .warm_up = 1};
    o.direct.checkpoint =
        argv[bench_parse("serve_direct", option_rows, sizeof option_rows / sizeof option_rows[0], &command, argc, argv, &o)];
    const int32_t n_devices = o.direct.n_devices > 0 ? o.direct.n_devices : 1;
    for (int32_t i = 0; i < o.n_batches; i++)
        o.direct.max_images = i == 0 || o.batches[i] > o.direct.max_images ? o.batches[i] : o.direct.max_images;
    const image_set p = image_set_make(o.n_distinct, 4, o.edge, o.sheet, 0);
    int32_t n_classes;
    float *expected = direct_logits(&o.direct, &p, &n_classes);
    direct devices[DIRECT_DEVICES];
    for (int32_t i = 0; i < n_devices; i++)
        devices[i] = direct_open(&o.direct, o.direct.n_devices > 0 ? o.direct.devices[i] : -1);

    json_t *report = report_new("serve_direct", devices[0].device), *results = json_array();
    json_object_set_new(report, "model", json_string(devices[0].info.architecture));
    json_object_set_new(report, "dtype", json_string(rvit_enum_name(RVIT_ENUM_DTYPE, o.direct.dtype)));
    policy_describe(&devices[0].prune, report);
    json_object_set_new(report, "distinct_images", json_integer(p.n));
    json_object_set_new(report, "mean_image_bytes", json_real(image_set_mean(&p)));
    json_object_set_new(report, "results", results);
    printf("%7s %7s %7s %10s %10s %9s %9s %9s\n", "devices", "threads", "batch", "max images", "images/s", "p50 ms", "p99 ms", "different");
    int64_t wrong = 0;
    for (int32_t i = 0; i < o.n_batches; i++) {
        const int32_t batch = o.batches[i], max_images = o.direct.max_images;
        int64_t different;
        /* A session of another size may round differently, which is only reported. The same session may not. */
        if (batch < max_images)
            json_array_append_new(results, measure(&o, devices, n_devices, &p, expected, batch, batch, &different));
        json_array_append_new(results, measure(&o, devices, n_devices, &p, expected, batch, max_images, &different));
        wrong += different;
    }
    for (int32_t i = 0; i < n_devices; i++)
        direct_close(&devices[i]);
    free(expected);
    image_set_free((image_set *)&p);
    const int code = report_write(report, o.json);
    return code != 0 ? code : wrong > 0;
}

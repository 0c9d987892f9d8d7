#include "load.h"

#include <math.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <time.h>

#include "data.h"
#include "report.h"

enum { STACK_BYTES = 1 << 18, FIRST_LATENCIES = 1 << 10 };
/* Seconds. START: for creating the threads before the first request. PATIENCE: how late requests are still sent. */
static const double START = 0.1, PATIENCE = 10;

/* State that the clients share. */
typedef struct load {
    const infer_target *target;
    const load_options *options;
    double begin, end; /* of the measured time; end is infinite if requests are counted */
    atomic_uint_fast64_t next_id;
    atomic_int_fast64_t left; /* requests still to be measured */
    pthread_mutex_t lock;     /* of the arrivals */
    double arrival;           /* the next */
} load;

typedef struct worker {
    load *load;
    infer_client client;
    uint64_t random;
    load_result result; /* only the counts */
    uint64_t done;      /* requests answered in the measured time */
    double last;        /* the time of the last answer */
    double *latencies;
    int64_t n, capacity;
    pthread_t thread;
} worker;

static void sleep_until(double time)
{
    const struct timespec t = {.tv_sec = (time_t)time, .tv_nsec = (long)(1e9 * (time - floor(time)))};
    while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &t, NULL) != 0)
        ;
}

static void keep_latency(worker *self, double seconds)
{
    if (self->n == self->capacity) {
        const int64_t capacity = self->capacity > 0 ? 2 * self->capacity : FIRST_LATENCIES;
        double *larger = realloc(self->latencies, (size_t)capacity * sizeof *larger);
        if (larger == NULL)
            return;
        self->latencies = larger;
        self->capacity = capacity;
    }
    self->latencies[self->n++] = seconds;
}

static int is_zero(const uint8_t *bytes, size_t size)
{
    size_t i = 0;
    while (i < size && bytes[i] == 0)
        i++;
    return i == size;
}

/* Compares one image's logits, bit for bit. 0: right; 1: those of another image; 2: something else. */
static int compare(const load *l, int32_t image, const uint8_t *logits)
{
    const size_t size = (size_t)l->target->n_classes * sizeof(float);
    const uint8_t *expected = (const uint8_t *)l->options->expected;
    if (expected == NULL)
        return is_zero(logits, size) ? 0 : 2;
    if (memcmp(logits, expected + (size_t)image * size, size) == 0)
        return 0;
    for (int32_t i = 0; i < l->target->image_set->n; i++)
        if (memcmp(logits, expected + (size_t)i * size, size) == 0)
            return 1;
    return 2;
}

static void check(worker *self, infer_result answer, int32_t first)
{
    const load *l = self->load;
    load_result *r = &self->result;
    int worst = 0;
    r->sent++;
    if (answer == INFER_LOST) {
        r->lost++;
    } else if (answer == INFER_FAILED) {
        r->failed++;
        if (r->error[0] == '\0')
            snprintf(r->error, sizeof r->error, "%s", self->client.error);
    } else {
        for (int32_t i = 0; i < l->options->images; i++) {
            const int code = compare(l, first + i, self->client.logits + (size_t)i * (size_t)l->target->n_classes * sizeof(float));
            worst = code > worst ? code : worst;
        }
        *(worst == 0 ? &r->right : worst == 1 ? &r->swapped : &r->wrong) += 1;
    }
}

/* Sends one request. start: the time from which its latency counts. */
static void request(worker *self, double start)
{
    load *l = self->load;
    const int32_t first = image_set_pick(l->target->image_set, l->options->images, &self->random);
    const infer_result answer = infer_run(&self->client, first, l->options->images, atomic_fetch_add(&l->next_id, 1));
    const double now = report_seconds();
    check(self, answer, first);
    if (answer == INFER_ANSWERED) {
        if (start >= l->begin && start < l->end)
            keep_latency(self, now - start);
        self->done += now >= l->begin && now < l->end;
        self->last = now;
    } else if (answer == INFER_LOST) {
        const infer_target *target = l->target;
        const int32_t slot = self->client.slot;
        infer_close(&self->client);
        (void)infer_open(&self->client, target, slot);
    }
}

static void send_in_turn(worker *self)
{
    load *l = self->load;
    while (self->client.is_open) {
        const double now = report_seconds();
        if (now >= l->end || (l->options->requests > 0 && now >= l->begin && atomic_fetch_sub(&l->left, 1) <= 0))
            break;
        request(self, now);
    }
}

/* The time of the next scheduled request. */
static double next_arrival(load *l, worker *self)
{
    pthread_mutex_lock(&l->lock);
    const double u = ((double)(image_set_random(&self->random) >> 11) + 0.5) / 9007199254740992.0, time = l->arrival;
    l->arrival += -log(u) / l->options->rate;
    pthread_mutex_unlock(&l->lock);
    return time;
}

static void send_at_times(worker *self)
{
    load *l = self->load;
    while (self->client.is_open) {
        const double time = next_arrival(l, self);
        if (time >= l->end || (l->options->requests > 0 && time >= l->begin && atomic_fetch_sub(&l->left, 1) <= 0))
            break;
        sleep_until(time);
        if (report_seconds() < l->end + PATIENCE)
            request(self, time);
        else
            self->result.unsent++;
    }
}

static void *work(void *user)
{
    worker *self = user;
    prctl(PR_SET_TIMERSLACK, 1ul, 0ul, 0ul, 0ul); /* nanoseconds; 50 us otherwise */
    sleep_until(self->load->begin - self->load->options->warm_up);
    if (self->load->options->rate > 0)
        send_at_times(self);
    else
        send_in_turn(self);
    return NULL;
}

static double own_cpu(void)
{
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    return (double)(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) + 1e-6 * (double)(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec);
}

static int compare_numbers(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* The smallest latency that at least this share of all latencies do not exceed. */
static double percentile(const double *sorted, int64_t n, double share)
{
    const int64_t rank = (int64_t)ceil(share * (double)n);
    return n > 0 ? sorted[rank > 0 ? rank - 1 : 0] : 0;
}

static void summarise(load_result *r, worker *workers, int32_t n_workers, int32_t images)
{
    uint64_t done = 0;
    int64_t n = 0;
    for (int32_t i = 0; i < n_workers; i++) {
        const load_result *one = &workers[i].result;
        r->sent += one->sent, r->right += one->right, r->failed += one->failed, r->lost += one->lost;
        r->swapped += one->swapped, r->wrong += one->wrong, r->unsent += one->unsent;
        if (r->error[0] == '\0')
            memcpy(r->error, one->error, sizeof r->error);
        done += workers[i].done;
        n += workers[i].n;
    }
    double *all = malloc((size_t)(n + 1) * sizeof *all), sum = 0;
    if (all == NULL) {
        fprintf(stderr, "bench: latencies: out of memory\n");
        exit(1);
    }
    int64_t at = 0;
    for (int32_t i = 0; i < n_workers; i++) {
        if (workers[i].n > 0)
            memcpy(all + at, workers[i].latencies, (size_t)workers[i].n * sizeof *all);
        at += workers[i].n;
    }
    qsort(all, (size_t)n, sizeof *all, compare_numbers);
    for (int64_t i = 0; i < n; i++)
        sum += all[i];
    r->images_per_second = (double)(done * (uint64_t)images) / r->seconds;
    r->n_latencies = n;
    r->mean = n > 0 ? sum / (double)n : 0;
    r->p50 = percentile(all, n, 0.5), r->p90 = percentile(all, n, 0.9), r->p95 = percentile(all, n, 0.95);
    r->p99 = percentile(all, n, 0.99), r->most = percentile(all, n, 1);
    free(all);
}

/* Computes averages per image from the server's counters before and after. */
static void compare_counts(load_result *r, const server_counts *a, const server_counts *b, double cpu, int32_t images)
{
    const double n = r->images_per_second * r->seconds, inferences = b->inferences - a->inferences, runs = b->runs - a->runs;
    const int has_metrics = a->inferences >= 0 && inferences > 0;
    r->server_cpu = a->cpu_seconds >= 0 && b->cpu_seconds >= 0 && n > 0 ? (b->cpu_seconds - a->cpu_seconds) / n : -1;
    r->client_cpu = n > 0 ? cpu / n : -1;
    r->mean_batch = has_metrics && runs > 0 ? inferences / runs : -1;
    r->queue_us = has_metrics ? (b->queue_us - a->queue_us) * images / inferences : -1;
    r->infer_us = has_metrics ? (b->infer_us - a->infer_us) * images / inferences : -1;
}

static worker *start(load *l)
{
    const load_options *o = l->options;
    worker *workers = calloc((size_t)o->n_clients, sizeof *workers);
    pthread_attr_t attributes;
    uint64_t seed = REPORT_SEED;
    if (workers == NULL || pthread_attr_init(&attributes) != 0 || pthread_attr_setstacksize(&attributes, STACK_BYTES) != 0) {
        fprintf(stderr, "bench: %d clients: out of memory\n", (int)o->n_clients);
        exit(1);
    }
    for (int32_t i = 0; i < o->n_clients; i++) {
        workers[i].load = l;
        workers[i].random = image_set_random(&seed);
        if (infer_open(&workers[i].client, l->target, i) != 0) {
            fprintf(stderr, "bench: client %d: %s\n", (int)i, workers[i].client.error);
            exit(1);
        }
    }
    l->begin = report_seconds() + START + o->warm_up;
    l->end = o->requests > 0 ? INFINITY : l->begin + o->seconds;
    l->arrival = l->begin - o->warm_up;
    for (int32_t i = 0; i < o->n_clients; i++)
        if (pthread_create(&workers[i].thread, &attributes, work, &workers[i]) != 0) {
            fprintf(stderr, "bench: client %d: no thread\n", (int)i);
            exit(1);
        }
    pthread_attr_destroy(&attributes);
    return workers;
}

load_result load_run(const infer_target *target, const load_options *options)
{
    load l = {.target = target, .options = options, .lock = PTHREAD_MUTEX_INITIALIZER};
    load_result r = {.seconds = options->seconds};
    atomic_init(&l.next_id, 1);
    atomic_init(&l.left, options->requests);
    worker *workers = start(&l);
    sleep_until(l.begin);
    const server_counts before = server_read(options->server_pid, options->metrics_port, target->model);
    double cpu = own_cpu();
    server_counts after = before;
    if (options->requests == 0) {
        sleep_until(l.end);
        cpu = own_cpu() - cpu;
        after = server_read(options->server_pid, options->metrics_port, target->model);
    }
    double last = l.begin;
    for (int32_t i = 0; i < options->n_clients; i++) {
        pthread_join(workers[i].thread, NULL);
        last = workers[i].last > last ? workers[i].last : last;
    }
    if (options->requests > 0) {
        cpu = own_cpu() - cpu;
        after = server_read(options->server_pid, options->metrics_port, target->model);
        r.seconds = last > l.begin ? last - l.begin : 1;
    }
    summarise(&r, workers, options->n_clients, options->images);
    compare_counts(&r, &before, &after, cpu, options->images);
    for (int32_t i = 0; i < options->n_clients; i++) {
        infer_close(&workers[i].client);
        free(workers[i].latencies);
    }
    free(workers);
    pthread_mutex_destroy(&l.lock);
    return r;
}

float *load_expect(const infer_target *target)
{
    const int32_t n = target->image_set->n;
    const size_t size = (size_t)target->n_classes * sizeof(float);
    float *logits = calloc((size_t)n, size);
    infer_client client;
    if (logits == NULL || infer_open(&client, target, 0) != 0) {
        fprintf(stderr, "bench: the first pass: %s\n", logits == NULL ? "out of memory" : client.error);
        exit(1);
    }
    for (int32_t i = 0; i < n; i++) {
        const infer_result answer = infer_run(&client, i, 1, (uint64_t)i + 1);
        if (answer != INFER_ANSWERED) {
            fprintf(stderr, "bench: the first pass: image %d: %s\n", (int)i, answer == INFER_LOST ? "no answer" : client.error);
            exit(1);
        }
        memcpy(logits + (size_t)i * (size_t)target->n_classes, client.logits, size);
    }
    infer_close(&client);
    return logits;
}

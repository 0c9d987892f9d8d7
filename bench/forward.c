/* Measures a whole forward, dense and pruned, per batch size: images and logits in host memory with one synchronise or, with --inputs
   device, both in device memory. Also measures the host time to enqueue a forward and the device time to run it.

   The first enqueue after a long wait has cold CPU caches, so an empty submit is timed after such a wait, too. With --inputs device, the
   following enqueues are measured as well. The variants take turns, so that a change of clock or load affects all alike. */
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "data.h"
#include "options.h"
#include "policy.h"
#include "report.h"
#include "session_results.h"

enum { MAX_VARIANTS = 64, MAX_SAMPLES = 4096, LIST = 16, BURST = 8, N_BURSTS = 4, N_PAIRS = 20 };

typedef struct clocks {
    double total[MAX_SAMPLES];           /* enqueue to results, seconds */
    double enqueue[MAX_SAMPLES];         /* the part until the enqueue returned */
    double device[MAX_SAMPLES];          /* between two events around another run; CUDA only */
    double next[N_BURSTS * (BURST - 1)]; /* enqueue while an earlier run is pending; --inputs device only */
    double own[N_PAIRS], empty[N_PAIRS]; /* enqueue and empty submit, each after waiting for a run; Vulkan only */
} clocks;

typedef struct variant {
    int batch;
    const policy *prune;
    rvit_session *session;
    rvit_buffer *images, *logits; /* --inputs device */
    clocks *samples;
    int n_samples;
    rvit_stats enqueued; /* counters added by one enqueue */
} variant;

typedef struct options {
    const char *model, *json;
    rvit_device_desc device;
    rvit_dtype dtype;
    int32_t quantization;
    const char *prune;
    policy prunes[MAX_VARIANTS];
    const char *sheet;
    int n_prunes;
    int32_t batches[LIST], n_batches, tile, on_device;
    bool any_batch;
    double seconds;
} options;

static const char *location(int value)
{
    return value ? "device" : "host";
}

static const struct option_row option_rows[] = {
    BENCH_ROWS(options, RVIT_BF16, "f32"),
    {"quantization", "KIND", "quantization of the blocks' GEMMs: %s (default: none)",
     OPTION_CHOICE(options, quantization, choice_quantization, RVIT_QUANTIZATION_NONE, RVIT_QUANTIZATION_FP8)},
    {"threads", "N", "CPU threads, %s (default: 0, as many as the process may use)", OPTION_INTEGER(options, device.n_threads, 0, 1024)},
    {"prune", "'NAME SETTING=X; ...'", "the variants: the tool's policies and options (default: 'none; l2 keep=0.5; l2 keep=0.2')",
     OPTION_TEXT(options, prune)},
    {"batch", "LIST", "images per run, each %s (default: 1,32)", OPTION_INTEGERS(options, batches, n_batches, 1, 4096)},
    {"sheet", "FILE", "an image whose square tiles are the inputs (default: noise)", OPTION_TEXT(options, sheet)},
    {"tile", "PX", "edge of a tile (default: 32)", OPTION_INTEGER(options, tile, 1, 65536)},
    {"inputs", "NAME", "memory of images and logits: %s (default: host)", OPTION_CHOICE(options, on_device, location, 0, 1)},
    {"any-batch", NULL, "sessions that also accept fewer images than --batch", OPTION_FLAG(options, any_batch)},
    {"seconds", "S", "measuring time per variant, %s (default: 3)", OPTION_NUMBER(options, seconds, 0, 3600)},
};
static const struct option_command command = {
    .name = "",
    .arguments = "MODEL",
    .text =
        "Measures a whole forward of a checkpoint, dense and pruned, for each batch size: from images in memory to logits in memory, with "
        "one wait.",
    .min_arguments = 1,
    .max_arguments = 1,
};

static options parse(int argc, char **argv)
{
    options o = {.device = RVIT_DEVICE_DESC_INIT,
                 .prune = "none;l2 keep=0.5;l2 keep=0.2",
                 .batches = {1, 32},
                 .n_batches = 2,
                 .tile = 32,
                 .seconds = 3.0};
    o.model = argv[bench_parse("bench_forward", option_rows, sizeof option_rows / sizeof option_rows[0], &command, argc, argv, &o)];
    o.n_prunes = policy_list(o.prune, o.prunes, MAX_VARIANTS);
    if (o.n_batches * o.n_prunes > MAX_VARIANTS) {
        fprintf(stderr, "bench: %d batches with %d settings are more than %d variants\n", o.n_batches, o.n_prunes, MAX_VARIANTS);
        exit(2);
    }
    return o;
}

static void open_variant(variant *v, bench_device *d, rvit_model *model, const rvit_model_info *info, const options *o, const float *images)
{
    rvit_session_desc desc = RVIT_SESSION_DESC_INIT;
    desc.max_images = v->batch;
    desc.fixed_batch = !o->any_batch;
    desc.stream = d->stream;
    desc.prune = &v->prune->desc;
    if (o->on_device) {
        const int64_t size = (int64_t)v->batch * info->channels * info->image_size * info->image_size * (int64_t)sizeof *images;
        v->images = data_buffer(d, size);
        v->logits = data_buffer(d, (int64_t)v->batch * info->n_classes * (int64_t)sizeof(float));
        desc.input_memory = RVIT_INPUT_FIXED;
        desc.input_view = (rvit_view){v->images, 0};
        desc.logits = (rvit_view){v->logits, 0};
        bench_check(rvit_stream_write(d->stream, desc.input_view, images, size), "images");
    }
    bench_check(rvit_session_create(model, &desc, &v->session), "session");
    v->samples = calloc(1, sizeof *v->samples);
}

static void close_variant(variant *v)
{
    rvit_session_destroy(v->session);
    rvit_buffer_destroy(v->images);
    rvit_buffer_destroy(v->logits);
    free(v->samples);
}

typedef struct run {
    variant *v;
    rvit_run_args args;
} run;

static run run_of(variant *v, const float *images)
{
    run r = {v, RVIT_RUN_ARGS_INIT};
    r.args.n_images = v->batch;
    r.args.input.data = v->images != NULL ? NULL : images;
    return r;
}

static void enqueue(void *user)
{
    run *r = user;
    bench_check(rvit_session_enqueue(r->v->session, &r->args), "enqueue");
}

static void wait_for(variant *v)
{
    bench_check(rvit_session_wait(v->session), "run");
}

static void sample(variant *v, bench_device *d, const float *images)
{
    run r = run_of(v, images);
    const int s = v->n_samples++;
    const double begin = report_seconds();
    enqueue(&r);
    const double enqueued = report_seconds();
    wait_for(v);
    v->samples->total[s] = report_seconds() - begin;
    v->samples->enqueue[s] = enqueued - begin;
    if (d->cuda != NULL) {
        const timed work = {enqueue, bench_device_drain, &r};
        v->samples->device[s] = bench_device_seconds(d, &work, 1);
        wait_for(v);
    }
}

static void measure(variant *variants, int n, bench_device *d, const float *images, double seconds)
{
    for (int i = 0; i < n; i++) {
        variant *v = &variants[i];
        run r = run_of(v, images);
        for (int warm = 0; warm < 3; warm++) {
            rvit_stats before = RVIT_STATS_INIT;
            bench_check(rvit_session_get_stats(v->session, &before), "stats");
            v->enqueued = (rvit_stats)RVIT_STATS_INIT;
            enqueue(&r);
            bench_check(rvit_session_get_stats(v->session, &v->enqueued), "stats");
            v->enqueued.submits -= before.submits;
            v->enqueued.launches -= before.launches;
            v->enqueued.synchronizations -= before.synchronizations;
            v->enqueued.host_allocations -= before.host_allocations;
            v->enqueued.device_allocations -= before.device_allocations;
            wait_for(v);
        }
    }
    const double end = report_seconds() + seconds * n;
    for (int turn = 0; turn < MAX_SAMPLES && (turn < 5 || report_seconds() < end); turn++)
        for (int i = 0; i < n; i++) {
            /* So that a turn takes about the same time for every batch size. */
            const int repeats = turn == 0 || variants[i].batch >= 8 ? 1 : 8 / variants[i].batch;
            for (int r = 0; r < repeats && variants[i].n_samples < MAX_SAMPLES; r++)
                sample(&variants[i], d, images);
        }
}

static void sample_next(variant *v)
{
    run r = run_of(v, NULL);
    for (int row = 0; row < N_BURSTS; row++) {
        for (int i = 0; i < BURST; i++) {
            const double begin = report_seconds();
            enqueue(&r);
            if (i > 0)
                v->samples->next[row * (BURST - 1) + i - 1] = report_seconds() - begin;
        }
        wait_for(v);
    }
}

static void sample_pairs(variant *v, const float *images, vulkan_clock *clock)
{
    run r = run_of(v, images);
    for (int i = 0; i < N_PAIRS; i++) {
        enqueue(&r);
        wait_for(v);
        const double begin = report_seconds();
        enqueue(&r);
        v->samples->own[i] = report_seconds() - begin;
        wait_for(v);
        v->samples->empty[i] = vulkan_clock_submit(clock);
    }
}

/* Mean number of tokens per image after each prune stage, over the last run's batch. */
static json_t *tokens_left(const variant *v)
{
    json_t *tokens = json_array();
    for (int32_t s = 0; s < session_n_stages(v->session); s++)
        json_array_append_new(tokens, json_real((double)session_cu_seqlens(v->session, s)[v->batch] / v->batch));
    return tokens;
}

static json_t *describe(variant *v, const bench_device *d)
{
    const double image = 1.0 / v->batch;
    clocks *s = v->samples;
    json_t *per_image = report_samples(s->total, v->n_samples, 1e3 * image);
    json_t *row = json_pack("{s:i, s:f, s:o, s:o, s:o}", "batch", v->batch, "images_per_second",
                            1e3 / json_real_value(json_object_get(per_image, "median")), "ms_per_image", per_image, "enqueue_us",
                            report_samples(s->enqueue, v->n_samples, 1e6), "tokens", tokens_left(v));
    policy_describe(v->prune, row);
    if (d->cuda != NULL)
        json_object_set_new(row, "device_us", report_samples(s->device, v->n_samples, 1e6));
    if (s->empty[0] > 0) {
        json_object_set_new(row, "enqueue_after_own_us", report_samples(s->own, N_PAIRS, 1e6));
        json_object_set_new(row, "empty_submit_after_own_us", report_samples(s->empty, N_PAIRS, 1e6));
    }
    if (s->next[0] > 0)
        json_object_set_new(row, "enqueue_next_us", report_samples(s->next, N_BURSTS * (BURST - 1), 1e6));
    const rvit_stats *e = &v->enqueued;
    json_object_set_new(row, "one_enqueue",
                        json_pack("{s:I, s:I, s:I, s:I, s:I}", "launches", (json_int_t)e->launches, "submits", (json_int_t)e->submits,
                                  "synchronizations", (json_int_t)e->synchronizations, "host_allocations", (json_int_t)e->host_allocations,
                                  "device_allocations", (json_int_t)e->device_allocations));
    return row;
}

static double median_of(const json_t *row, const char *name)
{
    return json_real_value(json_object_get(json_object_get(row, name), "median"));
}

/* dense: the baseline row of the speed-up, or NULL. */
static void print_row(const variant *v, const bench_device *d, const json_t *row, const json_t *dense)
{
    printf("%-6d %-16s %-14s %12.3f %12.1f %11.2f", v->batch, v->prune->name, v->prune->settings, median_of(row, "ms_per_image"),
           1e3 / median_of(row, "ms_per_image"), median_of(row, "enqueue_us"));
    if (v->samples->next[0] > 0)
        printf(" %11.2f", median_of(row, "enqueue_next_us"));
    else
        printf(" %11s", "-");
    if (d->cuda != NULL)
        printf(" %11.1f", median_of(row, "device_us"));
    else
        printf(" %11s", "-");
    if (dense != NULL)
        printf(" %8.2fx", median_of(dense, "ms_per_image") / median_of(row, "ms_per_image"));
    putchar('\n');
}

int main(int argc, char **argv)
{
    const options o = parse(argc, argv);
    bench_device d = bench_device_open(&o.device);
    rvit_checkpoint *checkpoint;
    rvit_model *model;
    rvit_model_info info = RVIT_MODEL_INFO_INIT;
    rvit_model_desc precision = RVIT_MODEL_DESC_INIT;
    precision.dtype = o.dtype;
    precision.quantization = (rvit_quantization)o.quantization;
    bench_check(rvit_checkpoint_open(o.model, NULL, &checkpoint), "checkpoint");
    bench_check(rvit_checkpoint_get_model_info(checkpoint, &info), "checkpoint");
    bench_check(rvit_model_create(d.device, checkpoint, &precision, &model), "model");
    rvit_checkpoint_destroy(checkpoint);

    variant *variants = calloc(MAX_VARIANTS, sizeof *variants);
    int n = 0, largest = 0;
    for (int b = 0; b < o.n_batches; b++)
        largest = o.batches[b] > largest ? o.batches[b] : largest;
    const size_t n_values = (size_t)largest * (size_t)info.channels * (size_t)info.image_size * (size_t)info.image_size;
    float *images = malloc(n_values * sizeof *images);
    if (o.sheet != NULL)
        data_tiles(o.sheet, o.tile, largest, info.image_size, images);
    else
        data_noise(images, n_values);
    for (int b = 0; b < o.n_batches; b++)
        for (int p = 0; p < o.n_prunes; p++, n++) {
            variants[n].batch = o.batches[b];
            variants[n].prune = &o.prunes[p];
            open_variant(&variants[n], &d, model, &info, &o, images);
        }
    json_t *report = report_new("forward", d.device), *rows = json_array();
    measure(variants, n, &d, images, o.seconds);
    for (int i = 0; i < n && o.on_device && !o.any_batch; i++)
        sample_next(&variants[i]);
    vulkan_clock *clock = bench_device_vulkan(&d);
    for (int i = 0; i < n && clock != NULL; i++)
        sample_pairs(&variants[i], images, clock);
    vulkan_clock_close(clock);
    json_object_set_new(report, "floor", bench_device_floor(&d));

    json_object_set_new(report, "model", json_string(info.architecture));
    json_object_set_new(report, "dtype", json_string(rvit_enum_name(RVIT_ENUM_DTYPE, o.dtype)));
    json_object_set_new(report, "quantization", json_string(choice_quantization(o.quantization)));
    json_object_set_new(report, "inputs", json_string(o.on_device ? "device" : "host"));
    json_object_set_new(report, "fixed_batch", json_boolean(!o.any_batch));
    json_object_set_new(report, "images", json_string(o.sheet != NULL ? basename(o.sheet) : "noise"));
    printf("%-6s %-16s %-14s %12s %12s %11s %11s %11s %9s\n", "batch", "prune", "settings", "ms/image", "images/s", "enqueue us",
           "the next us", "device us", "speed-up");
    for (int i = 0; i < n; i++) {
        json_t *row = describe(&variants[i], &d), *dense = i % o.n_prunes == 0 ? row : json_array_get(rows, (size_t)(i - i % o.n_prunes));
        json_array_append_new(rows, row);
        print_row(&variants[i], &d, row, o.prunes[0].desc.type == RVIT_PRUNE_NONE ? dense : NULL);
    }
    json_object_set_new(report, "results", rows);
    json_object_set_new(report, "peak_memory_bytes", json_integer(report_peak_memory()));
    printf("peak memory %.0f MB\n", (double)report_peak_memory() / 1e6);
    const int code = report_write(report, o.json);
    for (int i = 0; i < n; i++)
        close_variant(&variants[i]);
    free(images);
    free(variants);
    rvit_model_destroy(model);
    bench_device_close(&d);
    return code;
}

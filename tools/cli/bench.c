/* raggedvit bench: times the dense and a pruned forward pass. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "command_list.h"
#include "engine.h"
#include "json.h"
#include "noise.h"
#include "progress.h"
#include "random_model.h"
#include "session_results.h"
#include "timed.h"

#define MIN_SAMPLES 5
#define WARM_UPS 2
#define SEARCH_STEPS 7 /* bisection steps over 1 .. 99 percent */

struct bench {
    struct options options;
    struct engine engine;
    struct prune prune;
    int32_t batch;
    int64_t done; /* finished measurements, for the progress bar */
    float *images;
    json_t *results;
};

static int open_timed(struct bench *self, const rvit_prune_desc *prune, struct timed *out)
{
    return timed_open(&self->engine, prune, self->batch, self->images, out);
}

/* b may be NULL. */
static int measure(struct bench *self, struct timed *a, struct timed *b, double seconds, int min)
{
    const int code = timed_measure(a, b, seconds, min, WARM_UPS);
    progress_update(++self->done);
    return code;
}

/* Finds the largest kept fraction, in hundredths, at which the pruned forward pass is faster, or 0. Bisection assumes that the time grows
   with the fraction. */
static int find_break_even(struct bench *self, struct timed *dense, int32_t *out_percent)
{
    int32_t low = 0, high = 100; /* pruned is faster at low (if above 0), and not faster at high */
    while (high - low > 1) {
        const int32_t middle = (low + high + 1) / 2;
        struct timed pruned = {0};
        rvit_prune_desc desc = self->prune.desc;
        desc.keep = middle / 100.0;
        dense->times.n = 0;
        int code = open_timed(self, &desc, &pruned);
        if (code == EXIT_OK)
            code = measure(self, dense, &pruned, self->options.seconds / 4, 3);
        rvit_session_destroy(pruned.session);
        if (code != EXIT_OK)
            return code;
        if (times_median(&pruned.times) < times_median(&dense->times))
            low = middle;
        else
            high = middle;
    }
    *out_percent = low;
    return EXIT_OK;
}

static json_t *describe(const struct bench *self, struct timed *timed)
{
    json_t *tokens = json_array();
    for (int32_t s = 0; s < session_n_stages(timed->session); s++)
        json_array_append_new(tokens, json_number((double)session_cu_seqlens(timed->session, s)[self->batch] / self->batch));
    return json_pack("{s:o, s:f, s:I, s:o}", "ms", times_to_json(&timed->times), "images_per_second",
                     self->batch / times_median(&timed->times), "launches", (json_int_t)timed->launches, "tokens", tokens);
}

static bool prunes(const struct bench *self)
{
    return self->prune.desc.type != RVIT_PRUNE_NONE;
}

/* Whether the policy has a kept fraction, which can be varied. */
static bool has_fraction(const struct bench *self)
{
    return (self->prune.policy.parameters & RVIT_PRUNE_KEEP) != 0;
}

static int bench_batch(struct bench *self)
{
    const rvit_prune_desc none = RVIT_PRUNE_DESC_INIT;
    struct timed *dense = allocate(2, sizeof *dense), *pruned = dense + 1;
    if (!dense)
        return EXIT_FAULT;
    int32_t percent = -1;
    json_t *row = json_pack("{s:i}", "batch", self->batch);
    int code = open_timed(self, &none, dense);
    if (code == EXIT_OK && prunes(self))
        code = open_timed(self, &self->prune.desc, pruned);
    if (code == EXIT_OK)
        code = measure(self, dense, prunes(self) ? pruned : NULL, self->options.seconds, MIN_SAMPLES);
    if (code == EXIT_OK)
        code = timed_count_launches(dense);
    if (code == EXIT_OK && prunes(self))
        code = timed_count_launches(pruned);
    if (code == EXIT_OK) {
        json_object_set_new(row, "dense", describe(self, dense));
        json_object_set_new(row, "pruned", prunes(self) ? describe(self, pruned) : json_null());
        json_object_set_new(row, "speed_up",
                            prunes(self) ? json_real(times_median(&dense->times) / times_median(&pruned->times)) : json_null());
        if (has_fraction(self))
            code = find_break_even(self, dense, &percent);
        json_object_set_new(row, "break_even_keep", percent < 0 ? json_null() : json_real(percent / 100.0));
    }
    rvit_session_destroy(dense->session);
    rvit_session_destroy(pruned->session);
    free(dense);
    json_array_append_new(self->results, row);
    return code;
}

static double number(const json_t *row, const char *first, const char *second, const char *third)
{
    const json_t *value = json_object_get(row, first);
    if (second)
        value = json_object_get(value, second);
    if (third)
        value = json_object_get(value, third);
    return json_number_value(value);
}

static void print_table(const struct bench *self)
{
    char prune[256];
    prune_describe(&self->prune, prune, sizeof prune);
    printf("model   %s%s\n", self->engine.model_info.architecture, self->options.n_paths ? "" : ", random weights");
    print_line("device  ", self->engine.name);
    print_line("prune   ", prune);
    putchar('\n');
    printf("%-6s %10s %10s %9s", "batch", "dense ms", "images/s", "launches");
    if (prunes(self))
        printf(" %10s %10s %9s %9s %11s", "pruned ms", "images/s", "launches", "speed-up", "break-even");
    putchar('\n');
    size_t i;
    const json_t *row;
    json_array_foreach(self->results, i, row)
    {
        printf("%-6.0f %10.3f %10.1f %9.0f", number(row, "batch", NULL, NULL), number(row, "dense", "ms", "median"),
               number(row, "dense", "images_per_second", NULL), number(row, "dense", "launches", NULL));
        if (prunes(self)) {
            const double keep = number(row, "break_even_keep", NULL, NULL);
            printf(" %10.3f %10.1f %9.0f %8.2fx", number(row, "pruned", "ms", "median"), number(row, "pruned", "images_per_second", NULL),
                   number(row, "pruned", "launches", NULL), number(row, "speed_up", NULL, NULL));
            if (!has_fraction(self))
                printf(" %11s", "-");
            else if (keep > 0)
                printf("   keep %.2f", keep);
            else
                printf(" %11s", "none");
        }
        putchar('\n');
    }
}

static void print_json(const struct bench *self)
{
    const rvit_device_info *device = &self->engine.device_info;
    char date[32];
    const time_t today = time(NULL);
    strftime(date, sizeof date, "%Y-%m-%dT%H:%M:%SZ", gmtime(&today));
    json_t *object =
        json_pack("{s:s, s:s, s:s, s:o, s:s, s:s, s:o, s:o, s:s, s:s, s:f}", "version", rvit_version(), "benchmark", "tool", "date", date,
                  "model", self->options.n_paths ? json_text(self->options.model) : json_null(), "architecture",
                  self->engine.model_info.architecture, "backend", rvit_enum_name(RVIT_ENUM_BACKEND, device->backend), "device",
                  json_text(device->name), "driver", json_text(device->driver), "tier", rvit_enum_name(RVIT_ENUM_TIER, device->tier),
                  "dtype", rvit_enum_name(RVIT_ENUM_PRECISION, self->engine.choice.precision), "seconds", self->options.seconds);
    engine_reason_to_json(&self->engine, object);
    json_object_update_new(object, prune_to_json(&self->prune));
    json_object_set(object, "results", self->results);
    json_print_line(object);
}

static int open_model(struct bench *self)
{
    struct options *options = &self->options;
    struct random_model random = {.file = NULL};
    rvit_checkpoint *checkpoint;
    if (options->n_paths) {
        options->model = options->paths[0];
    } else {
        const int code = random_model_open(options->shape, &random);
        if (code != EXIT_OK)
            return code;
        options->model = random.path;
    }
    int code = engine_checkpoint(options, &checkpoint);
    if (code == EXIT_OK) {
        code =
            engine_open(options, options->backend, options->device, options->tier, false, options->dtype, false, checkpoint, &self->engine);
        rvit_checkpoint_destroy(checkpoint);
    }
    random_model_close(&random);
    if (!options->n_paths)
        options->model = NULL;
    return code;
}

int run_bench(const struct options *options)
{
    struct bench self = {.options = *options, .prune = options->prune, .results = json_array()};
    static const int32_t by_default[] = {1, 4, 16, 64};
    int32_t batches[RVIT_PRUNE_MAX_STAGES];
    int32_t n_batches = options->n_batches, largest = 0;
    int code = open_model(&self);
    if (code == EXIT_OK) {
        const rvit_model_info *info = &self.engine.model_info;
        const int64_t image_length = engine_image_length(&self.engine);
        prune_resolve(&self.prune, info);
        memcpy(batches, options->batches, sizeof batches);
        if (n_batches == 0) {
            memcpy(batches, by_default, sizeof by_default);
            n_batches = self.engine.device_info.backend == RVIT_BACKEND_CPU ? 3 : 4;
            rvit_session_desc desc = RVIT_SESSION_DESC_INIT;
            for (desc.max_images = batches[n_batches - 1]; n_batches > 1 && !engine_fits(&self.engine, &desc, 2);)
                desc.max_images = batches[--n_batches - 1];
        }
        largest = batches[n_batches - 1];
        self.images = allocate((size_t)largest * (size_t)image_length, sizeof *self.images);
        code = self.images ? EXIT_OK : EXIT_FAULT;
        for (int32_t i = 0; i < largest && code == EXIT_OK; i++)
            if (!noise_image(i, 3, info->image_width, info->image_height, self.images + i * image_length))
                code = fail_with(EXIT_FAULT, NULL, "out of memory");
        progress_begin((int64_t)n_batches * (1 + (has_fraction(&self) ? SEARCH_STEPS : 0)), "measurements");
    }
    for (int32_t i = 0; i < n_batches && code == EXIT_OK; i++) {
        self.batch = batches[i];
        code = bench_batch(&self);
    }
    progress_end();
    if (code == EXIT_OK)
        (options->json ? print_json : print_table)(&self);
    json_decref(self.results);
    engine_close(&self.engine);
    free(self.images);
    return code;
}

#include "report.h"

#include <math.h>
#include <stdio.h>

#include "core/base/os_program.h"
#include "json.h"
#include "kept.h"
#include "printable.h"
#include "progress.h"
#include "rank.h"

#define COMPACT_FROM 5 /* images */
#define MAX_TOP 100

struct ranked {
    int32_t index;
    double probability; /* or cosine */
};

/* Finds the n best classes with their probabilities or cosines. */
static void rank(const float *logits, enum zero_shot_scores scores, int32_t n_classes, int32_t n, struct ranked *out)
{
    int32_t classes[MAX_TOP];
    double probabilities[MAX_TOP];
    rank_classes(logits, n_classes, n, classes);
    rank_scores(logits, n_classes, classes, n, probabilities);
    for (int32_t i = 0; i < n; i++) {
        const double logit = (double)logits[classes[i]];
        out[i] = (struct ranked){classes[i], scores == ZERO_SHOT_SOFTMAX   ? probabilities[i]
                                             : scores == ZERO_SHOT_SIGMOID ? 1 / (1 + exp(-logit))
                                                                           : logit};
    }
}

static enum zero_shot_scores scores_of(const struct report *self)
{
    return self->texts ? self->texts->scores : ZERO_SHOT_SOFTMAX;
}

static double megabytes(int64_t size)
{
    return (double)size * 1e-6;
}

static void print_prologue(const struct report *self, const struct inputs *inputs)
{
    char prune[512];
    prune_describe(self->prune, prune, sizeof prune);
    if (self->texts)
        printf("model   %s, embeddings of %d values\n", self->engine->model_info.architecture, self->engine->model_info.embedding_dim);
    else if (self->n_classes > 0)
        printf("model   %s, %d classes\n", self->engine->model_info.architecture, self->n_classes);
    else
        printf("model   %s, no head\n", self->engine->model_info.architecture);
    if (self->texts) {
        char texts[256];
        zero_shot_describe(self->texts, texts, sizeof texts);
        print_line("texts   ", texts);
    }
    print_line("device  ", self->engine->name);
    print_line("prune   ", prune);
    if (self->options->variable_resolution && self->max_patches > 0)
        printf("batches at most %d tokens, images at most %d patches\n", self->max_tokens, self->max_patches);
    else if (self->options->variable_resolution)
        printf("batches at most %d tokens, images at their own size\n", self->max_tokens);
    if (inputs->shard.n > 0)
        printf("shard   %d/%d of %lld images\n", inputs->shard.index, inputs->shard.n, (long long)inputs->total);
    const rvit_memory_info *memory = &self->engine->memory;
    printf("memory  device %.2f MB for weights, %.2f for the session; mapped %.2f up, %.2f down; host %.2f\n\n",
           megabytes(self->engine->model_info.weights_size), megabytes(memory->device_size), megabytes(memory->upload_size),
           megabytes(memory->readback_size), megabytes(memory->host_size));
}

/* Identifies the inputs of a run, so that merge can compare shards. */
static json_t *json_inputs(const struct inputs *inputs)
{
    char fingerprint[17];
    snprintf(fingerprint, sizeof fingerprint, "%016llx", (unsigned long long)inputs_fingerprint(inputs));
    return json_pack("{s:o, s:o, s:s}", "n", inputs->total > 0 || !inputs->video ? json_integer(inputs->total) : json_null(), "tiles",
                     inputs->tiles > 0 ? json_integer(inputs->tiles) : json_null(), "names", fingerprint);
}

static json_t *json_prologue(const struct report *self, const struct inputs *inputs, int32_t batch)
{
    const rvit_device_info *device = &self->engine->device_info;
    json_t *object =
        json_pack("{s:s, s:o, s:s, s:s, s:o, s:s, s:s, s:i}", "version", rvit_version(), "model", json_text(self->options->model),
                  "architecture", self->engine->model_info.architecture, "backend", rvit_enum_name(RVIT_ENUM_BACKEND, device->backend),
                  "device", json_text(device->name), "tier", rvit_enum_name(RVIT_ENUM_TIER, device->tier), "dtype",
                  rvit_enum_name(RVIT_ENUM_PRECISION, self->engine->choice.precision), "batch", batch);
    engine_reason_to_json(self->engine, object);
    const rvit_memory_info *memory = &self->engine->memory;
    json_object_set_new(object, "memory",
                        json_pack("{s:I, s:I, s:I, s:I, s:I}", "weights", (json_int_t)self->engine->model_info.weights_size, "device",
                                  (json_int_t)memory->device_size, "upload", (json_int_t)memory->upload_size, "readback",
                                  (json_int_t)memory->readback_size, "host", (json_int_t)memory->host_size));
    if (self->texts)
        json_object_set_new(object, "texts",
                            json_pack("{s:o, s:i, s:s, s:o, s:o}", "file", json_text(self->texts->path), "n", self->texts->n_texts,
                                      "scores", zero_shot_scores_name(self->texts), "scale", json_number(self->texts->scale), "bias",
                                      json_number(self->texts->bias)));
    if (self->options->variable_resolution)
        json_object_set_new(object, "variable_resolution",
                            json_pack("{s:i, s:o}", "max_tokens", self->max_tokens, "max_patches",
                                      self->max_patches > 0 ? json_integer(self->max_patches) : json_null()));
    json_object_update_new(object, prune_to_json(self->prune));
    json_object_set_new(object, "inputs", json_inputs(inputs));
    if (inputs->shard.n > 0)
        json_object_set_new(object, "shard", json_pack("{s:i, s:i}", "index", inputs->shard.index, "n", inputs->shard.n));
    return object;
}

static void print_json_prologue(const struct report *self, const struct inputs *inputs, int32_t batch)
{
    json_print_open(json_prologue(self, inputs, batch));
    printf(", \"images\": [");
}

void report_begin(struct report *self, const struct options *options, const struct engine *engine, const struct prune *prune,
                  const struct labels *labels, const struct zero_shot *texts, int32_t n_stages, const struct inputs *inputs, int32_t batch,
                  const struct image_plan *plan)
{
    const int32_t n_classes = texts ? texts->n_texts : engine->model_info.n_classes;
    *self = (struct report){.options = options,
                            .engine = engine,
                            .labels = labels,
                            .prune = prune,
                            .texts = texts,
                            .n_classes = n_classes,
                            .n_stages = n_stages,
                            .compact = inputs->video || inputs->total >= COMPACT_FROM,
                            .max_tokens = plan->max_tokens,
                            .max_patches = plan->max_patches,
                            .wipes = rvit_is_terminal(stdout) && !options->quiet,
                            .shows = !options->quiet || options->json || options->ndjson,
                            .start = now()};
    self->n_top = options->top < n_classes ? options->top : n_classes;
    for (int32_t s = 0; s < n_stages; s++)
        self->min_kept[s] = INT32_MAX;
    if (options->ndjson)
        json_print_line(json_pack("{s:o}", "run", json_prologue(self, inputs, batch)));
    else if (options->json)
        print_json_prologue(self, inputs, batch);
    else
        print_prologue(self, inputs);
    report_flush(self);
}

/* The start of the object of an image: its source. */
static json_t *json_source(const char *path, int32_t tile, int64_t position)
{
    return json_pack("{s:o, s:o, s:I}", "file", json_text(path), "tile", tile >= 0 ? json_integer(tile) : json_null(), "position",
                     (json_int_t)position);
}

static void print_json_image(const struct report *self, const struct report_image *image, const struct ranked *top)
{
    json_t *classes = json_array();
    for (int32_t i = 0; i < self->n_top; i++)
        json_array_append_new(classes, json_pack("{s:i, s:o, s:o}", "class", top[i].index, "label",
                                                 json_text(labels_name(self->labels, top[i].index)), "probability",
                                                 scores_of(self) == ZERO_SHOT_COSINE ? json_null() : json_number(top[i].probability)));
    json_t *object = json_pack("{s:o, s:o}", "top", classes, "tokens_kept", json_integers(image->tokens_kept, self->n_stages));
    json_object_set_new(object, "kept", kept_to_json(image->session, image->index, &self->engine->model_info, image->columns));
    json_t *sizes = kept_sizes_to_json(image->session, image->index, &self->engine->model_info, image->columns);
    if (sizes)
        json_object_set_new(object, "sizes", sizes);
    if (image->expected >= 0)
        json_object_set_new(object, "expected", json_integer(image->expected));
    if (image->frame >= 0)
        json_object_set_new(object, "frame", json_integer(image->frame));
    if (image->lines > 0)
        json_object_set_new(object, "grid", json_pack("[i, i]", image->lines, image->columns));
    json_print_open(json_source(image->path, image->tile, image->position));
    fputs(", \"logits\": ", stdout);
    if (image->logits)
        json_print_floats(image->logits, self->n_classes);
    else
        fputs("null", stdout);
    fputs(", ", stdout);
    json_print_close(object);
}

static json_t *json_failure(const struct inputs *inputs, const struct input_failure *failure)
{
    const struct input *input = &failure->input;
    json_t *object = json_source(input->path, input->tile, input->position);
    json_object_set_new(object, "error", json_text(failure->text));
    if (inputs->video)
        json_object_set_new(object, "frame", json_integer(input->position));
    return object;
}

/* Prints the failures before a position. */
static void print_failure_lines(struct report *self, const struct inputs *inputs, int64_t position)
{
    for (; self->n_failures < inputs->n_failures && inputs->failures[self->n_failures].input.position < position; self->n_failures++)
        json_print_line(json_failure(inputs, &inputs->failures[self->n_failures]));
}

static void print_image(const struct report *self, const struct report_image *image, const struct ranked *top)
{
    printable_print(stdout, image->path);
    if (image->tile >= 0)
        printf(" #%d", image->tile);
    if (image->frame >= 0)
        printf(" #%lld", (long long)image->frame);
    if (!image->logits) {
        putchar('\n');
        return;
    }
    if (self->compact) {
        fputs("  ", stdout);
        printable_print(stdout, labels_name(self->labels, top[0].index));
        if (scores_of(self) == ZERO_SHOT_COSINE)
            printf(" %.4f", top[0].probability);
        else
            printf(" %.1f %%", 100 * top[0].probability);
        if (image->expected >= 0 && image->expected != top[0].index) {
            fputs("  (expected ", stdout);
            printable_print(stdout, labels_name(self->labels, image->expected));
            putchar(')');
        }
        putchar('\n');
        return;
    }
    putchar('\n');
    for (int32_t i = 0; i < self->n_top; i++) {
        if (scores_of(self) == ZERO_SHOT_COSINE)
            printf("  %7.4f  ", top[i].probability);
        else
            printf("  %5.1f %%  ", 100 * top[i].probability);
        print_line("", labels_name(self->labels, top[i].index));
    }
    if (image->expected >= 0)
        print_line("  expected ", labels_name(self->labels, image->expected));
}

void report_add(struct report *self, const struct inputs *inputs, const struct report_image *image)
{
    struct ranked top[MAX_TOP] = {{.index = -1}}; /* without a head there is no best class */
    if (image->logits && (self->shows || image->expected >= 0))
        rank(image->logits, scores_of(self), self->n_classes, self->n_top, top);
    if (self->wipes)
        progress_wipe();
    if (self->options->ndjson) {
        print_failure_lines(self, inputs, image->position);
        print_json_image(self, image, top);
        putchar('\n');
    } else if (self->options->json) {
        fputs(self->n_images ? ",\n" : "\n", stdout);
        print_json_image(self, image, top);
    } else if (!self->options->quiet) {
        print_image(self, image, top);
    }
    self->n_images++;
    self->all_tokens += image->tokens;
    self->n_expected += image->expected >= 0;
    self->n_right += image->expected >= 0 && image->expected == top[0].index;
    for (int32_t s = 0; s < self->n_stages; s++) {
        const int32_t kept = image->tokens_kept[s];
        self->tokens[s] += kept;
        self->min_kept[s] = kept < self->min_kept[s] ? kept : self->min_kept[s];
        self->max_kept[s] = kept > self->max_kept[s] ? kept : self->max_kept[s];
    }
}

static json_t *json_decoder(struct nvjpeg *nvjpeg)
{
    const struct nvjpeg_counts counts = nvjpeg_count(nvjpeg);
    return json_pack("{s:s, s:I, s:I, s:I, s:I, s:o}", "library", nvjpeg_name(nvjpeg), "engines",
                     (json_int_t)counts.images[NVJPEG_BY_ENGINE], "kernels", (json_int_t)counts.images[NVJPEG_BY_KERNELS], "others",
                     (json_int_t)counts.images[NVJPEG_BY_OTHERS], "failures", (json_int_t)counts.n_failures, "first_failure",
                     counts.n_failures ? json_text(counts.first_failure) : json_null());
}

static double elapsed_of(const struct report *self)
{
    return self->elapsed > 0 ? self->elapsed : now() - self->start;
}

static json_t *json_epilogue(const struct report *self, const struct inputs *inputs, int code)
{
    json_t *failed = json_array();
    for (int32_t i = 0; i < inputs->n_failures; i++)
        json_array_append_new(failed, json_failure(inputs, &inputs->failures[i]));
    json_t *skipped = json_array();
    for (int32_t i = 0; i < inputs->skipped.n; i++)
        json_array_append_new(skipped, json_text(inputs->skipped.paths[i]));
    json_t *object =
        json_pack("{s:o, s:I, s:i, s:o, s:i, s:o, s:o, s:o, s:i}", "failed", failed, "n_images", (json_int_t)self->n_images, "n_failed",
                  inputs->n_failures, "skipped", skipped, "n_skipped", inputs->skipped.n, "seconds", json_number(self->seconds),
                  "images_per_second", self->n_images ? json_number((double)self->n_images / self->seconds) : json_null(), "elapsed",
                  json_number(elapsed_of(self)), "exit_code", code);
    if (inputs->nvjpeg)
        json_object_set_new(object, "decoder", json_decoder(inputs->nvjpeg));
    if (self->decoded_per_second > 0)
        json_object_set_new(object, "timings",
                            json_pack("{s:f, s:f, s:f}", "decoding", self->decoded_per_second, "everything",
                                      (double)self->n_images / elapsed_of(self), "without_decoding", self->undecoded_per_second));
    json_object_set_new(object, "saturated", json_integer(self->saturated));
    if (self->n_expected) {
        json_object_set_new(object, "top1", json_number((double)self->n_right / (double)self->n_expected));
        json_object_set_new(object, "n_right", json_integer(self->n_right));
        json_object_set_new(object, "n_expected", json_integer(self->n_expected));
    }
    json_t *kept = json_array();
    for (int32_t s = 0; s < self->n_stages; s++)
        json_array_append_new(kept, json_integer((json_int_t)self->tokens[s]));
    json_object_set_new(object, "tokens", json_pack("{s:I, s:o}", "all", (json_int_t)self->all_tokens, "kept", kept));
    return object;
}

static void print_json_epilogue(const struct report *self, const struct inputs *inputs, int code)
{
    printf("\n], ");
    json_print_close(json_epilogue(self, inputs, code));
    putchar('\n');
}

void report_flush(const struct report *self)
{
    if (!self->options->json)
        fflush(stdout);
}

static void print_decoder(struct nvjpeg *nvjpeg)
{
    const struct nvjpeg_counts counts = nvjpeg_count(nvjpeg);
    const long long engines = counts.images[NVJPEG_BY_ENGINE], kernels = counts.images[NVJPEG_BY_KERNELS];
    printf("decoder      %s: %lld file%s, %lld by the GPU's JPEG engines; CPU: %lld\n", nvjpeg_name(nvjpeg), engines + kernels,
           engines + kernels == 1 ? "" : "s", engines, (long long)counts.images[NVJPEG_BY_OTHERS]);
    if (counts.n_failures > 0)
        printf("             nvJPEG failed on %lld of these, first with \"%s\"\n", (long long)counts.n_failures, counts.first_failure);
}

static void print_epilogue(const struct report *self, const struct inputs *inputs)
{
    const double n = (double)self->n_images;
    if (!self->options->quiet)
        putchar('\n');
    if (self->n_expected)
        printf("top-1        %.1f %% (%lld of %lld)\n", 100 * (double)self->n_right / (double)self->n_expected, (long long)self->n_right,
               (long long)self->n_expected);
    for (int32_t s = 0; s < self->n_stages; s++) {
        printf("tokens kept  %.1f of %.9g at block %d", self->tokens[s] / n, rint(10 * self->all_tokens / n) / 10,
               self->prune->desc.blocks[s]);
        if (self->min_kept[s] != self->max_kept[s])
            printf(" (%d to %d)", self->min_kept[s], self->max_kept[s]);
        putchar('\n');
    }
    if (self->n_stages == 0)
        printf("tokens kept  all %.9g\n", rint(10 * self->all_tokens / n) / 10);
    printf("speed        %.1f images/s: %lld image%s in %.3f s of runs; %.1f with decoding and resizing\n", n / self->seconds,
           (long long)self->n_images, self->n_images > 1 ? "s" : "", self->seconds, n / elapsed_of(self));
    if (self->saturated > 0)
        printf("saturated    %lld values beyond the input scales of the checkpoint\n", (long long)self->saturated);
    if (inputs->n_failures > 0)
        printf("failed       %d, see the messages\n", inputs->n_failures);
    if (inputs->skipped.n > 0)
        printf("skipped      %d entries of the folders that are not images\n", inputs->skipped.n);
    if (self->decoded_per_second > 0)
        printf("timings      %.1f images/s decoding only, %.1f in total, %.1f without decoding\n", self->decoded_per_second,
               n / elapsed_of(self), self->undecoded_per_second);
    if (inputs->nvjpeg)
        print_decoder(inputs->nvjpeg);
    if (self->has_overlay)
        print_line("overlay      ", self->options->overlay);
    if (self->has_features)
        print_line("features     ", self->options->features);
}

void report_end(struct report *self, const struct inputs *inputs, int code)
{
    progress_wipe();
    if (self->options->ndjson) {
        print_failure_lines(self, inputs, INT64_MAX);
        json_print_line(json_pack("{s:o}", "summary", json_epilogue(self, inputs, code)));
    } else if (self->options->json) {
        print_json_epilogue(self, inputs, code);
    } else if (self->n_images) {
        print_epilogue(self, inputs);
    }
}

/* raggedvit classify: options, sessions and the exit code. Runs batches of images that host threads prepare. */
#include <stdlib.h>

#include "classify_batch.h"
#include "command_list.h"
#include "progress.h"
#include "session_results.h"

#define DEFAULT_BATCH 32
#define DEFAULT_VARIABLE_BATCH 64
#define DEFAULT_LIVE_BATCH 8 /* video frames that arrived during the previous run */

/* The session outputs that this command needs. */
static int32_t outputs_of(const struct classify *self)
{
    return (self->options->features ? RVIT_OUTPUT_FEATURES : 0) |
           (self->options->text_embeddings ? RVIT_OUTPUT_PROJECTED | RVIT_OUTPUT_NORMALIZED : 0);
}

/* Copies up to one batch of prepared images into the session's input; for video the frames that have arrived, at least one. Returns their
   number, or -1. */
static int32_t fill_batch(struct classify *self)
{
    const size_t image_length = (size_t)engine_image_length(&self->engine);
    float *out = rvit_session_input_memory(self->sessions[0], NULL);
    int32_t n = 0;
    for (struct input input; n < self->batch; n++) {
        const enum input_result result = inputs_next(&self->inputs, n == 0 || !self->inputs.video, out + (size_t)n * image_length, &input);
        if (result != INPUT_READY)
            return result == INPUT_LOST ? -1 : n;
        classify_set_image(self, n, &input, self->sessions[0]);
        self->positions[n] = input.position;
    }
    return n;
}

/* Returns EXIT_PARTLY if the overlay could not be written. */
static int run_batches(struct classify *self)
{
    int code = EXIT_OK;
    progress_begin(self->inputs.total, "images");
    for (;;) {
        const int32_t n = fill_batch(self);
        if (n <= 0)
            return n < 0 ? EXIT_FAULT : code;
        rvit_run_args run = RVIT_RUN_ARGS_INIT;
        run.n_images = n;
        classify_fill_mask(self, n, &run);
        const double start = now();
        const rvit_status enqueued = rvit_session_enqueue(self->sessions[0], &run);
        const int waited = enqueued == RVIT_OK ? classify_waited(rvit_session_wait(self->sessions[0])) : complain_status(NULL, enqueued);
        self->report.seconds += now() - start;
        if (waited != EXIT_OK)
            return waited;
        if (self->options->overlay && !self->has_drawn) {
            self->has_drawn = true;
            struct image image = inputs_take_first(&self->inputs);
            const bool is_tile = self->options->tiles > 0;
            code = classify_overlay(self, self->sessions[0], &image, is_tile ? self->recipe.width : 0, is_tile ? self->recipe.height : 0);
            if (code == EXIT_FAULT)
                return code;
        }
        const int reported = classify_report(self, self->sessions[0], n);
        if (reported != EXIT_OK)
            return reported;
        progress_update(self->inputs.n_done);
    }
}

static int32_t choose_batch(const struct classify *self)
{
    const struct inputs *inputs = &self->inputs;
    const int32_t wanted = self->options->batch                 ? self->options->batch
                           : inputs->video                      ? DEFAULT_LIVE_BATCH
                           : self->options->variable_resolution ? DEFAULT_VARIABLE_BATCH
                                                                : DEFAULT_BATCH;
    if (inputs->video && inputs->total == 0) /* the number of frames is unknown */
        return wanted;
    return wanted <= inputs->total ? wanted : inputs->total > 0 ? (int32_t)inputs->total : 1;
}

static void describe_session(struct classify *self, rvit_session_desc *out)
{
    *out = (rvit_session_desc)RVIT_SESSION_DESC_INIT;
    out->max_images = self->batch;
    out->prune = &self->prune.desc;
    out->outputs = outputs_of(self);
    if (self->on_device)
        classify_images_desc(self, out);
}

/* Halves the batch and token limits that the command line does not set. Returns false if neither can be halved. */
static bool halve_limits(struct classify *self)
{
    const bool fewer = !self->options->batch && self->batch > 1;
    const int32_t tokens = self->max_tokens / 2;
    const bool shorter = self->options->variable_resolution && !self->options->max_tokens && tokens > self->engine.model_info.n_prefix &&
                         tokens >= self->max_patches + self->engine.model_info.n_prefix;
    if (fewer)
        self->batch /= 2;
    if (shorter)
        self->max_tokens = tokens;
    return fewer || shorter;
}

/* Finds the largest batch that fits the device, and the session desc for it. */
static void fit_batch(struct classify *self, rvit_session_desc *out)
{
    const int32_t n = self->on_device ? CLASSIFY_SESSIONS : 1, default_batch = self->batch, default_tokens = self->max_tokens;
    bool fits;
    do
        describe_session(self, out);
    while (!(fits = engine_fits(&self->engine, out, n)) && halve_limits(self));
    if (fits && self->batch < default_batch)
        engine_report_batch(default_batch, self->batch);
    if (!fits) { /* it fails for another reason, which creating the session reports */
        self->batch = default_batch, self->max_tokens = default_tokens;
        describe_session(self, out);
    }
}

/* A GPU resizes images in the same dispatch. Host threads do float32 resizes. */
static bool images_on_device(const struct classify *self)
{
    const struct options *options = self->options;
    if (options->variable_resolution || options->prepare != PREPARE_AUTO)
        return options->variable_resolution || options->prepare == PREPARE_DEVICE;
    return self->engine.device_info.backend != RVIT_BACKEND_CPU && self->recipe.processor != RVIT_PROCESSOR_HF_FLOAT;
}

static int prepare(struct classify *self, const rvit_checkpoint *checkpoint)
{
    const struct options *options = self->options;
    int code =
        engine_open(options, options->backend, options->device, options->tier, false, options->dtype, true, checkpoint, &self->engine);
    if (code == EXIT_OK && options->text_embeddings)
        code = zero_shot_open(options, &self->engine.model_info, &self->texts);
    if (code == EXIT_OK)
        code = labels_load(options->labels, checkpoint, options->text_embeddings,
                           options->text_embeddings ? self->texts.n_texts : self->engine.model_info.n_classes, &self->labels);
    if (code == EXIT_OK)
        code = recipe_resolve(&options->recipe, options->given, checkpoint, options->model, &self->recipe);
    if (code == EXIT_OK)
        code = inputs_open(options->paths, options->n_paths, &self->recipe, options->video.format ? &options->video : NULL, options->tiles,
                           options->limit, &self->inputs);
    self->inputs.reduces = options->fast_decode;
    self->inputs.shard = options->shard;
    if (code == EXIT_OK)
        code = engine_decoder(&self->engine, options);
    self->inputs.nvjpeg = self->engine.nvjpeg;
    if (code == EXIT_OK && options->expect)
        code = labels_read_expected(&self->labels, options->expect, self->inputs.n_given, &self->expected);
    const bool is_endless = self->inputs.video && self->inputs.total == 0;
    if (code == EXIT_OK)
        code = mask_open(&self->prune, &self->engine.model_info, is_endless ? -1 : self->inputs.total, self->inputs.n_given, &self->mask);
    if (code != EXIT_OK)
        return code;
    self->on_device = images_on_device(self);
    if (options->timings && !self->on_device)
        return fail_with(EXIT_USAGE, NULL, "--timings needs --prepare device here: it measures images that the device prepares");
    if (self->on_device && (code = classify_images_resolve(self)) != EXIT_OK)
        return code;
    rvit_session_desc desc;
    self->batch = choose_batch(self);
    fit_batch(self, &desc);
    const size_t batch = (size_t)self->batch;
    self->images = allocate(batch, sizeof *self->images);
    self->positions = allocate(batch, sizeof *self->positions);
    self->keep = allocate((size_t)self->mask.n_stages * batch * (size_t)self->engine.model_info.tokens, 1);
    self->scores = allocate(batch * (size_t)self->texts.n_texts, sizeof *self->scores);
    if (!self->images || !self->positions || !self->keep || !self->scores)
        return EXIT_FAULT;
    code = self->on_device ? classify_images_open(self, &desc) : engine_session_of(&self->engine, &desc, &self->sessions[0]);
    if (code == EXIT_OK && options->features)
        code = feature_file_open(options->features, options->grid, &self->engine.model_info, &self->features);
    /* Host threads pause while the CPU backend computes. */
    if (code == EXIT_OK && !self->on_device)
        code = inputs_start(&self->inputs, options->threads, self->engine.device_info.backend != RVIT_BACKEND_CPU, self->batch,
                            options->overlay != NULL);
    return code;
}

static int check_head(const struct options *options, const rvit_checkpoint *checkpoint)
{
    rvit_model_info info = RVIT_MODEL_INFO_INIT;
    const rvit_status status = rvit_checkpoint_get_model_info(checkpoint, &info);
    if (status != RVIT_OK)
        return complain_status(options->model, status);
    if (info.n_classes > 0 || options->features || options->overlay || options->json || options->ndjson || options->text_embeddings)
        return EXIT_OK;
    return fail_with(EXIT_USAGE, options->model, "has no head to classify with: use --features, --overlay, --json or --ndjson");
}

static int64_t count_saturated(const struct classify *self)
{
    int64_t n = 0;
    for (int i = 0; i < CLASSIFY_SESSIONS; i++) {
        rvit_stats stats = RVIT_STATS_INIT;
        if (self->sessions[i] && rvit_session_get_stats(self->sessions[i], &stats) == RVIT_OK)
            n += stats.saturated;
    }
    return n;
}

/* Returns the final exit code. A failure that ended the run takes precedence over failures of single images. */
static int judge(struct classify *self, int code)
{
    if (code != EXIT_OK && code != EXIT_PARTLY)
        return code;
    const int committed = self->options->features ? feature_file_commit(&self->features) : EXIT_OK;
    if (committed != EXIT_OK)
        return committed;
    self->report.has_features = self->options->features != NULL;
    self->report.saturated = count_saturated(self);
    if (code == EXIT_OK && self->inputs.n_failures > 0 && self->report.n_images == 0)
        return EXIT_FILE;
    return self->inputs.n_failures > 0 ? EXIT_PARTLY : code;
}

int run_classify(const struct options *options)
{
    struct classify self = {.options = options, .prune = options->prune};
    rvit_checkpoint *checkpoint;
    int code = engine_checkpoint(options, &checkpoint);
    if (code != EXIT_OK)
        return code;
    code = check_head(options, checkpoint);
    if (code == EXIT_OK)
        code = prepare(&self, checkpoint);
    rvit_checkpoint_destroy(checkpoint);
    if (code == EXIT_OK) {
        report_begin(&self.report, options, &self.engine, &self.prune, &self.labels, options->text_embeddings ? &self.texts : NULL,
                     session_n_stages(self.sessions[0]), &self.inputs, self.batch, &self.plan);
        code = self.on_device ? classify_images_run(&self) : run_batches(&self);
        progress_end();
        code = judge(&self, code);
        report_end(&self.report, &self.inputs, code);
    }
    feature_file_close(&self.features);
    mask_free(&self.mask);
    image_queue_destroy(self.queue);
    for (int i = 0; i < CLASSIFY_SESSIONS; i++)
        rvit_session_destroy(self.sessions[i]);
    inputs_close(&self.inputs);
    engine_close(&self.engine);
    labels_free(&self.labels);
    zero_shot_free(&self.texts);
    free(self.expected);
    free(self.images);
    free(self.positions);
    free(self.keep);
    free(self.scores);
    return code;
}

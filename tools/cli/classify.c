/* raggedvit classify. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "feature_file.h"
#include "mask.h"
#include "overlay.h"
#include "progress.h"
#include "report.h"

#define DEFAULT_BATCH 32
#define DEFAULT_LIVE_BATCH 8 /* frames that came while the ones before were computed */

struct classify {
    const struct options *options;
    struct engine engine;
    struct prune prune; /* completed for the model */
    rvit_session *session;
    struct labels labels;
    struct zero_shot texts; /* with --text-embeddings, else empty */
    float *scores;          /* [batch, texts.n_texts], with texts */
    struct preprocess recipe;
    struct inputs inputs;
    int32_t *expected; /* [inputs.n_given]; NULL: unknown */
    struct mask mask;  /* used with --prune mask, else empty */
    int32_t batch;
    struct report_image *images; /* [batch], of the current run */
    int64_t *positions;          /* [batch]: positions of these images among all given ones */
    uint8_t *keep;               /* [n_stages, batch, tokens], with a mask */
    struct feature_file features;
    bool has_infinite;
    struct report report;
};

/* Takes up to one batch of prepared images into the session's input; of a video the frames that are there, at least one. Returns their
   number, or -1. */
static int32_t fill_batch(struct classify *self)
{
    const size_t image_length = (size_t)engine_image_length(&self->engine);
    float *out = rvit_session_input(self->session);
    int32_t n = 0;
    for (struct input input; n < self->batch; n++) {
        const enum input_result result = inputs_next(&self->inputs, n == 0 || !self->inputs.video, out + (size_t)n * image_length, &input);
        if (result != INPUT_READY)
            return result == INPUT_LOST ? -1 : n;
        self->images[n] = (struct report_image){.path = input.path,
                                                .tile = input.tile,
                                                .frame = input.frame,
                                                .position = input.position,
                                                .expected = -1,
                                                .session = self->session,
                                                .index = n};
        self->positions[n] = input.position;
        if (self->expected)
            self->images[n].expected = self->expected[input.position];
    }
    return n;
}

static int draw_overlay(struct classify *self, const uint8_t *dropped_at)
{
    const rvit_model_info *info = &self->engine.model_info;
    struct image picture = inputs_take_first(&self->inputs);
    struct image_error error;
    const struct overlay overlay = {.picture = &picture,
                                    .geometry =
                                        preprocess_geometry_of(&self->recipe, picture.width, picture.height, self->options->tiles > 0),
                                    .columns = info->image_width / info->patch_size,
                                    .rows = info->image_height / info->patch_size,
                                    .patch_size = info->patch_size,
                                    .dropped_at = dropped_at,
                                    .n_stages = rvit_session_n_stages(self->session)};
    const bool ok = overlay_write(self->options->overlay, &overlay, &error);
    if (!ok)
        complain(self->options->overlay, "%s", error.text);
    image_free(&picture);
    return ok ? EXIT_OK : EXIT_PARTLY;
}

/* Draws image 0 of the session's last run, with the stage that dropped each patch, from 1; 0: kept. */
static int write_overlay(struct classify *self)
{
    const rvit_model_info *info = &self->engine.model_info;
    const int32_t n_patches = info->tokens - info->n_prefix, n_stages = rvit_session_n_stages(self->session);
    uint8_t *dropped_at = allocate((size_t)n_patches, 1);
    if (!dropped_at)
        return EXIT_FAULT;
    for (int32_t s = n_stages - 1; s >= 0; s--) {
        const int32_t *cu_seqlens = rvit_session_cu_seqlens(self->session, s), *kept = rvit_session_kept(self->session, s, 0);
        uint8_t *next = allocate((size_t)n_patches, 1);
        if (!next || !cu_seqlens || !kept) {
            free(next);
            free(dropped_at);
            return EXIT_FAULT;
        }
        /* Patches that a stage keeps are decided by later stages; the others are dropped here. */
        memset(next, s + 1, (size_t)n_patches);
        for (int32_t i = 0; i < cu_seqlens[1] - cu_seqlens[0]; i++)
            if (kept[i] >= info->n_prefix)
                next[kept[i] - info->n_prefix] = dropped_at[kept[i] - info->n_prefix];
        free(dropped_at);
        dropped_at = next;
    }
    const int code = draw_overlay(self, dropped_at);
    free(dropped_at);
    return code;
}

static void report_batch(struct classify *self, int32_t n)
{
    const int32_t n_classes = self->report.n_classes;
    const float *logits = self->report.texts ? self->scores : rvit_session_logits(self->session);
    for (int32_t i = 0; i < n && self->report.texts; i++)
        zero_shot_score(&self->texts, rvit_session_projected(self->session) + (int64_t)i * self->texts.width,
                        self->scores + (int64_t)i * n_classes);
    for (int32_t i = 0; i < n; i++) {
        struct report_image *image = &self->images[i];
        image->logits = n_classes > 0 ? logits + (int64_t)i * n_classes : NULL;
        for (int32_t c = 0; c < n_classes; c++)
            self->has_infinite |= !isfinite(image->logits[c]);
        for (int32_t s = 0; s < self->report.n_stages; s++) {
            const int32_t *cu_seqlens = rvit_session_cu_seqlens(self->session, s);
            image->tokens_kept[s] = cu_seqlens[i + 1] - cu_seqlens[i];
        }
        report_add(&self->report, &self->inputs, image);
    }
}

/* Returns EXIT_PARTLY if the overlay could not be written, or if the values of a batch ended the run. */
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
        if (self->mask.keep) {
            mask_fill(&self->mask, self->positions, n, self->engine.model_info.n_prefix, self->keep);
            run.keep = self->keep;
        }
        const double start = now();
        const rvit_status status = rvit_session_run(self->session, &run, NULL);
        self->report.seconds += now() - start;
        if (status != RVIT_OK) {
            /* The arguments are valid, so INVALID_ARGUMENT here means bad values: scores that are NaN or cannot be sampled. */
            const int failure = complain_status(NULL, status);
            return status == RVIT_INVALID_ARGUMENT ? EXIT_PARTLY : failure;
        }
        if (self->options->overlay && self->report.n_images == 0) {
            const double begin = now();
            code = write_overlay(self);
            self->report.start += now() - begin; /* no part of the speed */
            self->report.has_overlay = code == EXIT_OK;
            if (code == EXIT_FAULT)
                return code;
        }
        report_batch(self, n);
        const int added = self->options->features ? feature_file_add(&self->features, self->session, n) : EXIT_OK;
        if (added != EXIT_OK)
            return added;
        report_flush(&self->report);
        progress_update(self->inputs.n_done);
    }
}

static int32_t settle_batch(const struct classify *self)
{
    const struct inputs *inputs = &self->inputs;
    const int32_t wanted = self->options->batch ? self->options->batch : inputs->video ? DEFAULT_LIVE_BATCH : DEFAULT_BATCH;
    if (inputs->video && inputs->total == 0) /* as many as come */
        return wanted;
    return wanted <= inputs->total ? wanted : inputs->total > 0 ? (int32_t)inputs->total : 1;
}

static int prepare(struct classify *self, const rvit_checkpoint *checkpoint)
{
    const struct options *options = self->options;
    int code = engine_open(options, options->backend, options->device, options->tier, false, options->dtype, checkpoint, &self->engine);
    if (code == EXIT_OK && options->text_embeddings)
        code = zero_shot_open(options, &self->engine.model_info, &self->texts);
    if (code == EXIT_OK)
        code = labels_load(options->labels, checkpoint, options->text_embeddings,
                           options->text_embeddings ? self->texts.n_texts : self->engine.model_info.n_classes, &self->labels);
    if (code == EXIT_OK)
        code = recipe_settle(&options->recipe, options->given, checkpoint, &self->engine.model_info, options->model, &self->recipe);
    if (code == EXIT_OK)
        code = inputs_open(options->paths, options->n_paths, &self->recipe, options->video.format ? &options->video : NULL, options->tiles,
                           options->limit, &self->inputs);
    self->inputs.reduces = options->fast_decode;
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
    self->batch = settle_batch(self);
    const size_t batch = (size_t)self->batch;
    self->images = allocate(batch, sizeof *self->images);
    self->positions = allocate(batch, sizeof *self->positions);
    self->keep = allocate((size_t)self->mask.n_stages * batch * (size_t)self->engine.model_info.tokens, 1);
    self->scores = allocate(batch * (size_t)self->texts.n_texts, sizeof *self->scores);
    if (!self->images || !self->positions || !self->keep || !self->scores)
        return EXIT_FAULT;
    const int32_t outputs =
        (options->features ? RVIT_OUTPUT_FEATURES : 0) | (options->text_embeddings ? RVIT_OUTPUT_PROJECTED | RVIT_OUTPUT_NORMALIZED : 0);
    code = engine_session(&self->engine, &self->prune.desc, self->batch, false, outputs, &self->session);
    if (code == EXIT_OK && options->features)
        code = feature_file_open(options->features, options->grid, &self->engine.model_info, &self->features);
    /* The CPU backend has the processors to itself while it computes. */
    if (code == EXIT_OK)
        code = inputs_start(&self->inputs, options->threads, self->engine.device_info.backend != RVIT_BACKEND_CPU, self->batch,
                            options->overlay != NULL);
    return code;
}

static int check_head(const struct options *options, const rvit_checkpoint *checkpoint)
{
    rvit_model_info info = RVIT_MODEL_INFO_INIT;
    const rvit_status status = rvit_checkpoint_get_info(checkpoint, &info);
    if (status != RVIT_OK)
        return complain_status(options->model, status);
    if (info.n_classes > 0 || options->features || options->overlay || options->json || options->ndjson || options->text_embeddings)
        return EXIT_OK;
    complain(options->model, "has no head to classify with: use --features, --overlay, --json or --ndjson");
    return EXIT_USAGE;
}

/* Derives the exit code from that of the batches. A failure that ended the run outweighs one after which it continued. */
static int judge(struct classify *self, int code)
{
    const int closed = feature_file_close(&self->features);
    if (code != EXIT_OK && code != EXIT_PARTLY)
        return code;
    if (closed != EXIT_OK)
        return closed;
    self->report.has_features = self->options->features != NULL;
    if (self->has_infinite)
        complain(NULL, "some logits are not finite");
    if (code == EXIT_OK && self->inputs.n_failures > 0 && self->report.n_images == 0)
        return EXIT_FILE;
    return self->inputs.n_failures > 0 || self->has_infinite ? EXIT_PARTLY : code;
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
                     rvit_session_n_stages(self.session), self.inputs.video ? INT64_MAX : self.inputs.total, self.batch);
        code = run_batches(&self);
        progress_end();
        code = judge(&self, code);
        report_end(&self.report, &self.inputs, code);
    }
    feature_file_close(&self.features); /* only if preparation failed; otherwise judge() closed it */
    mask_free(&self.mask);
    rvit_session_destroy(self.session);
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

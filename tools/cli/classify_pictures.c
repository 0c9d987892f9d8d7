/* Classifies pictures that the device resizes: threads decode into the memory of one session while the other runs. */
#include <stdlib.h>

#include "classify.h"
#include "picture_timings.h"
#include "progress.h"

#define DEFAULT_MAX_TOKENS 16384

/* The most tokens of a batch, and patches of a picture; 0: none. */
static int settle_capacities(const struct classify *self, int32_t *out_tokens, int32_t *out_patches)
{
    const struct options *options = self->options;
    const rvit_model_info *info = &self->engine.model_info;
    *out_tokens = *out_patches = 0;
    if (!options->native)
        return EXIT_OK;
    *out_tokens = options->max_tokens ? options->max_tokens : DEFAULT_MAX_TOKENS;
    *out_patches = options->max_patches ? options->max_patches : info->max_patches;
    if ((int64_t)*out_patches + info->n_prefix <= *out_tokens)
        return EXIT_OK;
    complain(NULL, "pictures of %d patches%s, with %d prefix token%s, are more than the %d of --max-tokens", *out_patches,
             options->max_patches ? "" : ", as the model's files say", info->n_prefix, info->n_prefix == 1 ? "" : "s", *out_tokens);
    return EXIT_USAGE;
}

int classify_pictures_open(struct classify *self)
{
    const struct options *options = self->options;
    int32_t max_tokens, max_patches;
    int code = settle_capacities(self, &max_tokens, &max_patches);
    if (code != EXIT_OK)
        return code;
    picture_plan_make(&self->recipe, &self->engine.model_info, self->batch, max_tokens, max_patches, &self->plan);
    rvit_session_desc desc = RVIT_SESSION_DESC_INIT;
    desc.max_images = self->batch;
    desc.prune = self->prune.desc;
    desc.outputs = classify_outputs(self);
    desc.max_picture_bytes = picture_plan_region(&self->plan);
    desc.recipe = &self->plan.device;
    if (options->native) {
        desc.native = 1;
        desc.max_tokens = max_tokens;
        desc.max_len = max_patches > 0 ? max_patches + self->engine.model_info.n_prefix : max_tokens;
    }
    for (int i = 0; i < CLASSIFY_SESSIONS && code == EXIT_OK; i++)
        code = engine_session_of(&self->engine, &desc, &self->sessions[i]);
    if (code != EXIT_OK)
        return code;
    rvit_memory_info *memory = &self->engine.memory;
    memory->device_size *= CLASSIFY_SESSIONS;
    memory->upload_size *= CLASSIFY_SESSIONS;
    memory->readback_size *= CLASSIFY_SESSIONS;
    memory->host_size *= CLASSIFY_SESSIONS;
    if (options->native)
        self->engine.model_info.tokens = desc.max_len; /* the most that an image may have */
    return picture_queue_create(&self->inputs, &self->plan, self->sessions, CLASSIFY_SESSIONS, options->threads,
                                self->engine.device_info.backend != RVIT_BACKEND_CPU, options->overlay != NULL, &self->queue);
}

void classify_pictures_close(struct classify *self)
{
    picture_queue_destroy(self->queue);
    self->queue = NULL;
}

/* The pictures of a batch that can be used: out [batch->n_images]. Returns their number. */
int32_t classify_pictures_of(const struct picture_batch *batch, rvit_image *out)
{
    int32_t n = 0;
    for (int32_t i = 0; i < batch->n_items; i++)
        if (!batch->items[i].work.is_bad)
            out[n++] = batch->items[i].image;
    return n;
}

/* A run that was enqueued. */
struct running {
    struct picture_batch *batch;
    int32_t n; /* images */
};

static void set_images(struct classify *self, const struct picture_batch *batch)
{
    int32_t n = 0;
    for (int32_t i = 0; i < batch->n_items; i++) {
        const struct picture_item *item = &batch->items[i];
        if (item->work.is_bad)
            continue;
        classify_set_image(self, n, &item->work.input, batch->session);
        if (self->plan.native) {
            self->images[n].lines = item->target.lines;
            self->images[n].columns = item->target.columns;
        }
        n++;
    }
}

static int enqueue(struct classify *self, struct picture_batch *batch, rvit_image *pictures, struct running *out)
{
    rvit_run_args run = RVIT_RUN_ARGS_INIT;
    *out = (struct running){batch, classify_pictures_of(batch, pictures)};
    if (out->n == 0)
        return EXIT_OK;
    run.n_images = out->n;
    run.pictures = pictures;
    set_images(self, batch); /* positions, of which masks are */
    classify_fill_mask(self, out->n, &run);
    const rvit_status status = rvit_session_enqueue(batch->session, &run);
    return status == RVIT_OK ? EXIT_OK : complain_status(NULL, status);
}

static int draw(struct classify *self, const struct picture_batch *batch)
{
    struct image picture = picture_queue_take_first(self->queue);
    const struct picture_item *item = batch->items;
    while (item->work.is_bad)
        item++;
    return classify_overlay(self, batch->session, &picture,
                            picture_geometry(&self->plan, picture.width, picture.height, self->options->tiles > 0, item->target),
                            item->target.lines, item->target.columns);
}

/* Waits for a run and reports it. *out_partly: the overlay could not be written. */
static int finish(struct classify *self, const struct running *running, bool *out_partly)
{
    struct picture_batch *batch = running->batch;
    int code = EXIT_OK;
    for (int32_t i = 0; i < batch->n_items; i++) {
        self->inputs.n_done = batch->items[i].work.input.position + 1;
        if (batch->items[i].work.is_bad && !inputs_note_failure(&self->inputs, &batch->items[i].work))
            return EXIT_FAULT;
    }
    if (running->n > 0) {
        const rvit_status status = rvit_session_wait(batch->session);
        if (status != RVIT_OK)
            return classify_run_failed(status);
        if (self->options->overlay && self->report.n_images == 0)
            code = draw(self, batch);
        if (code == EXIT_FAULT)
            return code;
        *out_partly |= code == EXIT_PARTLY;
        set_images(self, batch);
    }
    /* The answers are the session's until its next run: threads decode into its pictures while they are reported. */
    rvit_session *session = batch->session;
    picture_queue_release(self->queue, batch);
    code = running->n > 0 ? classify_report(self, session, running->n) : EXIT_OK;
    progress_update(self->inputs.n_done);
    return code;
}

static int run_all(struct classify *self, rvit_image *pictures, bool *out_partly)
{
    struct running running = {0}, next;
    double begin = 0;
    for (;;) {
        const enum input_result result = picture_queue_next(self->queue, running.batch == NULL, &next.batch);
        if (result == INPUT_END && running.batch == NULL)
            return EXIT_OK;
        const bool was_idle = running.batch == NULL;
        const double start = now();
        int code = result == INPUT_READY ? enqueue(self, next.batch, pictures, &next) : EXIT_OK;
        if (was_idle)
            begin = start;
        if (!was_idle && code == EXIT_OK)
            code = finish(self, &running, out_partly);
        running = result == INPUT_READY ? next : (struct running){0};
        if (!was_idle) { /* the time in which some run was on its way */
            self->report.seconds += now() - begin;
            begin = now();
        }
        if (code != EXIT_OK)
            return code;
    }
}

int classify_pictures_run(struct classify *self)
{
    rvit_image *pictures = allocate((size_t)self->plan.max_images, sizeof *pictures);
    bool partly = false;
    if (!pictures)
        return EXIT_FAULT;
    progress_begin(self->inputs.total, "images");
    int code = run_all(self, pictures, &partly);
    free(pictures);
    self->report.elapsed = now() - self->report.start;
    if (code == EXIT_OK && self->options->timings)
        code = picture_timings_measure(self);
    return code == EXIT_OK && partly ? EXIT_PARTLY : code;
}

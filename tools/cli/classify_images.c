/* Classifies images that the device resizes. Threads decode into the memory of one session while others run. */
#include <stdlib.h>

#include "classify_batch.h"
#include "core/base/os.h"
#include "progress.h"

#define DEFAULT_MAX_TOKENS 16384

int classify_images_resolve(struct classify *self)
{
    const struct options *options = self->options;
    const rvit_model_info *info = &self->engine.model_info;
    rvit_image_recipe known = RVIT_IMAGE_RECIPE_INIT;
    if (!options->variable_resolution)
        return EXIT_OK;
    const rvit_status status = rvit_model_get_recipe(self->engine.model, &known);
    if (status != RVIT_OK)
        return complain_status(options->model, status);
    self->max_tokens = options->max_tokens ? options->max_tokens : DEFAULT_MAX_TOKENS;
    self->max_patches = options->max_patches ? options->max_patches : known.max_patches;
    if ((int64_t)self->max_patches + info->n_prefix <= self->max_tokens)
        return EXIT_OK;
    return fail_with(EXIT_USAGE, NULL, "an image of %d patches%s and %d prefix token%s exceeds --max-tokens %d", self->max_patches,
                     options->max_patches ? "" : " (from the model's files)", info->n_prefix, info->n_prefix == 1 ? "" : "s",
                     self->max_tokens);
}

void classify_images_desc(struct classify *self, rvit_session_desc *out)
{
    image_plan_make(&self->recipe, &self->engine.model_info, self->batch, self->max_tokens, self->max_patches, &self->plan);
    out->input = RVIT_INPUT_IMAGES;
    out->input_bytes = image_plan_bytes(&self->plan);
    out->recipe = &self->plan.recipe;
    if (self->options->variable_resolution) {
        out->variable_resolution = 1;
        out->max_tokens = self->max_tokens;
        out->max_len = self->max_patches > 0 ? self->max_patches + self->engine.model_info.n_prefix : self->max_tokens;
    }
}

int classify_images_open(struct classify *self, const rvit_session_desc *desc)
{
    const struct options *options = self->options;
    int code = EXIT_OK;
    for (int i = 0; i < CLASSIFY_SESSIONS && code == EXIT_OK; i++)
        code = engine_session_of(&self->engine, desc, &self->sessions[i]);
    if (code != EXIT_OK)
        return code;
    rvit_memory_info *memory = &self->engine.memory;
    memory->device_size *= CLASSIFY_SESSIONS;
    memory->upload_size *= CLASSIFY_SESSIONS;
    memory->readback_size *= CLASSIFY_SESSIONS;
    memory->host_size *= CLASSIFY_SESSIONS;
    if (options->variable_resolution)
        self->engine.model_info.tokens = desc->max_len; /* maximum per image */
    return image_queue_create(&self->inputs, &self->plan, self->sessions, CLASSIFY_SESSIONS, options->threads,
                              self->engine.device_info.backend != RVIT_BACKEND_CPU, options->overlay != NULL, &self->queue);
}

/* An enqueued run. */
struct running {
    struct image_batch *batch;
    int32_t n; /* images */
};

/* The runs in flight, in order. One thread enqueues each batch as soon as it is ready, so that the device never idles; the caller waits for
   the runs and reports them. */
struct flight {
    struct classify *classify;
    rvit_image *images; /* [max_images], used by the enqueuing thread */
    bool is_eager;      /* waits for the next batch while others run */
    rvit_mutex lock;    /* protects the fields below */
    rvit_condition changed;
    struct running runs[CLASSIFY_SESSIONS];
    int64_t n_enqueued, n_landed;
    const rvit_session *reported; /* its results are being read, so it must not run; or NULL */
    bool ended;                   /* no more runs are enqueued */
    int code;                     /* the reason */
    double since;                 /* start of the first run in flight, or end of the one before it */
};

static void set_images(struct classify *self, const struct image_batch *batch)
{
    int32_t n = 0;
    for (int32_t i = 0; i < batch->n_items; i++) {
        const struct image_item *item = &batch->items[i];
        if (item->work.is_bad)
            continue;
        classify_set_image(self, n, &item->work.input, batch->session);
        if (self->plan.variable_resolution) {
            self->images[n].lines = item->target.lines;
            self->images[n].columns = item->target.columns;
        }
        n++;
    }
}

static int enqueue(struct flight *flight, struct image_batch *batch, struct running *out)
{
    struct classify *self = flight->classify;
    rvit_run_args run = RVIT_RUN_ARGS_INIT;
    *out = (struct running){batch, image_batch_images(batch, flight->images)};
    if (out->n == 0)
        return EXIT_OK;
    run.n_images = out->n;
    run.input.kind = RVIT_INPUT_IMAGES;
    run.input.data = flight->images;
    int32_t n = 0;
    for (int32_t i = 0; i < batch->n_items; i++)
        if (!batch->items[i].work.is_bad)
            self->positions[n++] = batch->items[i].work.input.position;
    classify_fill_mask(self, out->n, &run);
    const rvit_status status = rvit_session_enqueue(batch->session, &run);
    return status == RVIT_OK ? EXIT_OK : complain_status(NULL, status);
}

/* The enqueuing thread. */
static void *enqueue_all(void *argument)
{
    struct flight *flight = argument;
    for (bool goes_on = true; goes_on;) {
        struct running next = {0};
        int code = EXIT_OK;
        rvit_mutex_lock(&flight->lock);
        const int64_t n_landed = flight->n_landed;
        const bool is_idle = flight->n_enqueued == n_landed;
        rvit_mutex_unlock(&flight->lock);
        const enum input_result result = image_queue_next(flight->classify->queue, flight->is_eager || is_idle, &next.batch);
        rvit_mutex_lock(&flight->lock);
        while (result == INPUT_READY && flight->reported == next.batch->session)
            rvit_condition_wait(&flight->changed, &flight->lock);
        rvit_mutex_unlock(&flight->lock);
        const double begin = now();
        if (result == INPUT_READY)
            code = enqueue(flight, next.batch, &next);
        rvit_mutex_lock(&flight->lock);
        while (result == INPUT_LATER && !flight->ended && flight->n_landed == n_landed)
            rvit_condition_wait(&flight->changed, &flight->lock);
        if (result == INPUT_READY && code == EXIT_OK) {
            if (flight->n_enqueued == flight->n_landed)
                flight->since = begin;
            flight->runs[flight->n_enqueued++ % CLASSIFY_SESSIONS] = next;
        }
        flight->code = code;
        flight->ended |= result == INPUT_END || code != EXIT_OK;
        goes_on = !flight->ended;
        rvit_condition_signal(&flight->changed);
        rvit_mutex_unlock(&flight->lock);
    }
    return NULL;
}

/* Gets the next run to wait for. Returns false if there are no more. */
static bool next_run(struct flight *flight, struct running *out)
{
    rvit_mutex_lock(&flight->lock);
    while (flight->n_landed == flight->n_enqueued && !flight->ended)
        rvit_condition_wait(&flight->changed, &flight->lock);
    const bool any = flight->n_landed < flight->n_enqueued;
    if (any)
        *out = flight->runs[flight->n_landed % CLASSIFY_SESSIONS];
    rvit_mutex_unlock(&flight->lock);
    return any;
}

/* Records that the run of a session has ended. */
static void finish_run(struct flight *flight, const rvit_session *session)
{
    rvit_mutex_lock(&flight->lock);
    const double time = now();
    flight->classify->report.seconds += time - flight->since; /* time with a run in flight */
    flight->since = time;
    flight->n_landed++;
    flight->reported = session;
    rvit_condition_signal(&flight->changed);
    rvit_mutex_unlock(&flight->lock);
}

static void end_report(struct flight *flight)
{
    rvit_mutex_lock(&flight->lock);
    flight->reported = NULL;
    rvit_condition_signal(&flight->changed);
    rvit_mutex_unlock(&flight->lock);
}

static int draw(struct classify *self, const struct image_batch *batch)
{
    struct image image = image_queue_take_first(self->queue);
    const struct image_item *item = batch->items;
    while (item->work.is_bad)
        item++;
    const bool has_target = self->options->variable_resolution || self->options->tiles > 0;
    return classify_overlay(self, batch->session, &image, has_target ? image_target_width(&self->plan, item->target) : 0,
                            has_target ? image_target_height(&self->plan, item->target) : 0);
}

/* Reports a run whose wait returned `status`. Sets *out_partly if the overlay could not be written. */
static int report(struct classify *self, const struct running *running, rvit_status status, bool *out_partly)
{
    struct image_batch *batch = running->batch;
    for (int32_t i = 0; i < batch->n_items; i++) {
        self->inputs.n_done = batch->items[i].work.input.position + 1;
        const struct input_work *work = &batch->items[i].work;
        if (work->is_bad && !inputs_note_failure(&self->inputs, &work->input, work->error.text))
            return EXIT_FAULT;
    }
    int code = classify_waited(status);
    if (code != EXIT_OK)
        return code;
    if (running->n > 0 && self->options->overlay && !self->has_drawn) {
        self->has_drawn = true;
        code = draw(self, batch);
    }
    if (code == EXIT_FAULT)
        return code;
    *out_partly |= code == EXIT_PARTLY;
    set_images(self, batch);
    /* The next images may be decoded into the session's memory while its results are read. */
    rvit_session *session = batch->session;
    image_queue_release(self->queue, batch);
    code = running->n > 0 ? classify_report(self, session, running->n) : EXIT_OK;
    progress_update(self->inputs.n_done);
    return code;
}

static int run_all(struct flight *flight, bool *out_partly)
{
    rvit_thread thread;
    struct running running;
    int code = EXIT_OK;
    if (rvit_thread_start(&thread, enqueue_all, flight) != 0)
        return fail_with(EXIT_FAULT, NULL, "cannot start a thread");
    while (code == EXIT_OK && next_run(flight, &running)) {
        rvit_session *session = running.batch->session;
        const rvit_status status = running.n > 0 ? rvit_session_wait(session) : RVIT_OK;
        finish_run(flight, session);
        code = report(flight->classify, &running, status, out_partly);
        end_report(flight);
    }
    rvit_mutex_lock(&flight->lock);
    flight->ended = true;
    rvit_condition_signal(&flight->changed);
    rvit_mutex_unlock(&flight->lock);
    image_queue_stop(flight->classify->queue);
    rvit_thread_join(thread);
    return code != EXIT_OK ? code : flight->code;
}

int classify_images_run(struct classify *self)
{
    /* A batch of video has the frames that have arrived, and host threads pause while the CPU backend computes. */
    const bool is_eager = !self->inputs.video && self->engine.device_info.backend != RVIT_BACKEND_CPU;
    struct flight flight = {.classify = self, .is_eager = is_eager};
    bool partly = false;
    flight.images = allocate((size_t)self->plan.max_images, sizeof *flight.images);
    if (!flight.images)
        return EXIT_FAULT;
    rvit_mutex_init(&flight.lock);
    rvit_condition_init(&flight.changed);
    progress_begin(self->inputs.total, "images");
    int code = run_all(&flight, &partly);
    rvit_condition_destroy(&flight.changed);
    rvit_mutex_destroy(&flight.lock);
    free(flight.images);
    self->report.elapsed = now() - self->report.start;
    if (code == EXIT_OK && self->options->timings)
        code = image_timings_measure(self);
    return code == EXIT_OK && partly ? EXIT_PARTLY : code;
}

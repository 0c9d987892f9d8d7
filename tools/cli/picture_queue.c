#include "picture_queue.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "image_file.h"
#include "input_crew.h"

enum { MOST_BATCHES = 4, EXTRA_ITEMS = 64, ALIGNMENT = 64, REDUCED_LEAST = 3 };

/* Numbers count the pictures. A thread takes the next one, finds out its size and asks for a place; then it decodes. Places are given in
   the order of the numbers, by whoever comes with what was missing: the thread whose turn it is, for the threads behind it too, or the
   caller with a free batch. So a thread is woken when it has its place, and for nothing else. */
struct picture_queue {
    const struct picture_plan *plan;
    int32_t items_each;
    struct input_crew crew;      /* its lock is of what follows, too */
    struct picture_job **asking; /* [n_jobs]: of picture i at i % n_jobs; NULL: it has not asked yet */
    int32_t n_jobs;              /* threads, each with one picture */
    struct picture_batch batches[MOST_BATCHES];
    int32_t n_batches;
    int64_t n_opened, n_given; /* batches that were opened, and given to the caller */
    bool is_free[MOST_BATCHES];
    int64_t turn;
};

/* What a thread works on. */
struct picture_job {
    struct picture_queue *queue;
    struct nvjpeg_decoder *decoder; /* the thread's, of inputs->nvjpeg; else NULL */
    struct input_taken taken;
    pthread_cond_t *placed;    /* the thread's */
    const rvit_image *image;   /* what it asks a place for; NULL: for a picture that is bad */
    int64_t weights;           /* of its resize, in bytes */
    struct picture_item *item; /* its place; NULL: it has none yet */
    struct picture_batch *batch;
    struct picture_target target;
    struct image own; /* a picture that is prepared here */
};

static struct picture_batch *open_batch(struct picture_queue *self)
{
    return self->n_opened == 0 ? NULL : &self->batches[(self->n_opened - 1) % self->n_batches];
}

static int64_t aligned(int64_t at)
{
    return (at + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
}

/* What is bad takes an item alone. */
static bool fits(const struct picture_queue *self, const struct picture_batch *batch, const struct picture_job *job)
{
    const struct picture_plan *plan = self->plan;
    if (batch->is_closed || batch->n_items == self->items_each)
        return false;
    return !job->image || (batch->n_images < plan->max_images && batch->tokens <= plan->max_tokens - job->target.tokens &&
                           aligned(batch->used) + picture_size(job->image) + ALIGNMENT + batch->weights + job->weights <= plan->memory);
}

/* The batch that is next for the caller, if all of it is there. */
static struct picture_batch *ready_batch(struct picture_queue *self, bool waits)
{
    if (self->n_given == self->n_opened)
        return NULL;
    struct picture_batch *batch = &self->batches[self->n_given % self->n_batches];
    const bool is_last = self->n_given + 1 == self->n_opened;
    const bool no_more = self->crew.ended && self->turn == self->crew.n_taken;
    const bool is_live = self->crew.inputs->video && waits && self->turn == self->crew.n_taken;
    if (batch->n_pending > 0 || batch->n_items == 0)
        return NULL;
    return batch->is_closed || (is_last && (no_more || is_live)) ? batch : NULL;
}

static bool is_over(const struct picture_queue *self)
{
    return self->crew.stops || (self->crew.ended && self->turn == self->crew.n_taken && self->n_given == self->n_opened);
}

/* Wakes the caller, if there is what it waits for. */
static void tell_caller(struct picture_queue *self)
{
    if (self->crew.waited_for && (is_over(self) || ready_batch(self, true)))
        pthread_cond_signal(&self->crew.done);
}

/* A batch that has room; NULL: none is free. */
static struct picture_batch *batch_for(struct picture_queue *self, const struct picture_job *job)
{
    struct picture_batch *batch = open_batch(self);
    if (batch && fits(self, batch, job))
        return batch;
    if (batch)
        batch->is_closed = true;
    const int32_t next = (int32_t)(self->n_opened % self->n_batches);
    if (!self->is_free[next])
        return NULL;
    self->is_free[next] = self->batches[next].is_closed = false;
    self->n_opened++;
    return &self->batches[next];
}

static void put(struct picture_job *job, struct picture_batch *batch)
{
    struct picture_item *item = &batch->items[batch->n_items++];
    *item = (struct picture_item){.target = job->target};
    batch->n_pending++;
    if (job->image) {
        const int64_t at = aligned(batch->used);
        item->image = *job->image;
        item->image.data = batch->memory + at;
        batch->used = at + picture_size(job->image);
        batch->weights += job->weights;
        batch->tokens += job->target.tokens;
        batch->n_images++;
    }
    /* Nothing more goes in: it need not wait for the picture behind it to be told so. */
    batch->is_closed |= batch->n_images == job->queue->plan->max_images;
    job->batch = batch;
    job->item = item;
}

/* Gives places to those whose turn it is, as far as there is room. */
static void place_all(struct picture_queue *self)
{
    for (struct picture_job *job; !self->crew.stops && (job = self->asking[self->turn % self->n_jobs]);) {
        struct picture_batch *batch = batch_for(self, job);
        if (!batch)
            break;
        put(job, batch);
        self->asking[self->turn++ % self->n_jobs] = NULL;
        pthread_cond_signal(job->placed);
    }
    tell_caller(self);
}

/* Waits for a place. image: NULL for a picture that is bad. Returns NULL if the queue stops. */
static struct picture_item *place(struct picture_job *job, const rvit_image *image, int64_t weights)
{
    struct picture_queue *self = job->queue;
    job->image = image;
    job->weights = weights;
    pthread_mutex_lock(&self->crew.lock);
    self->asking[job->taken.number % self->n_jobs] = job;
    place_all(self);
    while (!self->crew.stops && !job->item)
        pthread_cond_wait(job->placed, &self->crew.lock);
    if (!job->item)
        self->asking[job->taken.number % self->n_jobs] = NULL;
    pthread_mutex_unlock(&self->crew.lock);
    return job->item;
}

/* A place for a picture that the device resizes; NULL, without an error: it does not do this one. */
static uint8_t *place_picture(struct picture_job *job, int32_t width, int32_t height, rvit_image_format format, struct image_error *error)
{
    const struct picture_plan *plan = job->queue->plan;
    const rvit_image image = picture_for_run(plan, width, height, format, job->target);
    const int64_t weights = plan->on_host ? -1 : picture_weights(plan, &image);
    error->text[0] = 0;
    if (weights < 0 || picture_size(&image) + weights > plan->memory / 2)
        return NULL;
    if (!place(job, &image, weights)) {
        image_fail(error, "stopped");
        return NULL;
    }
    job->item->width = width;
    job->item->height = height;
    return (uint8_t *)(uintptr_t)job->item->image.data;
}

/* image_taker: in the batch, or in memory of the thread's own. */
static uint8_t *take(void *user, int32_t width, int32_t height, struct image_error *error)
{
    struct picture_job *job = user;
    if (!picture_target_of(job->queue->plan, width, height, &job->target, error))
        return NULL;
    uint8_t *pixels = place_picture(job, width, height, RVIT_IMAGE_RGB8, error);
    if (pixels || error->text[0])
        return pixels;
    return image_create(width, height, &job->own, error) ? job->own.pixels : NULL;
}

/* Resizes and normalises in this thread, into a place of the planes' size. */
static bool prepare_here(struct picture_job *job, struct image_view view, bool whole)
{
    const struct picture_plan *plan = job->queue->plan;
    const int32_t width = plan->native ? job->target.columns * plan->patch_size : plan->recipe->width;
    const int32_t height = plan->native ? job->target.lines * plan->patch_size : plan->recipe->height;
    const rvit_image image = picture_for_run(plan, width, height, RVIT_IMAGE_PLANAR_F32, job->target);
    if (!place(job, &image, 0))
        return image_fail(&job->taken.work.error, "stopped");
    job->item->width = view.width;
    job->item->height = view.height;
    return picture_prepare(plan, view, whole, job->target, (float *)(uintptr_t)job->item->image.data, &job->taken.work.error);
}

/* A copy of a decoded JPEG's half, quarter or eighth, if it is resized as the whole one would be. */
static bool load_reduced(struct picture_job *job)
{
    const struct picture_plan *plan = job->queue->plan;
    struct image_error *error = &job->taken.work.error;
    int32_t width, height;
    struct image picture;
    if (!image_load_size(job->taken.work.input.path, &width, &height, error) ||
        !picture_target_of(plan, width, height, &job->target, error))
        return false;
    const struct preprocess_geometry whole = picture_geometry(plan, width, height, false, job->target);
    const int64_t least_width = REDUCED_LEAST * whole.width, least_height = REDUCED_LEAST * whole.height;
    const struct image_taker taker = {take, job};
    if (least_width > width || least_height > height)
        return image_load_to(job->taken.work.input.path, &taker, error);
    if (!image_load_reduced(job->taken.work.input.path, (int32_t)least_width, (int32_t)least_height, &picture, error))
        return false;
    const struct preprocess_geometry plan_now = picture_geometry(plan, picture.width, picture.height, false, job->target);
    uint8_t *pixels = NULL;
    if (memcmp(&plan_now, &whole, sizeof whole) == 0)
        pixels = place_picture(job, picture.width, picture.height, RVIT_IMAGE_RGB8, error);
    if (pixels)
        memcpy(pixels, picture.pixels, (size_t)picture_size(&job->item->image));
    else if (!error->text[0])
        job->own = picture;
    if (pixels || error->text[0])
        image_free(&picture);
    return pixels || !error->text[0];
}

/* Frames travel as they came, where the device reads them. */
static bool load_frame(struct picture_job *job)
{
    static const int formats[] = {
        [VIDEO_NV12] = RVIT_IMAGE_NV12, [VIDEO_RGB24] = RVIT_IMAGE_RGB8, [VIDEO_BGR24] = RVIT_IMAGE_BGR8, [VIDEO_GRAY] = RVIT_IMAGE_GRAY8};
    const struct video *video = job->queue->crew.inputs->video;
    const struct image_taker taker = {take, job};
    struct image_error *error = &job->taken.work.error;
    uint8_t *pixels = NULL;
    if (!picture_target_of(job->queue->plan, video->width, video->height, &job->target, error))
        return false;
    if (video->format != VIDEO_YUV420P) {
        pixels = place_picture(job, video->width, video->height, (rvit_image_format)formats[video->format], error);
        if (!pixels && error->text[0])
            return false;
    }
    if (pixels) {
        memcpy(pixels, job->taken.work.frame, video_frame_size(video));
        job->item->image.matrix = video->matrix == VIDEO_BT709 ? RVIT_IMAGE_BT709 : RVIT_IMAGE_BT601;
        job->item->image.full_range = video->format == VIDEO_NV12 && video->range == VIDEO_FULL;
        return true;
    }
    pixels = taker.take(taker.user, video->width, video->height, error);
    if (!pixels)
        return false;
    const struct image out = {video->width, video->height, pixels};
    video_to_rgb(video, job->taken.work.frame, &out);
    return true;
}

static bool load(struct picture_job *job, struct image *out_first)
{
    const struct inputs *inputs = job->queue->crew.inputs;
    const struct image_taker taker = {take, job};
    struct image_error *error = &job->taken.work.error;
    if (job->taken.work.is_bad)
        return false;
    if (job->taken.work.sheet) {
        const struct image_view view = input_work_tile(inputs, &job->taken.work);
        return picture_target_of(job->queue->plan, view.width, view.height, &job->target, error) && prepare_here(job, view, true) &&
               (!out_first || image_copy(view, out_first, error));
    }
    const bool ok = job->taken.work.frame ? load_frame(job)
                    : inputs->reduces     ? load_reduced(job)
                    : inputs->nvjpeg      ? nvjpeg_load_to(inputs->nvjpeg, job->decoder, job->taken.work.input.path, &taker, error)
                                          : image_load_to(job->taken.work.input.path, &taker, error);
    if (!ok)
        return false;
    if (job->own.pixels && !prepare_here(job, image_whole(&job->own), false))
        return false;
    if (!out_first)
        return true;
    if (job->own.pixels)
        return image_copy(image_whole(&job->own), out_first, error);
    if (job->taken.work.frame) {
        if (!image_create(inputs->video->width, inputs->video->height, out_first, error))
            return false;
        video_to_rgb(inputs->video, job->taken.work.frame, out_first);
        return true;
    }
    const int64_t stride = 3 * (int64_t)job->item->width;
    return image_copy((struct image_view){job->item->image.data, stride, job->item->width, job->item->height}, out_first, error);
}

static void finish_work(struct picture_queue *self, struct picture_job *job, struct image *picture)
{
    pthread_mutex_lock(&self->crew.lock);
    if (job->item) {
        job->item->work = job->taken.work;
        job->batch->n_pending--;
    }
    input_crew_offer(&self->crew, &job->taken, picture);
    tell_caller(self);
    pthread_mutex_unlock(&self->crew.lock);
    image_free(picture);
}

static void *work(void *argument)
{
    struct picture_queue *self = argument;
    struct nvjpeg *nvjpeg = self->crew.inputs->nvjpeg;
    struct nvjpeg_decoder *decoder = nvjpeg ? nvjpeg_decoder_create(nvjpeg) : NULL;
    pthread_cond_t placed;
    pthread_cond_init(&placed, NULL);
    for (;;) {
        struct picture_job job = {.queue = self, .decoder = decoder, .placed = &placed};
        struct image picture = {0};
        if (!input_crew_take(&self->crew, decoder, &job.taken))
            break;
        if (!load(&job, job.taken.keeps ? &picture : NULL))
            job.taken.work.is_bad = true;
        if (!job.item)
            (void)place(&job, NULL, 0);
        input_work_free(&job.taken.work);
        image_free(&job.own);
        finish_work(self, &job, &picture);
    }
    pthread_cond_destroy(&placed);
    nvjpeg_decoder_destroy(decoder);
    return NULL;
}

int picture_queue_create(const struct inputs *inputs, const struct picture_plan *plan, rvit_session *const *sessions, int32_t n_sessions,
                         int32_t n_threads, bool overlaps, bool keeps_first, struct picture_queue **out)
{
    struct picture_queue *self = allocate(1, sizeof *self);
    *out = self;
    if (!self)
        return EXIT_FAULT;
    int code = input_crew_open(&self->crew, inputs, overlaps, keeps_first);
    self->plan = plan;
    self->items_each = plan->max_images + EXTRA_ITEMS;
    self->n_batches = n_sessions < MOST_BATCHES ? n_sessions : MOST_BATCHES;
    self->n_jobs = input_crew_size(inputs, n_threads);
    self->asking = allocate((size_t)self->n_jobs, sizeof(struct picture_job *));
    if (!self->asking)
        code = EXIT_FAULT;
    for (int32_t i = 0; code == EXIT_OK && i < self->n_batches; i++) {
        struct picture_batch *batch = &self->batches[i];
        batch->session = sessions[i];
        batch->memory = rvit_session_picture_memory(sessions[i], NULL);
        batch->items = allocate((size_t)self->items_each, sizeof *batch->items);
        self->is_free[i] = true;
        if (!batch->items)
            code = EXIT_FAULT;
    }
    if (code == EXIT_OK)
        code = input_crew_start(&self->crew, self->n_jobs, work, self);
    if (code != EXIT_OK) {
        picture_queue_destroy(self);
        *out = NULL;
    }
    return code;
}

/* Those that wait for a place. */
static void wake_all(void *user)
{
    struct picture_queue *self = user;
    for (int32_t i = 0; self->asking && i < self->n_jobs; i++)
        if (self->asking[i])
            pthread_cond_signal(self->asking[i]->placed);
}

void picture_queue_destroy(struct picture_queue *self)
{
    if (!self)
        return;
    input_crew_stop(&self->crew, wake_all, self);
    input_crew_close(&self->crew);
    for (int32_t i = 0; i < self->n_batches; i++)
        free(self->batches[i].items);
    free(self->asking);
    free(self);
}

enum input_result picture_queue_next(struct picture_queue *self, bool waits, struct picture_batch **out)
{
    pthread_mutex_lock(&self->crew.lock);
    self->crew.waited_for = waits;
    if (waits && !self->crew.overlaps)
        pthread_cond_broadcast(&self->crew.may_work);
    while (!(*out = self->crew.stops ? NULL : ready_batch(self, waits)) && !is_over(self) && waits)
        pthread_cond_wait(&self->crew.done, &self->crew.lock);
    const enum input_result result = *out ? INPUT_READY : is_over(self) ? INPUT_END : INPUT_LATER;
    self->crew.waited_for = false;
    if (*out) {
        (*out)->is_closed = true;
        self->n_given++;
    }
    pthread_mutex_unlock(&self->crew.lock);
    return result;
}

void picture_queue_stop(struct picture_queue *self)
{
    pthread_mutex_lock(&self->crew.lock);
    self->crew.stops = true;
    pthread_cond_signal(&self->crew.done);
    pthread_mutex_unlock(&self->crew.lock);
}

void picture_queue_release(struct picture_queue *self, struct picture_batch *batch)
{
    pthread_mutex_lock(&self->crew.lock);
    /* Closed until it is opened again: it may still be the last that was. */
    *batch = (struct picture_batch){.session = batch->session, .memory = batch->memory, .items = batch->items, .is_closed = true};
    self->is_free[batch - self->batches] = true;
    place_all(self);
    pthread_mutex_unlock(&self->crew.lock);
}

struct image picture_queue_take_first(struct picture_queue *self)
{
    return input_crew_take_first(&self->crew);
}

int32_t picture_batch_images(const struct picture_batch *batch, rvit_image *out)
{
    int32_t n = 0;
    for (int32_t i = 0; i < batch->n_items; i++)
        if (!batch->items[i].work.is_bad)
            out[n++] = batch->items[i].image;
    return n;
}

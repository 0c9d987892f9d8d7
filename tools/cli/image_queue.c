#include "image_queue.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "image_file.h"
#include "input_workers.h"

enum { MAX_BATCHES = 4, EXTRA_ITEMS = 64, ALIGNMENT = 64 };

/* Images are numbered. A thread takes the next one, reads its size, requests memory in a batch, and then decodes. Memory is assigned in the
   order of the numbers, by the thread whose turn it is (also for later threads) or by the caller that frees a batch. So a thread wakes up
   only when it has its memory. */
struct image_queue {
    const struct image_plan *plan;
    int32_t items_each;
    struct input_workers workers; /* its lock also protects the fields below */
    struct image_job **requests;  /* [n_jobs]: the request for image i is at i % n_jobs; NULL: none yet */
    int32_t n_jobs;               /* number of threads, each with one image */
    struct image_batch batches[MAX_BATCHES];
    int32_t n_batches;
    int64_t n_opened, n_given; /* batches opened, and batches returned to the caller */
    bool is_free[MAX_BATCHES];
    int64_t turn;
};

/* The image that a thread works on. */
struct image_job {
    struct image_queue *queue;
    struct nvjpeg_decoder *decoder; /* the thread's decoder of inputs->nvjpeg, or NULL */
    struct input_taken taken;
    rvit_condition *assigned; /* signalled when memory is assigned */
    const rvit_image *image;  /* the image that needs memory; NULL for a bad image */
    int64_t weights;          /* size of its resize weights in bytes */
    struct image_item *item;  /* its item in the batch; NULL: not assigned yet */
    struct image_batch *batch;
    struct image_target target;
    int32_t original_width, original_height; /* of a JPEG that was decoded at a smaller scale; 0: it was not */
    struct image own;                        /* an image that is prepared on the host */
};

static struct image_batch *open_batch(struct image_queue *self)
{
    return self->n_opened == 0 ? NULL : &self->batches[(self->n_opened - 1) % self->n_batches];
}

static int64_t aligned(int64_t at)
{
    return (at + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
}

/* A bad image needs only an item. */
static bool fits(const struct image_queue *self, const struct image_batch *batch, const struct image_job *job)
{
    const struct image_plan *plan = self->plan;
    if (batch->is_closed || batch->n_items == self->items_each)
        return false;
    return !job->image || (batch->n_images < plan->max_images && batch->tokens <= plan->max_tokens - job->target.tokens &&
                           aligned(batch->used) + image_bytes(job->image) + ALIGNMENT + batch->weights + job->weights <= plan->memory);
}

/* The next batch for the caller, if it is complete. */
static struct image_batch *ready_batch(struct image_queue *self, bool waits)
{
    if (self->n_given == self->n_opened)
        return NULL;
    struct image_batch *batch = &self->batches[self->n_given % self->n_batches];
    const bool is_last = self->n_given + 1 == self->n_opened;
    const bool no_more = self->workers.ended && self->turn == self->workers.n_taken;
    const bool is_live = self->workers.inputs->video && waits && self->turn == self->workers.n_taken;
    if (batch->n_pending > 0 || batch->n_items == 0)
        return NULL;
    return batch->is_closed || (is_last && (no_more || is_live)) ? batch : NULL;
}

static bool is_over(const struct image_queue *self)
{
    return self->workers.stops || (self->workers.ended && self->turn == self->workers.n_taken && self->n_given == self->n_opened);
}

/* Wakes the caller if a batch is ready or there are no more. */
static void wake_caller(struct image_queue *self)
{
    if (self->workers.waited_for && (is_over(self) || ready_batch(self, true)))
        rvit_condition_signal(&self->workers.done);
}

/* A batch with room for the job; NULL: none is free. */
static struct image_batch *batch_for(struct image_queue *self, const struct image_job *job)
{
    struct image_batch *batch = open_batch(self);
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

static void assign(struct image_job *job, struct image_batch *batch)
{
    struct image_item *item = &batch->items[batch->n_items++];
    *item = (struct image_item){.target = job->target};
    batch->n_pending++;
    if (job->image) {
        const int64_t at = aligned(batch->used);
        item->image = *job->image;
        item->image.data = batch->memory + at;
        batch->used = at + image_bytes(job->image);
        batch->weights += job->weights;
        batch->tokens += job->target.tokens;
        batch->n_images++;
    }
    /* A full batch closes now, without waiting for the next image. */
    batch->is_closed |= batch->n_images == job->queue->plan->max_images;
    job->batch = batch;
    job->item = item;
}

/* Assigns memory to the requests in order while there is room. */
static void assign_all(struct image_queue *self)
{
    for (struct image_job *job; !self->workers.stops && (job = self->requests[self->turn % self->n_jobs]);) {
        struct image_batch *batch = batch_for(self, job);
        if (!batch)
            break;
        assign(job, batch);
        self->requests[self->turn++ % self->n_jobs] = NULL;
        rvit_condition_signal(job->assigned);
    }
    wake_caller(self);
}

/* Waits for memory in a batch. image: NULL for a bad image. Returns NULL if the queue stops. */
static struct image_item *reserve(struct image_job *job, const rvit_image *image, int64_t weights)
{
    struct image_queue *self = job->queue;
    job->image = image;
    job->weights = weights;
    rvit_mutex_lock(&self->workers.lock);
    self->requests[job->taken.number % self->n_jobs] = job;
    assign_all(self);
    while (!self->workers.stops && !job->item)
        rvit_condition_wait(job->assigned, &self->workers.lock);
    if (!job->item)
        self->requests[job->taken.number % self->n_jobs] = NULL;
    rvit_mutex_unlock(&self->workers.lock);
    return job->item;
}

/* Memory for an image that the device resizes. NULL without an error: the device does not support this one. */
static uint8_t *reserve_image(struct image_job *job, int32_t width, int32_t height, rvit_image_format format, struct image_error *error)
{
    const struct image_plan *plan = job->queue->plan;
    rvit_image image = image_for_run(plan, width, height, format, job->target);
    image.original_width = job->original_width;
    image.original_height = job->original_height;
    const int64_t weights = plan->on_host ? -1 : image_weight_bytes(plan, &image);
    error->text[0] = 0;
    if (weights < 0 || image_bytes(&image) + weights > plan->memory / 2)
        return NULL;
    if (!reserve(job, &image, weights)) {
        image_fail(error, "stopped");
        return NULL;
    }
    job->item->width = width;
    job->item->height = height;
    return (uint8_t *)(uintptr_t)job->item->image.data;
}

/* image_taker: memory in the batch, or allocated memory. */
static uint8_t *take(void *user, int32_t width, int32_t height, struct image_error *error)
{
    struct image_job *job = user;
    if (!image_target_of(job->queue->plan, width, height, &job->target, error))
        return NULL;
    uint8_t *pixels = reserve_image(job, width, height, RVIT_IMAGE_RGB8, error);
    if (pixels || error->text[0])
        return pixels;
    return image_create(width, height, &job->own, error) ? job->own.pixels : NULL;
}

/* Resizes and normalises in this thread, into memory for planes. */
static bool prepare_here(struct image_job *job, struct image_view view, bool whole)
{
    const struct image_plan *plan = job->queue->plan;
    rvit_image source = image_source(plan, view, whole, job->target);
    source.original_width = job->original_width;
    source.original_height = job->original_height;
    const rvit_image image = image_for_run(plan, image_target_width(plan, job->target), image_target_height(plan, job->target),
                                           RVIT_IMAGE_PLANAR_F32, job->target);
    if (!reserve(job, &image, 0))
        return image_fail(&job->taken.work.error, "stopped");
    job->item->width = view.width;
    job->item->height = view.height;
    return preprocess_image(&plan->recipe, &source, (float *)(uintptr_t)job->item->image.data, NULL, &job->taken.work.error);
}

/* Loads a JPEG at 1/2, 1/4 or 1/8 scale if it is far larger than its resized size. */
static bool load_reduced(struct image_job *job)
{
    const struct image_plan *plan = job->queue->plan;
    const char *path = job->taken.work.input.path;
    struct image_error *error = &job->taken.work.error;
    rvit_image original = RVIT_IMAGE_INIT;
    struct image image;
    if (!image_load_size(path, &original.width, &original.height, error) ||
        !image_target_of(plan, original.width, original.height, &job->target, error))
        return false;
    if (plan->variable_resolution) {
        original.target_width = image_target_width(plan, job->target);
        original.target_height = image_target_height(plan, job->target);
    }
    if (!input_load_reduced(path, &plan->recipe, &original, &image, error))
        return false;
    job->original_width = original.width;
    job->original_height = original.height;
    uint8_t *pixels = reserve_image(job, image.width, image.height, RVIT_IMAGE_RGB8, error);
    if (pixels)
        memcpy(pixels, image.pixels, (size_t)image_bytes(&job->item->image));
    else if (!error->text[0])
        job->own = image;
    if (pixels || error->text[0])
        image_free(&image);
    return pixels || !error->text[0];
}

/* Passes frames on in their format if the device supports it. */
static bool load_frame(struct image_job *job)
{
    static const int formats[] = {
        [VIDEO_NV12] = RVIT_IMAGE_NV12, [VIDEO_RGB24] = RVIT_IMAGE_RGB8, [VIDEO_BGR24] = RVIT_IMAGE_BGR8, [VIDEO_GRAY] = RVIT_IMAGE_GRAY8};
    const struct video *video = job->queue->workers.inputs->video;
    const struct image_taker taker = {take, job};
    struct image_error *error = &job->taken.work.error;
    uint8_t *pixels = NULL;
    if (!image_target_of(job->queue->plan, video->width, video->height, &job->target, error))
        return false;
    if (video->format != VIDEO_YUV420P) {
        pixels = reserve_image(job, video->width, video->height, (rvit_image_format)formats[video->format], error);
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

static bool load(struct image_job *job, struct image *out_first)
{
    const struct inputs *inputs = job->queue->workers.inputs;
    const struct image_taker taker = {take, job};
    struct image_error *error = &job->taken.work.error;
    if (job->taken.work.is_bad)
        return false;
    if (job->taken.work.sheet) {
        const struct image_view view = input_work_tile(inputs, &job->taken.work);
        return image_target_of(job->queue->plan, view.width, view.height, &job->target, error) && prepare_here(job, view, true) &&
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

static void finish_work(struct image_queue *self, struct image_job *job, struct image *image)
{
    rvit_mutex_lock(&self->workers.lock);
    if (job->item) {
        job->item->work = job->taken.work;
        job->batch->n_pending--;
    }
    input_workers_offer(&self->workers, &job->taken, image);
    wake_caller(self);
    rvit_mutex_unlock(&self->workers.lock);
    image_free(image);
}

static void *work(void *argument)
{
    struct image_queue *self = argument;
    struct nvjpeg *nvjpeg = self->workers.inputs->nvjpeg;
    struct nvjpeg_decoder *decoder = nvjpeg ? nvjpeg_decoder_create(nvjpeg) : NULL;
    rvit_condition assigned;
    rvit_condition_init(&assigned);
    for (;;) {
        struct image_job job = {.queue = self, .decoder = decoder, .assigned = &assigned};
        struct image image = {0};
        if (!input_workers_take(&self->workers, decoder, &job.taken))
            break;
        if (!load(&job, job.taken.keeps ? &image : NULL))
            job.taken.work.is_bad = true;
        if (!job.item)
            (void)reserve(&job, NULL, 0);
        input_work_free(&job.taken.work);
        image_free(&job.own);
        finish_work(self, &job, &image);
    }
    rvit_condition_destroy(&assigned);
    nvjpeg_decoder_destroy(decoder);
    return NULL;
}

int image_queue_create(const struct inputs *inputs, const struct image_plan *plan, rvit_session *const *sessions, int32_t n_sessions,
                       int32_t n_threads, bool overlaps, bool keeps_first, struct image_queue **out)
{
    struct image_queue *self = allocate(1, sizeof *self);
    *out = self;
    if (!self)
        return EXIT_FAULT;
    int code = input_workers_open(&self->workers, inputs, overlaps, keeps_first);
    self->plan = plan;
    self->items_each = plan->max_images + EXTRA_ITEMS;
    self->n_batches = n_sessions < MAX_BATCHES ? n_sessions : MAX_BATCHES;
    self->n_jobs = input_workers_size(inputs, n_threads);
    self->requests = allocate((size_t)self->n_jobs, sizeof(struct image_job *));
    if (!self->requests)
        code = EXIT_FAULT;
    for (int32_t i = 0; code == EXIT_OK && i < self->n_batches; i++) {
        struct image_batch *batch = &self->batches[i];
        batch->session = sessions[i];
        batch->memory = rvit_session_input_memory(sessions[i], NULL);
        batch->items = allocate((size_t)self->items_each, sizeof *batch->items);
        self->is_free[i] = true;
        if (!batch->items)
            code = EXIT_FAULT;
    }
    if (code == EXIT_OK)
        code = input_workers_start(&self->workers, self->n_jobs, work, self);
    if (code != EXIT_OK) {
        image_queue_destroy(self);
        *out = NULL;
    }
    return code;
}

/* Wakes the threads that wait for memory. */
static void wake_all(void *user)
{
    struct image_queue *self = user;
    for (int32_t i = 0; self->requests && i < self->n_jobs; i++)
        if (self->requests[i])
            rvit_condition_signal(self->requests[i]->assigned);
}

void image_queue_destroy(struct image_queue *self)
{
    if (!self)
        return;
    input_workers_stop(&self->workers, wake_all, self);
    input_workers_close(&self->workers);
    for (int32_t i = 0; i < self->n_batches; i++)
        free(self->batches[i].items);
    free(self->requests);
    free(self);
}

enum input_result image_queue_next(struct image_queue *self, bool waits, struct image_batch **out)
{
    rvit_mutex_lock(&self->workers.lock);
    self->workers.waited_for = waits;
    if (waits && !self->workers.overlaps)
        rvit_condition_broadcast(&self->workers.may_work);
    while (!(*out = self->workers.stops ? NULL : ready_batch(self, waits)) && !is_over(self) && waits)
        rvit_condition_wait(&self->workers.done, &self->workers.lock);
    const enum input_result result = *out ? INPUT_READY : is_over(self) ? INPUT_END : INPUT_LATER;
    self->workers.waited_for = false;
    if (*out) {
        (*out)->is_closed = true;
        self->n_given++;
    }
    rvit_mutex_unlock(&self->workers.lock);
    return result;
}

void image_queue_stop(struct image_queue *self)
{
    rvit_mutex_lock(&self->workers.lock);
    self->workers.stops = true;
    rvit_condition_signal(&self->workers.done);
    rvit_mutex_unlock(&self->workers.lock);
}

void image_queue_release(struct image_queue *self, struct image_batch *batch)
{
    rvit_mutex_lock(&self->workers.lock);
    /* Closed until it is opened again, because it may still be the last opened batch. */
    *batch = (struct image_batch){.session = batch->session, .memory = batch->memory, .items = batch->items, .is_closed = true};
    self->is_free[batch - self->batches] = true;
    assign_all(self);
    rvit_mutex_unlock(&self->workers.lock);
}

struct image image_queue_take_first(struct image_queue *self)
{
    return input_workers_take_first(&self->workers);
}

int32_t image_batch_images(const struct image_batch *batch, rvit_image *out)
{
    int32_t n = 0;
    for (int32_t i = 0; i < batch->n_items; i++)
        if (!batch->items[i].work.is_bad)
            out[n++] = batch->items[i].image;
    return n;
}

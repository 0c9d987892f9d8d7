#include "input_queue.h"

#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>

#define MOST_THREADS 16                  /* that are started unasked */
#define MOST_MEMORY ((int64_t)256 << 20) /* of images that are prepared ahead */

struct slot {
    bool is_done;
    struct input_work work;
    float *values;
};

/* Numbers count the images of the run: slot number % n_slots. A thread that takes work holds source_lock, and may wait for room or a frame
   meanwhile; the caller never takes it. */
struct input_queue {
    const struct inputs *inputs;
    bool overlaps, keeps_first;
    size_t image_length;
    float *values;
    struct slot *slots;
    int64_t n_slots;
    pthread_t *threads;
    int32_t n_threads;
    pthread_mutex_t source_lock;
    struct input_source source;
    pthread_mutex_t lock; /* of what follows */
    pthread_cond_t room, done;
    bool stops, waited_for; /* waited_for: the caller waits in input_queue_next */
    bool ended;             /* the source has no more */
    int64_t n_taken, n_given;
    struct image first;
    int64_t first_number; /* INT64_MAX: none is kept */
};

static bool has_room(const struct input_queue *self)
{
    return (self->overlaps || self->waited_for) && self->n_taken - self->n_given < self->n_slots;
}

/* Takes the next work into its slot. Returns NULL if there is no more. */
static struct slot *take_work(struct input_queue *self, struct nvjpeg_decoder *decoder, int64_t *out_number)
{
    struct slot *slot = NULL;
    pthread_mutex_lock(&self->source_lock);
    pthread_mutex_lock(&self->lock);
    while (!self->stops && !has_room(self))
        pthread_cond_wait(&self->room, &self->lock);
    const bool stops = self->stops;
    const int64_t number = self->n_taken;
    pthread_mutex_unlock(&self->lock);
    if (!stops) {
        slot = &self->slots[number % self->n_slots];
        if (!input_source_next(&self->source, decoder, &slot->work))
            slot = NULL;
    }
    pthread_mutex_lock(&self->lock);
    if (slot) {
        slot->is_done = false;
        self->n_taken++;
    } else {
        self->ended = true;
        pthread_cond_signal(&self->done);
    }
    pthread_mutex_unlock(&self->lock);
    pthread_mutex_unlock(&self->source_lock);
    *out_number = number;
    return slot;
}

/* Of the pictures that can be used, the one of the lowest number is the first when the caller gets there. */
static bool is_first(struct input_queue *self, int64_t number)
{
    pthread_mutex_lock(&self->lock);
    const bool found = self->keeps_first && number < self->first_number;
    pthread_mutex_unlock(&self->lock);
    return found;
}

static void *work(void *argument)
{
    struct input_queue *self = argument;
    struct nvjpeg_decoder *decoder = self->inputs->nvjpeg ? nvjpeg_decoder_create(self->inputs->nvjpeg) : NULL;
    int64_t number;
    for (struct slot *slot; (slot = take_work(self, decoder, &number));) {
        struct image picture = {0};
        if (!input_work_prepare(self->inputs, decoder, &slot->work, slot->values, is_first(self, number) ? &picture : NULL))
            slot->work.is_bad = true;
        input_work_free(&slot->work);
        pthread_mutex_lock(&self->lock);
        slot->is_done = true;
        if (picture.pixels && number < self->first_number) {
            const struct image other = self->first;
            self->first = picture;
            self->first_number = number;
            picture = other;
        }
        pthread_cond_signal(&self->done);
        pthread_mutex_unlock(&self->lock);
        image_free(&picture);
    }
    nvjpeg_decoder_destroy(decoder);
    return NULL;
}

int32_t input_queue_usual_threads(void)
{
    cpu_set_t mask;
    const int n = sched_getaffinity(0, sizeof mask, &mask) == 0 ? CPU_COUNT(&mask) : 1;
    return n < MOST_THREADS ? n : MOST_THREADS;
}

static int start_threads(struct input_queue *self, int32_t n_threads)
{
    self->threads = allocate((size_t)n_threads, sizeof *self->threads);
    if (!self->threads)
        return EXIT_FAULT;
    while (self->n_threads < n_threads && pthread_create(&self->threads[self->n_threads], NULL, work, self) == 0)
        self->n_threads++;
    if (self->n_threads > 0)
        return EXIT_OK; /* fewer will do */
    complain(NULL, "no thread can be started");
    return EXIT_FAULT;
}

int input_queue_create(const struct inputs *inputs, int32_t n_threads, bool overlaps, int32_t ahead, bool keeps_first,
                       struct input_queue **out)
{
    struct input_queue *self = allocate(1, sizeof *self);
    *out = self;
    if (!self)
        return EXIT_FAULT;
    pthread_mutex_init(&self->source_lock, NULL);
    pthread_mutex_init(&self->lock, NULL);
    pthread_cond_init(&self->room, NULL);
    pthread_cond_init(&self->done, NULL);
    self->inputs = inputs;
    self->overlaps = overlaps;
    self->keeps_first = keeps_first;
    self->first_number = INT64_MAX;
    if (n_threads == 0)
        n_threads = input_queue_usual_threads();
    if (inputs->total > 0 && n_threads > inputs->total)
        n_threads = (int32_t)inputs->total;
    self->image_length = 3 * (size_t)inputs->recipe->width * (size_t)inputs->recipe->height;
    const int64_t most = MOST_MEMORY / (int64_t)(self->image_length * sizeof(float));
    self->n_slots = ahead < most ? ahead : most;
    if (self->n_slots <= n_threads)
        self->n_slots = n_threads + 1;
    int code = input_source_open(inputs, &self->source);
    self->slots = allocate((size_t)self->n_slots, sizeof *self->slots);
    self->values = allocate((size_t)self->n_slots * self->image_length, sizeof *self->values);
    if (code == EXIT_OK && (!self->slots || !self->values))
        code = EXIT_FAULT;
    for (int64_t i = 0; code == EXIT_OK && i < self->n_slots; i++)
        self->slots[i].values = self->values + (size_t)i * self->image_length;
    if (code == EXIT_OK)
        code = start_threads(self, n_threads);
    if (code != EXIT_OK) {
        input_queue_destroy(self);
        *out = NULL;
    }
    return code;
}

void input_queue_destroy(struct input_queue *self)
{
    if (!self)
        return;
    pthread_mutex_lock(&self->lock);
    self->stops = true;
    pthread_cond_broadcast(&self->room);
    pthread_mutex_unlock(&self->lock);
    input_source_stop(&self->source);
    for (int32_t i = 0; i < self->n_threads; i++)
        pthread_join(self->threads[i], NULL);
    input_source_close(&self->source);
    image_free(&self->first);
    free(self->threads);
    free(self->slots);
    free(self->values);
    pthread_cond_destroy(&self->done);
    pthread_cond_destroy(&self->room);
    pthread_mutex_destroy(&self->lock);
    pthread_mutex_destroy(&self->source_lock);
    free(self);
}

enum input_result input_queue_next(struct input_queue *self, bool waits, float *out_values, struct input_work *out)
{
    const struct slot *slot = &self->slots[self->n_given % self->n_slots];
    enum input_result result = INPUT_READY;
    pthread_mutex_lock(&self->lock);
    self->waited_for = true;
    pthread_cond_signal(&self->room);
    while (result == INPUT_READY && !(self->n_given < self->n_taken && slot->is_done)) {
        if (self->n_given == self->n_taken && self->ended)
            result = INPUT_END;
        else if (self->n_given == self->n_taken && !waits)
            result = INPUT_LATER;
        else
            pthread_cond_wait(&self->done, &self->lock);
    }
    self->waited_for = false;
    pthread_mutex_unlock(&self->lock);
    if (result != INPUT_READY)
        return result;
    *out = slot->work;
    if (!out->is_bad)
        memcpy(out_values, slot->values, self->image_length * sizeof *out_values);
    pthread_mutex_lock(&self->lock);
    self->n_given++;
    if (!out->is_bad)
        self->keeps_first = false;
    pthread_cond_signal(&self->room);
    pthread_mutex_unlock(&self->lock);
    return INPUT_READY;
}

struct image input_queue_take_first(struct input_queue *self)
{
    pthread_mutex_lock(&self->lock);
    const struct image out = self->first;
    self->first = (struct image){0};
    pthread_mutex_unlock(&self->lock);
    return out;
}

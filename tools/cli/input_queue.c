#include "input_queue.h"

#include <stdlib.h>
#include <string.h>

#include "input_crew.h"

#define MOST_MEMORY ((int64_t)256 << 20) /* of images that are prepared ahead */

struct slot {
    bool is_done;
    struct input_work work;
    float *values;
};

/* Image i is prepared in slot i % n_slots. What changes is under the crew's lock. */
struct input_queue {
    struct input_crew crew;
    size_t image_length;
    float *values;
    struct slot *slots;
    int64_t n_slots;
    int64_t n_given;
};

static void *work(void *argument)
{
    struct input_queue *self = argument;
    struct input_crew *crew = &self->crew;
    struct nvjpeg_decoder *decoder = crew->inputs->nvjpeg ? nvjpeg_decoder_create(crew->inputs->nvjpeg) : NULL;
    for (struct input_taken taken; input_crew_take(crew, decoder, &taken);) {
        struct slot *slot = &self->slots[taken.number % self->n_slots];
        struct image picture = {0};
        if (!input_work_prepare(crew->inputs, decoder, &taken.work, slot->values, taken.keeps ? &picture : NULL))
            taken.work.is_bad = true;
        input_work_free(&taken.work);
        pthread_mutex_lock(&crew->lock);
        slot->work = taken.work;
        slot->is_done = true;
        input_crew_offer(crew, &taken, &picture);
        pthread_cond_signal(&crew->done);
        pthread_mutex_unlock(&crew->lock);
        image_free(&picture);
    }
    nvjpeg_decoder_destroy(decoder);
    return NULL;
}

int input_queue_create(const struct inputs *inputs, int32_t n_threads, bool overlaps, int32_t ahead, bool keeps_first,
                       struct input_queue **out)
{
    struct input_queue *self = allocate(1, sizeof *self);
    *out = self;
    if (!self)
        return EXIT_FAULT;
    int code = input_crew_open(&self->crew, inputs, overlaps, keeps_first);
    n_threads = input_crew_size(inputs, n_threads);
    self->image_length = 3 * (size_t)inputs->recipe->width * (size_t)inputs->recipe->height;
    const int64_t most = MOST_MEMORY / (int64_t)(self->image_length * sizeof(float));
    self->n_slots = ahead < most ? ahead : most;
    if (self->n_slots <= n_threads)
        self->n_slots = n_threads + 1;
    self->crew.limit = self->n_slots;
    self->slots = allocate((size_t)self->n_slots, sizeof *self->slots);
    self->values = allocate((size_t)self->n_slots * self->image_length, sizeof *self->values);
    if (code == EXIT_OK && (!self->slots || !self->values))
        code = EXIT_FAULT;
    for (int64_t i = 0; code == EXIT_OK && i < self->n_slots; i++)
        self->slots[i].values = self->values + (size_t)i * self->image_length;
    if (code == EXIT_OK)
        code = input_crew_start(&self->crew, n_threads, work, self);
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
    input_crew_stop(&self->crew, NULL, NULL);
    input_crew_close(&self->crew);
    free(self->slots);
    free(self->values);
    free(self);
}

enum input_result input_queue_next(struct input_queue *self, bool waits, float *out_values, struct input_work *out)
{
    struct input_crew *crew = &self->crew;
    struct slot *slot = &self->slots[self->n_given % self->n_slots];
    enum input_result result = INPUT_READY;
    pthread_mutex_lock(&crew->lock);
    crew->waited_for = true;
    pthread_cond_signal(&crew->may_work);
    while (result == INPUT_READY && !slot->is_done) {
        if (self->n_given == crew->n_taken && crew->ended)
            result = INPUT_END;
        else if (self->n_given == crew->n_taken && !waits)
            result = INPUT_LATER;
        else
            pthread_cond_wait(&crew->done, &crew->lock);
    }
    crew->waited_for = false;
    pthread_mutex_unlock(&crew->lock);
    if (result != INPUT_READY)
        return result;
    *out = slot->work;
    if (!out->is_bad)
        memcpy(out_values, slot->values, self->image_length * sizeof *out_values);
    pthread_mutex_lock(&crew->lock);
    slot->is_done = false;
    self->n_given++;
    crew->limit++;
    if (!out->is_bad)
        crew->keeps_first = false;
    pthread_cond_signal(&crew->may_work);
    pthread_mutex_unlock(&crew->lock);
    return INPUT_READY;
}

struct image input_queue_take_first(struct input_queue *self)
{
    return input_crew_take_first(&self->crew);
}

#include "input_workers.h"

#include <stdlib.h>

#include "core/base/system.h"

#define MAX_THREADS 16 /* default limit */

int32_t input_workers_size(const struct inputs *inputs, int32_t n_threads)
{
    if (n_threads == 0) {
        n_threads = rvit_usable_processors("");
        n_threads = n_threads < MAX_THREADS ? n_threads : MAX_THREADS;
    }
    return inputs->total > 0 && n_threads > inputs->total ? (int32_t)inputs->total : n_threads;
}

int input_workers_open(struct input_workers *self, const struct inputs *inputs, bool overlaps, bool keeps_first)
{
    *self = (struct input_workers){
        .inputs = inputs, .overlaps = overlaps, .limit = INT64_MAX, .keeps_first = keeps_first, .first_number = INT64_MAX};
    rvit_mutex_init(&self->source_lock);
    rvit_mutex_init(&self->lock);
    rvit_condition_init(&self->may_work);
    rvit_condition_init(&self->done);
    return input_source_open(inputs, &self->source);
}

int input_workers_start(struct input_workers *self, int32_t n_threads, void *(*work)(void *), void *user)
{
    self->threads = allocate((size_t)n_threads, sizeof *self->threads);
    if (!self->threads)
        return EXIT_FAULT;
    while (self->n_threads < n_threads && rvit_thread_start(&self->threads[self->n_threads], work, user) == 0)
        self->n_threads++;
    if (self->n_threads > 0)
        return EXIT_OK; /* fewer threads are enough */
    return fail_with(EXIT_FAULT, NULL, "cannot start a thread");
}

void input_workers_stop(struct input_workers *self, void (*wake)(void *), void *user)
{
    rvit_mutex_lock(&self->lock);
    self->stops = true;
    rvit_condition_broadcast(&self->may_work);
    if (wake)
        wake(user);
    rvit_mutex_unlock(&self->lock);
    input_source_stop(&self->source);
    for (int32_t i = 0; i < self->n_threads; i++)
        rvit_thread_join(self->threads[i]);
    self->n_threads = 0;
}

void input_workers_close(struct input_workers *self)
{
    input_source_close(&self->source);
    image_free(&self->first);
    free(self->threads);
    rvit_condition_destroy(&self->done);
    rvit_condition_destroy(&self->may_work);
    rvit_mutex_destroy(&self->lock);
    rvit_mutex_destroy(&self->source_lock);
}

bool input_workers_take(struct input_workers *self, struct nvjpeg_decoder *decoder, struct input_taken *out)
{
    rvit_mutex_lock(&self->source_lock);
    rvit_mutex_lock(&self->lock);
    while (!self->stops && !((self->overlaps || self->waited_for) && self->n_taken < self->limit))
        rvit_condition_wait(&self->may_work, &self->lock);
    const bool stops = self->stops;
    rvit_mutex_unlock(&self->lock);
    const bool any = !stops && input_source_next(&self->source, decoder, &out->work);
    rvit_mutex_lock(&self->lock);
    out->number = self->n_taken;
    out->keeps = self->keeps_first && out->number < self->first_number;
    self->n_taken += any;
    if (!any) {
        self->ended = true;
        rvit_condition_signal(&self->done);
    }
    rvit_mutex_unlock(&self->lock);
    rvit_mutex_unlock(&self->source_lock);
    return any;
}

void input_workers_offer(struct input_workers *self, const struct input_taken *taken, struct image *image)
{
    if (!image->pixels || taken->work.is_bad || taken->number >= self->first_number)
        return;
    const struct image other = self->first;
    self->first = *image;
    self->first_number = taken->number;
    *image = other;
}

struct image input_workers_take_first(struct input_workers *self)
{
    rvit_mutex_lock(&self->lock);
    const struct image out = self->first;
    self->first = (struct image){0};
    self->keeps_first = false;
    rvit_mutex_unlock(&self->lock);
    return out;
}

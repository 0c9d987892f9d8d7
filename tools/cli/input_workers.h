/* Threads that take the images of a source one after another, and the first image that can be used. What becomes of an image is up to the
   queue that has the workers. */
#ifndef RVIT_CLI_INPUT_WORKERS_H
#define RVIT_CLI_INPUT_WORKERS_H

#include <pthread.h>

#include "input_source.h"

struct input_workers {
    const struct inputs *inputs;
    bool overlaps; /* the threads work all the time; else only while the caller waits, and what is begun is finished */
    pthread_t *threads;
    int32_t n_threads;
    pthread_mutex_t source_lock; /* whoever holds it may wait for a frame, or for leave to work */
    struct input_source source;
    pthread_mutex_t lock;          /* of what follows, and of what the queue has of its own */
    pthread_cond_t may_work, done; /* done: the caller waits for it */
    bool stops, ended;             /* ended: the source has no more */
    bool waited_for;               /* the caller waits */
    int64_t n_taken, limit;        /* images taken, and how many may be */
    struct image first;
    bool keeps_first;
    int64_t first_number; /* INT64_MAX: none is kept */
};

/* An image that a thread took. Numbers count the images of the run. */
struct input_taken {
    int64_t number;
    bool keeps; /* it may be the first, of which the image is wanted */
    struct input_work work;
};

/* Threads that are started: n_threads, or where that is 0 as many as the process may use, at most 16; never more than images. */
int32_t input_workers_size(const struct inputs *inputs, int32_t n_threads);
/* overlaps, keeps_first: as in inputs_start. Prints a message on failure; returns an exit code. The workers can be closed either way. */
int input_workers_open(struct input_workers *self, const struct inputs *inputs, bool overlaps, bool keeps_first);
/* work(user) is what a thread does. Prints a message on failure; returns an exit code. */
int input_workers_start(struct input_workers *self, int32_t n_threads, void *(*work)(void *), void *user);
/* Waits for the threads, which find `stops` set. wake: wakes those that wait for something of the queue's, with the lock held; or NULL. */
void input_workers_stop(struct input_workers *self, void (*wake)(void *), void *user);
void input_workers_close(struct input_workers *self);

/* For a thread: the next image. decoder: as in input_source_next. Returns false if there is no more, or the workers stops. */
bool input_workers_take(struct input_workers *self, struct nvjpeg_decoder *decoder, struct input_taken *out);
/* With the lock held: keeps the image of an image if it is the first so far. *image is then another one, or none: the caller frees it.
 */
void input_workers_offer(struct input_workers *self, const struct input_taken *taken, struct image *image);
struct image input_workers_take_first(struct input_workers *self);

#endif

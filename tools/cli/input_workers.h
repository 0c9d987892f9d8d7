/* Worker threads that take the images of a source one after another, and keep the first usable image for an overlay. The queue that owns
   the workers decides what they do with an image. */
#ifndef RVIT_CLI_INPUT_WORKERS_H
#define RVIT_CLI_INPUT_WORKERS_H

#include "core/base/os.h"
#include "input_source.h"

struct input_workers {
    const struct inputs *inputs;
    bool overlaps; /* the threads always work; else they start images only while the caller waits */
    rvit_thread *threads;
    int32_t n_threads;
    rvit_mutex source_lock; /* its holder may wait for a frame or for permission to work */
    struct input_source source;
    rvit_mutex lock;               /* protects the fields below and the queue's own state */
    rvit_condition may_work, done; /* the caller waits for done */
    bool stops, ended;             /* ended: the source is exhausted */
    bool waited_for;               /* the caller waits */
    int64_t n_taken, limit;        /* images taken, and their maximum */
    struct image first;
    bool keeps_first;
    int64_t first_number; /* INT64_MAX: no image is kept */
};

/* An image that a thread has taken. Numbers count the images of the run. */
struct input_taken {
    int64_t number;
    bool keeps; /* its pixels may be kept as the first image */
    struct input_work work;
};

/* The number of threads to start: n_threads, or if 0 as many as the process may use, up to 16; never more than images. */
int32_t input_workers_size(const struct inputs *inputs, int32_t n_threads);
/* overlaps, keeps_first: as in inputs_start. Prints a message on failure; returns an exit code. Close it in either case. */
int input_workers_open(struct input_workers *self, const struct inputs *inputs, bool overlaps, bool keeps_first);
/* Each thread runs work(user). Prints a message on failure; returns an exit code. */
int input_workers_start(struct input_workers *self, int32_t n_threads, void *(*work)(void *), void *user);
/* Sets `stops` and waits for the threads. wake, if not NULL, is called with the lock held and wakes threads that wait for the queue. */
void input_workers_stop(struct input_workers *self, void (*wake)(void *), void *user);
void input_workers_close(struct input_workers *self);

/* For a thread: takes the next image. decoder: as in input_source_next. Returns false if there are no more or the workers stop. */
bool input_workers_take(struct input_workers *self, struct nvjpeg_decoder *decoder, struct input_taken *out);
/* With the lock held: keeps *image if it is the first so far, and replaces it with an image that the caller frees, or an empty one. */
void input_workers_offer(struct input_workers *self, const struct input_taken *taken, struct image *image);
struct image input_workers_take_first(struct input_workers *self);

#endif

/* Batches of images, which threads decode directly into the memory of sessions. A batch closes when it reaches its limit of images, tokens
   or memory. Images and batches stay in order. */
#ifndef RVIT_CLI_IMAGE_QUEUE_H
#define RVIT_CLI_IMAGE_QUEUE_H

#include "input_source.h"
#include "image_plan.h"

struct image_item {
    struct input_work work; /* without sheet and frame when it is done; is_bad: the error says why */
    rvit_image image;
    struct image_target target;
    int32_t width, height; /* of the decoded image */
};

struct image_batch {
    rvit_session *session;
    uint8_t *memory;
    struct image_item *items;   /* in order, including bad images */
    int32_t n_items, n_pending; /* n_pending: unfinished items */
    int32_t n_images, tokens;
    int64_t used, weights; /* bytes */
    bool is_closed;
};

/* Gets the usable images of a batch: out [batch->n_images]. Returns their number. */
int32_t image_batch_images(const struct image_batch *batch, rvit_image *out);

struct image_queue;

/* Creates a batch per session. plan, inputs and sessions must outlive the queue. Threads as in inputs_start. keeps_first: keeps the first
   image. Prints a message on failure; returns an exit code. */
int image_queue_create(const struct inputs *inputs, const struct image_plan *plan, rvit_session *const *sessions, int32_t n_sessions,
                       int32_t n_threads, bool overlaps, bool keeps_first, struct image_queue **out);
void image_queue_destroy(struct image_queue *self);

/* Gets the next batch, closed. waits: waits for one; with video it closes when no frame is being read. INPUT_LATER: none is ready. */
enum input_result image_queue_next(struct image_queue *self, bool waits, struct image_batch **out);
/* Stops the queue from another thread: image_queue_next returns INPUT_END, also if it is waiting. */
void image_queue_stop(struct image_queue *self);
/* Lets threads fill the batch again; nothing may use it any more. */
void image_queue_release(struct image_queue *self, struct image_batch *batch);
/* The first usable image. Can be called once; the caller frees the result. */
struct image image_queue_take_first(struct image_queue *self);

#endif

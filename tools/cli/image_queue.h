/* Batches of images that threads decode straight into the memory of sessions. A batch closes when its images, its tokens or its memory
   are used up. Images keep their order; so do batches. */
#ifndef RVIT_CLI_IMAGE_QUEUE_H
#define RVIT_CLI_IMAGE_QUEUE_H

#include "input_source.h"
#include "image_plan.h"

struct image_item {
    struct input_work work; /* its sheet and frame are gone when it is done; is_bad: the error says why there is no image */
    rvit_image image;
    struct image_target target;
    int32_t width, height; /* of the image as it was decoded */
};

struct image_batch {
    rvit_session *session;
    uint8_t *memory;
    struct image_item *items;   /* in order, bad ones among them */
    int32_t n_items, n_pending; /* n_pending: of items that are not done */
    int32_t n_images, tokens;
    int64_t used, weights; /* bytes */
    bool is_closed;
};

/* The images of a batch that can be used: out [batch->n_images]. Returns their number. */
int32_t image_batch_images(const struct image_batch *batch, rvit_image *out);

struct image_queue;

/* One batch for each session, which must outlive the queue. plan, inputs, sessions: borrowed. Threads as in inputs_start. keeps_first: the
   first image is kept. Prints a message on failure; returns an exit code. */
int image_queue_create(const struct inputs *inputs, const struct image_plan *plan, rvit_session *const *sessions, int32_t n_sessions,
                       int32_t n_threads, bool overlaps, bool keeps_first, struct image_queue **out);
void image_queue_destroy(struct image_queue *self);

/* The next batch, closed. waits: until there is one; a video's is closed when no frame is on its way. INPUT_LATER: there is none yet. */
enum input_result image_queue_next(struct image_queue *self, bool waits, struct image_batch **out);
/* From another thread: nothing more comes. image_queue_next, also one that waits, gives INPUT_END. */
void image_queue_stop(struct image_queue *self);
/* Nothing of the batch is used any more: threads may fill it again. */
void image_queue_release(struct image_queue *self, struct image_batch *batch);
/* The image of the first item that is not bad, once; the caller frees it. */
struct image image_queue_take_first(struct image_queue *self);

#endif

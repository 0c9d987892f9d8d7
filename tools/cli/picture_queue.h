/* Batches of pictures that threads decode straight into the memory of sessions. A batch closes when its images, its tokens or its memory
   are used up. Pictures keep their order; so do batches. */
#ifndef RVIT_CLI_PICTURE_QUEUE_H
#define RVIT_CLI_PICTURE_QUEUE_H

#include "input_source.h"
#include "pictures.h"

struct picture_item {
    struct input_work work; /* its sheet and frame are gone when it is done; is_bad: the error says why there is no picture */
    rvit_image image;
    struct picture_target target;
    int32_t width, height; /* of the picture as it was decoded */
};

struct picture_batch {
    rvit_session *session;
    uint8_t *memory;
    struct picture_item *items; /* in order, bad ones among them */
    int32_t n_items, n_pending; /* n_pending: of items that are not done */
    int32_t n_images, tokens;
    int64_t used, weights; /* bytes */
    bool is_closed;
};

/* The pictures of a batch that can be used: out [batch->n_images]. Returns their number. */
int32_t picture_batch_images(const struct picture_batch *batch, rvit_image *out);

struct picture_queue;

/* One batch for each session, which must outlive the queue. plan, inputs, sessions: borrowed. Threads as in inputs_start. keeps_first: the
   first picture is kept. Prints a message on failure; returns an exit code. */
int picture_queue_create(const struct inputs *inputs, const struct picture_plan *plan, rvit_session *const *sessions, int32_t n_sessions,
                         int32_t n_threads, bool overlaps, bool keeps_first, struct picture_queue **out);
void picture_queue_destroy(struct picture_queue *self);

/* The next batch, closed. waits: until there is one; a video's is closed when no frame is on its way. INPUT_LATER: there is none yet. */
enum input_result picture_queue_next(struct picture_queue *self, bool waits, struct picture_batch **out);
/* From another thread: nothing more comes. picture_queue_next, also one that waits, gives INPUT_END. */
void picture_queue_stop(struct picture_queue *self);
/* Nothing of the batch is used any more: threads may fill it again. */
void picture_queue_release(struct picture_queue *self, struct picture_batch *batch);
/* The picture of the first item that is not bad, once; the caller frees it. */
struct image picture_queue_take_first(struct picture_queue *self);

#endif

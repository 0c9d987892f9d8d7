/* Threads that prepare the images of a source, and the queue from which they are taken in order. */
#ifndef RVIT_CLI_INPUT_QUEUE_H
#define RVIT_CLI_INPUT_QUEUE_H

#include "input_source.h"

struct input_queue;

/* As inputs_start. */
int input_queue_create(const struct inputs *inputs, int32_t n_threads, bool overlaps, int32_t ahead, bool keeps_first,
                       struct input_queue **out);
void input_queue_destroy(struct input_queue *self);

/* The next image or failure. out: without its sheet and frame. Never INPUT_LOST. */
enum input_result input_queue_next(struct input_queue *self, bool waits, float *out_values, struct input_work *out);
struct image input_queue_take_first(struct input_queue *self);

#endif

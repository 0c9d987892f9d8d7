/* The images of a command: files, folders and lists, whole or cut into tiles; or frames from standard input. Threads decode and prepare
   them ahead of the caller, who gets them in order. */
#ifndef RVIT_CLI_INPUTS_H
#define RVIT_CLI_INPUTS_H

#include "input_types.h"

/* arguments: files, folders, lists (.txt), or "-" alone with a video. recipe, video: borrowed. limit 0: no limit. Prints a message on
   failure; returns an exit code. */
int inputs_open(char *const *arguments, int n_arguments, const struct preprocess *recipe, const struct video *video, int32_t tiles,
                int64_t limit, struct inputs *out);
/* Starts the threads that prepare. n_threads 0: as many as the process may use, at most 16. overlaps: they work all the time, else only
   while the caller waits in inputs_next, and what is begun is finished. ahead: images that may be prepared before they are asked for,
   within some memory. keeps_first: the first image is kept, for inputs_take_first. Prints a message on failure; returns an exit code. */
int inputs_start(struct inputs *in, int32_t n_threads, bool overlaps, int32_t ahead, bool keeps_first);
void inputs_close(struct inputs *in);

/* Takes the next image, prepared by the recipe: out_values f32 [3, height, width]. A file that is unreadable, or a frame that is cut off,
   is reported, recorded in failures and skipped. waits: for a frame that has not come yet. */
enum input_result inputs_next(struct inputs *in, bool waits, float *out_values, struct input *out);
/* Reports and records a failure, as inputs_next does it. False: out of memory. */
bool inputs_note_failure(struct inputs *in, const struct input *input, const char *text);
/* The image of the first image that inputs_next gave, once; the caller frees it. */
struct image inputs_take_first(struct inputs *in);

/* Tells lists of inputs apart: a 64-bit FNV-1a of their names, in order. */
uint64_t inputs_fingerprint(const struct inputs *in);

#endif

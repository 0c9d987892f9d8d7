/* The images of a command: files, folders and lists, whole or cut into tiles, or frames from standard input. Threads decode and prepare
   them ahead of the caller, who gets them in order. */
#ifndef RVIT_CLI_INPUTS_H
#define RVIT_CLI_INPUTS_H

#include "input_types.h"

/* arguments: files, folders, lists (.txt), or only "-" with a video. recipe and video must outlive *out. limit 0: no limit. Prints a
   message on failure; returns an exit code. */
int inputs_open(char *const *arguments, int n_arguments, const rvit_image_recipe *recipe, const struct video *video, int32_t tiles,
                int64_t limit, struct inputs *out);
/* Starts the threads that prepare images. n_threads 0: as many as the process may use, up to 16. overlaps: they always work, else they
   start images only while the caller waits in inputs_next. ahead: images that may be prepared in advance, within a memory limit.
   keeps_first: keeps the first image for inputs_take_first. Prints a message on failure; returns an exit code. */
int inputs_start(struct inputs *in, int32_t n_threads, bool overlaps, int32_t ahead, bool keeps_first);
void inputs_close(struct inputs *in);

/* Takes the next image, prepared by the recipe: out_values f32 [3, height, width]. Reports, records and skips unreadable files and
   truncated frames. waits: for a frame that has not arrived. */
enum input_result inputs_next(struct inputs *in, bool waits, float *out_values, struct input *out);
/* Reports and records a failure, like inputs_next. Returns false if out of memory. */
bool inputs_note_failure(struct inputs *in, const struct input *input, const char *text);
/* The pixels of the first image that inputs_next returned. Can be called once; the caller frees the result. */
struct image inputs_take_first(struct inputs *in);

/* Identifies a list of inputs: the 64-bit FNV-1a hash of their names in order. */
uint64_t inputs_fingerprint(const struct inputs *in);

#endif

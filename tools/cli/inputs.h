/* The images of a command: files, folders and lists, whole or cut into tiles; or frames from standard input. Threads decode and prepare
   them ahead of the caller, who gets them in order. */
#ifndef RVIT_CLI_INPUTS_H
#define RVIT_CLI_INPUTS_H

#include "cli.h"
#include "folder.h"
#include "nvjpeg.h"
#include "preprocess.h"
#include "shard.h"
#include "video.h"

#define INPUTS_STANDARD_INPUT "-"

struct input {
    const char *path;
    int32_t tile;     /* -1: the whole image */
    int64_t frame;    /* of a video; -1: of a file */
    int64_t position; /* position among all inputs, from 0; the line of its expected class */
};

struct input_failure {
    struct input input; /* tile -1 also of a sheet that cannot be cut */
    char *text;
};

struct inputs {
    struct path_list files, left_out; /* left_out: of the folders that were given */
    const struct preprocess *recipe;
    const struct video *video; /* of the frames on standard input; NULL: there are files */
    bool reduces;              /* JPEGs far larger than what they are resized to are not decoded in full */
    struct nvjpeg *nvjpeg;     /* decodes JPEGs; borrowed, set before inputs_start. NULL: libjpeg does */
    int32_t tiles;             /* pixels; 0: whole images */
    int64_t limit;             /* INT64_MAX: none */
    struct shard shard;        /* of all these; set before inputs_start */
    int64_t total;   /* number of images or tiles according to the headers, at most the limit; of frames the limit, or 0: unknown */
    int64_t n_given; /* before the limit */
    int64_t n_done;  /* positions that the caller has passed */
    struct input_queue *queue; /* after inputs_start */
    /* files that could not be used, and images that could not be computed; by position */
    struct input_failure *failures;
    int32_t n_failures;
};

enum input_result {
    INPUT_LOST = -1, /* out of memory; a message is printed */
    INPUT_END,
    INPUT_READY,
    INPUT_LATER /* the next frame has not come yet */
};

/* arguments: files, folders, lists (.txt), or "-" alone with a video. recipe, video: borrowed. limit 0: no limit. Prints a message on
   failure; returns an exit code. */
int inputs_open(char *const *arguments, int n_arguments, const struct preprocess *recipe, const struct video *video, int32_t tiles,
                int64_t limit, struct inputs *out);
/* Starts the threads that prepare. n_threads 0: as many as the process may use, at most 16. overlaps: they work all the time, else only
   while the caller waits in inputs_next, and what is begun is finished. ahead: images that may be prepared before they are asked for,
   within some memory. keeps_first: the first picture is kept, for inputs_take_first. Prints a message on failure; returns an exit code. */
int inputs_start(struct inputs *in, int32_t n_threads, bool overlaps, int32_t ahead, bool keeps_first);
void inputs_close(struct inputs *in);

/* Takes the next image, prepared by the recipe: out_values f32 [3, height, width]. A file that is unreadable, or a frame that is cut off,
   is reported, recorded in failures and skipped. waits: for a frame that has not come yet. */
enum input_result inputs_next(struct inputs *in, bool waits, float *out_values, struct input *out);
/* Reports and records a failure, as inputs_next does it. False: out of memory. */
bool inputs_note_failure(struct inputs *in, const struct input *input, const char *text);
/* The picture of the first image that inputs_next gave, once; the caller frees it. */
struct image inputs_take_first(struct inputs *in);

/* Tells lists of inputs apart: a 64-bit FNV-1a of their names, in order. */
uint64_t inputs_fingerprint(const struct inputs *in);
/* Number of tiles in a file according to its header; 0 if it cannot be read or tiled. */
int64_t inputs_count_tiles(const struct inputs *in, const char *path);

#endif

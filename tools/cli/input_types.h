/* Types shared by the files behind inputs.h. */
#ifndef RVIT_CLI_INPUT_TYPES_H
#define RVIT_CLI_INPUT_TYPES_H

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
    int64_t frame;    /* -1: not a video frame */
    int64_t position; /* position among all inputs, from 0; the line of its expected class */
};

struct input_failure {
    struct input input; /* tile is -1 for a sheet that cannot be cut */
    char *text;
};

struct inputs {
    struct path_list files, skipped; /* skipped: entries of folders that are not images */
    const rvit_image_recipe *recipe;
    const struct video *video; /* frames on standard input; NULL: files */
    bool reduces;              /* decodes JPEGs that are far larger than the resized size at a smaller scale */
    struct nvjpeg *nvjpeg;     /* JPEG decoder, not owned, set before inputs_start; NULL: libjpeg */
    int32_t tiles;             /* pixels; 0: whole images */
    int64_t limit;             /* INT64_MAX: none */
    struct shard shard;        /* the part of the images to process; set before inputs_start */
    int64_t total;             /* images or tiles by the headers, at most the limit; for video the limit, or 0 if unknown */
    int64_t n_given;           /* without the limit */
    int64_t n_done;            /* positions that the caller has processed */
    struct input_queue *queue; /* after inputs_start */
    /* images that could not be read or computed, by position */
    struct input_failure *failures;
    int32_t n_failures;
};

enum input_result {
    INPUT_LOST = -1, /* out of memory, after a message */
    INPUT_END,
    INPUT_READY,
    INPUT_LATER /* the next frame has not arrived */
};

#endif

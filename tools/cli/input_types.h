/* What the files of inputs.h share: the images of a command, and one of them. */
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

#endif

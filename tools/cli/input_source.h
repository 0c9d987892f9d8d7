/* The images of a command one after another: files, tiles of sheets, or frames from standard input. Of one thread at a time. */
#ifndef RVIT_CLI_INPUT_SOURCE_H
#define RVIT_CLI_INPUT_SOURCE_H

#include "input_types.h"

/* Number of tiles in a file according to its header; 0 if it cannot be read or tiled. */
int64_t input_count_tiles(const struct inputs *inputs, const char *path);

/* An image that several tiles are cut from. */
struct input_sheet {
    struct image image;
    _Atomic int32_t n_users;
};

/* An image that is to be prepared. */
struct input_work {
    struct input input;
    bool is_bad;               /* the error says why; there is nothing to prepare */
    struct input_sheet *sheet; /* of a tile; else NULL */
    uint8_t *frame;            /* of a video; else NULL */
    struct image_error error;
};

struct input_source {
    const struct inputs *inputs;
    int64_t position;
    int32_t file, tile;
    struct input_sheet *sheet;
    bool ended;
    int stop_pipe[2]; /* closing the second end wakes a thread that waits for a frame */
};

/* Prints a message on failure; returns an exit code. */
int input_source_open(const struct inputs *inputs, struct input_source *out);
void input_source_close(struct input_source *self);
/* Wakes a thread that waits for a frame, for which there is none then. */
void input_source_stop(struct input_source *self);

/* False: there are no more. decoder: of inputs->nvjpeg, for sheets; else NULL. */
bool input_source_next(struct input_source *self, struct nvjpeg_decoder *decoder, struct input_work *out);
/* Decodes and prepares. decoder: of inputs->nvjpeg; else NULL. out_values f32 [3, height, width]. out_image, if given, receives the
   image; the caller frees it. On failure, work->error says why. */
bool input_work_prepare(const struct inputs *inputs, struct nvjpeg_decoder *decoder, struct input_work *work, float *out_values,
                        struct image *out_image);
void input_work_free(struct input_work *work);
/* The pixels of a tile, in its sheet. */
struct image_view input_work_tile(const struct inputs *inputs, const struct input_work *work);

#endif

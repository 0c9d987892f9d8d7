/* Reads the images of a command one after another: files, tiles of sheets, or frames from standard input. One thread at a time. */
#ifndef RVIT_CLI_INPUT_SOURCE_H
#define RVIT_CLI_INPUT_SOURCE_H

#include "core/base/os_program.h"
#include "input_types.h"

/* Number of tiles in a file according to its header; 0 if it cannot be read or tiled. */
int64_t input_count_tiles(const struct inputs *inputs, const char *path);

/* An image that is cut into tiles. */
struct input_sheet {
    struct image image;
    _Atomic int32_t n_users;
};

/* An image to prepare. */
struct input_work {
    struct input input;
    bool is_bad;               /* it cannot be prepared, because of the error */
    struct input_sheet *sheet; /* NULL unless it is a tile */
    uint8_t *frame;            /* NULL unless it is a video frame */
    struct image_error error;
};

struct input_source {
    const struct inputs *inputs;
    int64_t position;
    int32_t file, tile;
    struct input_sheet *sheet;
    bool ended;
    rvit_input *stream; /* NULL unless there is a video */
};

/* Prints a message on failure; returns an exit code. */
int input_source_open(const struct inputs *inputs, struct input_source *out);
void input_source_close(struct input_source *self);
/* Wakes a thread that waits for a frame; it gets none. */
void input_source_stop(struct input_source *self);

/* Returns false if there are no more. decoder: of inputs->nvjpeg, for sheets, or NULL. */
bool input_source_next(struct input_source *self, struct nvjpeg_decoder *decoder, struct input_work *out);
/* Decodes and prepares an image. decoder: of inputs->nvjpeg or NULL. out_values: f32 [3, height, width]. out_image, if not NULL, receives
   the decoded image, which the caller frees. On failure, work->error has the reason. */
bool input_work_prepare(const struct inputs *inputs, struct nvjpeg_decoder *decoder, struct input_work *work, float *out_values,
                        struct image *out_image);
void input_work_free(struct input_work *work);
/* Loads an image, at a smaller scale if it is a JPEG that is far larger than its resized size. original: its size by the header, and its
   target. */
bool input_load_reduced(const char *path, const rvit_image_recipe *recipe, const rvit_image *original, struct image *out,
                        struct image_error *error);
/* The pixels of a tile in its sheet. */
struct image_view input_work_tile(const struct inputs *inputs, const struct input_work *work);

#endif

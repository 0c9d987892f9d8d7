/* The images of a command: files, folders and lists, whole or cut into tiles, decoded one file at a time. */
#ifndef RVIT_CLI_INPUTS_H
#define RVIT_CLI_INPUTS_H

#include "cli.h"
#include "preprocess.h"

struct input_failure {
    int32_t file;
    char *text;
};

struct inputs {
    char **paths;
    int32_t n_paths, capacity;
    const struct preprocess *recipe;
    int32_t tiles;   /* pixels; 0: whole images */
    int64_t limit;   /* INT64_MAX: none */
    int64_t total;   /* number of images or tiles according to the headers, at most the limit */
    int64_t n_given; /* before the limit */
    /* read position */
    int64_t position;
    int32_t file, tile;
    struct image sheet;
    /* files that could not be used */
    struct input_failure *failures;
    int32_t n_failures;
};

struct input {
    const char *path;
    int32_t tile;     /* -1: the whole image */
    int64_t position; /* position among all inputs, from 0; the line of its expected class */
    struct image_view pixels;
};

/* arguments: files, folders, lists (.txt). recipe: borrowed. limit 0: no limit. Prints a message on failure; returns an exit code. */
int inputs_open(char *const *arguments, int n_arguments, const struct preprocess *recipe, int32_t tiles, int64_t limit, struct inputs *out);
void inputs_close(struct inputs *in);

/* Reads the next image; its pixels are valid until the next call. Returns 0 at the end, -1 when out of memory. An unreadable file is
   reported, recorded in failures and skipped. */
int inputs_next(struct inputs *in, struct input *out);

/* The same, prepared by the recipe: out_values f32 [3, height, width]. out_view, if given, receives the model's view. */
int inputs_next_prepared(struct inputs *in, float *out_values, struct input *out, struct image *out_view);

#endif

/* The JSON that one shard of a classify printed: one object, or one on each line, of which images are read one by one. */
#ifndef RVIT_CLI_SHARD_FILE_H
#define RVIT_CLI_SHARD_FILE_H

#include <stdio.h>

#include "json.h"
#include "shard.h"

struct shard_file {
    const char *path;
    FILE *file;                /* one JSON value a line; NULL: one object, whose arrays these are: */
    json_t *images, *failed;   /* borrowed of it */
    size_t n_images, n_failed; /* of these, read so far */
    int64_t n_lines;           /* of the file, read so far */
    json_t *root;
    json_t *run, *summary; /* what precedes the images, and what follows them; summary NULL: not yet read */
    struct shard shard;
    int64_t n_inputs; /* of the whole run */
    bool tiled;
    json_t *next;     /* the next image, or failure; NULL: there is none */
    int64_t position; /* of it, or of the last one */
};

/* Reads up to the images. Prints a message on failure; returns an exit code. The file is to be closed either way. */
int shard_file_open(const char *path, struct shard_file *part);
/* Goes on to the next image or failure: the first at first. Prints a message on failure; returns an exit code. */
int shard_file_advance(struct shard_file *part);
void shard_file_close(struct shard_file *part);

#endif

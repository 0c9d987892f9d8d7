/* Reads the JSON output of a classify shard: one object, or one per line, read image by image. */
#ifndef RVIT_CLI_SHARD_FILE_H
#define RVIT_CLI_SHARD_FILE_H

#include <stdio.h>

#include "json.h"
#include "shard.h"

struct shard_file {
    const char *path;
    FILE *file;                /* one JSON value per line; NULL: one object with the arrays below */
    json_t *images, *failed;   /* owned by root */
    size_t n_images, n_failed; /* read so far */
    int64_t n_lines;           /* lines read so far */
    json_t *root;
    json_t *run, *summary; /* the parts before and after the images; summary is NULL until it is read */
    struct shard shard;
    int64_t n_inputs; /* images of the whole run */
    bool tiled;
    json_t *next;     /* the next image or failure, or NULL */
    int64_t position; /* of next, or of the last one */
};

/* Reads up to the images. Prints a message on failure; returns an exit code. Close the file in either case. */
int shard_file_open(const char *path, struct shard_file *part);
/* Reads the next image or failure. Prints a message on failure; returns an exit code. */
int shard_file_advance(struct shard_file *part);
void shard_file_close(struct shard_file *part);

#endif

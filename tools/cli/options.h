/* The options of all commands, in one table. commands.c has the commands. */
#ifndef RVIT_CLI_OPTIONS_H
#define RVIT_CLI_OPTIONS_H

#include "option_table.h"
#include "prune.h"
#include "recipe.h"
#include "shard.h"
#include "video.h"

enum decoder { DECODER_LIBJPEG, DECODER_NVJPEG };

struct options {
    const char *model;
    char **paths; /* images, folders, lists */
    int n_paths;
    char *images;          /* of verify, NULL for noise; calibration images of quantize */
    const char *output;    /* of quantize */
    const char *report;    /* of selftest */
    const char *reference; /* dump that verify compares with; NULL for another device */
    int given;             /* options on the command line: rvit_prune_parameter bits and others (options.c) */
    rvit_backend backend, against;
    int32_t device, against_device;
    bool against_given, against_oracle;
    rvit_tier tier;
    const char *kernels; /* NULL: the fastest */
    int32_t threads;
    rvit_checkpoint_desc checkpoint;
    struct prune prune;
    rvit_precision dtype, against_dtype;
    int32_t batch;
    int32_t top;
    struct recipe_options recipe;
    int32_t tiles;
    int64_t limit;                          /* 0: all */
    int32_t batches[RVIT_PRUNE_MAX_STAGES]; /* of bench, ascending */
    int32_t n_batches;                      /* 0: not given */
    double seconds;
    int32_t shape; /* attention heads of bench's random model */
    const char *shard_text;
    struct shard shard;
    const char *labels, *expect, *overlay, *features;
    const char *text_embeddings, *text_tensor; /* NULL: the model's own head */
    const char *video_size;
    struct video video; /* on standard input; format VIDEO_NONE: the images are files */
    int decoder;        /* enum decoder */
    bool json, ndjson, quiet, tensors, grid, fast_decode;
    bool variable_resolution, timings;
    int32_t max_tokens, max_patches; /* 0: not given */
    int prepare;
    int inputs; /* of quantize: their scales */
};

/* Where images are resized. */
enum { PREPARE_AUTO, PREPARE_HOST, PREPARE_DEVICE };
enum { INPUTS_AUTO, INPUTS_ROW, INPUTS_FIXED };

/* Fills *out from the command line of a command: argv[0] is its name, and with has_model its first argument is a model. *out must not
   move, because it may point into itself. Prints a message if it returns REFUSED. */
enum option_result options_parse(const struct option_command *command, bool has_model, int argc, char **argv, struct options *out);
/* Prints the manual page's section on a command. */
void options_manual(const struct option_command *command);

#endif

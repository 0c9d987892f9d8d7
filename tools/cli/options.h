/* The command line: one table of commands, one of options; parsing and --help are made from them. */
#ifndef RVIT_CLI_OPTIONS_H
#define RVIT_CLI_OPTIONS_H

#include "cli.h"

struct options {
    const char *model;
    char **paths; /* images, folders, lists */
    int n_paths;
    rvit_backend backend, against;
    int32_t device, against_device;
    bool against_given, against_oracle, against_dtype_given;
    rvit_tier tier;
    int32_t threads;
    rvit_prune_desc prune;
    const char *prune_name;
    rvit_dtype dtype, against_dtype;
    int32_t batch;
    int32_t top;
    int32_t tiles;
    int64_t limit; /* 0: all */
    const char *labels, *expect, *overlay;
    bool json, quiet, tensors;
};

/* Parses the whole command line and runs its command; returns the exit code. */
int options_run(int argc, char **argv);

/* The kept fraction the policy works with: the one given, or its default. 1 without pruning. */
double options_keep(const struct options *options);
/* "l2, keep 0.5 after block 3"; the policy's defaults filled in. */
void options_describe_prune(const struct options *options, char *out, size_t out_size);
/* The blocks of the prune stages; returns how many. */
int32_t options_blocks(const struct options *options, int32_t out_blocks[RVIT_PRUNE_MAX_STAGES]);

#endif

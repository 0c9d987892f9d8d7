/* The patches to keep, from the file of --mask: a NumPy array (nonzero = keep) or JSON lists of patch numbers. */
#ifndef RVIT_CLI_MASK_H
#define RVIT_CLI_MASK_H

#include "prune.h"

struct mask {
    int32_t n_stages, n_patches;
    int64_t n_images; /* 0: the same for every image */
    uint8_t *keep;    /* [n_stages, n_images or 1, n_patches] */
    int32_t n_blocks; /* number of blocks if the file is the --json output of a run, else 0 */
    int32_t blocks[RVIT_PRUNE_MAX_STAGES];
};

/* Prints a message on failure; returns an exit code. */
int mask_read(const char *path, int32_t n_patches, struct mask *out);
void mask_free(struct mask *self);

/* Reads prune->mask if the policy uses it. The run has n_images of n_given images; -1: unknown. Takes blocks that the command line does not
   set from the file, and completes prune. Prints a message on failure; returns an exit code. */
int mask_open(struct prune *prune, const rvit_model_info *model, int64_t n_images, int64_t n_given, struct mask *out);
/* Writes rvit_run_args.keep for n images at these positions: out uint8 [n_stages, n, tokens]. */
void mask_fill(const struct mask *self, const int64_t *positions, int32_t n, int32_t n_prefix, uint8_t *out);

#endif

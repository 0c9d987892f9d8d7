/* A checkpoint with random weights, for benchmarks without a checkpoint. */
#ifndef RVIT_CLI_RANDOM_MODEL_H
#define RVIT_CLI_RANDOM_MODEL_H

#include <stdint.h>
#include <stdio.h>

struct random_model {
    FILE *file; /* temporary, so that nothing remains when the process ends */
    char path[1024];
};

/* The number of heads of a model for checks: 112 x 112 pixels, 10 classes, larger weights, and DynamicViT's predictors. Its reader needs
   --architecture vit and --heads. */
#define RANDOM_MODEL_SMALL 2

/* Makes an f16 DeiT with 12 blocks, 16 x 16 patches, 224 x 224 pixels and 1000 classes: n_heads is 3, 6 or 12, or RANDOM_MODEL_SMALL. Its
   path is valid in this process until it is closed. Prints a message on failure; returns an exit code. */
int random_model_open(int32_t n_heads, struct random_model *out);
/* May be called if the model was never opened. */
void random_model_close(struct random_model *self);

#endif

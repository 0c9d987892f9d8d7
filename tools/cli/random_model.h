/* A checkpoint of random weights, for who wants to measure and has none. */
#ifndef RVIT_CLI_RANDOM_MODEL_H
#define RVIT_CLI_RANDOM_MODEL_H

#include <stddef.h>
#include <stdint.h>

/* Writes a DeiT of 12 blocks, 16 x 16 patches, 224 x 224 pixels and 1000 classes, f16, to a file of its own in $TMPDIR or /tmp. out_path
   has room for path_size characters. Complains and returns an exit code. */
int random_model_write(int32_t n_heads, char *out_path, size_t path_size);

#endif

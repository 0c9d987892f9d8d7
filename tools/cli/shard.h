/* The part of the images that one of several processes computes: every n-th image. This spreads neighbouring images, which are often
   similar, and the position of an image determines its shard. */
#ifndef RVIT_CLI_SHARD_H
#define RVIT_CLI_SHARD_H

#include <stdbool.h>
#include <stdint.h>

#define MAX_SHARDS 65536

struct shard {
    int32_t index, n; /* n 0: no shards */
};

/* text: "I/N" with I from 0 to N - 1. Prints a message if it is invalid. */
bool shard_parse(const char *text, struct shard *out);
bool shard_has(const struct shard *self, int64_t position);

#endif

/* The part of a run's images that one of several processes answers: every n-th, so that images that lie side by side, and are often
   alike, are spread, and the place of an image says whose it is. */
#ifndef RVIT_CLI_SHARD_H
#define RVIT_CLI_SHARD_H

#include <stdbool.h>
#include <stdint.h>

#define SHARD_MOST 65536

struct shard {
    int32_t index, n; /* n 0: there are no shards */
};

/* text: "I/N", I from 0 to N - 1. Prints a message if it is not. */
bool shard_parse(const char *text, struct shard *out);
bool shard_has(const struct shard *self, int64_t position);

#endif

#include "shard.h"

#include <stdlib.h>

#include "cli.h"

/* Parses digits. Returns -1 if there are none or the number is too large. */
static long number(const char *text, char **out_end)
{
    const long value = *text >= '0' && *text <= '9' ? strtol(text, out_end, 10) : -1;
    return value <= MAX_SHARDS ? value : -1;
}

bool shard_parse(const char *text, struct shard *out)
{
    char *slash = NULL, *end = NULL;
    const long index = number(text, &slash), n = index >= 0 && *slash == '/' ? number(slash + 1, &end) : -1;
    if (n < 1 || *end)
        complain(NULL, "--shard is '%s', expected I/N such as 0/4: shard I of N, with N from 1 to %d", text, MAX_SHARDS);
    else if (index >= n)
        complain(NULL, "--shard is '%s', expected 0/%ld to %ld/%ld: shards are counted from 0, like MPI ranks and Slurm tasks", text, n,
                 n - 1, n);
    else
        *out = (struct shard){(int32_t)index, (int32_t)n};
    return out->n > 0;
}

bool shard_has(const struct shard *self, int64_t position)
{
    return self->n == 0 || position % self->n == self->index;
}

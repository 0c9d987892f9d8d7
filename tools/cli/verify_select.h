/* Selection alone: the same scores given to a device, as a prune stage would give them. */
#ifndef RVIT_CLI_VERIFY_SELECT_H
#define RVIT_CLI_VERIFY_SELECT_H

#include "engine.h"

struct selector {
    rvit_stream *stream;
    rvit_buffer *counts, *scores, *cu_seqlens, *keep, *out_cu_seqlens, *src_rows;
    int32_t max_images, tokens, n_prefix, prefix_competes;
};

/* Whether it is known here how the policy counts. */
bool selector_knows(rvit_prune_type type);
/* Complains and returns an exit code. */
int selector_open(const struct engine *engine, rvit_prune_type type, double keep, int32_t max_images, struct selector *out);
void selector_close(struct selector *self);
/* scores f32 [cu_seqlens[n_images]]. *out_keep: uint8, a byte a row, until the next run. */
int selector_run(struct selector *self, const float *scores, const int32_t *cu_seqlens, int32_t n_images, const uint8_t **out_keep);

#endif

/* Runs select on a device with given scores, like a pruning stage. */
#ifndef RVIT_CLI_VERIFY_SELECT_H
#define RVIT_CLI_VERIFY_SELECT_H

#include "engine.h"

struct selector {
    rvit_stream *stream;
    rvit_buffer *counts, *scores, *cu_seqlens, *keep, *out_cu_seqlens, *src_rows;
};

struct selection {
    const uint8_t *keep; /* one byte per row */
    const int32_t *cu_seqlens, *src_rows;
};

/* Whether all stages of the session select by scores and so can be repeated. */
bool selector_knows(const rvit_session *session);
/* Prints a message on failure; returns an exit code. */
int selector_open(const struct engine *engine, int32_t max_images, struct selector *out);
void selector_close(struct selector *self);
/* Repeats the select of a stage of a session on the same device. scores: f32 [cu_seqlens[n_images]]; cu_seqlens: the layout before the
   stage. Does not compute a fused token. *out is valid until the next run. */
int selector_run(struct selector *self, const rvit_session *session, int32_t stage, const float *scores, const int32_t *cu_seqlens,
                 int32_t n_images, struct selection *out);

#endif

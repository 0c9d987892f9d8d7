/* Selection alone: the same scores given to a device, as a prune stage would give them. */
#ifndef RVIT_CLI_VERIFY_SELECT_H
#define RVIT_CLI_VERIFY_SELECT_H

#include "engine.h"

struct selector {
    rvit_stream *stream;
    rvit_buffer *counts, *scores, *cu_seqlens, *keep, *out_cu_seqlens, *src_rows;
};

struct selection {
    const uint8_t *keep; /* a byte a row */
    const int32_t *cu_seqlens, *src_rows;
};

/* Whether every stage of the session selects by scores, so that it can be repeated. */
bool selector_knows(const rvit_session *session);
/* Complains and returns an exit code. */
int selector_open(const struct engine *engine, int32_t max_images, struct selector *out);
void selector_close(struct selector *self);
/* Repeats the select of a stage of the session, which is of the same device: scores f32 [cu_seqlens[n_images]], cu_seqlens the layout
   before the stage. A fused token is not made. *out is borrowed until the next run. */
int selector_run(struct selector *self, const rvit_session *session, int32_t stage, const float *scores, const int32_t *cu_seqlens,
                 int32_t n_images, struct selection *out);

#endif

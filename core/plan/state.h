/* The state of a session: its plan, the memory of the plan, and the state of its runs. */
#ifndef RVIT_CORE_PLAN_STATE_H
#define RVIT_CORE_PLAN_STATE_H

#include "core/plan/plan.h"

struct rvit_session {
    rvit_model *model;
    const rvit_session_plan *plan;
    rvit_session_info info;
    rvit_stream *stream; /* the caller's (plan->desc.stream), or the session's own */
    rvit_program *program;
    struct {
        rvit_view view;      /* for ops; the session owns the buffers of the first RVIT_N_BUFFERS arenas */
        uint8_t *host;       /* for the host; for TABLES and RESULTS, the copy in mapped memory; NULL if the host has none */
    } arenas[RVIT_N_ARENAS]; /* the start of each; all 0 if the plan does not need it */

    /* With RVIT_INPUT_RUN: the first op and, with a head, the last one, without the views of a run. */
    rvit_patchify_args patchify;
    rvit_head_args head;

    int64_t images_size; /* bytes of the staging buffer that the last run uses */

    int64_t saturated; /* saturated values of all finished runs */

    int32_t n_images; /* of the last run */
    int32_t pending;  /* enqueued, not waited for */
    int32_t has_results, has_kept, has_normalized;
    int32_t has_image_errors; /* 0: all of plan->image_errors are 0 */
};

/* An array of the plan as a view for ops; {NULL, 0} if the session does not have it. */
static inline rvit_view rvit_session_view(const rvit_session *session, rvit_session_array array)
{
    const rvit_view arena = session->arenas[array.arena].view;
    return (rvit_view){arena.buffer, arena.offset + array.offset};
}

/* The same for the host; NULL if the session does not have it, or only the device has it. */
static inline void *rvit_session_host(const rvit_session *session, rvit_session_array array)
{
    uint8_t *arena = session->arenas[array.arena].host;
    return arena == NULL ? NULL : arena + array.offset;
}

/* int32 [n_images + 1]: the layout of the last run after a stage; -1: of the unpruned images. */
static inline const int32_t *rvit_session_cu_seqlens(const rvit_session *session, int32_t stage)
{
    return rvit_session_host(session, stage < 0 ? session->plan->host_cu_seqlens : session->plan->stages[stage].cu_seqlens);
}

#endif

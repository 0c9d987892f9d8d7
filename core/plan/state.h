/* The state of a session: its plan, the memory that the plan asks for, and what is known of its runs. */
#ifndef RVIT_CORE_PLAN_STATE_H
#define RVIT_CORE_PLAN_STATE_H

#include "core/plan/plan.h"

struct rvit_session {
    rvit_model *model;
    const rvit_session_plan *plan;
    rvit_session_info info;
    rvit_stream *stream; /* the caller's (plan->desc.stream), or its own */
    rvit_program *program;
    struct {
        rvit_view view;      /* as ops see it; of the places that are buffers the session's own */
        uint8_t *host;       /* of TABLES and RESULTS the copy in mapped memory; NULL on the device */
    } places[RVIT_N_PLACES]; /* where each begins; all 0: the plan needs none */

    /* With plan->desc.run_views: the first op and, with a head, the last, complete but for what a run brings. */
    rvit_patchify_args patchify;
    rvit_head_args head;

    int64_t pictures_size; /* bytes of the region that the last run uses */

    int64_t saturated; /* values cut off in all runs waited for */

    int32_t n_images; /* of the last run */
    int32_t pending;  /* enqueued, not waited for */
    int32_t has_results, has_kept, has_normalized;
    int32_t has_image_errors; /* else all of plan->image_errors are 0 */
};

/* An array of the plan as ops see it; {NULL, 0} if the session does not have it. */
static inline rvit_view rvit_session_view(const rvit_session *session, rvit_session_array array)
{
    const rvit_view place = session->places[array.place].view;
    return (rvit_view){place.buffer, place.offset + array.offset};
}

/* The same for the host; NULL if the session does not have it, or the device alone. */
static inline void *rvit_session_host(const rvit_session *session, rvit_session_array array)
{
    uint8_t *place = session->places[array.place].host;
    return place == NULL ? NULL : place + array.offset;
}

#endif

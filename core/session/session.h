/* A session: its plan, the memory that the plan asks for, and the state of its runs. */
#ifndef RVIT_CORE_SESSION_SESSION_H
#define RVIT_CORE_SESSION_SESSION_H

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

/* A session of a desc that is complete and checked, as rvit_session_plan_create takes it; no trial. */
rvit_status rvit_session_open(rvit_model *model, const rvit_session_desc *desc, rvit_session **out_session);

/* Allocates what the plan asks for and fills what is needed before the first run. model, plan and stream are set. */
rvit_status rvit_session_allocate(rvit_session *session);
void rvit_session_free(rvit_session *session);

/* After a run, before anything of it is used: whether the lengths and errors that the device has written can be. INTERNAL: they cannot. */
rvit_status rvit_session_check_results(const rvit_session *session);
/* Of all stages. */
void rvit_session_forget_errors(const rvit_session *session);

/* After a run: takes what the stages reported, and checks what the host was given. The status is that of the first stage's first image, or
   else of the first whose results are not finite. */
rvit_status rvit_session_take_errors(rvit_session *session);

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

/* Calls the ops of one forward over the session's memory on its stream, which is recording. With plan->desc.run_views the first and the
   last are brought by each launch; where the device cannot do that, they are left out. */
rvit_status rvit_forward_record(rvit_session *session);

#endif

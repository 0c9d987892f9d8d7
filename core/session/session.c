/* Opens and destroys sessions. */
#include "core/session/session.h"

#include "core/base/args.h"
#include "core/base/entry.h"
#include "core/forward/record.h"
#include "core/session/memory.h"

static rvit_status record(rvit_session *s)
{
    RVIT_TRY(rvit_record_begin(s->stream));
    rvit_status status = rvit_forward_record(s);
    if (status == RVIT_OK)
        status = rvit_record_end(s->stream, &s->program);
    s->stream->recording = 0;
    if (s->stream != s->plan->desc.stream)
        rvit_stream_forget(s->stream);
    return status;
}

static rvit_status build(rvit_session *s)
{
    s->stream = s->plan->desc.stream;
    if (s->stream == NULL)
        RVIT_TRY(rvit_stream_create(s->model->device, &s->stream));
    RVIT_TRY(rvit_session_allocate(s));
    return record(s);
}

rvit_status rvit_session_open(rvit_model *model, const rvit_session_desc *desc, rvit_session **out_session)
{
    const rvit_session_plan *plan = NULL;
    RVIT_TRY(rvit_session_plan_create(model, desc, &plan));
    rvit_session *session = rvit_alloc_new(&model->device->alloc, sizeof *session);
    if (session == NULL) {
        rvit_session_plan_destroy(model, plan);
        return RVIT_OUT_OF_HOST_MEMORY;
    }
    session->model = model;
    rvit_model_retain(model);
    session->plan = plan;
    atomic_fetch_add(&model->variable_sessions, plan->desc.variable_resolution);
    session->info = (rvit_session_info)RVIT_SESSION_INFO_INIT;
    session->info.n_stages = plan->schedule.n_stages;
    const rvit_status status = build(session);
    if (status != RVIT_OK) {
        rvit_session_destroy(session);
        return status;
    }
    *out_session = session;
    return RVIT_OK;
}

void rvit_session_destroy(rvit_session *session)
{
    RVIT_ENTRY;
    if (session == NULL)
        return;
    rvit_model *model = session->model;
    if (session->stream != NULL && rvit_stream_synchronize(session->stream) != RVIT_OK)
        rvit_log(RVIT_LOG_ERROR, "a session ended with a run that failed: %s", rvit_status_detail());
    rvit_program_destroy(session->program);
    if (session->stream != session->plan->desc.stream)
        rvit_stream_destroy(session->stream);
    rvit_session_free(session);
    atomic_fetch_sub(&model->variable_sessions, session->plan->desc.variable_resolution);
    rvit_session_plan_destroy(model, session->plan);
    rvit_alloc_free(&model->device->alloc, session);
    rvit_model_destroy(model);
}

rvit_status rvit_session_get_info(const rvit_session *session, rvit_session_info *out_info)
{
    RVIT_ENTRY;
    if (session == NULL)
        return rvit_fail(RVIT_INVALID_ARGUMENT, "rvit_session_get_info: session is NULL");
    return rvit_args_return(out_info, &session->info, sizeof session->info, "session info");
}

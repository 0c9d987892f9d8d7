/* The functions of experimental.h on sessions. */
#ifndef RVIT_CORE_SESSION_TRACE_H
#define RVIT_CORE_SESSION_TRACE_H

#include "core/plan/state.h"

#define RVIT_TRACE_FIRST 1000 /* the first rvit_result of experimental.h */

/* rvit_session_get for the results of experimental.h. */
rvit_status rvit_session_get_traced(const rvit_session *session, rvit_result what, int32_t index, rvit_result_view *out_view);

#endif

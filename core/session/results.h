/* The results of a run, and their checks. */
#ifndef RVIT_CORE_SESSION_RESULTS_H
#define RVIT_CORE_SESSION_RESULTS_H

#include "core/plan/state.h"

/* A result as rvit_session_get returns it, but projected rows are not normalized. The session must have the result, and a finished run.
   data is NULL if the host does not have it. */
rvit_result_view rvit_session_values(const rvit_session *session, rvit_result what, int32_t index);
/* The name of a result in messages, in the plural. */
const char *rvit_result_name(rvit_result what);

/* After a run, before its results are used: checks the lengths and errors that the device wrote. INTERNAL: they are out of range. */
rvit_status rvit_session_check_results(const rvit_session *session);

/* After a run: takes over the errors of the stages, and checks the results in host memory. The status is that of the first image of the
   first stage with an error, otherwise of the first image with results that are not finite. */
rvit_status rvit_session_take_errors(rvit_session *session);

#endif

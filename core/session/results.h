/* What a run has left: whether it can be used. */
#ifndef RVIT_CORE_SESSION_RESULTS_H
#define RVIT_CORE_SESSION_RESULTS_H

#include "core/plan/state.h"

/* A result as rvit_session_get gives it, of a session that has it and of a finished run; data is NULL where the host does not have it.
   Projected rows are not normalized. Nothing is checked, so that no message is written. */
rvit_result_view rvit_session_values(const rvit_session *session, rvit_result what, int32_t index);
/* In messages: a plural. */
const char *rvit_result_name(rvit_result what);

/* After a run, before anything of it is used: whether the lengths and errors that the device has written can be. INTERNAL: they cannot. */
rvit_status rvit_session_check_results(const rvit_session *session);

/* After a run: takes what the stages reported, and checks what the host was given. The status is that of the first stage's first image, or
   else of the first whose results are not finite. */
rvit_status rvit_session_take_errors(rvit_session *session);

#endif

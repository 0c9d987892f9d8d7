/* What a run has left: whether it can be used. */
#ifndef RVIT_CORE_SESSION_RESULTS_H
#define RVIT_CORE_SESSION_RESULTS_H

#include "core/plan/state.h"

/* After a run, before anything of it is used: whether the lengths and errors that the device has written can be. INTERNAL: they cannot. */
rvit_status rvit_session_check_results(const rvit_session *session);

/* After a run: takes what the stages reported, and checks what the host was given. The status is that of the first stage's first image, or
   else of the first whose results are not finite. */
rvit_status rvit_session_take_errors(rvit_session *session);

#endif

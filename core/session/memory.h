/* The memory of a session. */
#ifndef RVIT_CORE_SESSION_MEMORY_H
#define RVIT_CORE_SESSION_MEMORY_H

#include "core/plan/state.h"

/* Allocates what the plan asks for and fills what is needed before the first run. model, plan and stream are set. */
rvit_status rvit_session_allocate(rvit_session *session);
void rvit_session_free(rvit_session *session);
/* Sets the errors of all stages and images to none. */
void rvit_session_forget_errors(const rvit_session *session);

#endif

/* The memory of a session. */
#ifndef RVIT_CORE_SESSION_MEMORY_H
#define RVIT_CORE_SESSION_MEMORY_H

#include "core/plan/state.h"

/* Allocates the arrays of the plan and fills those that are needed before the first run. model, plan and stream must be set. */
rvit_status rvit_session_allocate(rvit_session *session);
void rvit_session_free(rvit_session *session);
/* Clears the errors of all stages. */
void rvit_session_forget_errors(const rvit_session *session);

#endif

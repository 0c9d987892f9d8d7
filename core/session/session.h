/* Opening sessions. */
#ifndef RVIT_CORE_SESSION_SESSION_H
#define RVIT_CORE_SESSION_SESSION_H

#include "core/plan/state.h"

/* Opens a session. desc is complete and checked, as for rvit_session_plan_create; dense_fallback is ignored. */
rvit_status rvit_session_open(rvit_model *model, const rvit_session_desc *desc, rvit_session **out_session);

#endif

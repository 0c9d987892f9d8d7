/* Opening sessions. */
#ifndef RVIT_CORE_SESSION_SESSION_H
#define RVIT_CORE_SESSION_SESSION_H

#include "core/plan/state.h"

/* A session of a desc that is complete and checked, as rvit_session_plan_create takes it; no trial. */
rvit_status rvit_session_open(rvit_model *model, const rvit_session_desc *desc, rvit_session **out_session);

#endif

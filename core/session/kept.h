/* Which tokens of the unpruned images the rows of a run's results stand for. */
#ifndef RVIT_CORE_SESSION_KEPT_H
#define RVIT_CORE_SESSION_KEPT_H

#include "core/plan/state.h"

/* Fills the stages' arrays kept and kept_sizes of the last run, when they are first asked for. */
void rvit_session_need_kept(const rvit_session *session);

#endif

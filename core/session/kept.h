/* Maps the rows of a run's results to the tokens of the unpruned images. */
#ifndef RVIT_CORE_SESSION_KEPT_H
#define RVIT_CORE_SESSION_KEPT_H

#include "core/plan/state.h"

/* Fills the stages' arrays kept and kept_sizes of the last run, on the first request. */
void rvit_session_need_kept(const rvit_session *session);

#endif

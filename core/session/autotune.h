/* rvit_session_desc.dense_fallback: measures whether pruning is faster. */
#ifndef RVIT_CORE_SESSION_AUTOTUNE_H
#define RVIT_CORE_SESSION_AUTOTUNE_H

#include "core/session/session.h"

enum { RVIT_AUTOTUNE_SESSIONS = 3 };

/* The sessions that rvit_autotune and the creation of the chosen session may create besides that of desc (complete, checked). They never
   exist at the same time. *out_n is 0 if nothing is measured, otherwise RVIT_AUTOTUNE_SESSIONS. */
rvit_status rvit_autotune_sessions(const rvit_model *model, const rvit_session_desc *desc,
                                   rvit_session_desc out_descs[RVIT_AUTOTUNE_SESSIONS], int32_t *out_n);

/* With dense_fallback: measures both forwards, turns *desc into the desc of a dense session if pruning is not faster, and sets fell_back,
   dense_us and pruned_us of *info. */
rvit_status rvit_autotune(rvit_model *model, rvit_session_desc *desc, rvit_session_info *info);

#endif

/* rvit_session_desc.dense_fallback: whether pruning pays. */
#ifndef RVIT_CORE_SESSION_DENSE_TRIAL_H
#define RVIT_CORE_SESSION_DENSE_TRIAL_H

#include "core/session/session.h"

enum { RVIT_DENSE_TRIAL_SESSIONS = 3 };

/* The sessions that creating one of this desc (complete, checked) may make beside it: in *out_n none, where no trial is asked for or there
   is nothing to try, or all of them. They do not exist at the same time. */
rvit_status rvit_dense_trial_sessions(const rvit_model *model, const rvit_session_desc *desc,
                                      rvit_session_desc out_descs[RVIT_DENSE_TRIAL_SESSIONS], int32_t *out_n);

/* Holds the trial, if one is asked for, and makes *desc the desc of a dense session if pruning does not pay. Fills what info says of the
   trial. */
rvit_status rvit_dense_trial(rvit_model *model, rvit_session_desc *desc, rvit_session_info *info);

#endif

/* Pictures of a session's runs. */
#ifndef RVIT_CORE_SESSION_PICTURES_H
#define RVIT_CORE_SESSION_PICTURES_H

#include "core/plan/state.h"

rvit_status rvit_session_pictures_check_desc(const rvit_model *model, const rvit_session_desc *desc);
/* Whether a run has them where the session takes them, and nothing in their place. */
rvit_status rvit_session_pictures_check(const rvit_session *session, const rvit_run_args *args);
/* To the region that the device reads: no run is pending that does. */
rvit_status rvit_session_pictures_write(rvit_session *session, const rvit_run_args *args);
/* Enqueues the copy to the device, where the recorded forward does not make it itself. */
rvit_status rvit_session_pictures_send(const rvit_session *session);

#endif

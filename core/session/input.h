/* The input of a session's runs. */
#ifndef RVIT_CORE_SESSION_INPUT_H
#define RVIT_CORE_SESSION_INPUT_H

#include "core/plan/state.h"

rvit_status rvit_session_input_check_desc(const rvit_model *model, const rvit_session_desc *desc);
/* Fails unless the run has the session's kind of input, and nothing else. */
rvit_status rvit_session_input_check(const rvit_session *session, const rvit_run_args *args);
/* Writes the images of a run to the staging buffer. No pending run may read it. */
rvit_status rvit_session_input_write_images(rvit_session *session, const rvit_run_args *args);
/* Enqueues the copy of the staging buffer to the device, unless the recorded forward copies it. */
rvit_status rvit_session_input_send(const rvit_session *session);

#endif

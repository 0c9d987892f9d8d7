/* The input of a session's runs. */
#ifndef RVIT_CORE_SESSION_INPUT_H
#define RVIT_CORE_SESSION_INPUT_H

#include "core/plan/state.h"

rvit_status rvit_session_input_check_desc(const rvit_model *model, const rvit_session_desc *desc);
/* Whether a run has the session's input, and nothing else. */
rvit_status rvit_session_input_check(const rvit_session *session, const rvit_run_args *args);
/* Writes the images of a run to the staging buffer: no run is pending that reads it. */
rvit_status rvit_session_input_write_images(rvit_session *session, const rvit_run_args *args);
/* Enqueues the copy of the staging buffer to the device, where the recorded forward does not make it itself. */
rvit_status rvit_session_input_send(const rvit_session *session);

#endif

/* Records a forward. */
#ifndef RVIT_CORE_FORWARD_RECORD_H
#define RVIT_CORE_FORWARD_RECORD_H

#include "core/plan/state.h"

/* Records the ops of one forward over the session's memory on its stream, which is recording. With RVIT_INPUT_RUN each launch
   supplies the first and the last op; if the device does not support that, they are left out. */
rvit_status rvit_forward_record(rvit_session *session);

#endif

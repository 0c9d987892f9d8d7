/* Recording a forward. */
#ifndef RVIT_CORE_FORWARD_RECORD_H
#define RVIT_CORE_FORWARD_RECORD_H

#include "core/plan/state.h"

/* Calls the ops of one forward over the session's memory on its stream, which is recording. With plan->desc.run_views the first and the
   last are brought by each launch; where the device cannot do that, they are left out. */
rvit_status rvit_forward_record(rvit_session *session);

#endif

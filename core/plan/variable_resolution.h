/* Checks of sessions with variable resolution: images of different grids in one batch. */
#ifndef RVIT_CORE_PLAN_VARIABLE_RESOLUTION_H
#define RVIT_CORE_PLAN_VARIABLE_RESOLUTION_H

#include "core/plan/policy.h"
#include "core/weights/model.h"

/* Sets the capacities that are 0 to their defaults. */
void rvit_variable_complete(const rvit_model *model, rvit_session_desc *desc);
/* Checks that the model supports variable resolution and that the desc is consistent with it. */
rvit_status rvit_variable_check(const rvit_model *model, const rvit_session_desc *desc);
/* Checks that the policy drops or merges only whole merge groups. */
rvit_status rvit_variable_check_groups(const rvit_model *model, const rvit_prune_schedule *schedule);
/* Checks that the policy computes counts from the length of an image only. */
rvit_status rvit_variable_check_policy(const rvit_prune_desc *desc, const rvit_prune_schedule *schedule);

#endif

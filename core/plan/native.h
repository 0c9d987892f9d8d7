/* What sessions of native resolution can do: images of any grids in one batch. */
#ifndef RVIT_CORE_PLAN_NATIVE_H
#define RVIT_CORE_PLAN_NATIVE_H

#include "core/plan/policy.h"
#include "core/weights/model.h"

/* Fills in the capacities that the desc leaves open. */
void rvit_native_complete(const rvit_model *model, rvit_session_desc *desc);
/* Whether the model can run images of any grids, and what the desc says fits. */
rvit_status rvit_native_check(const rvit_model *model, const rvit_session_desc *desc);
/* Whether the policy leaves whole the squares of patches that the model merges. */
rvit_status rvit_native_check_units(const rvit_model *model, const rvit_prune_schedule *schedule);
/* Whether the policy counts by nothing but an image's length. */
rvit_status rvit_native_check_policy(const rvit_prune_desc *desc, const rvit_prune_schedule *schedule);

#endif

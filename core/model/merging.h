/* Vision encoders that output one row per merge group (Qwen2.5-VL, Qwen3-VL). */
#ifndef RVIT_CORE_MODEL_MERGING_H
#define RVIT_CORE_MODEL_MERGING_H

#include "core/model/facts.h"
#include "core/model/geometry.h"
#include "core/model/unsupported.h"

/* Fills config->merge and the fields of info from facts, which it checks against the tensors. */
rvit_status rvit_resolve_merge(const char *path, rvit_vit_config *config, rvit_facts *facts, rvit_unsupported *unsupported);

#endif

/* Towers whose result is a row for each square of patches (Qwen2.5-VL, Qwen3-VL): what their configuration says, checked
   against their tensors. */
#ifndef RVIT_CORE_MODEL_MERGING_H
#define RVIT_CORE_MODEL_MERGING_H

#include "core/model/facts.h"
#include "core/model/geometry.h"
#include "core/model/unsupported.h"

/* What the files say, checked against the tensors: fills config->merge and the info's fields. */
rvit_status rvit_resolve_merge(const char *path, rvit_vit_config *config, rvit_facts *facts, rvit_unsupported *unsupported);

#endif

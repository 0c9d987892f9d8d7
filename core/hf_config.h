/* What a Hugging Face config.json says that the tensors do not. */
#ifndef RVIT_CORE_HF_CONFIG_H
#define RVIT_CORE_HF_CONFIG_H

#include "core/alloc.h"

#include <raggedvit/vit.h>

/* Reads config.json in the folder of path, if there is one: sets info->eps, and refuses with UNSUPPORTED an activation other than the exact
   GELU and heads other than info's. BAD_FILE: it is there, but not as it must be. */
rvit_status rvit_hf_config_apply(const char *path, rvit_alloc *alloc, rvit_model_info *info);

#endif

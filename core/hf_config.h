/* Settings in a Hugging Face config.json that the tensors do not tell. */
#ifndef RVIT_CORE_HF_CONFIG_H
#define RVIT_CORE_HF_CONFIG_H

#include "core/alloc.h"

#include <raggedvit/vit.h>

/* Reads config.json in the folder of path, if it exists, and sets info->eps. UNSUPPORTED: an activation other than exact GELU, or heads
   other than info's. BAD_FILE: the file is malformed. */
rvit_status rvit_hf_config_apply(const char *path, rvit_alloc *alloc, rvit_model_info *info);

#endif

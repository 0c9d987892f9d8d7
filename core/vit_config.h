/* The geometry of a Vision Transformer, inferred from the names and shapes of its tensors. */
#ifndef RVIT_CORE_VIT_CONFIG_H
#define RVIT_CORE_VIT_CONFIG_H

#include "core/safetensors.h"

#include <raggedvit/vit.h>

/* Fills *info (struct_size aside) and used [file's tensors]: 1 for each tensor the forward uses. timm's names only. BAD_FILE: a tensor is
   missing, misshaped, of a type that holds no weights or, unless lenient, unknown. UNSUPPORTED: names or parts of a model that are
   recognised, but not run. */
rvit_status rvit_vit_config(const rvit_safetensors *file, int32_t lenient, uint8_t *used, rvit_model_info *info);

#endif

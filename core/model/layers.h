/* The linear layers of a block, and the tensors that each is made of. */
#ifndef RVIT_CORE_MODEL_LAYERS_H
#define RVIT_CORE_MODEL_LAYERS_H

#include "core/model/families.h"

typedef enum rvit_block_linear { RVIT_BLOCK_QKV, RVIT_BLOCK_PROJ, RVIT_BLOCK_FC1, RVIT_BLOCK_FC2, RVIT_N_BLOCK_LINEARS } rvit_block_linear;

/* The roles of a layer's weights that the family's names have; returns how many: queries, keys and values may be apart, and gate and values
   of an MLP. */
enum { RVIT_LAYER_PARTS = 3 };
int rvit_layer_parts(const rvit_family *family, rvit_block_linear linear, rvit_role parts[RVIT_LAYER_PARTS]);
/* Whether a file may have the tensor in 8 bits: it is a weight of a block's linear layer, or a part of one. */
int rvit_role_may_be_quantized(rvit_role role);

#endif

/* The linear layers of a block, and the tensors of each. */
#ifndef RVIT_CORE_MODEL_LAYERS_H
#define RVIT_CORE_MODEL_LAYERS_H

#include "core/model/families.h"

typedef enum rvit_block_linear { RVIT_BLOCK_QKV, RVIT_BLOCK_PROJ, RVIT_BLOCK_FC1, RVIT_BLOCK_FC2, RVIT_N_BLOCK_LINEARS } rvit_block_linear;

/* Lists the roles of a layer's weights in this family and returns their number: queries, keys and values may be separate, as may an MLP's
   gate and values. */
enum { RVIT_LAYER_PARTS = 3 };
int rvit_layer_parts(const rvit_family *family, rvit_block_linear linear, rvit_role parts[RVIT_LAYER_PARTS]);
/* Whether the tensor may be quantized: it is the weight, or part of the weight, of a block's linear layer. */
int rvit_role_may_be_quantized(rvit_role role);

#endif

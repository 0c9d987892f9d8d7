/* A checkpoint's weights on a device. */
#ifndef RVIT_CORE_VIT_MODEL_H
#define RVIT_CORE_VIT_MODEL_H

#include "core/device.h"

typedef struct rvit_block_weights {
    rvit_view norm1_gamma, norm1_beta, qkv_weight, qkv_bias, proj_weight, proj_bias;
    rvit_view norm2_gamma, norm2_beta, fc1_weight, fc1_bias, fc2_weight, fc2_bias;
} rvit_block_weights;

struct rvit_model {
    rvit_device *device;
    atomic_int references;
    rvit_model_info info;
    rvit_dtype dtype;     /* of weights and of the products' inputs */
    rvit_dtype x_dtype;   /* of the residual stream and the embedding added to it */
    rvit_buffer *weights; /* all of them */
    rvit_view patch_weight;
    /* [tokens, dim] of x_dtype, the residual of the patch product: token + position for the prefix rows, patch bias + position for the
       others. So the patch embedding is one product and the prefix costs nothing. */
    rvit_view embedding;
    rvit_block_weights *blocks;
    rvit_view norm_gamma, norm_beta, head_weight, head_bias;
};

void rvit_model_retain(rvit_model *model);

#endif

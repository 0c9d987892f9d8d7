/* The blocks' layers that a checkpoint stores in 8 bits, and the scales that it gives them. */
#ifndef RVIT_CORE_WEIGHTS_FILE_SCALES_H
#define RVIT_CORE_WEIGHTS_FILE_SCALES_H

#include "core/weights/loader.h"

/* Whether the file has the layer's weights, all of them, in 8 bits. */
int rvit_file_layer_is_quantized(const rvit_checkpoint *checkpoint, int32_t block, rvit_block_linear linear);
/* What the file brings of a layer. */
typedef struct rvit_file_scales {
    int32_t given, one; /* 1: the rows of the weight have scales; and all the same */
    float input;        /* of all inputs; 0: each row has its own */
} rvit_file_scales;
rvit_status rvit_file_scales_of(const rvit_checkpoint *checkpoint, int32_t block, rvit_block_linear linear, rvit_file_scales *out);
/* The scales of the weight's rows as the model has these, if they are given. Uses l->more. */
rvit_status rvit_file_weight_scales(const rvit_weights_loader *l, int32_t block, rvit_block_linear linear, float *scales);

#endif

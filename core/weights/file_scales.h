/* The layers of blocks that a checkpoint stores in 8 bits, and their scales. */
#ifndef RVIT_CORE_WEIGHTS_FILE_SCALES_H
#define RVIT_CORE_WEIGHTS_FILE_SCALES_H

#include "core/weights/loader.h"

/* Whether the file has all weights of the layer in 8 bits. */
int rvit_file_layer_is_quantized(const rvit_checkpoint *checkpoint, int32_t block, rvit_block_linear linear);
/* The scales that the file has for a layer. */
typedef struct rvit_file_scales {
    int32_t has_scales, one_scale; /* the rows of the weight have scales; all have the same scale */
    float input;                   /* the static scale of the inputs; 0: none */
} rvit_file_scales;
rvit_status rvit_file_scales_of(const rvit_checkpoint *checkpoint, int32_t block, rvit_block_linear linear, rvit_file_scales *out);
/* The scales of the weight's rows, in the model's order of rows, if the file has them. Uses l->more. */
rvit_status rvit_file_weight_scales(const rvit_weights_loader *l, int32_t block, rvit_block_linear linear, float *scales);

#endif

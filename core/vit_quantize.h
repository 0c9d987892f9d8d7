/* Models whose blocks multiply bytes: which products, in which type, and how their weights are made. */
#ifndef RVIT_CORE_VIT_QUANTIZE_H
#define RVIT_CORE_VIT_QUANTIZE_H

#include "core/vit_weights.h"

/* The type of the weight of a block's product, and of its input. */
rvit_dtype rvit_block_dtype(const rvit_model *model, rvit_block_linear linear);
/* Whether a block has products of bytes, and whether one of them takes its inputs' scale from the checkpoint. */
int rvit_model_quantizes(const rvit_model *model);
int rvit_model_has_static_scales(const rvit_model *model);

/* UNSUPPORTED, with the reason, if the model or the device cannot do it. */
rvit_status rvit_quantization_check(const rvit_device *device, rvit_quantization quantization, rvit_dtype dtype,
                                    const rvit_model_info *info);

/* What a file brings of a product that it has quantised. */
typedef struct rvit_file_scales {
    const float *weight; /* of each row of the weight, as the file has it; NULL: made from the values */
    float input;         /* of all inputs; 0: each row has its own */
} rvit_file_scales;
rvit_file_scales rvit_file_scales_of(const rvit_weights_loader *l, int32_t block, rvit_block_linear linear);

/* vit_bounds.c. Whether no input of the product exceeds what its weights say, and the scale of that: uses l->values and l->more. */
int rvit_input_is_bounded(const rvit_model *model, rvit_block_linear linear);
rvit_status rvit_weights_bound_input(rvit_weights_loader *l, int32_t block, rvit_block_linear linear, float *out_scale);

/* Room for a weight of bytes, and its scales. */
rvit_status rvit_weights_place_bytes(rvit_weights_loader *l, int64_t rows, int64_t columns, rvit_linear_weights *w);
/* Writes l->values [rows, columns] as bytes; given: scales of the rows, or NULL. Uses l->more. */
rvit_status rvit_weights_write_bytes(rvit_weights_loader *l, int64_t rows, int64_t columns, const float *given,
                                     const rvit_linear_weights *w);

#endif

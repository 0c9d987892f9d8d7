/* Models whose blocks multiply bytes: which products, in which type, and how their weights are made. */
#ifndef RVIT_CORE_WEIGHTS_QUANTIZE_H
#define RVIT_CORE_WEIGHTS_QUANTIZE_H

#include "core/weights/loader.h"

/* The type of the weight of a block's product, and of its input. Layers that a quantised checkpoint stores in 16 or 32 bits are spared. */
rvit_dtype rvit_block_dtype(const rvit_model *model, const rvit_checkpoint *checkpoint, int32_t block, rvit_block_linear linear);
/* Whether a block has products of bytes, and whether one of them takes its inputs' scale from the checkpoint. */
int rvit_model_quantizes(const rvit_model *model);
int rvit_model_has_static_scales(const rvit_model *model);

/* UNSUPPORTED, with the reason, if the model, its checkpoint or the device cannot do it. */
rvit_status rvit_quantization_check(const rvit_device *device, rvit_quantization quantization, rvit_dtype dtype,
                                    const rvit_checkpoint *checkpoint);
/* INVALID_ARGUMENT if sessions of the model would not fit the checkpoint: it has its layers of bytes, or scales of inputs, elsewhere. */
rvit_status rvit_quantization_check_same(const rvit_model *model, const rvit_checkpoint *checkpoint);

/* file_scales.c. Whether a file may have the tensor in 8 bits: it is a weight of a block's linear layer, or a part of one. */
int rvit_role_may_have_bytes(rvit_role role);
/* Whether the file has the layer's weights, all of them, in 8 bits. */
int rvit_file_has_bytes(const rvit_checkpoint *checkpoint, int32_t block, rvit_block_linear linear);
/* What the file brings of a layer. */
typedef struct rvit_file_scales {
    int32_t given, one; /* 1: the rows of the weight have scales; and all the same */
    float input;        /* of all inputs; 0: each row has its own */
} rvit_file_scales;
rvit_status rvit_file_scales_of(const rvit_checkpoint *checkpoint, int32_t block, rvit_block_linear linear, rvit_file_scales *out);
/* The scales of the weight's rows as the model has these, if they are given. Uses l->more. */
rvit_status rvit_file_weight_scales(const rvit_weights_loader *l, int32_t block, rvit_block_linear linear, float *scales);

/* input_bounds.c. Whether the inputs of the product, of that type, have the scale of the most that its weights allow; and that scale: uses
   l->values and l->more. */
int rvit_input_is_bounded(const rvit_model *model, rvit_dtype dtype, const rvit_file_scales *file, rvit_block_linear linear);
rvit_status rvit_weights_bound_input(rvit_weights_loader *l, int32_t block, rvit_block_linear linear, float *out_scale);

/* Gamma and beta of a norm of n values, [2, n], and the most that its outputs can be. */
rvit_status rvit_weights_read_norm(const rvit_weights_loader *l, rvit_role gamma, rvit_role beta, int32_t block, int64_t n, float *values);
double rvit_bound_of_norm(const float *norm, int64_t n);

/* float16_reach.c. The most that a value of the model which is stored in 16 bits can be, and which it is. */
#define RVIT_REACH_NAME 64
rvit_status rvit_float16_reach(const rvit_device *device, const rvit_checkpoint *checkpoint, double *out_most, char where[RVIT_REACH_NAME]);

/* Whether one scale does for all inputs of the product, of that type, and one for its whole weight, as the fastest products of E4M3 need.
 */
int rvit_inputs_have_one_scale(rvit_dtype dtype, const rvit_file_scales *file, int bounded);

/* Room for a weight of bytes, and its scales. */
rvit_status rvit_weights_place_bytes(rvit_weights_loader *l, int64_t rows, int64_t columns, rvit_linear_weights *w);
/* Writes l->values [rows, columns] as bytes; given: scales of the rows, or NULL. Uses l->more. */
rvit_status rvit_weights_write_bytes(rvit_weights_loader *l, int64_t rows, int64_t columns, const float *given,
                                     const rvit_linear_weights *w);

#endif

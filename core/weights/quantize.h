/* Models whose blocks multiply bytes: which products, in which type, and how their weights are made. */
#ifndef RVIT_CORE_WEIGHTS_QUANTIZE_H
#define RVIT_CORE_WEIGHTS_QUANTIZE_H

#include "core/weights/file_scales.h"

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

/* Whether one scale does for all inputs of the product, of that type, and one for its whole weight, as the fastest products of E4M3 need.
 */
int rvit_inputs_have_one_scale(rvit_dtype dtype, const rvit_file_scales *file, int bounded);

/* Room for a weight of bytes, and its scales. */
rvit_status rvit_weights_place_quantized(rvit_weights_loader *l, int64_t rows, int64_t columns, rvit_linear_weights *w);
/* Writes l->values [rows, columns] as bytes; given: scales of the rows, or NULL. Uses l->more. */
rvit_status rvit_weights_write_quantized(rvit_weights_loader *l, int64_t rows, int64_t columns, const float *given,
                                         const rvit_linear_weights *w);

#endif

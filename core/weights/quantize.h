/* Quantized models: which GEMMs are quantized, their types, and their weights. */
#ifndef RVIT_CORE_WEIGHTS_QUANTIZE_H
#define RVIT_CORE_WEIGHTS_QUANTIZE_H

#include "core/weights/file_scales.h"

/* The type of the weight and the input of a block's GEMM. Layers that a quantized checkpoint stores in 16 or 32 bits are not quantized. */
rvit_dtype rvit_block_dtype(const rvit_model *model, const rvit_checkpoint *checkpoint, int32_t block, rvit_block_linear linear);
/* Whether blocks have quantized GEMMs, and whether one of them has a static input scale from the checkpoint. */
int rvit_model_quantizes(const rvit_model *model);
int rvit_model_has_static_scales(const rvit_model *model);

/* UNSUPPORTED, with the reason, if the model, its checkpoint or the device does not support the quantization. */
rvit_status rvit_quantization_check(const rvit_device *device, rvit_quantization quantization, rvit_dtype dtype,
                                    const rvit_checkpoint *checkpoint);
/* INVALID_ARGUMENT if the model's sessions would not fit the checkpoint, because other layers are quantized or have input scales. */
rvit_status rvit_quantization_check_same(const rvit_model *model, const rvit_checkpoint *checkpoint);

/* Whether all inputs of a GEMM of this type share one scale, and all rows of its weight, as the fastest E4M3 GEMMs require. */
int rvit_inputs_have_one_scale(rvit_dtype dtype, const rvit_file_scales *file, int bounded);

/* Assigns offsets to a quantized weight and its scales. */
rvit_status rvit_weights_place_quantized(rvit_weights_loader *l, int64_t rows, int64_t columns, rvit_linear_weights *w);
/* Quantizes and writes l->values [rows, columns]; file_scales: of the rows, or NULL. Uses l->more. */
rvit_status rvit_weights_write_quantized(rvit_weights_loader *l, int64_t rows, int64_t columns, const float *file_scales,
                                         const rvit_linear_weights *w);

#endif

/* Weights that a file stores in 8 bits, as compressed-tensors and ModelOpt write them: X.weight [rows, columns] of I8 or F8_E4M3, whose
   values are q * scale; X.weight_scale, of each row or of all; and, where the layer's inputs have one scale, X.input_scale. */
#ifndef RVIT_CORE_FILE_QUANTIZED_TENSORS_H
#define RVIT_CORE_FILE_QUANTIZED_TENSORS_H

#include "core/file/tensor_set.h"

/* Whether the scales of the weight are there, of the right shape and type, above 0 and of a size to compute with; marks them in used. name:
   the weight's. BAD_FILE says what is wrong. */
rvit_status rvit_quantized_check(const rvit_tensor_set *set, const char *name, uint8_t *used);
/* The number of scales of a weight that has passed the check: 1 or its rows. */
int64_t rvit_quantized_n_scales(const rvit_tensor_set *set, const char *name);
/* The scale of each row. */
rvit_status rvit_quantized_scales(const rvit_tensor_set *set, const char *name, int64_t rows, float *out_scales);
/* The scale of all inputs; 0: there is none. */
rvit_status rvit_quantized_input_scale(const rvit_tensor_set *set, const char *name, float *out_scale);
/* Of n bytes of a weight, from element `first` on, the values. */
void rvit_quantized_values(const rvit_file_tensor *weight, const uint8_t *bytes, const float *scales, int64_t first, int64_t n,
                           float *out_values);

#endif

/* Weights stored in 8 bits, as compressed-tensors and ModelOpt write them: X.weight [rows, columns] of I8 or F8_E4M3, whose values are
   q * scale; X.weight_scale, one for each row or one for all; and X.input_scale if the layer's inputs have a static scale. */
#ifndef RVIT_CORE_FILE_QUANTIZED_TENSORS_H
#define RVIT_CORE_FILE_QUANTIZED_TENSORS_H

#include "core/file/tensor_set.h"

/* Checks that the weight `name` has scales of the right shape, type and range, and marks them in used. BAD_FILE gives the error. */
rvit_status rvit_quantized_check(const rvit_tensor_set *set, const char *name, uint8_t *used);
/* The number of scales of a weight that passed the check: 1 or its number of rows. */
int64_t rvit_quantized_n_scales(const rvit_tensor_set *set, const char *name);
/* The scale of each row. */
rvit_status rvit_quantized_scales(const rvit_tensor_set *set, const char *name, int64_t rows, float *out_scales);
/* The static scale of the layer's inputs; 0: there is none. */
rvit_status rvit_quantized_input_scale(const rvit_tensor_set *set, const char *name, float *out_scale);
/* Dequantizes n bytes of a weight, from element `first` on. */
void rvit_quantized_values(const rvit_file_tensor *weight, const uint8_t *bytes, const float *scales, int64_t first, int64_t n,
                           float *out_values);

#endif

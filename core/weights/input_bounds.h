/* Upper bounds for the inputs of a block's linear layers, from the norms before them. */
#ifndef RVIT_CORE_WEIGHTS_INPUT_BOUNDS_H
#define RVIT_CORE_WEIGHTS_INPUT_BOUNDS_H

#include "core/weights/file_scales.h"

/* Whether the inputs of a GEMM of this type have a static scale from their bound; and that scale, which uses l->values and l->more. */
int rvit_input_is_bounded(const rvit_model *model, rvit_dtype dtype, const rvit_file_scales *file, rvit_block_linear linear);
rvit_status rvit_weights_bound_input(rvit_weights_loader *l, int32_t block, rvit_block_linear linear, float *out_scale);

/* Gamma and beta of a norm of n values, [2, n]; and the upper bound of its outputs. */
rvit_status rvit_weights_read_norm(const rvit_weights_loader *l, rvit_role gamma, rvit_role beta, int32_t block, int64_t n, float *values);
double rvit_bound_of_norm(const float *norm, int64_t n);

#endif

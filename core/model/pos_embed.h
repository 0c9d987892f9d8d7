/* Resamples position tables to another grid on the host. */
#ifndef RVIT_CORE_MODEL_POS_EMBED_H
#define RVIT_CORE_MODEL_POS_EMBED_H

#include "core/base/alloc.h"

#include <raggedvit/session.h>

/* The weights of one axis: out[i] = sum over j < n_in of weights[i * n_in + j] * in[j]; weights [n_out, n_in]. Rows sum to 1.
   how: not DEFAULT. */
void rvit_resample_weights(rvit_resample how, int32_t n_in, int32_t n_out, double *weights);
/* Resamples table [n_in, n_in, dim] to out [n_out, n_out, dim], summing in float64 and rounding once. Equal grids: a copy. */
rvit_status rvit_resample_grid(rvit_alloc *alloc, rvit_resample how, const float *table, int32_t n_in, int32_t n_out, int32_t dim,
                               float *out);

#endif

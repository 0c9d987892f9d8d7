/* Whether the activations of a model fit float16. */
#ifndef RVIT_CORE_WEIGHTS_FLOAT16_BOUNDS_H
#define RVIT_CORE_WEIGHTS_FLOAT16_BOUNDS_H

#include <raggedvit/session.h>

/* *out_max: the largest value that the model may store in 16 bits; where: its layer. */
#define RVIT_BOUND_NAME 64
rvit_status rvit_float16_bound(const rvit_device *device, const rvit_checkpoint *checkpoint, double *out_max, char where[RVIT_BOUND_NAME]);

#endif

/* Whether float16 holds the values of a model. */
#ifndef RVIT_CORE_WEIGHTS_FLOAT16_REACH_H
#define RVIT_CORE_WEIGHTS_FLOAT16_REACH_H

#include <raggedvit/session.h>

/* The most that a value of the model which is stored in 16 bits can be, and which it is. */
#define RVIT_REACH_NAME 64
rvit_status rvit_float16_reach(const rvit_device *device, const rvit_checkpoint *checkpoint, double *out_most, char where[RVIT_REACH_NAME]);

#endif

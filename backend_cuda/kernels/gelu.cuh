/* The exact GELU. */
#ifndef RVIT_GELU_CUH
#define RVIT_GELU_CUH

#include "elements.cuh"

RVIT_DEVICE float gelu(float x)
{
    return 0.5f * x * (1.0f + erff(x * 0.70710678118654752f));
}

#endif

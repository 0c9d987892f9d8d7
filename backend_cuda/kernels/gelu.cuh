/* The exact GELU. */
#ifndef RVIT_GELU_CUH
#define RVIT_GELU_CUH

#include "elements.cuh"

RVIT_DEVICE float gelu(float x)
{
    return 0.5f * x * (1.0f + erff(x * 0.70710678118654752f));
}

/* The same for outputs of 16 bits: x Phi(x) = (x + |x|) / 2 - |x| Phi(-|x|), the last factor as 2^p, p fitted to its logarithm. Off by at
   most 8e-7, and by 5e-6 of the result. */
RVIT_DEVICE float gelu_fast(float x)
{
    const float u = fminf(fabsf(x), 13.0f); /* where 2^p is zero */
    float p = -1.7577845e-6f;
    p = fmaf(p, u, 5.993678e-5f);
    p = fmaf(p, u, -9.163649e-4f);
    p = fmaf(p, u, 8.4473956e-3f);
    p = fmaf(p, u, -5.3824533e-2f);
    p = fmaf(p, u, -4.5861566e-1f);
    p = fmaf(p, u, -1.1511801f);
    p = fmaf(p, u, -1.0000038f);
    return fmaf(-u, exp2_fast(p), fmaf(0.5f, x, 0.5f * fabsf(x)));
}

#endif

/* The exact GELU. */
#ifndef RVIT_GELU_CUH
#define RVIT_GELU_CUH

#include "elements.cuh"

RVIT_DEVICE float gelu(float x)
{
    return 0.5f * x * (1.0f + erff(x * 0.70710678118654752f));
}

template <typename T> RVIT_DEVICE void gelu_in_place(const rvit_cu_gelu_params &params)
{
    T *x = static_cast<T *>(params.x);
    const long long step = (long long)gridDim.x * blockDim.x;
    for (long long i = (long long)blockIdx.x * blockDim.x + threadIdx.x; i < params.n / 4; i += step) {
        const float4 in = load_4(x + i * 4);
        store_4(x + i * 4, make_float4(gelu(in.x), gelu(in.y), gelu(in.z), gelu(in.w)));
    }
}

#endif

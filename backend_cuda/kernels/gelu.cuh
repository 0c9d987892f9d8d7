/* The exact GELU, and products that are finished by it. */
#ifndef RVIT_GELU_CUH
#define RVIT_GELU_CUH

#include "elements.cuh"

RVIT_DEVICE float gelu(float x)
{
    return 0.5f * x * (1.0f + erff(x * 0.70710678118654752f));
}

/* What is left to do of a product that another library has made. */
template <typename T> RVIT_DEVICE void finish_product(const rvit_cu_finish_params &params)
{
    T *x = static_cast<T *>(params.x);
    const long long step = (long long)gridDim.x * blockDim.x;
    for (long long i = (long long)blockIdx.x * blockDim.x + threadIdx.x; i < params.n / 4; i += step) {
        float4 value = load_4(x + i * 4);
        if (params.bias != nullptr) {
            const float4 bias = load_4(params.bias + i * 4 % params.columns);
            value = make_float4(value.x + bias.x, value.y + bias.y, value.z + bias.z, value.w + bias.w);
        }
        if (params.gelu)
            value = make_float4(gelu(value.x), gelu(value.y), gelu(value.z), gelu(value.w));
        store_4(x + i * 4, value);
    }
}

#endif

/* The epilogue after a cuBLASLt GEMM, in place: bias and activation. */
#ifndef RVIT_EPILOGUE_CUH
#define RVIT_EPILOGUE_CUH

#include "activation.cuh"

/* 16 bytes of outputs: unpacking, packing, and activations of matching precision. */
template <typename T> struct chunk {
    typedef uint4 raw;
    static const int SIZE = 8;
    static __device__ __forceinline__ void unpack(raw from, float (&x)[SIZE])
    {
        const uint32_t pairs[4] = {from.x, from.y, from.z, from.w};
#pragma unroll
        for (int i = 0; i < 4; i++) {
            const float2 pair = element<T>::unpack(pairs[i]);
            x[2 * i] = pair.x, x[2 * i + 1] = pair.y;
        }
    }
    static __device__ __forceinline__ raw pack(const float (&x)[SIZE])
    {
        return make_uint4(element<T>::pack(x[0], x[1]), element<T>::pack(x[2], x[3]), element<T>::pack(x[4], x[5]),
                          element<T>::pack(x[6], x[7]));
    }
    static __device__ __forceinline__ float activate(float x)
    {
        return gelu_fast(x);
    }
    static __device__ __forceinline__ float sigmoid(float x, float slope, float cubic)
    {
        return sigmoid_product_fast(x, slope, cubic);
    }
};

template <> struct chunk<float> {
    typedef float4 raw;
    static const int SIZE = 4;
    static __device__ __forceinline__ void unpack(raw from, float (&x)[SIZE])
    {
        x[0] = from.x, x[1] = from.y, x[2] = from.z, x[3] = from.w;
    }
    static __device__ __forceinline__ raw pack(const float (&x)[SIZE])
    {
        return make_float4(x[0], x[1], x[2], x[3]);
    }
    static __device__ __forceinline__ float activate(float x)
    {
        return gelu(x);
    }
    static __device__ __forceinline__ float sigmoid(float x, float slope, float cubic)
    {
        return sigmoid_product(x, slope, cubic);
    }
};

/* Processes the last rows first: the GEMM wrote them last, so they are still in L2, and the next GEMM finds its first rows there.
   EPILOGUE: PLAIN or SIGMOID. */
template <typename T, epilogue_kind EPILOGUE> RVIT_DEVICE void finish_gemm(const rvit_cu_epilogue_params &params)
{
    typedef chunk<T> C;
    const int UNROLL = 2;
    typename C::raw *x = static_cast<typename C::raw *>(params.x);
    const int width = params.columns / C::SIZE, step = (int)(gridDim.x * blockDim.x), column_step = step % width;
    long long at = params.n / C::SIZE - 1 - ((long long)blockIdx.x * blockDim.x + threadIdx.x);
    int column = at < 0 ? 0 : (int)(at % width);
    for (; at >= 0; at -= (long long)UNROLL * step) {
        typename C::raw raw[UNROLL];
#pragma unroll
        for (int u = 0; u < UNROLL; u++)
            if (at >= (long long)u * step)
                raw[u] = x[at - (long long)u * step];
#pragma unroll
        for (int u = 0; u < UNROLL; u++) {
            if (at < (long long)u * step)
                break;
            float value[C::SIZE];
            C::unpack(raw[u], value);
            if (params.bias != nullptr) {
#pragma unroll
                for (int i = 0; i < C::SIZE; i += 4) {
                    const float4 bias = load_4(params.bias + column * C::SIZE + i);
                    value[i] += bias.x, value[i + 1] += bias.y, value[i + 2] += bias.z, value[i + 3] += bias.w;
                }
            }
            if (EPILOGUE == SIGMOID) {
#pragma unroll
                for (int i = 0; i < C::SIZE; i++)
                    value[i] = C::sigmoid(value[i], params.slope, params.cubic);
            } else if (params.gelu) {
#pragma unroll
                for (int i = 0; i < C::SIZE; i++)
                    value[i] = C::activate(value[i]);
            }
            x[at - (long long)u * step] = C::pack(value);
            column -= column_step;
            column += column < 0 ? width : 0;
        }
    }
}

template <typename T> RVIT_DEVICE void gemm_epilogue(const rvit_cu_epilogue_params &params)
{
    finish_gemm<T, PLAIN>(params);
}

template <typename T> RVIT_DEVICE void gemm_epilogue_sigmoid(const rvit_cu_epilogue_params &params)
{
    finish_gemm<T, SIGMOID>(params);
}

#endif

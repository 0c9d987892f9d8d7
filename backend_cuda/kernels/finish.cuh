/* What is left to do of a product that another library has made: bias and GELU, in place. */
#ifndef RVIT_FINISH_CUH
#define RVIT_FINISH_CUH

#include "gelu.cuh"

/* A thread takes 16 or 8 bytes at a time, of type R, AHEAD of them on their way. */
template <typename T, typename R> RVIT_DEVICE void finish_pieces(const rvit_cu_finish_params &params)
{
    enum { EACH = sizeof(R) / sizeof(T), AHEAD = 2 };
    union piece {
        R all;
        typename raw_4<T>::type fours[EACH / 4];
    };
    R *x = static_cast<R *>(params.x);
    const unsigned step = gridDim.x * blockDim.x, first = blockIdx.x * blockDim.x + threadIdx.x, pieces = (unsigned)params.columns / EACH;
    const unsigned step_column = step % pieces;
    const long long n = params.n / EACH;
    unsigned column = first % pieces;
    for (long long at = first; at < n; at += (long long)step * AHEAD) {
        piece value[AHEAD];
        float4 bias[AHEAD][EACH / 4];
#pragma unroll
        for (int a = 0; a < AHEAD; a++) {
#pragma unroll
            for (int i = 0; i < EACH / 4; i++)
                bias[a][i] = params.bias == nullptr ? make_float4(0.0f, 0.0f, 0.0f, 0.0f) : load_4(params.bias + column * EACH + i * 4);
            if (at + a * step < n)
                value[a].all = x[at + a * step];
            column += step_column;
            column -= column >= pieces ? pieces : 0u;
        }
#pragma unroll
        for (int a = 0; a < AHEAD; a++) {
            if (at + a * step >= n)
                break;
#pragma unroll
            for (int i = 0; i < EACH / 4; i++) {
                float4 v = raw_4<T>::floats(value[a].fours[i]);
                v = make_float4(v.x + bias[a][i].x, v.y + bias[a][i].y, v.z + bias[a][i].z, v.w + bias[a][i].w);
                if (params.gelu)
                    v = make_float4(gelu(v.x), gelu(v.y), gelu(v.z), gelu(v.w));
                value[a].fours[i] = raw_4<T>::stored(v);
            }
            x[at + a * step] = value[a].all;
        }
    }
}

template <typename T> RVIT_DEVICE void finish_product(const rvit_cu_finish_params &params)
{
    if (sizeof(T) == 2 && params.columns % 8 == 0)
        finish_pieces<T, uint4>(params);
    else
        finish_pieces<T, typename raw_4<T>::type>(params);
}

#endif

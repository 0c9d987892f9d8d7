/* Scores, in the order of additions that include/raggedvit/prune.h fixes: the same bits on every backend. */
#ifndef RVIT_SCORE_CUH
#define RVIT_SCORE_CUH

#include "elements.cuh"

template <typename T> RVIT_DEVICE void score_l2(const rvit_cu_score_params &params)
{
    const int lane = threadIdx.x & 31, warps = (int)blockDim.x / 32, rows = live_rows(params.rows);
    const long long step = (long long)gridDim.x * warps;
    for (long long row = (long long)blockIdx.x * warps + (int)threadIdx.x / 32; row < rows; row += step) {
        const T *x = static_cast<const T *>(params.x) + row * params.width;
        float sum = 0.0f;
#pragma unroll 8
        for (int i = lane; i < params.width; i += 32) {
            const float value = to_float(x[i]);
            sum = add_rn(sum, mul_rn(value, value));
        }
        for (int half = 16; half > 0; half /= 2)
            sum = add_rn(sum, shuffle_down(sum, half));
        if (lane == 0)
            params.scores[row] = sum;
    }
}

RVIT_DEVICE void score_heads(const rvit_cu_score_params &params)
{
    const int rows = live_rows(params.rows);
    const long long step = (long long)gridDim.x * blockDim.x;
    for (long long row = (long long)blockIdx.x * blockDim.x + threadIdx.x; row < rows; row += step) {
        const float *probs = static_cast<const float *>(params.x) + row * params.width;
        float sum = probs[0];
        for (int head = 1; head < params.width; head++)
            sum = add_rn(sum, probs[head]);
        params.scores[row] = mul_rn(sum, params.factor);
    }
}

#endif

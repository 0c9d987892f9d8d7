/* Layernorm, one warp a row, with the gather of a pack. */
#ifndef RVIT_LAYERNORM_CUH
#define RVIT_LAYERNORM_CUH

#include "elements.cuh"

/* Rows of up to 128 * PIECES elements stay in registers; longer ones are read again for each pass. */
template <typename T> struct layernorm {
    enum { PIECES = 8 };

    static __device__ __forceinline__ void run(const rvit_cu_layernorm_params &params)
    {
        const int lane = threadIdx.x & 31, warps = (int)blockDim.x / 32, rows = params.x_rows > 0 ? live_rows(params.rows) : 0;
        const long long step = (long long)gridDim.x * warps;
        for (long long row = (long long)blockIdx.x * warps + (int)threadIdx.x / 32; row < rows; row += step) {
            const long long from = params.src_rows == nullptr ? row : min(max(params.src_rows[row], 0), params.x_rows - 1);
            const T *x = static_cast<const T *>(params.x) + from * params.dim;
            T *out_x = params.out_x == nullptr ? nullptr : static_cast<T *>(params.out_x) + row * params.dim;
            if (params.dim <= 128 * PIECES)
                held(params, x, out_x, row * params.dim, lane);
            else
                streamed(params, x, out_x, row * params.dim, lane);
        }
    }

    static __device__ __forceinline__ float square_distance(float4 x, float mean)
    {
        const float a = x.x - mean, b = x.y - mean, c = x.z - mean, d = x.w - mean;
        return a * a + b * b + (c * c + d * d);
    }

    static __device__ __forceinline__ void finish(const rvit_cu_layernorm_params &params, float4 x, float mean, float scale, int i,
                                                  long long at)
    {
        const float4 gamma = load_4(params.gamma + i), beta = load_4(params.beta + i);
        store_4_as(params.out_dtype, params.out, at + i,
                   make_float4((x.x - mean) * scale * gamma.x + beta.x, (x.y - mean) * scale * gamma.y + beta.y,
                               (x.z - mean) * scale * gamma.z + beta.z, (x.w - mean) * scale * gamma.w + beta.w));
    }

    static __device__ __forceinline__ void held(const rvit_cu_layernorm_params &params, const T *x, T *out_x, long long at, int lane)
    {
        const int dim = params.dim;
        float4 value[PIECES];
        float sum = 0.0f;
#pragma unroll
        for (int p = 0; p < PIECES; p++) {
            const int i = p * 128 + lane * 4;
            if (i < dim) {
                value[p] = load_4(x + i);
                sum += value[p].x + value[p].y + (value[p].z + value[p].w);
            }
        }
        const float mean = warp_sum(sum) / (float)dim;
        float squares = 0.0f;
#pragma unroll
        for (int p = 0; p < PIECES; p++)
            if (p * 128 + lane * 4 < dim)
                squares += square_distance(value[p], mean);
        const float scale = 1.0f / sqrtf(warp_sum(squares) / (float)dim + params.eps);
#pragma unroll
        for (int p = 0; p < PIECES; p++) {
            const int i = p * 128 + lane * 4;
            if (i < dim) {
                if (out_x != nullptr)
                    store_4(out_x + i, value[p]);
                finish(params, value[p], mean, scale, i, at);
            }
        }
    }

    static __device__ __forceinline__ void streamed(const rvit_cu_layernorm_params &params, const T *x, T *out_x, long long at, int lane)
    {
        const int dim = params.dim;
        float sum = 0.0f, squares = 0.0f;
        for (int i = lane * 4; i < dim; i += 128) {
            const float4 value = load_4(x + i);
            sum += value.x + value.y + (value.z + value.w);
        }
        const float mean = warp_sum(sum) / (float)dim;
        for (int i = lane * 4; i < dim; i += 128)
            squares += square_distance(load_4(x + i), mean);
        const float scale = 1.0f / sqrtf(warp_sum(squares) / (float)dim + params.eps);
        for (int i = lane * 4; i < dim; i += 128) {
            const float4 value = load_4(x + i);
            if (out_x != nullptr)
                store_4(out_x + i, value);
            finish(params, value, mean, scale, i, at);
        }
    }
};

#endif

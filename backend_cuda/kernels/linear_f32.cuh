/* The GEMM in float32, without tensor cores: 64 x 64 outputs per CTA, 4 x 4 per thread. EPILOGUE: PLAIN or ALL. */
#ifndef RVIT_LINEAR_F32_CUH
#define RVIT_LINEAR_F32_CUH

#include "activation.cuh"

template <epilogue_kind EPILOGUE> struct linear_f32_tile {
    enum { SIDE = 64, STEP = 16, PITCH = SIDE + 4 };

    static __device__ __forceinline__ float4 fetch(const float *source, int first_row, int n_rows, int first_k, int width)
    {
        const int row = first_row + (int)threadIdx.x / 4, k = first_k + (int)threadIdx.x % 4 * 4;
        if (row < n_rows && k < width)
            return load_4(source + (long long)row * width + k);
        return make_float4(0.0f, 0.0f, 0.0f, 0.0f);
    }

    /* Stores channel by channel, so that a thread's 4 adjacent rows are contiguous. */
    static __device__ __forceinline__ void put(float *tile, float4 x)
    {
        float *to = tile + threadIdx.x % 4 * 4 * PITCH + threadIdx.x / 4;
        to[0] = x.x, to[PITCH] = x.y, to[2 * PITCH] = x.z, to[3 * PITCH] = x.w;
    }

    static __device__ __forceinline__ void run(const rvit_cu_linear_params &params)
    {
        RVIT_SHARED float tiles[2][STEP * PITCH];
        const float *x = static_cast<const float *>(params.x), *weight = static_cast<const float *>(params.weight);
        const int rows = live_rows(params.rows), n = params.out_features, width = params.in_features;
        const int columns = (n + SIDE - 1) / SIDE, tx = threadIdx.x % 16, ty = threadIdx.x / 16;
        const long long n_tiles = (long long)((rows + SIDE - 1) / SIDE) * columns;
        for (long long tile = blockIdx.x; tile < n_tiles; tile += gridDim.x) {
            const int row = (int)(tile / columns) * SIDE, column = (int)(tile % columns) * SIDE;
            float sum[4][4];
#pragma unroll
            for (int i = 0; i < 4; i++)
#pragma unroll
                for (int j = 0; j < 4; j++)
                    sum[i][j] = 0.0f;
            float4 next_x = fetch(x, row, rows, 0, width), next_weight = fetch(weight, column, n, 0, width);
            for (int first_k = 0; first_k < width; first_k += STEP) {
                block_sync();
                put(tiles[0], next_x);
                put(tiles[1], next_weight);
                block_sync();
                next_x = fetch(x, row, rows, first_k + STEP, width);
                next_weight = fetch(weight, column, n, first_k + STEP, width);
#pragma unroll
                for (int k = 0; k < STEP; k++) {
                    const float4 a = load_4(tiles[0] + k * PITCH + ty * 4), b = load_4(tiles[1] + k * PITCH + tx * 4);
                    const float left[4] = {a.x, a.y, a.z, a.w}, right[4] = {b.x, b.y, b.z, b.w};
#pragma unroll
                    for (int i = 0; i < 4; i++)
#pragma unroll
                        for (int j = 0; j < 4; j++)
                            sum[i][j] = fmaf(left[i], right[j], sum[i][j]);
                }
            }
            epilogue(params, sum, row + ty * 4, column + tx * 4, rows);
        }
    }

    static __device__ __forceinline__ void epilogue(const rvit_cu_linear_params &params, float (&sum)[4][4], int row, int column, int rows)
    {
        const int n = params.out_features;
        if (column >= n)
            return;
        float4 bias = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
        if (params.bias != nullptr)
            bias = load_4(params.bias + column);
#pragma unroll
        for (int i = 0; i < 4; i++) {
            const int r = row + i;
            if (r >= rows)
                continue;
            float4 value = make_float4(sum[i][0] + bias.x, sum[i][1] + bias.y, sum[i][2] + bias.z, sum[i][3] + bias.w);
            if (EPILOGUE == ALL) {
                const float4 x = value;
                value = make_float4(activate(params, x.x), activate(params, x.y), activate(params, x.z), activate(params, x.w));
                if (params.gated) {
                    store_gated(params, make_float2(value.x * x.y, value.z * x.w), r, column / 2);
                    continue;
                }
            } else if (params.gelu) {
                value = make_float4(gelu(value.x), gelu(value.y), gelu(value.z), gelu(value.w));
            }
            if (params.residual != nullptr) {
                const int residual_row = params.residual_period == 0 ? r : r % params.residual_period;
                const float4 more = load_4(static_cast<const float *>(params.residual) + (long long)residual_row * n + column);
                value = make_float4(value.x + more.x, value.y + more.y, value.z + more.z, value.w + more.w);
            }
            store_4(static_cast<float *>(params.out) + (long long)r * n + column, value);
        }
    }

    static __device__ __forceinline__ float activate(const rvit_cu_linear_params &params, float x)
    {
        return params.gelu ? gelu(x) : params.slope != 0.0f ? sigmoid_product(x, params.slope, params.cubic) : x;
    }

    static __device__ __forceinline__ void store_gated(const rvit_cu_linear_params &params, float2 value, int row, int to)
    {
        const int n = params.out_features / 2, residual_row = params.residual_period == 0 ? row : row % params.residual_period;
        if (params.residual != nullptr) {
            const float2 more = load_2(static_cast<const float *>(params.residual) + (long long)residual_row * n + to);
            value = make_float2(value.x + more.x, value.y + more.y);
        }
        store_2(static_cast<float *>(params.out) + (long long)row * n + to, value);
    }
};

#endif

/* Layernorm, one warp per row, optionally with a gather. E4M3: quantized output with one scale per row. */
#ifndef RVIT_LAYERNORM_CUH
#define RVIT_LAYERNORM_CUH

#include "e4m3.cuh"

/* held: rows of up to 128 * PIECES elements stay in registers, with gamma and beta. streamed: each pass reads the row again. */
template <typename T> struct layernorm {
    static __device__ __forceinline__ const T *source_row(const rvit_cu_layernorm_params &params, int row)
    {
        const int from = params.src_rows == nullptr ? row : min(max(params.src_rows[row], 0), params.x_rows - 1);
        return static_cast<const T *>(params.x) + (long long)from * params.dim;
    }

    static __device__ __forceinline__ void prefetch_weights(const rvit_cu_layernorm_params &params)
    {
        const int first = ((int)blockIdx.x - params.row_ctas) * (int)blockDim.x + (int)threadIdx.x;
        const int step = ((int)gridDim.x - params.row_ctas) * (int)blockDim.x;
#pragma unroll
        for (int i = 0; i < RVIT_CU_PREFETCHES; i++)
            for (int line = first; line < params.prefetch.lines[i]; line += step)
                prefetch_l2(static_cast<const unsigned char *>(params.prefetch.memory[i]) + (long long)line * RVIT_CU_PREFETCH_LINE);
    }

    static __device__ __forceinline__ int lane_column()
    {
        return (int)(threadIdx.x & 31) * 4;
    }

    /* The lane's elements: every 32nd group of four. */
    template <typename U, int PIECES> static __device__ __forceinline__ void load_pieces(float4 (&value)[PIECES], const U *from, int dim)
    {
#pragma unroll
        for (int p = 0; p < PIECES; p++)
            value[p] = p * 128 + lane_column() < dim ? load_4(from + p * 128 + lane_column()) : make_float4(0.0f, 0.0f, 0.0f, 0.0f);
    }

    template <typename U, int PIECES>
    static __device__ __forceinline__ void store_pieces(void *to, long long at, const float4 (&value)[PIECES], int dim)
    {
        U *out = static_cast<U *>(to) + at;
#pragma unroll
        for (int p = 0; p < PIECES; p++)
            if (p * 128 + lane_column() < dim)
                store_4(out + p * 128 + lane_column(), value[p]);
    }

    static __device__ __forceinline__ float square_distance(float4 x, float mean)
    {
        const float a = x.x - mean, b = x.y - mean, c = x.z - mean, d = x.w - mean;
        return a * a + b * b + (c * c + d * d);
    }

    static __device__ __forceinline__ float4 scaled(float4 x, float mean, float scale, float4 gamma, float4 beta)
    {
        return make_float4((x.x - mean) * scale * gamma.x + beta.x, (x.y - mean) * scale * gamma.y + beta.y,
                           (x.z - mean) * scale * gamma.z + beta.z, (x.w - mean) * scale * gamma.w + beta.w);
    }

    static __device__ __forceinline__ void store_e4m3(const rvit_cu_layernorm_params &params, long long at, uint32_t bytes)
    {
        *reinterpret_cast<uint32_t *>(static_cast<uint8_t *>(params.out) + at) = bytes;
    }

    static __device__ __forceinline__ void store_scale(const rvit_cu_layernorm_params &params, int row, float scale)
    {
        if ((threadIdx.x & 31) == 0)
            params.out_scales[row] = scale;
    }

    template <int PIECES>
    static __device__ __forceinline__ void quantize_pieces(const rvit_cu_layernorm_params &params, int row, float fixed, float factor,
                                                           const float4 (&value)[PIECES])
    {
        const int dim = params.dim;
        const long long at = (long long)row * dim;
        float largest = 0.0f;
#pragma unroll
        for (int p = 0; p < PIECES; p++)
            largest = p * 128 + lane_column() < dim ? magnitude_of(value[p], largest) : largest;
        largest = warp_largest(largest);
        const e4m3_row to = params.static_scale == nullptr ? e4m3_row_of(largest, nullptr) : e4m3_row_by(largest, fixed, factor);
#pragma unroll
        for (int p = 0; p < PIECES; p++)
            store_4_where(p * 128 + lane_column() < dim, static_cast<uint8_t *>(params.out) + at + p * 128 + lane_column(),
                          e4m3_of(to, value[p]));
        store_scale(params, row, to.scale);
        if (params.static_scale != nullptr && params.saturated != nullptr) {
            int n = 0;
#pragma unroll
            for (int p = 0; p < PIECES; p++)
                n += p * 128 + lane_column() < dim ? saturates(to, value[p]) : 0;
            add_saturated(params.saturated, n);
        }
    }

    template <int PIECES, bool E4M3> static __device__ __forceinline__ void held(const rvit_cu_layernorm_params &params)
    {
        if ((int)blockIdx.x >= params.row_ctas) {
            prefetch_weights(params);
            return;
        }
        wait_for_previous();
        const int dim = params.dim, step = params.row_ctas * (int)(blockDim.x / 32);
        int row = (int)(blockIdx.x * (blockDim.x / 32) + threadIdx.x / 32);
        if (row >= params.rows.capacity)
            return;
        /* Loaded together with the row's source index, not before it. */
        const int rows = live_rows(params.rows);
        const T *x = source_row(params, row);
        if (row >= rows)
            return;
        float4 value[PIECES], gamma[PIECES], beta[PIECES];
        load_pieces(value, x, dim);
        load_pieces(gamma, params.gamma, dim);
        load_pieces(beta, params.beta, dim);
        /* A load after a store would stall where its value is needed. */
        const float fixed = E4M3 && params.static_scale != nullptr ? *params.static_scale : 0.0f, factor = E4M3 ? factor_of(fixed) : 0.0f;
        for (;;) {
            float sum = 0.0f, squares = 0.0f;
#pragma unroll
            for (int p = 0; p < PIECES; p++)
                sum += value[p].x + value[p].y + (value[p].z + value[p].w);
            const float mean = warp_sum(sum) * params.inverse_dim;
#pragma unroll
            for (int p = 0; p < PIECES; p++)
                squares += p * 128 + lane_column() < dim ? square_distance(value[p], mean) : 0.0f;
            const float scale = inverse_sqrt(warp_sum(squares) * params.inverse_dim + params.eps);
            const long long at = (long long)row * dim;
            if (params.out_x != nullptr)
                store_pieces<T>(params.out_x, at, value, dim);
#pragma unroll
            for (int p = 0; p < PIECES; p++)
                value[p] = scaled(value[p], mean, scale, gamma[p], beta[p]);
            if (E4M3)
                quantize_pieces(params, row, fixed, factor, value);
            else if (params.out_dtype == RVIT_CU_F32)
                store_pieces<float>(params.out, at, value, dim);
            else if (params.out_dtype == RVIT_CU_F16)
                store_pieces<f16>(params.out, at, value, dim);
            else
                store_pieces<bf16>(params.out, at, value, dim);
            if (row >= rows - step)
                return;
            row += step;
            load_pieces(value, source_row(params, row), dim);
        }
    }

    static __device__ __forceinline__ void streamed(const rvit_cu_layernorm_params &params)
    {
        if ((int)blockIdx.x >= params.row_ctas) {
            prefetch_weights(params);
            return;
        }
        wait_for_previous();
        const int dim = params.dim, column = lane_column(), rows = live_rows(params.rows);
        const long long step = (long long)params.row_ctas * (blockDim.x / 32);
        for (long long row = (long long)blockIdx.x * (blockDim.x / 32) + threadIdx.x / 32; row < rows; row += step) {
            const T *x = source_row(params, (int)row);
            float sum = 0.0f, squares = 0.0f;
            for (int i = column; i < dim; i += 128) {
                const float4 value = load_4(x + i);
                sum += value.x + value.y + (value.z + value.w);
            }
            const float mean = warp_sum(sum) * params.inverse_dim;
            for (int i = column; i < dim; i += 128)
                squares += square_distance(load_4(x + i), mean);
            const float scale = inverse_sqrt(warp_sum(squares) * params.inverse_dim + params.eps);
            for (int i = column; i < dim; i += 128) {
                const float4 value = load_4(x + i);
                if (params.out_x != nullptr)
                    store_4(static_cast<T *>(params.out_x) + row * dim + i, value);
                store_4_as(params.out_dtype, params.out, row * dim + i,
                           scaled(value, mean, scale, load_4(params.gamma + i), load_4(params.beta + i)));
            }
        }
    }

    /* Zeroes the elements past the features. */
    static __device__ __forceinline__ float4 mask_padding(float4 x, int left)
    {
        return make_float4(x.x, left > 1 ? x.y : 0.0f, left > 2 ? x.z : 0.0f, left > 3 ? x.w : 0.0f);
    }

    /* For the row's elements from column on. */
    static __device__ __forceinline__ float4 normalised(const rvit_cu_layernorm_params &params, float4 value, int column, float mean,
                                                        float scale)
    {
        float4 out = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
        if (column < params.features)
            out = mask_padding(
                scaled(value, mean, scale, load_4(params.gamma + column), params.beta == nullptr ? out : load_4(params.beta + column)),
                params.features - column);
        return out;
    }

    static __device__ __forceinline__ void quantize_general(const rvit_cu_layernorm_params &params, const T *x, int row, float mean,
                                                            float scale)
    {
        float largest = 0.0f;
        for (int i = lane_column(); i < params.features; i += 128)
            largest = magnitude_of(normalised(params, load_4(x + i), i, mean, scale), largest);
        const e4m3_row to = e4m3_row_of(warp_largest(largest), params.static_scale);
        int n = 0;
        for (int i = lane_column(); i < params.dim; i += 128) {
            const float4 value = normalised(params, load_4(x + i), i, mean, scale);
            store_e4m3(params, (long long)row * params.dim + i, e4m3_of(to, value));
            n += saturates(to, value);
        }
        store_scale(params, row, to.scale);
        if (params.static_scale != nullptr && params.saturated != nullptr)
            add_saturated(params.saturated, n);
    }

    /* RMS, padded rows, no beta. Each pass reads the row again. With E4M3: whatever the kernels above do not support. */
    template <bool E4M3> static __device__ __forceinline__ void general(const rvit_cu_layernorm_params &params)
    {
        const int dim = params.dim, features = params.features, column = lane_column(), rows = live_rows(params.rows);
        const long long step = (long long)params.row_ctas * (blockDim.x / 32);
        for (long long row = (long long)blockIdx.x * (blockDim.x / 32) + threadIdx.x / 32; row < rows; row += step) {
            const T *x = source_row(params, (int)row);
            float sum = 0.0f, squares = 0.0f;
            for (int i = column; i < features && !params.rms; i += 128) {
                const float4 value = mask_padding(load_4(x + i), features - i);
                sum += value.x + value.y + (value.z + value.w);
            }
            const float mean = warp_sum(sum) * params.inverse_dim;
            for (int i = column; i < features; i += 128) {
                const int left = features - i;
                const float4 v = load_4(x + i);
                squares += square_distance(make_float4(v.x, left > 1 ? v.y : mean, left > 2 ? v.z : mean, left > 3 ? v.w : mean), mean);
            }
            const float scale = inverse_sqrt(warp_sum(squares) * params.inverse_dim + params.eps);
            for (int i = column; i < dim && (!E4M3 || params.out_x != nullptr); i += 128) {
                typedef typename raw_4<T>::type raw;
                const raw bits = load_raw_4(x + i);
                if (params.out_x != nullptr) /* copied as stored: padding may hold any NaN */
                    *reinterpret_cast<raw *>(static_cast<T *>(params.out_x) + row * dim + i) = bits;
                if (!E4M3)
                    store_4_as(params.out_dtype, params.out, row * dim + i, normalised(params, raw_4<T>::floats(bits), i, mean, scale));
            }
            if (E4M3)
                quantize_general(params, x, (int)row, mean, scale);
        }
    }
};

#endif

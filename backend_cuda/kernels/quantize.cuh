/* Quantizes GEMM outputs to rows of e4m3: bias, activation, gate, and the largest magnitude of the row. A CTA takes one row at a time. */
#ifndef RVIT_QUANTIZE_CUH
#define RVIT_QUANTIZE_CUH

#include "activation.cuh"
#include "e4m3.cuh"

/* A thread has CHUNKS groups of eight outputs, a block of threads apart. PLAIN: no activation or GELU, not gated. SIGMOID: a sigmoid,
   not gated. ALL: everything. */
template <typename T, int CHUNKS, epilogue_kind EPILOGUE> struct quantizer {
    enum { RAW = sizeof(T) == 4 ? 2 : 1 };
    /* Eight stored elements. */
    struct raw_8 {
        uint4 part[RAW];
    };

    static __device__ __forceinline__ raw_8 load(const T *from)
    {
        raw_8 raw;
#pragma unroll
        for (int i = 0; i < RAW; i++)
            raw.part[i] = reinterpret_cast<const uint4 *>(from)[i];
        return raw;
    }

    static __device__ __forceinline__ void unpack(const raw_8 &raw, float (&x)[8])
    {
#pragma unroll
        for (int i = 0; i < RAW; i++) {
            const uint32_t words[4] = {raw.part[i].x, raw.part[i].y, raw.part[i].z, raw.part[i].w};
#pragma unroll
            for (int w = 0; w < 4; w++)
                unpack_word(words[w], &x[(i * 4 + w) * (2 / RAW)], static_cast<const T *>(nullptr));
        }
    }

    static __device__ __forceinline__ void unpack_word(uint32_t word, float *x, const float *)
    {
        x[0] = bits_float(word);
    }

    template <typename U> static __device__ __forceinline__ void unpack_word(uint32_t word, float *x, const U *)
    {
        const float2 pair = element<U>::unpack(word);
        x[0] = pair.x, x[1] = pair.y;
    }

    static __device__ __forceinline__ void add_bias(float (&x)[8], const float *bias)
    {
        const float4 low = load_4(bias), high = load_4(bias + 4);
        x[0] += low.x, x[1] += low.y, x[2] += low.z, x[3] += low.w;
        x[4] += high.x, x[5] += high.y, x[6] += high.z, x[7] += high.w;
    }

    /* Computes eight outputs of a row, from index `column` of x and bias. */
    static __device__ __forceinline__ void activate(const rvit_cu_quantize_params &params, const raw_8 &raw, int column, float (&x)[8])
    {
        unpack(raw, x);
        if (params.bias != nullptr)
            add_bias(x, params.bias + column);
        if (EPILOGUE == SIGMOID || (EPILOGUE == ALL && params.slope != 0.0f)) {
#pragma unroll
            for (int i = 0; i < 8; i++)
                if (EPILOGUE == SIGMOID || !params.gated || i % 2 == 0)
                    x[i] = sigmoid_product_fast(x[i], params.slope, params.cubic);
        } else if (params.gelu && (EPILOGUE == PLAIN || !params.gated)) {
            gelu_fast(x);
        } else if (params.gelu) {
#pragma unroll
            for (int i = 0; i < 8; i += 2)
                x[i] = gelu_fast(x[i]);
        }
    }

    /* Outputs 8 c to 8 c + 7 of the row. */
    static __device__ __forceinline__ void outputs(const rvit_cu_quantize_params &params, const T *row, int c, float (&out)[8])
    {
        if (!params.gated) {
            activate(params, load(row + c * 8), c * 8, out);
            return;
        }
#pragma unroll
        for (int h = 0; h < 2; h++) {
            float pairs[8];
            activate(params, load(row + c * 16 + h * 8), c * 16 + h * 8, pairs);
#pragma unroll
            for (int i = 0; i < 4; i++)
                out[h * 4 + i] = pairs[2 * i] * pairs[2 * i + 1];
        }
    }

    static __device__ __forceinline__ float4 half_of(const float (&x)[8], int h)
    {
        return make_float4(x[4 * h], x[4 * h + 1], x[4 * h + 2], x[4 * h + 3]);
    }

    static __device__ __forceinline__ const T *row_of(const rvit_cu_quantize_params &params, int row)
    {
        return static_cast<const T *>(params.x) + (long long)row * params.columns * (EPILOGUE == ALL && params.gated ? 2 : 1);
    }

    static __device__ __forceinline__ void store(const rvit_cu_quantize_params &params, const e4m3_row &to, int row, int c,
                                                 const float (&x)[8])
    {
        reinterpret_cast<uint2 *>(params.out + (long long)row * params.columns)[c] =
            make_uint2(e4m3_of(to, half_of(x, 0)), e4m3_of(to, half_of(x, 1)));
    }

    /* The maximum over the CTA. turn alternates between 0 and 1 from row to row, so that one barrier per row is enough. */
    static __device__ __forceinline__ float cta_largest(float largest, int turn)
    {
        RVIT_SHARED float of_warps[2][32];
        const int lane = threadIdx.x & 31, n_warps = (int)blockDim.x / 32;
        largest = warp_largest(largest);
        if (n_warps == 1)
            return largest;
        if (lane == 0)
            of_warps[turn][threadIdx.x / 32] = largest;
        block_sync();
        return warp_largest(lane < n_warps ? of_warps[turn][lane] : 0.0f);
    }

    static __device__ __forceinline__ void finish_row(const rvit_cu_quantize_params &params, const e4m3_row &to, int row, int n_saturated)
    {
        if (threadIdx.x == 0)
            params.out_scales[row] = to.scale;
        if (params.static_scale != nullptr && params.saturated != nullptr)
            add_saturated(params.saturated, n_saturated);
    }

    /* Without a static scale, rows in registers. Starts with the last rows, which the GEMM wrote last and L2 still holds. */
    static __device__ __forceinline__ void held(const rvit_cu_quantize_params &params)
    {
        const int n = params.columns / 8, step = (int)blockDim.x;
        int turn = 0;
        for (int row = live_rows(params.rows) - 1 - (int)blockIdx.x; row >= 0; row -= (int)gridDim.x, turn ^= 1) {
            raw_8 raw[CHUNKS];
            load_row(params, row, raw);
            float x[CHUNKS][8], largest = 0.0f;
#pragma unroll
            for (int i = 0; i < CHUNKS; i++) {
                const int c = (int)threadIdx.x + i * step;
                if (c >= n)
                    continue;
                activate(params, raw[i], c * 8, x[i]);
                largest = magnitude_of(half_of(x[i], 1), magnitude_of(half_of(x[i], 0), largest));
            }
            const e4m3_row to = e4m3_row_of(cta_largest(largest, turn), nullptr);
#pragma unroll
            for (int i = 0; i < CHUNKS; i++) {
                const int c = (int)threadIdx.x + i * step;
                if (c < n)
                    store(params, to, row, c, x[i]);
            }
            finish_row(params, to, row, 0);
        }
    }

    static __device__ __forceinline__ void load_row(const rvit_cu_quantize_params &params, int row, raw_8 (&raw)[CHUNKS])
    {
        const T *from = row_of(params, row);
#pragma unroll
        for (int i = 0; i < CHUNKS; i++)
            if (((int)threadIdx.x + i * (int)blockDim.x) * 8 < params.columns)
                raw[i] = load(from + ((int)threadIdx.x + i * (int)blockDim.x) * 8);
    }

    /* With a static scale, which does not need the row's maximum: the next row is loaded while this one is computed. A row with
       non-finite values is written again. */
    static __device__ __forceinline__ void fixed(const rvit_cu_quantize_params &params)
    {
        const int n = params.columns / 8, step = (int)blockDim.x;
        const e4m3_row to = e4m3_row_of(0.0f, params.static_scale);
        int turn = 0, row = live_rows(params.rows) - 1 - (int)blockIdx.x;
        raw_8 raw[CHUNKS];
        if (row >= 0)
            load_row(params, row, raw);
        for (; row >= 0; row -= (int)gridDim.x, turn ^= 1) {
            raw_8 next[CHUNKS];
            if (row >= (int)gridDim.x)
                load_row(params, row - (int)gridDim.x, next);
            float largest = 0.0f;
            int n_saturated = 0;
#pragma unroll
            for (int i = 0; i < CHUNKS; i++) {
                const int c = (int)threadIdx.x + i * step;
                if (c >= n)
                    continue;
                float x[8];
                activate(params, raw[i], c * 8, x);
                largest = magnitude_of(half_of(x, 1), magnitude_of(half_of(x, 0), largest));
                store(params, to, row, c, x);
                if (params.saturated != nullptr)
                    n_saturated += saturates(to, half_of(x, 0)) + saturates(to, half_of(x, 1));
                raw[i] = next[i];
            }
            const e4m3_row found = e4m3_row_of(cta_largest(largest, turn), params.static_scale);
            if (found.mask == 0) {
                const float nothing[8] = {0.0f, 0.0f, 0.0f, 0.0f, 0.0f, 0.0f, 0.0f, 0.0f};
                for (int c = (int)threadIdx.x; c < n; c += step)
                    store(params, found, row, c, nothing);
                n_saturated = 0;
            }
            finish_row(params, found, row, n_saturated);
        }
    }

    /* Rows of any length, computed twice. */
    static __device__ __forceinline__ void streamed(const rvit_cu_quantize_params &params)
    {
        const int n = params.columns / 8;
        int turn = 0;
        for (int row = live_rows(params.rows) - 1 - (int)blockIdx.x; row >= 0; row -= (int)gridDim.x, turn ^= 1) {
            const T *from = row_of(params, row);
            float x[8], largest = 0.0f;
            for (int c = (int)threadIdx.x; c < n; c += (int)blockDim.x) {
                outputs(params, from, c, x);
                largest = magnitude_of(half_of(x, 1), magnitude_of(half_of(x, 0), largest));
            }
            const e4m3_row to = e4m3_row_of(cta_largest(largest, turn), params.static_scale);
            int n_saturated = 0;
            for (int c = (int)threadIdx.x; c < n; c += (int)blockDim.x) {
                outputs(params, from, c, x);
                store(params, to, row, c, x);
                n_saturated += saturates(to, half_of(x, 0)) + saturates(to, half_of(x, 1));
            }
            finish_row(params, to, row, n_saturated);
        }
    }
};

#endif

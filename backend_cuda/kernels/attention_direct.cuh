/* Attention of short images in small batches. A warp has 8 query rows and loads keys and values from global memory directly into mma
   fragments. It uses no shared memory and no barrier, because such a batch is bound by the latency of consecutive loads. Scores and
   output are transposed: keys or channels are the rows of the mma, query rows its columns. */
#ifndef RVIT_ATTENTION_DIRECT_CUH
#define RVIT_ATTENTION_DIRECT_CUH

#include "attention.cuh"

/* HALVES: groups of 16 keys in the longest image; at most 64 channels. A lane has row or column g = lane / 4 of a matrix, and columns or
   rows 2c and 2c + 1 with c = lane % 4. Sums are in the same order as in attention.cuh. */
template <typename T, int HALVES> struct direct_attention {
    uint4 q[2], k[HALVES][2][2], v[HALVES][2][2]; /* [16 keys][8 of them][4 chunks of channels]; v: [adjacent key] */
    float s[HALVES][4];                           /* keys g and g + 8, query rows 2c and 2c + 1 */
    float out[5][4]; /* channels 8g + 2t and 8g + 2t + 1 of query rows 2c and 2c + 1, followed by the sum of the weights */
    float offset[2];

    static __device__ __forceinline__ uint4 load(const T *p, bool live)
    {
        return live ? *reinterpret_cast<const uint4 *>(p) : make_uint4(0, 0, 0, 0);
    }

    __device__ __forceinline__ void load_rows(const rvit_cu_attention_params &params, const attention_work &work, int row)
    {
        const int lane = threadIdx.x & 31, g = lane >> 2, c = lane & 3, length = work.length;
        const T *const from_q = first_row(static_cast<const T *>(params.q), params.q_stride, work, params) +
                                (long long)min(row + g, length - 1) * params.q_stride;
        const T *const from_k = first_row(static_cast<const T *>(params.k), params.k_stride, work, params);
        const T *const from_v = first_row(static_cast<const T *>(params.v), params.v_stride, work, params);
        const bool in_k[2] = {c * 8 < params.head_dim, (c + 4) * 8 < params.head_dim}, in_v = g * 8 < params.head_dim;
#pragma unroll
        for (int i = 0; i < 2; i++)
            q[i] = load(from_q + (i * 4 + c) * 8, in_k[i]);
#pragma unroll
        for (int n = 0; n < HALVES; n++)
#pragma unroll
            for (int h = 0; h < 2; h++)
#pragma unroll
                for (int i = 0; i < 2; i++) {
                    const int key = n * 16 + h * 8 + g;
                    k[n][h][i] = load(from_k + key * params.k_stride + (i * 4 + c) * 8, key < length && in_k[i]);
                }
#pragma unroll
        for (int n = 0; n < HALVES; n++)
#pragma unroll
            for (int h = 0; h < 2; h++)
#pragma unroll
                for (int i = 0; i < 2; i++) {
                    const int key = n * 16 + h * 8 + 2 * c + i;
                    v[n][h][i] = load(from_v + key * params.v_stride + g * 8, key < length && in_v);
                }
#pragma unroll
        for (int i = 0; i < 2; i++)
            q[i].x ^= params.q_sign, q[i].y ^= params.q_sign, q[i].z ^= params.q_sign, q[i].w ^= params.q_sign;
    }

    __device__ __forceinline__ void multiply_keys(int length)
    {
        const int g = (threadIdx.x & 31) >> 2;
#pragma unroll
        for (int n = 0; n < HALVES; n++) {
#pragma unroll
            for (int i = 0; i < 4; i++)
                s[n][i] = 0.0f;
#pragma unroll
            for (int i = 0; i < 2; i++) {
                const uint4 low = k[n][0][i], high = k[n][1][i];
                const uint32_t first[4] = {low.x, high.x, low.y, high.y}, second[4] = {low.z, high.z, low.w, high.w};
                element<T>::mma(s[n], first, q[i].x, q[i].y);
                element<T>::mma(s[n], second, q[i].z, q[i].w);
            }
#pragma unroll
            for (int i = 0; i < 4; i++)
                if (n * 16 + i / 2 * 8 + g >= length)
                    s[n][i] = -INFINITY;
        }
    }

    /* Before the block that starts with this half. Before the first block there is nothing to rescale. */
    __device__ __forceinline__ void update_offset(int first, float scale)
    {
        float maximum[2], exponent = 0.0f;
#pragma unroll
        for (int j = 0; j < 2; j++) {
            maximum[j] = fmaxf(s[first][j], s[first][j + 2]);
            if (first + 1 < HALVES)
                maximum[j] = fmaxf(maximum[j], fmaxf(s[(first + 1) % HALVES][j], s[(first + 1) % HALVES][j + 2]));
            const float e = fmaf(maximum[j], scale, offset[j]);
            exponent = j == 0 ? e : fmaxf(exponent, e);
        }
        if (first > 0 && !warp_any(exceeds(exponent)))
            return;
#pragma unroll
        for (int j = 0; j < 2; j++) {
            float largest = maximum[j];
#pragma unroll
            for (int mask = 4; mask < 32; mask *= 2)
                largest = fmaxf(largest, shuffle_xor(largest, mask));
            const float old = offset[j];
            offset[j] = exceeds(fmaf(largest, scale, old)) ? -(largest * scale) : old;
            if (first > 0) {
                const float factor = exp2_fast(offset[j] - old);
#pragma unroll
                for (int t = 0; t < 5; t++)
                    out[t][j] *= factor, out[t][j + 2] *= factor;
            }
        }
    }

    __device__ __forceinline__ void multiply_values(int n, float scale)
    {
        uint32_t p[2];
#pragma unroll
        for (int h = 0; h < 2; h++)
            p[h] = transpose_matrix(
                element<T>::pack(exp2_fast(fmaf(s[n][2 * h], scale, offset[0])), exp2_fast(fmaf(s[n][2 * h + 1], scale, offset[1]))));
        const uint32_t ones[4] = {element<T>::ONES, element<T>::ONES, element<T>::ONES, element<T>::ONES};
        element<T>::mma(out[4], ones, p[0], p[1]);
        multiply_channels(0, v[n][0][0].x, v[n][0][1].x, v[n][1][0].x, v[n][1][1].x, p);
        multiply_channels(1, v[n][0][0].y, v[n][0][1].y, v[n][1][0].y, v[n][1][1].y, p);
        multiply_channels(2, v[n][0][0].z, v[n][0][1].z, v[n][1][0].z, v[n][1][1].z, p);
        multiply_channels(3, v[n][0][0].w, v[n][0][1].w, v[n][1][0].w, v[n][1][1].w, p);
    }

    /* Two channels of keys 2c, 2c + 1, 2c + 8 and 2c + 9. */
    __device__ __forceinline__ void multiply_channels(int t, uint32_t first, uint32_t second, uint32_t third, uint32_t fourth,
                                                      const uint32_t (&p)[2])
    {
        const uint32_t a[4] = {low_halves(first, second), high_halves(first, second), low_halves(third, fourth),
                               high_halves(third, fourth)};
        element<T>::mma(out[t], a, p[0], p[1]);
    }

    __device__ __forceinline__ void store(const rvit_cu_attention_params &params, const attention_work &work, int row)
    {
        const int lane = threadIdx.x & 31, channel = (lane >> 2) * 8;
        T *const to = first_row(static_cast<T *>(params.out), params.out_stride, work, params) + channel;
#pragma unroll
        for (int j = 0; j < 2; j++) {
            const float inverse = out[4][j] == 0.0f ? 0.0f : reciprocal_fast(out[4][j]);
            uint32_t pairs[4];
#pragma unroll
            for (int t = 0; t < 4; t++)
                pairs[t] = element<T>::pack(out[t][j] * inverse, out[t][j + 2] * inverse);
            const int r = row + 2 * (lane & 3) + j;
            if (r < work.length && channel < params.head_dim)
                *reinterpret_cast<uint4 *>(to + (long long)r * params.out_stride) = make_uint4(pairs[0], pairs[1], pairs[2], pairs[3]);
        }
    }

    static __device__ __forceinline__ void run(const rvit_cu_attention_params &params)
    {
        const attention_work work = find_work(params);
        const int row = (work.row_block * (int)(blockDim.x / 32) + (int)threadIdx.x / 32) * 8;
        if (row >= work.length)
            return;
        direct_attention a;
        a.load_rows(params, work, row);
#pragma unroll
        for (int t = 0; t < 5; t++)
#pragma unroll
            for (int i = 0; i < 4; i++)
                a.out[t][i] = 0.0f;
        a.offset[0] = a.offset[1] = FLT_MAX;
        a.multiply_keys(work.length);
#pragma unroll
        for (int n = 0; n < HALVES; n++) {
            if (n > 0 && n % 2 == 0 && n * 16 >= work.length)
                break;
            if (n % 2 == 0)
                a.update_offset(n, params.scale);
            a.multiply_values(n, params.scale);
        }
        a.store(params, work, row);
    }
};

#endif

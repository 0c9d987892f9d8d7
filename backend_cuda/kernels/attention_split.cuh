/* The same attention for small batches: a CTA takes 16 query rows, and its warps share first the keys, then the channels of the values, so
   that the longest chain of work is shorter. Every number is computed as attention.cuh computes it, in the same order: the results have
   the same bits. */
#ifndef RVIT_ATTENTION_SPLIT_CUH
#define RVIT_ATTENTION_SPLIT_CUH

#include "attention.cuh"

/* A round is WARPS blocks of keys, one for each warp. In shared memory: for each warp the keys of its block, whose place its weights take
   once the scores are there, and the values; then the maxima of each block's rows and the lanes' sums. */
template <typename T, int D, int WARPS> RVIT_DEVICE void attend_split(const rvit_cu_attention_params &params)
{
    const int STEPS = warp_state<D>::STEPS, SHARE = (STEPS + WARPS - 1) / WARPS;
    RVIT_DYNAMIC_SHARED(memory);
    const attention_work work = find_work(params);
    const int length = work.length, row = work.row_block * 16;
    if (row >= length)
        return;
    const int warp = threadIdx.x / 32, lane = threadIdx.x & 31, g = lane >> 2;
    const int tile_bytes = KEYS * tile_rows<D>::STRIDE * 16;
    const uint32_t shared = shared_address(memory), k_shared = shared + warp * 2 * tile_bytes;
    float *maxima = reinterpret_cast<float *>(memory + WARPS * 2 * tile_bytes), *sums = maxima + WARPS * 16;
    const T *k = first_row(static_cast<const T *>(params.k), params.k_stride, work, params);
    const T *v = first_row(static_cast<const T *>(params.v), params.v_stride, work, params);
    const float scale = params.key_bias == nullptr ? params.scale : 1.0f;
    warp_state<D> w;
    load_q<T, D>(w, first_row(static_cast<const T *>(params.q), params.q_stride, work, params), params, row, length);
    float out[SHARE][2][4], maximum[2] = {-INFINITY, -INFINITY}, sum[2] = {0.0f, 0.0f};
#pragma unroll
    for (int i = 0; i < SHARE; i++)
#pragma unroll
        for (int t = 0; t < 2; t++)
#pragma unroll
            for (int j = 0; j < 4; j++)
                out[i][t][j] = 0.0f;

    for (int round = 0; round < length; round += WARPS * KEYS) {
        const int first = round + warp * KEYS, live = min(length - first, (int)KEYS);
        float s[KEYS / 8][4];
        block_sync(); /* the last round's tiles and sums have been read */
        if (live > 0) {
            fetch<T, D>(k_shared, k, params.k_stride, params.head_dim, first, length, lane, 32);
            copy_commit();
            fetch<T, D>(k_shared + tile_bytes, v, params.v_stride, params.head_dim, first, length, lane, 32);
            copy_commit();
            copy_wait<1>();
            warp_sync();
            if (live == KEYS) {
                multiply_keys<T, D, true>(s, w, k_shared, KEYS);
                (void)complete_scores<true>(s, params, work, row, first, KEYS);
            } else {
                multiply_keys<T, D, false>(s, w, k_shared, live);
                (void)complete_scores<false>(s, params, work, row, first, live);
            }
#pragma unroll
            for (int h = 0; h < 2; h++) {
                const float m = live == KEYS ? block_maximum<true>(s, scale, h, KEYS) : block_maximum<false>(s, scale, h, live);
                if ((lane & 3) == 0)
                    maxima[warp * 16 + g + 8 * h] = m;
            }
        }
        block_sync();
        if (live > 0) {
#pragma unroll
            for (int h = 0; h < 2; h++) {
                float m = maximum[h];
                for (int b = 0; b <= warp; b++)
                    m = fmaxf(m, maxima[b * 16 + g + 8 * h]);
                sums[(warp * 2 + h) * 32 + lane] =
                    live == KEYS ? weigh<true>(s, scale, shift_of(m), h, KEYS) : weigh<false>(s, scale, shift_of(m), h, live);
            }
            uint4 *weights = reinterpret_cast<uint4 *>(memory + warp * 2 * tile_bytes);
#pragma unroll
            for (int n = 0; n < KEYS / 16; n++) {
                uint32_t p[4];
                pack_weights<T>(p, s, n);
                weights[n * 32 + lane] = make_uint4(p[0], p[1], p[2], p[3]);
            }
            copy_wait<0>();
        }
        block_sync();
        for (int b = 0; b < WARPS && round + b * KEYS < length; b++) {
            const int keys = min(length - round - b * KEYS, (int)KEYS);
            float factor[2];
#pragma unroll
            for (int h = 0; h < 2; h++) {
                const float m = fmaxf(maximum[h], maxima[b * 16 + g + 8 * h]);
                factor[h] = exp2_fast(maximum[h] - shift_of(m));
                maximum[h] = m;
                sum[h] = fmaf(sum[h], factor[h], sums[(b * 2 + h) * 32 + lane]);
            }
            const uint4 *weights = reinterpret_cast<const uint4 *>(memory + b * 2 * tile_bytes);
            const uint32_t v_lane = shared + (b * 2 + 1) * tile_bytes + tile_rows<D>::at(lane & 15, lane >> 4);
            const bool later = round + b > 0;
#pragma unroll
            for (int i = 0; i < SHARE; i++) {
                const int step = i * WARPS + warp;
                if (step >= STEPS)
                    continue;
#pragma unroll
                for (int t = 0; t < 2; t++)
                    if (later) {
                        out[i][t][0] *= factor[0], out[i][t][1] *= factor[0];
                        out[i][t][2] *= factor[1], out[i][t][3] *= factor[1];
                    }
#pragma unroll
                for (int n = 0; n < KEYS / 16; n++) {
                    if (n * 16 >= keys)
                        continue;
                    const uint4 packed = weights[n * 32 + lane];
                    const uint32_t p[4] = {packed.x, packed.y, packed.z, packed.w};
                    uint32_t values[4];
                    load_matrix_x4_transposed(values, tile_rows<D>::advance(v_lane, step) + n * 16 * tile_rows<D>::STRIDE * 16);
                    element<T>::mma(out[i][0], p, values[0], values[1]);
                    element<T>::mma(out[i][1], p, values[2], values[3]);
                }
            }
        }
    }

    T *to = first_row(static_cast<T *>(params.out), params.out_stride, work, params);
#pragma unroll
    for (int h = 0; h < 2; h++) {
        sum[h] += shuffle_xor(sum[h], 1);
        sum[h] += shuffle_xor(sum[h], 2);
        const float inverse = sum[h] == 0.0f ? 0.0f : 1.0f / sum[h];
        const int r = row + g + 8 * h;
        if (r >= length)
            continue;
#pragma unroll
        for (int i = 0; i < SHARE; i++)
#pragma unroll
            for (int t = 0; t < 2; t++) {
                const int channel = (i * WARPS + warp) * 16 + t * 8;
                if (channel < params.head_dim)
                    *reinterpret_cast<uint32_t *>(to + r * params.out_stride + channel + (lane & 3) * 2) =
                        element<T>::pack(out[i][t][2 * h] * inverse, out[i][t][2 * h + 1] * inverse);
            }
        if (params.lse != nullptr && warp == 0 && (lane & 3) == 0)
            first_number(params.lse, work, params)[(long long)r * params.n_heads] = log_sum(maximum[h], sum[h]);
    }
    if (params.cls_probs != nullptr && row == 0) /* the scores were written before a block_sync that all have passed */
        finish_cls(params, work, shuffle(maximum[0], 0), shuffle(sum[0], 0), threadIdx.x, WARPS * 32);
}

#endif

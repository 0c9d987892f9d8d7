/* Ragged bidirectional attention on tensor cores: online softmax over blocks of 64 keys, 16 query rows a warp. */
#ifndef RVIT_ATTENTION_CUH
#define RVIT_ATTENTION_CUH

#include "elements.cuh"

enum { KEYS = 64 }; /* of a block */

#define RVIT_LOG2_E 1.4426950408889634f
#define RVIT_LN_2 0.6931471805599453f

/* Rows of K or V in shared memory: D elements, a multiple of 16, as 16-byte chunks placed so that the 8 rows of an ldmatrix lie in
   different banks. */
template <int D> struct tile_rows {
    static const int CHUNKS = D / 8;
    static const bool SWIZZLE = CHUNKS % 8 == 0;
    static const int STRIDE = SWIZZLE ? CHUNKS : CHUNKS + 1; /* CHUNKS is even: an odd stride */
    static __device__ __forceinline__ uint32_t at(int row, int chunk)
    {
        return (uint32_t)(row * STRIDE + (SWIZZLE ? chunk ^ (row & 7) : chunk)) * 16;
    }
    /* The address `steps` 16-channel steps after one whose chunk is 0 or 1. The swizzle only flips bits below 128 bytes. */
    static __device__ __forceinline__ uint32_t advance(uint32_t address, int steps)
    {
        return SWIZZLE ? (address ^ (uint32_t)(steps % 4 * 32)) + (uint32_t)(steps / 4 * 128) : address + (uint32_t)(steps * 32);
    }
};

/* What a CTA works on: a block of the rows of one head of an image. */
struct attention_work {
    int head, row_block, begin, length;
};

RVIT_DEVICE attention_work find_work(const rvit_cu_attention_params &params)
{
    attention_work work;
    work.head = blockIdx.y, work.row_block = blockIdx.x;
    const image_rows rows = rows_of_image(params.cu_seqlens, params.first_image + (int)blockIdx.z, params.rows, params.max_len);
    work.begin = rows.begin, work.length = rows.len;
    return work;
}

/* The image's first row of this head, in an array of rows `stride` elements apart; and in one with a number for each head. */
template <typename T> RVIT_DEVICE T *first_row(T *array, int stride, const attention_work &work, const rvit_cu_attention_params &params)
{
    return array + ((long long)work.begin * stride + work.head * params.head_dim);
}

RVIT_DEVICE float *first_number(float *array, const attention_work &work, const rvit_cu_attention_params &params)
{
    return array + ((long long)work.begin * params.n_heads + work.head);
}

/* What one warp holds: 16 query rows, their output so far, and the running maximum and sum. Row g = lane / 4 is in the even halves of
   each accumulator, row g + 8 in the odd ones. */
template <int D> struct warp_state {
    static const int STEPS = D / 16, TILES = D / 8;
    uint32_t q[STEPS][4];
    float out[TILES][4];
    float maximum[2], sum[2];
};

/* Query rows past the length repeat the last one: their results are not stored. */
template <typename T, int D>
RVIT_DEVICE void load_q(warp_state<D> &w, const T *q, const rvit_cu_attention_params &params, int row, int length)
{
    const int lane = threadIdx.x & 31, g = lane >> 2, c = (lane & 3) * 2;
    const T *p0 = q + min(row + g, length - 1) * params.q_stride, *p1 = q + min(row + g + 8, length - 1) * params.q_stride;
#pragma unroll
    for (int s = 0; s < warp_state<D>::STEPS; s++) {
#pragma unroll
        for (int half = 0; half < 2; half++) {
            const int channel = s * 16 + half * 8;
            const bool there = channel < params.head_dim;
            w.q[s][half * 2] = there ? *reinterpret_cast<const uint32_t *>(p0 + channel + c) ^ params.q_sign : 0u;
            w.q[s][half * 2 + 1] = there ? *reinterpret_cast<const uint32_t *>(p1 + channel + c) ^ params.q_sign : 0u;
        }
    }
#pragma unroll
    for (int t = 0; t < warp_state<D>::TILES; t++)
#pragma unroll
        for (int i = 0; i < 4; i++)
            w.out[t][i] = 0.0f;
#pragma unroll
    for (int i = 0; i < 2; i++)
        w.maximum[i] = -INFINITY, w.sum[i] = 0.0f;
}

/* Starts the copy of keys [first, first + KEYS) of one head. What the products read and no key fills is zero: rows past the length up to
   the next multiple of 16, channels past head_dim. A thread keeps to one chunk of a row; threads that would make up part of a row idle. */
template <typename T, int D>
RVIT_DEVICE void fetch(uint32_t shared, const T *source, int stride, int head_dim, int first, int length, int thread, int n_threads)
{
    const int rows = min((int)KEYS, (length - first + 15) & ~15), step = n_threads / tile_rows<D>::CHUNKS;
    const int chunk = thread % tile_rows<D>::CHUNKS;
    int row = thread / tile_rows<D>::CHUNKS;
    if (row >= step)
        return;
    const int keys = chunk * 8 < head_dim ? length - first : 0;
    const T *from = source + (first + row) * stride + chunk * 8;
    for (; row < rows; row += step, from += step * stride)
        copy_async_16(shared + tile_rows<D>::at(row, chunk), from, row < keys);
}

/* Of keys and values: the values lie tile_bytes behind the keys. */
template <typename T, int D>
RVIT_DEVICE void fetch_both(uint32_t shared, uint32_t tile_bytes, attention_work work, const rvit_cu_attention_params &params, int first)
{
    const int thread = recompute(threadIdx.x);
    work.begin = recompute(work.begin);
    const T *k = first_row(static_cast<const T *>(params.k), params.k_stride, work, params);
    const T *v = first_row(static_cast<const T *>(params.v), params.v_stride, work, params);
    fetch<T, D>(shared, k, params.k_stride, params.head_dim, first, work.length, thread, blockDim.x);
    fetch<T, D>(shared + tile_bytes, v, params.v_stride, params.head_dim, first, work.length, thread, blockDim.x);
}

/* s = the scores of 16 queries and the `live` keys of a block. */
template <typename T, int D, bool FULL>
RVIT_DEVICE void multiply_keys(float (&s)[KEYS / 8][4], const warp_state<D> &w, uint32_t k_shared, int live)
{
    const int lane = threadIdx.x & 31;
    /* Four 8x8 matrices: keys 0-7 and 8-15 of the step, the two halves of 16 channels. */
    const uint32_t k_lane = k_shared + tile_rows<D>::at((lane & 7) + ((lane >> 4) << 3), (lane >> 3) & 1);
#pragma unroll
    for (int n = 0; n < KEYS / 16; n++) {
#pragma unroll
        for (int i = 0; i < 4; i++)
            s[2 * n][i] = s[2 * n + 1][i] = 0.0f;
        if (FULL || n * 16 < live) {
#pragma unroll
            for (int step = 0; step < warp_state<D>::STEPS; step++) {
                uint32_t b[4];
                load_matrix_x4(b, tile_rows<D>::advance(k_lane, step) + n * 16 * tile_rows<D>::STRIDE * 16);
                element<T>::mma(s[2 * n], w.q[step], b[0], b[1]);
                element<T>::mma(s[2 * n + 1], w.q[step], b[2], b[3]);
            }
        }
    }
}

/* Brings scores into the form in which 2^(s * scale - maximum) is a weight, and returns scale: with a bias s becomes the whole exponent.
   What no key stands for is -infinity. The scores of the image's first row are left in cls_probs; finish_cls does the rest. */
template <bool FULL>
RVIT_DEVICE float complete_scores(float (&s)[KEYS / 8][4], const rvit_cu_attention_params &params, const attention_work &work, int row,
                                  int first, int live)
{
    const int lane = recompute(threadIdx.x) & 31, c = (lane & 3) * 2;
    float scale = params.scale;
    if (params.key_bias != nullptr) {
        const float *bias = params.key_bias + work.begin + first;
#pragma unroll
        for (int t = 0; t < KEYS / 8; t++)
#pragma unroll
            for (int j = 0; j < 2; j++) {
                const float b = FULL || t * 8 + c + j < live ? bias[t * 8 + c + j] * RVIT_LOG2_E : 0.0f;
                s[t][j] = fmaf(s[t][j], scale, b);
                s[t][j + 2] = fmaf(s[t][j + 2], scale, b);
            }
        scale = 1.0f;
    }
    if (!FULL) {
#pragma unroll
        for (int t = 0; t < KEYS / 8; t++)
#pragma unroll
            for (int j = 0; j < 2; j++)
                if (t * 8 + c + j >= live)
                    s[t][j] = s[t][j + 2] = -INFINITY;
    }
    if (params.cls_probs != nullptr && row == 0 && lane < 4) {
        float *cls = first_number(params.cls_probs, work, params) + (long long)first * params.n_heads;
#pragma unroll
        for (int t = 0; t < KEYS / 8; t++)
#pragma unroll
            for (int j = 0; j < 2; j++)
                if (FULL || t * 8 + c + j < live)
                    cls[(long long)(t * 8 + c + j) * params.n_heads] = s[t][j];
    }
    return scale;
}

/* The largest exponent of the block's keys for row half h. Steps of 16 keys without a live one are passed over, here and below. */
template <bool FULL> RVIT_DEVICE float block_maximum(const float (&s)[KEYS / 8][4], float scale, int h, int live)
{
    float m = -INFINITY;
#pragma unroll
    for (int n = 0; n < KEYS / 16; n++) {
        if (!FULL && n * 16 >= live)
            break;
        m = fmaxf(m, fmaxf(s[2 * n][2 * h], s[2 * n][2 * h + 1]));
        m = fmaxf(m, fmaxf(s[2 * n + 1][2 * h], s[2 * n + 1][2 * h + 1]));
    }
    m = fmaxf(m, shuffle_xor(m, 1));
    m = fmaxf(m, shuffle_xor(m, 2));
    return m * scale;
}

/* What is subtracted from exponents: nothing while every key is masked. */
RVIT_DEVICE float shift_of(float maximum)
{
    return maximum == -INFINITY ? 0.0f : maximum;
}

/* s becomes weights; returns this lane's part of their sum. */
template <bool FULL> RVIT_DEVICE float weigh(float (&s)[KEYS / 8][4], float scale, float shift, int h, int live)
{
    float sum = 0.0f;
#pragma unroll
    for (int n = 0; n < KEYS / 16; n++) {
        if (!FULL && n * 16 >= live)
            break;
#pragma unroll
        for (int t = 2 * n; t < 2 * n + 2; t++) {
            s[t][2 * h] = exp2_fast(fmaf(s[t][2 * h], scale, -shift));
            s[t][2 * h + 1] = exp2_fast(fmaf(s[t][2 * h + 1], scale, -shift));
            sum += s[t][2 * h] + s[t][2 * h + 1];
        }
    }
    return sum;
}

/* The softmax so far: rescales what was summed under a smaller maximum. */
template <int D, bool FULL>
RVIT_DEVICE void soften(float (&s)[KEYS / 8][4], warp_state<D> &w, const rvit_cu_attention_params &params, const attention_work &work,
                        int row, int first, int live)
{
    const float scale = complete_scores<FULL>(s, params, work, row, first, live);
    float factor[2];
#pragma unroll
    for (int h = 0; h < 2; h++) {
        const float m = fmaxf(w.maximum[h], block_maximum<FULL>(s, scale, h, live)), shift = shift_of(m);
        factor[h] = exp2_fast(w.maximum[h] - shift);
        w.maximum[h] = m;
        w.sum[h] = fmaf(w.sum[h], factor[h], weigh<FULL>(s, scale, shift, h, live));
    }
    if (first > 0) {
#pragma unroll
        for (int t = 0; t < warp_state<D>::TILES; t++) {
            w.out[t][0] *= factor[0], w.out[t][1] *= factor[0];
            w.out[t][2] *= factor[1], w.out[t][3] *= factor[1];
        }
    }
}

/* The weights of 16 keys as the left matrix of a product. */
template <typename T> RVIT_DEVICE void pack_weights(uint32_t (&p)[4], const float (&s)[KEYS / 8][4], int n)
{
    p[0] = element<T>::pack(s[2 * n][0], s[2 * n][1]), p[1] = element<T>::pack(s[2 * n][2], s[2 * n][3]);
    p[2] = element<T>::pack(s[2 * n + 1][0], s[2 * n + 1][1]), p[3] = element<T>::pack(s[2 * n + 1][2], s[2 * n + 1][3]);
}

/* Adds the values of a block, weighted. */
template <typename T, int D, bool FULL>
RVIT_DEVICE void multiply_values(warp_state<D> &w, const float (&s)[KEYS / 8][4], uint32_t v_shared, int live)
{
    const int lane = threadIdx.x & 31;
    const uint32_t v_lane = v_shared + tile_rows<D>::at(lane & 15, lane >> 4);
#pragma unroll
    for (int n = 0; n < KEYS / 16; n++) {
        if (FULL || n * 16 < live) {
            uint32_t p[4];
            pack_weights<T>(p, s, n);
#pragma unroll
            for (int step = 0; step < warp_state<D>::STEPS; step++) {
                uint32_t b[4];
                load_matrix_x4_transposed(b, tile_rows<D>::advance(v_lane, step) + n * 16 * tile_rows<D>::STRIDE * 16);
                element<T>::mma(w.out[step * 2], p, b[0], b[1]);
                element<T>::mma(w.out[step * 2 + 1], p, b[2], b[3]);
            }
        }
    }
}

/* Normalises and writes 16 rows. Each group of four lanes holds 8 channels of a row in pieces of 2: they trade pieces so that a lane
   writes 16 bytes. */
template <typename T, int D>
RVIT_DEVICE void store_rows(const warp_state<D> &w, T *out, const rvit_cu_attention_params &params, int row, int length,
                            const float (&sum)[2])
{
    const int lane = threadIdx.x & 31, c = lane & 3;
#pragma unroll
    for (int h = 0; h < 2; h++) {
        const float inverse = sum[h] == 0.0f ? 0.0f : 1.0f / sum[h];
        const int r = row + (lane >> 2) + 8 * h;
        T *p = out + r * params.out_stride;
#pragma unroll
        for (int t = 0; t < warp_state<D>::TILES; t += 4) {
            uint32_t piece[4];
#pragma unroll
            for (int i = 0; i < 4; i++)
                piece[i] =
                    t + i < warp_state<D>::TILES ? element<T>::pack(w.out[t + i][2 * h] * inverse, w.out[t + i][2 * h + 1] * inverse) : 0u;
            /* 4x4 transpose over the lanes of the group: lane c ends up with tile t + c. */
            uint32_t a0 = c & 1 ? piece[0] : piece[1], a1 = c & 1 ? piece[2] : piece[3];
            a0 = shuffle_xor(a0, 1), a1 = shuffle_xor(a1, 1);
            if (c & 1)
                piece[0] = a0, piece[2] = a1;
            else
                piece[1] = a0, piece[3] = a1;
            uint32_t b0 = c & 2 ? piece[0] : piece[2], b1 = c & 2 ? piece[1] : piece[3];
            b0 = shuffle_xor(b0, 2), b1 = shuffle_xor(b1, 2);
            if (c & 2)
                piece[0] = b0, piece[1] = b1;
            else
                piece[2] = b0, piece[3] = b1;
            if (r < length && (t + c) * 8 < params.head_dim)
                *reinterpret_cast<uint4 *>(p + (t + c) * 8) = make_uint4(piece[0], piece[1], piece[2], piece[3]);
        }
    }
}

/* The first row's probabilities from its scores, by the threads first, first + step, ... */
RVIT_DEVICE void finish_cls(const rvit_cu_attention_params &params, const attention_work &work, float maximum, float total, int first,
                            int step)
{
    const float shift = shift_of(maximum), scale = params.key_bias == nullptr ? params.scale : 1.0f;
    for (int j = first; j < work.length; j += step) {
        float *p = first_number(params.cls_probs, work, params) + (long long)j * params.n_heads;
        *p = total == 0.0f ? 0.0f : exp2_fast(fmaf(*p, scale, -shift)) / total;
    }
}

RVIT_DEVICE float log_sum(float maximum, float sum)
{
    return (maximum + log2f(sum)) * RVIT_LN_2;
}

/* A CTA of some warps takes 16 rows for each; K and V pass through a ring of STAGES stages that holds a short image whole. */
template <typename T, int D, int STAGES> RVIT_DEVICE void attend(const rvit_cu_attention_params &params)
{
    RVIT_DYNAMIC_SHARED(memory);
    const attention_work work = find_work(params);
    const int length = work.length;
    const int row = (work.row_block * (int)blockDim.x / 32 + (int)threadIdx.x / 32) * 16;
    if (work.row_block * (int)blockDim.x / 2 >= length)
        return;
    const uint32_t tile_bytes = (uint32_t)(params.stage_keys * tile_rows<D>::STRIDE * 16);
    const uint32_t shared = shared_address(memory);
#pragma unroll
    for (int b = 0; b < STAGES; b++) {
        if (b * KEYS < length)
            fetch_both<T, D>(shared + b * 2 * tile_bytes, tile_bytes, work, params, b * KEYS);
        copy_commit();
    }
    const bool active = row < length;
    warp_state<D> w;
    if (active)
        load_q<T, D>(w, first_row(static_cast<const T *>(params.q), params.q_stride, work, params), params, row, length);
    for (int b = 0; b * KEYS < length; b++) {
        copy_wait<STAGES - 1>();
        block_sync();
        const uint32_t k_shared = shared + b % STAGES * 2 * tile_bytes, v_shared = k_shared + tile_bytes;
        if (active) {
            const int first = b * KEYS, live = length - first;
            float s[KEYS / 8][4];
            if (live >= KEYS) {
                multiply_keys<T, D, true>(s, w, k_shared, KEYS);
                soften<D, true>(s, w, params, work, row, first, KEYS);
                multiply_values<T, D, true>(w, s, v_shared, KEYS);
            } else {
                multiply_keys<T, D, false>(s, w, k_shared, live);
                soften<D, false>(s, w, params, work, row, first, live);
                multiply_values<T, D, false>(w, s, v_shared, live);
            }
        }
        if ((b + STAGES) * KEYS < length) {
            block_sync();
            fetch_both<T, D>(k_shared, tile_bytes, work, params, (b + STAGES) * KEYS);
        }
        copy_commit();
    }
    if (!active)
        return;
    float sum[2];
#pragma unroll
    for (int h = 0; h < 2; h++) {
        sum[h] = w.sum[h] + shuffle_xor(w.sum[h], 1);
        sum[h] += shuffle_xor(sum[h], 2);
    }
    store_rows<T, D>(w, first_row(static_cast<T *>(params.out), params.out_stride, work, params), params, row, length, sum);
    const int lane = threadIdx.x & 31;
    if (params.lse != nullptr && (lane & 3) == 0) {
        float *lse = first_number(params.lse, work, params);
#pragma unroll
        for (int h = 0; h < 2; h++) {
            const int r = row + lane / 4 + 8 * h;
            if (r < length)
                lse[(long long)r * params.n_heads] = log_sum(w.maximum[h], sum[h]);
        }
    }
    if (params.cls_probs != nullptr && row == 0) {
        warp_sync();
        finish_cls(params, work, shuffle(w.maximum[0], 0), shuffle(sum[0], 0), lane, 32);
    }
}

#endif

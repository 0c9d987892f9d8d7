/* Ragged bidirectional attention on tensor cores: online softmax over blocks of 32 keys, 16 * MT query rows per warp. */
#ifndef RVIT_ATTENTION_CUH
#define RVIT_ATTENTION_CUH

#include "elements.cuh"

#include "../tile.h"

#include <float.h>

enum { KEYS = RVIT_CU_ATTENTION_KEYS, STAGE_KEYS = 2 * KEYS }; /* per block, per pipeline stage */

#define RVIT_LOG2_E 1.4426950408889634f
#define RVIT_LN_2 0.6931471805599453f

/* Rows of K or V in shared memory, in 16-byte chunks of 8 channels. A swizzle permutes the chunks of a row, so that neither the 8 rows
   of an ldmatrix nor the 4 chunks of 2 rows that 8 lanes load at once have a bank conflict. */
template <int D> struct tile_rows {
    static const int PITCH = RVIT_CU_ATTENTION_PITCH(D), CHUNKS = D / 8, BYTES = STAGE_KEYS * PITCH;
    static const int TURN = PITCH % 128 == 0 ? 8 : 4; /* chunks that the swizzle permutes with each other */
    static __device__ __forceinline__ int swizzled(int row, int chunk)
    {
        const int turn = TURN == 8 ? (row & 1) << 2 | (row >> 1 & 3) : row >> 1 & 3;
        return row * PITCH + (chunk ^ turn) * 16;
    }
    /* The swizzled offset, `chunks` chunks further on. The first chunk must be less than the power of two in `chunks`, so that the sum
       does not carry into the swizzled bits. */
    static __device__ __forceinline__ int advance(int offset, int chunks)
    {
        return (offset ^ chunks % TURN * 16) + chunks / TURN * TURN * 16;
    }
};

/* The work of a CTA: a block of query rows of one head of an image. */
struct attention_work {
    int head, row_block, begin, length;
};

template <typename P> RVIT_DEVICE attention_work find_work(const P &params)
{
    attention_work work;
    work.head = blockIdx.y, work.row_block = blockIdx.x;
    const image_rows rows = rows_of_image(params.cu_seqlens, params.first_image + (int)blockIdx.z, params.rows, params.max_len);
    work.begin = rows.begin, work.length = rows.len;
    return work;
}

/* The first row of the image for this head, in an array with rows `stride` elements apart, and in an array with one value per row and
   head. */
template <typename T, typename P> RVIT_DEVICE T *first_row(T *array, int stride, const attention_work &work, const P &params)
{
    return array + ((long long)work.begin * stride + work.head * params.head_dim);
}

template <typename T, typename P> RVIT_DEVICE T *first_value(T *array, const attention_work &work, const P &params)
{
    return array + ((long long)work.begin * params.n_heads + work.head);
}

/* The registers of a warp: MT tiles of 16 query rows and their output accumulators. Row g = lane / 4 of a tile is in the even halves of
   each accumulator, row g + 8 in the odd halves.
   `offset` is added to each exponent. It is the negative of the running maximum, or up to RVIT_SLACK less, so that the accumulators are
   rarely rescaled.
   The last accumulator tile sums the weights after rounding to 16 bits. The output is divided by that sum, so the rounding error of a
   single dominant weight cancels. `sum` is this lane's share of the unrounded sum, for cls_probs and lse. */
#define RVIT_SLACK 8.0f
template <int D, int MT> struct warp_state {
    static const int STEPS = D / 16, TILES = D / 8;
    uint32_t q[MT][STEPS][4];
    float out[MT][TILES + 1][4];
    float offset[MT][2], sum[MT][2];
};

/* The dot product q k may take the channels in any order that q and k share. So a lane takes whole chunks of a row of each, 8 channels
   for two mma steps, and half chunks for a remainder of 16 channels. */

/* Query rows past the length repeat the last one; their results are not stored. Channels past head_dim repeat the first; they are
   multiplied by zeros. */
template <typename T, int D, int MT>
RVIT_DEVICE void load_q(warp_state<D, MT> &w, const T *q, const rvit_cu_attention_params &params, int row, int length)
{
    const int lane = threadIdx.x & 31, c = lane & 3;
#pragma unroll
    for (int m = 0; m < MT; m++)
#pragma unroll
        for (int h = 0; h < 2; h++) {
            const T *from = q + (long long)min(row + m * 16 + h * 8 + (lane >> 2), length - 1) * params.q_stride;
#pragma unroll
            for (int group = 0; group < D / 32; group++) {
                const int channel = (group * 4 + c) * 8;
                const uint4 x = *reinterpret_cast<const uint4 *>(from + (channel < params.head_dim ? channel : 0));
                w.q[m][group * 2][h] = x.x, w.q[m][group * 2][h + 2] = x.y;
                w.q[m][group * 2 + 1][h] = x.z, w.q[m][group * 2 + 1][h + 2] = x.w;
            }
            if (D % 32 == 16) {
                const int channel = D / 32 * 32 + c * 4;
                const uint2 x = *reinterpret_cast<const uint2 *>(from + (channel < params.head_dim ? channel : 0));
                w.q[m][D / 16 - 1][h] = x.x, w.q[m][D / 16 - 1][h + 2] = x.y;
            }
        }
}

/* Flips the signs of q if the scale is negative. Unconditional, so that the compiler keeps q in the mma operand registers. */
template <int D, int MT> RVIT_DEVICE void sign_q(warp_state<D, MT> &w, uint32_t sign)
{
#pragma unroll
    for (int m = 0; m < MT; m++)
#pragma unroll
        for (int s = 0; s < warp_state<D, MT>::STEPS; s++)
#pragma unroll
            for (int i = 0; i < 4; i++)
                w.q[m][s][i] ^= sign;
}

template <int D, int MT> RVIT_DEVICE void begin_rows(warp_state<D, MT> &w)
{
#pragma unroll
    for (int m = 0; m < MT; m++) {
#pragma unroll
        for (int t = 0; t <= warp_state<D, MT>::TILES; t++)
#pragma unroll
            for (int i = 0; i < 4; i++)
                w.out[m][t][i] = 0.0f;
#pragma unroll
        for (int h = 0; h < 2; h++)
            w.offset[m][h] = FLT_MAX, w.sum[m][h] = 0.0f;
    }
}

/* Copies keys and values to shared memory with WARPS warps. A thread copies one 16-byte chunk of every STEP-th row, stage after stage.
   Channels past head_dim and rows past the length become zero. STEP is a multiple of 4, so that the swizzle repeats every two steps.
   Threads past STEP rows idle. Registers are scarce, so little is kept between stages. */
template <typename T, int D, int WARPS> struct attention_copy {
    static const int CHUNKS = tile_rows<D>::CHUNKS, PITCH = tile_rows<D>::PITCH, STEP = WARPS * 32 / CHUNKS & ~3;
    const unsigned char *k; /* the chunk of this thread's first row in the next stage; the address in V follows from it */
    uint32_t ring;

    __device__ __forceinline__ attention_copy(const unsigned char *memory, const rvit_cu_attention_params &params,
                                              const attention_work &work, int thread)
    {
        const int chunk = thread % CHUNKS, row = thread / CHUNKS;
        k = reinterpret_cast<const unsigned char *>(static_cast<const T *>(params.k) + work.head * params.head_dim + chunk * 8) +
            (long long)(work.begin + row) * (params.k_stride * 2);
        ring = shared_address(memory);
    }
    /* Synchronises the warps. With more than 4, the kernel may have other warps, too. */
    static __device__ __forceinline__ void sync()
    {
        if (WARPS > 4)
            group_sync(1, WARPS * 32);
        else
            block_sync();
    }
    /* Fetches the keys and values of the next stage. left: the image's rows from the stage's first row on. */
    __device__ __forceinline__ void fetch(int stage, int left, const attention_work &work, const rvit_cu_attention_params &params)
    {
        const unsigned k_step = (unsigned)(params.k_stride * (2 * STEP)), v_step = (unsigned)(params.v_stride * (2 * STEP));
        const unsigned thread = (unsigned)recompute(threadIdx.x);
        const int chunk = (int)(thread % CHUNKS), row = (int)(thread / CHUNKS);
        const int live = chunk * 8 < params.head_dim ? left - row : 0;
        const uint32_t even_rows = ring + (uint32_t)(stage + tile_rows<D>::swizzled(row, chunk));
        const uint32_t odd_rows = /* the swizzle differs for odd steps */
            STEP % 8 == 0 ? even_rows : ring + (uint32_t)(stage + tile_rows<D>::swizzled(row + STEP, chunk) - STEP * PITCH);
        if (WARPS * 32 == STEP * CHUNKS || row < STEP) {
            const unsigned char *from_k = k, *from_v = k + ((intptr_t)params.v - (intptr_t)params.k);
            from_v += (long long)(work.begin + work.length - left + row) * ((params.v_stride - params.k_stride) * 2);
#pragma unroll
            for (int i = 0; i < (STAGE_KEYS + STEP - 1) / STEP; i++) {
                const uint32_t to = (i % 2 == 0 ? even_rows : odd_rows) + i * STEP * PITCH;
                /* A second block without keys is not read. */
                if (KEYS % STEP == 0 ? i * STEP < KEYS || left > KEYS : row + i * STEP < STAGE_KEYS) {
                    copy_async_16(to, from_k, live > i * STEP);
                    copy_async_16(to + tile_rows<D>::BYTES, from_v, live > i * STEP);
                }
                from_k += k_step, from_v += v_step;
            }
        }
        k += (unsigned)(params.k_stride * (2 * STAGE_KEYS));
    }
};

/* The swizzled offsets of a lane's first keys and values of a stage, computed once. q: its queries, if they are in shared memory. */
template <int D> struct lane_offsets {
    int k, k_rest, v;
    uint32_t q;

    __device__ __forceinline__ lane_offsets(const unsigned char *memory, int lane)
    {
        const int c = lane & 3, base = (int)shared_address(memory);
        k = recompute(base + tile_rows<D>::swizzled(lane >> 2, c));
        k_rest = base + tile_rows<D>::swizzled(lane >> 2, D / 32 * 4 + (c >> 1)) + (c & 1) * 8;
        v = recompute(base + tile_rows<D>::swizzled(lane & 15, lane >> 4) + tile_rows<D>::BYTES);
    }
    __device__ __forceinline__ void move(int bytes)
    {
        k += bytes, k_rest += bytes, v += bytes;
    }
};

/* Whether the queries are in shared memory: with 8 warps and two CTAs per SM, there are too few registers for queries of 128 channels. */
template <int D, int MT, int WARPS> struct queries_in_smem {
    static const bool YES = D == 128 && MT == 1 && WARPS == 8;
    static const int STEP = WARPS * 32 * 16; /* bytes for 16 channels: 16 per thread */
};

/* Gets a lane's queries for 16 channels. */
template <int D, int MT, int WARPS> RVIT_DEVICE void load_queries(uint32_t (&q)[MT][4], const warp_state<D, MT> &w, uint32_t smem, int step)
{
    if (queries_in_smem<D, MT, WARPS>::YES) {
        const uint4 x = load_shared_16(smem + recompute(threadIdx.x) * 16 + step * queries_in_smem<D, MT, WARPS>::STEP);
        q[0][0] = x.x, q[0][1] = x.y, q[0][2] = x.z, q[0][3] = x.w;
    } else {
#pragma unroll
        for (int m = 0; m < MT; m++)
#pragma unroll
            for (int i = 0; i < 4; i++)
                q[m][i] = w.q[m][step][i];
    }
}

/* s = q k^T for the warp's query rows and the keys of a block. Here and below, the second 16 keys are skipped if none is live. */
template <typename T, int D, int MT, int WARPS, bool FULL>
RVIT_DEVICE void multiply_keys(float (&s)[MT][KEYS / 8][4], const warp_state<D, MT> &w, const lane_offsets<D> &offsets, int tile, int live)
{
    const int first = offsets.k + tile;
#pragma unroll
    for (int m = 0; m < MT; m++)
#pragma unroll
        for (int n = 0; n < KEYS / 8; n++)
#pragma unroll
            for (int i = 0; i < 4; i++)
                s[m][n][i] = 0.0f;
#pragma unroll
    for (int half = 0; half < 2; half++) {
        if (!FULL && half == 1 && live <= 16)
            break;
#pragma unroll
        for (int group = 0; group < D / 32; group++) {
            uint32_t q[MT][4];
            uint4 b[2];
            load_queries<D, MT, WARPS>(q, w, offsets.q, group * 2);
#pragma unroll
            for (int n = 0; n < 2; n++)
                b[n] = load_shared_16((uint32_t)tile_rows<D>::advance(first, group * 4) + (half * 2 + n) * 8 * tile_rows<D>::PITCH);
#pragma unroll
            for (int n = 0; n < 2; n++)
#pragma unroll
                for (int m = 0; m < MT; m++)
                    element<T>::mma(s[m][half * 2 + n], q[m], b[n].x, b[n].y);
            load_queries<D, MT, WARPS>(q, w, offsets.q, group * 2 + 1);
#pragma unroll
            for (int n = 0; n < 2; n++)
#pragma unroll
                for (int m = 0; m < MT; m++)
                    element<T>::mma(s[m][half * 2 + n], q[m], b[n].z, b[n].w);
        }
        if (D % 32 == 16) {
#pragma unroll
            for (int n = 0; n < 2; n++) {
                const uint2 b = load_shared_8((uint32_t)(offsets.k_rest + tile) + (half * 2 + n) * 8 * tile_rows<D>::PITCH);
#pragma unroll
                for (int m = 0; m < MT; m++)
                    element<T>::mma(s[m][half * 2 + n], w.q[m][D / 16 - 1], b.x, b.y);
            }
        }
    }
}

/* Adds the bias and masks the scores, so that 2^(s * scale - reference) is a weight; returns scale. With a bias, s becomes the whole
   exponent. Missing keys get -infinity. The scores of the image's first row go to cls_probs, for finish_cls. */
template <int MT, bool FULL, bool BIAS_STATS>
RVIT_DEVICE float complete_scores(float (&s)[MT][KEYS / 8][4], const rvit_cu_attention_params &params, const attention_work &work, int row,
                                  int first, int live)
{
    const int lane = recompute(threadIdx.x) & 31, c = (lane & 3) * 2;
    float scale = params.scale;
    if (BIAS_STATS && params.key_bias != nullptr) {
        const float *bias = params.key_bias + work.begin + first;
#pragma unroll
        for (int t = 0; t < KEYS / 8; t++)
#pragma unroll
            for (int j = 0; j < 2; j++) {
                const float b = FULL || t * 8 + c + j < live ? bias[t * 8 + c + j] * RVIT_LOG2_E : 0.0f;
#pragma unroll
                for (int m = 0; m < MT; m++) {
                    s[m][t][j] = fmaf(s[m][t][j], scale, b);
                    s[m][t][j + 2] = fmaf(s[m][t][j + 2], scale, b);
                }
            }
        scale = 1.0f;
    }
    if (!FULL) {
#pragma unroll
        for (int t = 0; t < KEYS / 8; t++)
#pragma unroll
            for (int j = 0; j < 2; j++)
                if (t * 8 + c + j >= live)
#pragma unroll
                    for (int m = 0; m < MT; m++)
                        s[m][t][j] = s[m][t][j + 2] = -INFINITY;
    }
    if (BIAS_STATS && params.cls_probs != nullptr && row == 0 && lane < 4) {
        float *cls = first_value(params.cls_probs, work, params) + (long long)first * params.n_heads;
#pragma unroll
        for (int t = 0; t < KEYS / 8; t++)
#pragma unroll
            for (int j = 0; j < 2; j++)
                if (FULL || t * 8 + c + j < live)
                    cls[(long long)(t * 8 + c + j) * params.n_heads] = s[0][t][j];
    }
    return scale;
}

/* This lane's largest score in row half h. */
template <bool FULL> RVIT_DEVICE float lane_maximum(const float (&s)[KEYS / 8][4], int h, int live)
{
    float m = fmaxf(s[0][2 * h], s[0][2 * h + 1]);
#pragma unroll
    for (int t = 1; t < KEYS / 8; t++) {
        if (!FULL && t == 2 && live <= 16)
            break;
        m = fmaxf(m, fmaxf(s[t][2 * h], s[t][2 * h + 1]));
    }
    return m;
}

/* The maximum over the four lanes of a row. */
RVIT_DEVICE float row_maximum(float m)
{
    m = fmaxf(m, shuffle_xor(m, 1));
    return fmaxf(m, shuffle_xor(m, 2));
}

/* exponent: of the largest score of one or several rows. */
RVIT_DEVICE bool exceeds(float exponent)
{
    return exponent > RVIT_SLACK;
}

/* A row whose maximum exceeds its offset gets a new offset, independent of other rows. */
template <int D, int MT, bool FULL>
RVIT_DEVICE void update_offset(const float (&s)[MT][KEYS / 8][4], warp_state<D, MT> &w, float scale, int live)
{
    float maximum[MT][2], exponent = 0.0f;
#pragma unroll
    for (int m = 0; m < MT; m++)
#pragma unroll
        for (int h = 0; h < 2; h++) {
            maximum[m][h] = lane_maximum<FULL>(s[m], h, live);
            const float e = fmaf(maximum[m][h], scale, w.offset[m][h]);
            exponent = m + h == 0 ? e : fmaxf(exponent, e);
        }
    if (warp_any(exceeds(exponent))) {
#pragma unroll
        for (int m = 0; m < MT; m++)
#pragma unroll
            for (int h = 0; h < 2; h++) {
                const float largest = row_maximum(maximum[m][h]), old = w.offset[m][h];
                w.offset[m][h] = exceeds(fmaf(largest, scale, old)) ? -(largest * scale) : old;
                const float factor = exp2_fast(w.offset[m][h] - old);
                w.sum[m][h] *= factor;
#pragma unroll
                for (int t = 0; t <= warp_state<D, MT>::TILES; t++)
                    w.out[m][t][2 * h] *= factor, w.out[m][t][2 * h + 1] *= factor;
            }
    }
}

/* The weights for 16 keys, packed as the A fragment of an mma. */
template <typename T, int D, int MT, bool BIAS_STATS>
RVIT_DEVICE void compute_weights(uint32_t (&p)[MT][4], const float (&s)[MT][KEYS / 8][4], warp_state<D, MT> &w, float scale, int n)
{
#pragma unroll
    for (int m = 0; m < MT; m++) {
        float x[2][4];
#pragma unroll
        for (int t = 0; t < 2; t++)
#pragma unroll
            for (int i = 0; i < 4; i++)
                x[t][i] = exp2_fast(fmaf(s[m][2 * n + t][i], scale, w.offset[m][i / 2]));
#pragma unroll
        for (int i = 0; i < 4; i++)
            p[m][i] = element<T>::pack(x[i / 2][i % 2 * 2], x[i / 2][i % 2 * 2 + 1]);
        if (BIAS_STATS)
#pragma unroll
            for (int h = 0; h < 2; h++)
                w.sum[m][h] += x[0][2 * h] + x[0][2 * h + 1] + (x[1][2 * h] + x[1][2 * h + 1]);
    }
}

/* out += p v for 16 keys. */
template <typename T, int D, int MT, int WARPS>
RVIT_DEVICE void multiply_values(warp_state<D, MT> &w, const uint32_t (&p)[MT][4], int offset, int n)
{
    const int STEPS = queries_in_smem<D, MT, WARPS>::YES ? 2 : warp_state<D, MT>::STEPS; /* fragments loaded at once */
#pragma unroll
    for (int first = 0; first < warp_state<D, MT>::STEPS; first += STEPS) {
        uint32_t b[STEPS][4];
#pragma unroll
        for (int step = 0; step < STEPS; step++)
            load_matrix_x4_transposed(b[step], (uint32_t)tile_rows<D>::advance(offset, (first + step) * 2) + n * 16 * tile_rows<D>::PITCH);
#pragma unroll
        for (int m = 0; m < MT; m++) {
            if (first == 0)
                element<T>::mma(w.out[m][warp_state<D, MT>::TILES], p[m], element<T>::ONES, element<T>::ONES);
#pragma unroll
            for (int step = 0; step < STEPS; step++) {
                element<T>::mma(w.out[m][(first + step) * 2], p[m], b[step][0], b[step][1]);
                element<T>::mma(w.out[m][(first + step) * 2 + 1], p[m], b[step][2], b[step][3]);
            }
        }
    }
}

/* Normalises and writes 16 rows. A lane holds 2 channels of each of two adjacent accumulator tiles. Pairs of lanes exchange them, so
   that one lane has 4 channels of the first tile, the other has 4 of the second, and 32 bytes of a row are written at once. */
template <typename T, int D>
RVIT_DEVICE void store_rows(const float (&tiles)[D / 8 + 1][4], T *out, const rvit_cu_attention_params &params, int row, int length)
{
    const int lane = recompute(threadIdx.x) & 31;
    const bool odd = (lane & 1) != 0;
#pragma unroll
    for (int h = 0; h < 2; h++) {
        const float sum = tiles[D / 8][2 * h], inverse = sum == 0.0f ? 0.0f : reciprocal_fast(sum);
        const int r = row + (lane >> 2) + 8 * h, channel = (lane & 1) * 8 + (lane & 2) * 2;
        T *p = out + (long long)r * params.out_stride + channel;
#pragma unroll
        for (int t = 0; t < D / 8; t += 2) {
            const uint32_t first = element<T>::pack(tiles[t][2 * h] * inverse, tiles[t][2 * h + 1] * inverse);
            const uint32_t second = element<T>::pack(tiles[t + 1][2 * h] * inverse, tiles[t + 1][2 * h + 1] * inverse);
            const uint32_t other = shuffle_xor(odd ? first : second, 1);
            if (r < length && t * 8 + channel < params.head_dim)
                *reinterpret_cast<uint2 *>(p + t * 8) = odd ? make_uint2(other, second) : make_uint2(first, other);
        }
    }
}

/* Turns the scores of the first row into probabilities, with threads first, first + step, ... */
RVIT_DEVICE void finish_cls(const rvit_cu_attention_params &params, const attention_work &work, float reference, float total, int first,
                            int step)
{
    const float scale = params.key_bias == nullptr ? params.scale : 1.0f;
    for (int j = first; j < work.length; j += step) {
        float *p = first_value(params.cls_probs, work, params) + (long long)j * params.n_heads;
        *p = total == 0.0f ? 0.0f : exp2_fast(fmaf(*p, scale, -reference)) / total;
    }
}

RVIT_DEVICE float log_sum(float reference, float sum)
{
    return (reference + log2f(sum)) * RVIT_LN_2;
}

/* K and V use a pipeline of STAGES stages with two blocks each. AHEAD: the scores of the next block are computed while the values of
   this one are accumulated, so the next stage must arrive while this one is still read. */
template <int D, int MT, int STAGES> struct attention_ring {
    static const bool AHEAD = STAGES > 2 && MT == 1;
    static const int STAGE = 2 * tile_rows<D>::BYTES, BLOCK = KEYS * tile_rows<D>::PITCH, SIZE = STAGES * STAGE;
};

/* Waits until the next stage has arrived and all warps have finished with the stage that is refilled next. stage: the current offset;
   returns the next one. left: the image's rows from this stage on. */
template <typename T, int D, int MT, int WARPS, int STAGES>
RVIT_DEVICE int next_stage(attention_copy<T, D, WARPS> &copy, lane_offsets<D> &offsets, int stage, int left, const attention_work &work,
                           const rvit_cu_attention_params &params)
{
    typedef attention_ring<D, MT, STAGES> ring;
    /* Recomputed, because a counter would cost a register. */
    const int later = (ring::AHEAD ? left : recompute(left)) - (ring::AHEAD ? STAGES - 1 : STAGES) * STAGE_KEYS;
    copy_wait<ring::AHEAD ? STAGES - 3 : STAGES - 2>();
    copy.sync();
    if (!ring::AHEAD || left < work.length) {
        if (later > 0)
            copy.fetch(!ring::AHEAD ? stage : (stage == 0 ? ring::SIZE : stage) - ring::STAGE, later, work, params);
        copy_commit();
    }
    const int step = stage + ring::STAGE == ring::SIZE ? ring::STAGE - ring::SIZE : ring::STAGE;
    offsets.move(step);
    return stage + step;
}

/* Computes a warp's rows against all keys of the image. */
template <typename T, int D, int MT, int WARPS, int STAGES, bool BIAS_STATS>
RVIT_DEVICE void attend_rows(warp_state<D, MT> &w, attention_copy<T, D, WARPS> &copy, lane_offsets<D> &offsets,
                             const rvit_cu_attention_params &params, const attention_work &work, int row)
{
    const bool AHEAD = attention_ring<D, MT, STAGES>::AHEAD && !BIAS_STATS;
    const int BLOCK = attention_ring<D, MT, STAGES>::BLOCK;
    int stage = 0, left = work.length;
    float s[MT][KEYS / 8][4];
    if (AHEAD)
        multiply_keys<T, D, MT, WARPS, false>(s, w, offsets, 0, left);
#pragma unroll 1
    for (; left > STAGE_KEYS; left -= STAGE_KEYS)
#pragma unroll(BIAS_STATS || queries_in_smem <D, MT, WARPS>::YES ? 1 : 2)
        for (int b = 0; b < 2; b++) {
            const int values = offsets.v + b * BLOCK;
            if (!AHEAD)
                multiply_keys<T, D, MT, WARPS, true>(s, w, offsets, b * BLOCK, KEYS);
            uint32_t p[2][MT][4];
            const float scale = complete_scores<MT, true, BIAS_STATS>(s, params, work, row, work.length - left + b * KEYS, KEYS);
            update_offset<D, MT, true>(s, w, scale, KEYS);
            compute_weights<T, D, MT, BIAS_STATS>(p[0], s, w, scale, 0);
            multiply_values<T, D, MT, WARPS>(w, p[0], values, 0);
            compute_weights<T, D, MT, BIAS_STATS>(p[1], s, w, scale, 1);
            if (queries_in_smem<D, MT, WARPS>::YES)
                copy.sync(); /* keeps the compiler from hoisting loads, for which there are no registers */
            if (AHEAD) {
                if (b == 1)
                    stage = next_stage<T, D, MT, WARPS, STAGES>(copy, offsets, stage, left, work, params);
                multiply_keys<T, D, MT, WARPS, true>(s, w, offsets, b == 0 ? BLOCK : 0, KEYS);
            }
            multiply_values<T, D, MT, WARPS>(w, p[1], values, 1);
            if (!AHEAD && b == 1)
                stage = next_stage<T, D, MT, WARPS, STAGES>(copy, offsets, stage, left, work, params);
        }
    if (left > KEYS) {
        if (!AHEAD)
            multiply_keys<T, D, MT, WARPS, true>(s, w, offsets, 0, KEYS);
        uint32_t p[2][MT][4];
        const float scale = complete_scores<MT, true, BIAS_STATS>(s, params, work, row, work.length - left, KEYS);
        update_offset<D, MT, true>(s, w, scale, KEYS);
        compute_weights<T, D, MT, BIAS_STATS>(p[0], s, w, scale, 0);
        compute_weights<T, D, MT, BIAS_STATS>(p[1], s, w, scale, 1);
        if (queries_in_smem<D, MT, WARPS>::YES)
            warp_sync();
        left -= KEYS;
        if (AHEAD)
            multiply_keys<T, D, MT, WARPS, false>(s, w, offsets, BLOCK, left);
        multiply_values<T, D, MT, WARPS>(w, p[0], offsets.v, 0);
        multiply_values<T, D, MT, WARPS>(w, p[1], offsets.v, 1);
        offsets.move(BLOCK);
    }
    if (!AHEAD)
        multiply_keys<T, D, MT, WARPS, false>(s, w, offsets, 0, left);
    const float scale = complete_scores<MT, false, BIAS_STATS>(s, params, work, row, work.length - left, left);
    update_offset<D, MT, false>(s, w, scale, left);
#pragma unroll
    for (int n = 0; n < 2; n++)
        if (n * 16 < left) {
            uint32_t p[MT][4];
            compute_weights<T, D, MT, BIAS_STATS>(p, s, w, scale, n);
            multiply_values<T, D, MT, WARPS>(w, p, offsets.v, n);
        }
}

/* Writes lse and cls_probs. */
template <int D, int MT>
RVIT_DEVICE void finish_stats(warp_state<D, MT> &w, const rvit_cu_attention_params &params, const attention_work &work, int row)
{
    const int lane = recompute(threadIdx.x) & 31;
#pragma unroll
    for (int m = 0; m < MT; m++)
#pragma unroll
        for (int h = 0; h < 2; h++) {
            w.sum[m][h] += shuffle_xor(w.sum[m][h], 1);
            w.sum[m][h] += shuffle_xor(w.sum[m][h], 2);
            const int r = row + m * 16 + lane / 4 + 8 * h;
            if (params.lse != nullptr && (lane & 3) == 0 && r < work.length)
                first_value(params.lse, work, params)[(long long)r * params.n_heads] = log_sum(-w.offset[m][h], w.sum[m][h]);
        }
    if (params.cls_probs != nullptr && row == 0) {
        warp_sync();
        finish_cls(params, work, -shuffle(w.offset[0][0], 0), shuffle(w.sum[0][0], 0), lane, 32);
    }
}

/* The first row of the warp. Recomputing it is cheaper than keeping it. */
template <int MT, int WARPS> RVIT_DEVICE int warp_row(const attention_work &work)
{
    return (work.row_block * WARPS + recompute(threadIdx.x) / 32) * (16 * MT);
}

/* A CTA takes 16 * MT rows of a head of an image per warp. BIAS_STATS: supports key bias, cls_probs and lse. With 64 channels such
   kernels are used for nothing else. */
template <typename T, int D, int MT, int WARPS, int STAGES, bool BIAS_STATS>
RVIT_DEVICE void attend(const rvit_cu_attention_params &params, const attention_work &work, unsigned char *memory)
{
    const int length = work.length;
    int row = warp_row<MT, WARPS>(work);
    if (work.row_block * (WARPS * 16 * MT) >= length)
        return;
    /* Queries first: the mma start once they and the first stage have arrived. */
    warp_state<D, MT> w;
    if (row < length)
        load_q<T, D, MT>(w, first_row(static_cast<const T *>(params.q), params.q_stride, work, params), params, row, length);
    attention_copy<T, D, WARPS> copy(memory, params, work, threadIdx.x);
#pragma unroll
    for (int stage = 0; stage < STAGES; stage++) {
        if (stage * STAGE_KEYS < length)
            copy.fetch(stage * attention_ring<D, MT, STAGES>::STAGE, length - stage * STAGE_KEYS, work, params);
        copy_commit();
    }
    lane_offsets<D> offsets(memory, threadIdx.x & 31);
    sign_q(w, params.q_sign);
    if (queries_in_smem<D, MT, WARPS>::YES) {
        unsigned char *const smem = memory + attention_ring<D, MT, STAGES>::SIZE;
#pragma unroll
        for (int step = 0; step < D / 16; step++)
            *reinterpret_cast<uint4 *>(smem + threadIdx.x * 16 + step * queries_in_smem<D, MT, WARPS>::STEP) =
                make_uint4(w.q[0][step][0], w.q[0][step][1], w.q[0][step][2], w.q[0][step][3]);
        offsets.q = shared_address(smem);
    }
    begin_rows(w);
    copy_wait<STAGES - 1>();
    copy.sync();
    if (row >= length) {
        int stage = 0;
#pragma unroll 1
        for (int left = length; left > STAGE_KEYS; left -= STAGE_KEYS) {
            for (int b = 0; b < 2 && queries_in_smem<D, MT, WARPS>::YES; b++)
                copy.sync();
            stage = next_stage<T, D, MT, WARPS, STAGES>(copy, offsets, stage, left, work, params);
        }
        return;
    }
    if (BIAS_STATS && (D == 64 || params.key_bias != nullptr || params.cls_probs != nullptr || params.lse != nullptr)) {
        attend_rows<T, D, MT, WARPS, STAGES, BIAS_STATS>(w, copy, offsets, params, work, row);
        row = warp_row<MT, WARPS>(work);
        finish_stats<D, MT>(w, params, work, row);
    } else {
        attend_rows<T, D, MT, WARPS, STAGES, false>(w, copy, offsets, params, work, row);
        row = warp_row<MT, WARPS>(work);
    }
    T *out = first_row(static_cast<T *>(params.out), params.out_stride, work, params);
#pragma unroll
    for (int m = 0; m < MT; m++)
        store_rows<T, D>(w.out[m], out, params, row + m * 16, length);
}

template <typename T, int D, int MT, int WARPS, int STAGES, bool BIAS_STATS> RVIT_DEVICE void attend(const rvit_cu_attention_params &params)
{
    RVIT_DYNAMIC_SHARED(memory);
    attend<T, D, MT, WARPS, STAGES, BIAS_STATS>(params, find_work(params), memory);
}

#endif

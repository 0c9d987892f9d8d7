/* Ragged bidirectional attention on tensor cores: online softmax over blocks of 32 keys, 16 * MT query rows a warp. */
#ifndef RVIT_ATTENTION_CUH
#define RVIT_ATTENTION_CUH

#include "elements.cuh"

#include "../tile.h"

#include <float.h>

enum { KEYS = RVIT_CU_ATTENTION_KEYS, STAGE_KEYS = 2 * KEYS }; /* of a block, of a stage of the ring */

#define RVIT_LOG2_E 1.4426950408889634f
#define RVIT_LN_2 0.6931471805599453f

/* Rows of K or V in shared memory, 16-byte chunks of 8 channels. Chunks change places by row, so that neither the 8 rows of an ldmatrix nor
   the 4 chunks of 2 rows that 8 lanes load at once meet in a bank. */
template <int D> struct tile_rows {
    static const int PITCH = RVIT_CU_ATTENTION_PITCH(D), CHUNKS = D / 8, BYTES = STAGE_KEYS * PITCH;
    static const int TURN = PITCH % 128 == 0 ? 8 : 4; /* chunks that trade places */
    static __device__ __forceinline__ int at(int row, int chunk)
    {
        const int turn = TURN == 8 ? (row & 1) << 2 | (row >> 1 & 3) : row >> 1 & 3;
        return row * PITCH + (chunk ^ turn) * 16;
    }
    /* The place `chunks` chunks after another. What is added must not carry into the bits below it: the first chunk is less than the
       power of two in `chunks`. */
    static __device__ __forceinline__ int advance(int place, int chunks)
    {
        return (place ^ chunks % TURN * 16) + chunks / TURN * TURN * 16;
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

/* What one warp holds: MT tiles of 16 query rows and their output so far. Row g = lane / 4 of a tile is in the even halves of each
   accumulator, row g + 8 in the odd ones. Exponents are taken relative to `reference`: a maximum of the scores so far, or up to
   RVIT_SLACK below it, so that what is summed up rarely has to be rescaled. The tile behind the output has the sum of the weights as they
   were rounded for the product, which is what the output is divided by: a weight's rounding then cancels where it is the only large one.
   `sum` has this lane's part of the exact sum, for what is asked for besides. */
#define RVIT_SLACK 8.0f
template <int D, int MT> struct warp_state {
    static const int STEPS = D / 16, TILES = D / 8;
    uint32_t q[MT][STEPS][4];
    float out[MT][TILES + 1][4];
    float reference[MT][2], sum[MT][2];
};

/* Channels may be multiplied in any order that q and k share: a lane takes whole chunks of a row of each, 8 channels for two steps of the
   product, and half chunks where 16 channels are left. */

/* Query rows past the length repeat the last one: their results are not stored. Channels past head_dim repeat the first: they meet zeros.
 */
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

/* Flips the signs of pairs of elements: a negative scale. */
template <int D, int MT> RVIT_DEVICE void negate_q(warp_state<D, MT> &w, uint32_t sign)
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
            w.reference[m][h] = -FLT_MAX, w.sum[m][h] = 0.0f;
    }
}

/* What a thread of WARPS warps copies of keys and of values: one 16-byte chunk of every STEP-th row. Channels past head_dim and rows past
   the length become zero. STEP is a multiple of 4, so that chunks change places in turns of two; threads past STEP rows idle. */
template <typename T, int D, int WARPS> struct attention_copy {
    static const int STEP = WARPS * 32 / tile_rows<D>::CHUNKS & ~3, ROWS = (STAGE_KEYS + STEP - 1) / STEP;
    const unsigned char *k, *v; /* the chunk of this thread's first row */
    int row, length, end, place, place_after;

    __device__ __forceinline__ attention_copy(const rvit_cu_attention_params &params, const attention_work &work, int thread)
    {
        const int chunk = thread % tile_rows<D>::CHUNKS;
        row = thread / tile_rows<D>::CHUNKS;
        length = work.length, end = chunk * 8 < params.head_dim ? length - row : 0;
        k = reinterpret_cast<const unsigned char *>(static_cast<const T *>(params.k) + work.head * params.head_dim + chunk * 8) +
            (long long)(work.begin + row) * (params.k_stride * 2);
        v = reinterpret_cast<const unsigned char *>(static_cast<const T *>(params.v) + work.head * params.head_dim + chunk * 8) +
            (long long)(work.begin + row) * (params.v_stride * 2);
        place = tile_rows<D>::at(row, chunk), place_after = tile_rows<D>::at(row + STEP, chunk) - STEP * tile_rows<D>::PITCH;
    }
    /* A stage: the keys, then the values. */
    __device__ __forceinline__ void fetch(uint32_t shared, int first, const rvit_cu_attention_params &params) const
    {
        if (WARPS * 32 != STEP * tile_rows<D>::CHUNKS && row >= STEP)
            return;
        const unsigned char *from_k = k + (long long)first * (params.k_stride * 2), *from_v = v + (long long)first * (params.v_stride * 2);
        const unsigned k_step = (unsigned)(params.k_stride * (2 * STEP)), v_step = (unsigned)(params.v_stride * (2 * STEP));
        const int left = end - first;
#pragma unroll
        for (int i = 0; i < ROWS; i++) {
            const uint32_t to = shared + (STEP % 8 == 0 || i % 2 == 0 ? place : place_after) + i * STEP * tile_rows<D>::PITCH;
            /* A second block without a key is not read. */
            if (KEYS % STEP == 0 ? i * STEP < KEYS || length - first > KEYS : row + i * STEP < STAGE_KEYS) {
                copy_async_16(to, from_k, left > i * STEP);
                copy_async_16(to + tile_rows<D>::BYTES, from_v, left > i * STEP);
            }
            from_k += k_step, from_v += v_step;
        }
    }
};

/* Where a lane finds its part of the first keys and values of a block, counted from the first byte of shared memory: kept, not computed
   again for each block. */
template <int D> struct lane_places {
    int k, k_rest, v;

    __device__ __forceinline__ lane_places(int lane)
    {
        const int c = lane & 3;
        k = recompute(tile_rows<D>::at(lane >> 2, c));
        k_rest = tile_rows<D>::at(lane >> 2, D / 32 * 4 + (c >> 1)) + (c & 1) * 8;
        v = tile_rows<D>::at(lane & 15, lane >> 4) + tile_rows<D>::BYTES;
    }
};

/* s = the scores of the warp's queries and the `live` keys of a block. */
template <typename T, int D, int MT, bool FULL>
RVIT_DEVICE void multiply_keys(float (&s)[MT][KEYS / 8][4], const warp_state<D, MT> &w, const lane_places<D> &places,
                               const unsigned char *tile, int live)
{
#pragma unroll
    for (int m = 0; m < MT; m++)
#pragma unroll
        for (int n = 0; n < KEYS / 8; n++)
#pragma unroll
            for (int i = 0; i < 4; i++)
                s[m][n][i] = 0.0f;
#pragma unroll
    for (int n = 0; n < KEYS / 8; n++) {
        if (!FULL && n == 2 && live <= 16)
            break;
#pragma unroll
        for (int group = 0; group < D / 32; group++) {
            const int place = tile_rows<D>::advance(places.k, group * 4) + n * 8 * tile_rows<D>::PITCH;
            const uint4 b = *reinterpret_cast<const uint4 *>(tile + place);
#pragma unroll
            for (int m = 0; m < MT; m++)
                element<T>::mma(s[m][n], w.q[m][group * 2], b.x, b.y);
#pragma unroll
            for (int m = 0; m < MT; m++)
                element<T>::mma(s[m][n], w.q[m][group * 2 + 1], b.z, b.w);
        }
        if (D % 32 == 16) {
            const uint2 b = *reinterpret_cast<const uint2 *>(tile + places.k_rest + n * 8 * tile_rows<D>::PITCH);
#pragma unroll
            for (int m = 0; m < MT; m++)
                element<T>::mma(s[m][n], w.q[m][D / 16 - 1], b.x, b.y);
        }
    }
}

/* Brings scores into the form in which 2^(s * scale - reference) is a weight, and returns scale: with a bias s becomes the whole exponent.
   What no key stands for is -infinity. The scores of the image's first row are left in cls_probs; finish_cls does the rest. */
template <int MT, bool FULL, bool EXTRAS>
RVIT_DEVICE float complete_scores(float (&s)[MT][KEYS / 8][4], const rvit_cu_attention_params &params, const attention_work &work, int row,
                                  int first, int live)
{
    const int lane = recompute(threadIdx.x) & 31, c = (lane & 3) * 2;
    float scale = params.scale;
    if (EXTRAS && params.key_bias != nullptr) {
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
    if (EXTRAS && params.cls_probs != nullptr && row == 0 && lane < 4) {
        float *cls = first_number(params.cls_probs, work, params) + (long long)first * params.n_heads;
#pragma unroll
        for (int t = 0; t < KEYS / 8; t++)
#pragma unroll
            for (int j = 0; j < 2; j++)
                if (FULL || t * 8 + c + j < live)
                    cls[(long long)(t * 8 + c + j) * params.n_heads] = s[0][t][j];
    }
    return scale;
}

/* This lane's largest score of row half h. Here and below the second 16 keys of a block are passed over where none is live. */
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

/* Of the four lanes that hold a row. */
RVIT_DEVICE float row_maximum(float m)
{
    m = fmaxf(m, shuffle_xor(m, 1));
    return fmaxf(m, shuffle_xor(m, 2));
}

RVIT_DEVICE bool exceeds(float maximum, float reference)
{
    return maximum > reference + RVIT_SLACK;
}

/* s becomes weights. */
template <bool FULL> RVIT_DEVICE void weigh(float (&s)[KEYS / 8][4], float scale, float reference, int h, int live)
{
#pragma unroll
    for (int t = 0; t < KEYS / 8; t++) {
        if (!FULL && t == 2 && live <= 16)
            break;
        s[t][2 * h] = exp2_fast(fmaf(s[t][2 * h], scale, -reference));
        s[t][2 * h + 1] = exp2_fast(fmaf(s[t][2 * h + 1], scale, -reference));
    }
}

/* This lane's part of their sum. */
template <bool FULL> RVIT_DEVICE float sum_weights(const float (&s)[KEYS / 8][4], int h, int live)
{
    float sum = 0.0f;
#pragma unroll
    for (int t = 0; t < KEYS / 8; t++) {
        if (!FULL && t == 2 && live <= 16)
            break;
        sum += s[t][2 * h] + s[t][2 * h + 1];
    }
    return sum;
}

/* Scores become weights. A row whose maximum outgrew its reference gets a new one, whatever the other rows do. */
template <int D, int MT, bool FULL, bool EXTRAS>
RVIT_DEVICE void soften(float (&s)[MT][KEYS / 8][4], warp_state<D, MT> &w, float scale, int live)
{
    bool outgrown = false;
    float maximum[MT][2];
#pragma unroll
    for (int m = 0; m < MT; m++)
#pragma unroll
        for (int h = 0; h < 2; h++) {
            maximum[m][h] = lane_maximum<FULL>(s[m], h, live) * scale;
            outgrown = outgrown || exceeds(maximum[m][h], w.reference[m][h]);
        }
    if (warp_ballot(outgrown) != 0u) {
#pragma unroll
        for (int m = 0; m < MT; m++)
#pragma unroll
            for (int h = 0; h < 2; h++) {
                const float largest = row_maximum(maximum[m][h]), old = w.reference[m][h];
                w.reference[m][h] = exceeds(largest, old) ? largest : old;
                const float factor = exp2_fast(old - w.reference[m][h]);
                w.sum[m][h] *= factor;
#pragma unroll
                for (int t = 0; t <= warp_state<D, MT>::TILES; t++)
                    w.out[m][t][2 * h] *= factor, w.out[m][t][2 * h + 1] *= factor;
            }
    }
#pragma unroll
    for (int m = 0; m < MT; m++)
#pragma unroll
        for (int h = 0; h < 2; h++) {
            weigh<FULL>(s[m], scale, w.reference[m][h], h, live);
            if (EXTRAS)
                w.sum[m][h] += sum_weights<FULL>(s[m], h, live);
        }
}

/* The weights of 16 keys as the left matrix of a product. */
template <typename T> RVIT_DEVICE void pack_weights(uint32_t (&p)[4], const float (&s)[KEYS / 8][4], int n)
{
    p[0] = element<T>::pack(s[2 * n][0], s[2 * n][1]), p[1] = element<T>::pack(s[2 * n][2], s[2 * n][3]);
    p[2] = element<T>::pack(s[2 * n + 1][0], s[2 * n + 1][1]), p[3] = element<T>::pack(s[2 * n + 1][2], s[2 * n + 1][3]);
}

/* Adds the values of a block, weighted. */
template <typename T, int D, int MT, bool FULL>
RVIT_DEVICE void multiply_values(warp_state<D, MT> &w, const float (&s)[MT][KEYS / 8][4], const lane_places<D> &places, uint32_t tile,
                                 int live)
{
    const int place = (int)tile + places.v;
#pragma unroll
    for (int n = 0; n < KEYS / 16; n++) {
        if (!FULL && n * 16 >= live)
            break;
        uint32_t p[MT][4];
#pragma unroll
        for (int m = 0; m < MT; m++) {
            pack_weights<T>(p[m], s[m], n);
            element<T>::mma(w.out[m][warp_state<D, MT>::TILES], p[m], element<T>::ONES, element<T>::ONES);
        }
#pragma unroll
        for (int step = 0; step < warp_state<D, MT>::STEPS; step++) {
            uint32_t b[4];
            load_matrix_x4_transposed(b, (uint32_t)tile_rows<D>::advance(place, step * 2) + n * 16 * tile_rows<D>::PITCH);
#pragma unroll
            for (int m = 0; m < MT; m++) {
                element<T>::mma(w.out[m][step * 2], p[m], b[0], b[1]);
                element<T>::mma(w.out[m][step * 2 + 1], p[m], b[2], b[3]);
            }
        }
    }
}

/* EXTRAS: there may be a key bias, or more than the output is wanted. */
template <typename T, int D, int MT, bool FULL, bool EXTRAS>
RVIT_DEVICE void attend_block(warp_state<D, MT> &w, const lane_places<D> &places, const unsigned char *memory, int tile,
                              const rvit_cu_attention_params &params, const attention_work &work, int row, int first, int live)
{
    float s[MT][KEYS / 8][4];
    multiply_keys<T, D, MT, FULL>(s, w, places, memory + tile, live);
    const float scale = complete_scores<MT, FULL, EXTRAS>(s, params, work, row, first, live);
    soften<D, MT, FULL, EXTRAS>(s, w, scale, live);
    multiply_values<T, D, MT, FULL>(w, s, places, shared_address(memory) + tile, live);
}

/* Normalises and writes 16 rows. Of two neighbouring tiles a lane holds 2 channels of each: pairs of lanes trade, so that one has 4
   channels of the first tile and the other 4 of the second, and a row's 32 bytes are written at once. */
template <typename T, int D>
RVIT_DEVICE void store_rows(const float (&tiles)[D / 8 + 1][4], T *out, const rvit_cu_attention_params &params, int row, int length)
{
    const int lane = threadIdx.x & 31;
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

/* The first row's probabilities from its scores, by the threads first, first + step, ... */
RVIT_DEVICE void finish_cls(const rvit_cu_attention_params &params, const attention_work &work, float reference, float total, int first,
                            int step)
{
    const float scale = params.key_bias == nullptr ? params.scale : 1.0f;
    for (int j = first; j < work.length; j += step) {
        float *p = first_number(params.cls_probs, work, params) + (long long)j * params.n_heads;
        *p = total == 0.0f ? 0.0f : exp2_fast(fmaf(*p, scale, -reference)) / total;
    }
}

RVIT_DEVICE float log_sum(float reference, float sum)
{
    return (reference + log2f(sum)) * RVIT_LN_2;
}

/* A warp's rows against every key of the image. K and V pass through a ring of STAGES stages of two blocks. */
template <typename T, int D, int MT, int WARPS, int STAGES, bool EXTRAS>
RVIT_DEVICE void attend_rows(warp_state<D, MT> &w, unsigned char *memory, const rvit_cu_attention_params &params,
                             const attention_work &work, int row)
{
    const int BLOCK = KEYS * tile_rows<D>::PITCH, STAGE = 2 * tile_rows<D>::BYTES;
    const lane_places<D> places(threadIdx.x & 31);
    const bool active = row < work.length;
    int tile = 0;
#pragma unroll 1
    for (int first = 0; first < work.length; first += KEYS) {
        if (first % STAGE_KEYS == 0) {
            copy_wait<STAGES - 2>();
            block_sync(); /* this stage is there, and the last one has been read */
            if (first > 0) {
                const int next = first + (STAGES - 1) * STAGE_KEYS;
                if (next < work.length) {

                    const attention_copy<T, D, WARPS> copy(params, work, recompute(threadIdx.x));
                    copy.fetch(shared_address(memory) + (tile == 0 ? STAGES * STAGE : tile) - STAGE, next, params);
                }
                copy_commit();
            }
        }
        if (active) {
            const int live = work.length - first;
            if (live >= KEYS)
                attend_block<T, D, MT, true, EXTRAS>(w, places, memory, tile, params, work, row, first, KEYS);
            else
                attend_block<T, D, MT, false, EXTRAS>(w, places, memory, tile, params, work, row, first, live);
        }
        if (first % STAGE_KEYS == 0)
            tile += BLOCK;
        else
            tile = tile + STAGE - BLOCK == STAGES * STAGE ? 0 : tile + STAGE - BLOCK;
    }
}

/* Writes what was asked for besides the output. */
template <int D, int MT>
RVIT_DEVICE void finish_extras(warp_state<D, MT> &w, const rvit_cu_attention_params &params, const attention_work &work, int row)
{
    const int lane = threadIdx.x & 31;
#pragma unroll
    for (int m = 0; m < MT; m++)
#pragma unroll
        for (int h = 0; h < 2; h++) {
            w.sum[m][h] += shuffle_xor(w.sum[m][h], 1);
            w.sum[m][h] += shuffle_xor(w.sum[m][h], 2);
            const int r = row + m * 16 + lane / 4 + 8 * h;
            if (params.lse != nullptr && (lane & 3) == 0 && r < work.length)
                first_number(params.lse, work, params)[(long long)r * params.n_heads] = log_sum(w.reference[m][h], w.sum[m][h]);
        }
    if (params.cls_probs != nullptr && row == 0) {
        warp_sync();
        finish_cls(params, work, shuffle(w.reference[0][0], 0), shuffle(w.sum[0][0], 0), lane, 32);
    }
}

/* The first row of the warp. Cheaper computed again than kept. */
template <int MT, int WARPS> RVIT_DEVICE int warp_row(const attention_work &work)
{
    return (work.row_block * WARPS + recompute(threadIdx.x) / 32) * (16 * MT);
}

/* A CTA takes 16 * MT rows of a head of an image for each of its warps. EXTRAS: key bias, cls_probs and lse are served. */
template <typename T, int D, int MT, int WARPS, int STAGES, bool EXTRAS> RVIT_DEVICE void attend(const rvit_cu_attention_params &params)
{
    const int STAGE = 2 * tile_rows<D>::BYTES;
    RVIT_DYNAMIC_SHARED(memory);
    const attention_work work = find_work(params);
    const int length = work.length;
    int row = warp_row<MT, WARPS>(work);
    if (work.row_block * (WARPS * 16 * MT) >= length)
        return;
    /* Queries first: the products begin when they and the first stage are there. */
    warp_state<D, MT> w;
    if (row < length)
        load_q<T, D, MT>(w, first_row(static_cast<const T *>(params.q), params.q_stride, work, params), params, row, length);
    const attention_copy<T, D, WARPS> copy(params, work, threadIdx.x);
#pragma unroll
    for (int b = 0; b < STAGES; b++) {
        if (b * STAGE_KEYS < length)
            copy.fetch(shared_address(memory) + b * STAGE, b * STAGE_KEYS, params);
        copy_commit();
    }
    if (params.q_sign != 0u)
        negate_q(w, params.q_sign);
    begin_rows(w);
    if (EXTRAS && (params.key_bias != nullptr || params.cls_probs != nullptr || params.lse != nullptr)) {
        attend_rows<T, D, MT, WARPS, STAGES, true>(w, memory, params, work, row);
        row = warp_row<MT, WARPS>(work);
        if (row < length)
            finish_extras<D, MT>(w, params, work, row);
    } else {
        attend_rows<T, D, MT, WARPS, STAGES, false>(w, memory, params, work, row);
        row = warp_row<MT, WARPS>(work);
    }
    if (row >= length)
        return;
    T *out = first_row(static_cast<T *>(params.out), params.out_stride, work, params);
#pragma unroll
    for (int m = 0; m < MT; m++)
        store_rows<T, D>(w.out[m], out, params, row + m * 16, length);
}

#endif

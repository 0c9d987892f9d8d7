/* Ranks scores by (score descending, index ascending), as integers, and finds the k best. */
#ifndef RVIT_RANK_CUH
#define RVIT_RANK_CUH

#include "elements.cuh"

#include "../tile.h"

enum {
    SHARED_ROWS = RVIT_CU_SHARED_ROWS, /* lists up to this length are ranked in shared memory */
    COMPARED_ROWS = 288,               /* lists up to this length are ranked by comparing all pairs */
    DIGITS = 256,
    MAX_WARPS = 16 /* of a CTA that ranks */
};

struct rank_memory {
    alignas(16) uint32_t keys[SHARED_ROWS];
    int histogram[DIGITS];
    unsigned words[MAX_WARPS];
    int digit, need;
};

/* Maps scores to ordered unsigned integers: NaN is 1, -infinity follows, and both zeros are equal. 0 means no score. */
RVIT_DEVICE uint32_t key_of(float score)
{
    const uint32_t bits = float_bits(score), magnitude = bits & 0x7fffffffu;
    if (magnitude > 0x7f800000u)
        return 1;
    if (magnitude == 0)
        return 0x80000001u;
    return (bits & 0x80000000u ? ~bits : bits | 0x80000000u) + 1;
}

/* The number of lower-numbered threads of the CTA with the flag; *total: of all threads. Every thread must call this. words: one per
   warp. */
RVIT_DEVICE int block_rank(bool flag, unsigned *words, int *total)
{
    const int warps = (int)blockDim.x / 32, warp = threadIdx.x / 32, lane = threadIdx.x & 31;
    const unsigned word = warp_ballot(flag);
    block_sync();
    if (lane == 0)
        words[warp] = word;
    block_sync();
    int before = bit_count(word & ((1u << lane) - 1u)), all = 0;
    for (int i = 0; i < warps; i++) {
        const int n = bit_count(words[i]);
        before += i < warp ? n : 0;
        all += n;
    }
    *total = all;
    return before;
}

/* A warp finds the digit of the need-th largest key, and how many keys with that digit are needed. A lane takes 8 digits. */
RVIT_DEVICE void find_digit(rank_memory &memory, int need)
{
    const int lane = threadIdx.x & 31, top = DIGITS - 1 - lane * 8;
    int count[8], sum = 0;
#pragma unroll
    for (int i = 0; i < 8; i++)
        sum += count[i] = memory.histogram[top - i];
    int before = sum;
    for (int delta = 1; delta < 32; delta *= 2) {
        const int other = shuffle_up(before, delta);
        before += lane >= delta ? other : 0;
    }
    before -= sum;
    if (before < need && need <= before + sum) {
        int digit = top;
        need -= before;
#pragma unroll
        for (int i = 0; i < 7; i++)
            if (digit == top - i && need > count[i])
                need -= count[i], digit--;
        memory.digit = digit, memory.need = need;
    }
}

/* Radix select: the key of the k-th best score, and how many scores with that key are among the k best. 1 <= k <= n. */
template <typename K> RVIT_DEVICE uint32_t find_threshold(const K &key_at, int n, int k, rank_memory &memory, int *out_need)
{
    uint32_t found = 0, mask = 0;
    int need = k;
#pragma unroll 1
    for (int shift = 24; shift >= 0; shift -= 8) {
        for (int d = threadIdx.x; d < DIGITS; d += blockDim.x)
            memory.histogram[d] = 0;
        block_sync();
        for (int i = threadIdx.x; i < n; i += blockDim.x) {
            const uint32_t key = key_at(i);
            if ((key & mask) == found)
                atomic_add(&memory.histogram[key >> shift & 255u], 1);
        }
        block_sync();
        if (threadIdx.x < 32)
            find_digit(memory, need);
        block_sync();
        found |= (uint32_t)memory.digit << shift;
        mask |= 255u << shift;
        need = memory.need;
        block_sync();
    }
    *out_need = need;
    return found;
}

/* How many of the n keys rank before the i-th: larger ones, and equal ones with a lower index. Keys are padded with zeros to whole
   warps, and so are the values of i. */
RVIT_DEVICE int rank_of(const uint32_t *keys, int n, int i)
{
    const uint32_t key = keys[i];
    const int own = i & ~31;
    int better = 0;
#pragma unroll 1
    for (int from = 0; from < n; from += 32) {
        if (from != own) {
            const uint32_t below = from < own ? key - 1 : key;
#pragma unroll
            for (int j = from; j < from + 32; j += 4) {
                const uint4 other = *reinterpret_cast<const uint4 *>(keys + j);
                better += (other.x > below) + (other.y > below) + (other.z > below) + (other.w > below);
            }
            continue;
        }
        /* The order depends on the lane only within a warp's own rows. */
#pragma unroll 2
        for (int j = from; j < from + 32; j += 4) {
            const uint4 other = *reinterpret_cast<const uint4 *>(keys + j);
            better +=
                (other.x > key - (j < i)) + (other.y > key - (j + 1 < i)) + (other.z > key - (j + 2 < i)) + (other.w > key - (j + 3 < i));
        }
    }
    return better;
}

/* Compares all pairs of scores. Of equal keys the earlier one is better. */
RVIT_DEVICE bool mark_best_by_comparing(const float *scores, int n, int k, rank_memory &memory, uint8_t *marks)
{
    bool has_nan = false;
    const int padded = (n + 31) / 32 * 32;
    for (int i = threadIdx.x; i < padded; i += blockDim.x) {
        memory.keys[i] = i < n ? key_of(scores[i]) : 0u;
        has_nan = has_nan || memory.keys[i] == 1u;
    }
    block_sync();
    const bool is_ranked = k > 0 && k < n;
#pragma unroll 1
    for (int i = threadIdx.x; i < n; i += blockDim.x)
        marks[i] = (is_ranked ? rank_of(memory.keys, n, i) : 0) < k;
    return has_nan;
}

/* Keys, in shared memory or recomputed from the scores. */
struct key_list {
    const float *scores;
    const uint32_t *keys;
    bool in_shared;
    __device__ __forceinline__ uint32_t operator()(int i) const
    {
        return in_shared ? keys[i] : key_of(scores[i]);
    }
};

/* Finds the key of the k-th best score; of equal keys, the first are kept. Up to SHARED_ROWS scores are read once. */
RVIT_DEVICE bool mark_best_by_threshold(const float *scores, int n, int k, rank_memory &memory, uint8_t *marks)
{
    const key_list key_at = {scores, memory.keys, n <= SHARED_ROWS};
    if (key_at.in_shared) {
        for (int i = threadIdx.x; i < n; i += blockDim.x)
            memory.keys[i] = key_of(scores[i]);
        block_sync();
    }
    bool has_nan = false;
    uint32_t threshold = 0xffffffffu;
    int need = 0;
    if (k > 0)
        threshold = find_threshold(key_at, n, k, memory, &need);
#pragma unroll 1
    for (int base = 0; base < n; base += blockDim.x) {
        const int i = base + (int)threadIdx.x;
        const uint32_t key = i < n ? key_at(i) : 0u;
        int all;
        const int rank = block_rank(key == threshold, memory.words, &all);
        has_nan = has_nan || key == 1u;
        if (i < n)
            marks[i] = key > threshold || (key == threshold && rank < need);
        need -= all;
    }
    return has_nan;
}

/* Marks the k best of n scores, 0 <= k <= n, with 1 and the others with 0. Returns true in threads that found a NaN. Every thread must
   call this; the marks are visible after the next barrier. */
RVIT_DEVICE bool mark_best(const float *scores, int n, int k, rank_memory &memory, uint8_t *marks)
{
    return n <= COMPARED_ROWS ? mark_best_by_comparing(scores, n, k, memory, marks) : mark_best_by_threshold(scores, n, k, memory, marks);
}

#endif

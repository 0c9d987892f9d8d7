/* The modes of select that sum scores. They use integers, so that sums do not depend on the order and every backend makes the same
   choice. */
#ifndef RVIT_SELECT_SUMS_CUH
#define RVIT_SELECT_SUMS_CUH

#include "rank.cuh"

enum { INDEX_BITS = 16 };

struct sums_memory {
    unsigned long long sorted[SHARED_ROWS];
    unsigned long long totals[MAX_WARPS];
    int largest, flaw;
};

/* Why the scores of an image cannot be summed. The highest value is reported. */
enum { FLAW_NONE = 0, FLAW_SUM = 1, FLAW_NAN = 2 };

/* A score as an integer, relative to the largest one, which has 32 bits. */
RVIT_DEVICE uint32_t integer_of(uint32_t bits, uint32_t largest_exponent)
{
    const uint32_t field = bits >> 23, significand = (bits & 0x7fffffu) | (field > 0 ? 0x800000u : 0u);
    const uint32_t drop = largest_exponent - max(field, 1u);
    return drop <= 8 ? significand << (8 - drop) : drop < 32 ? significand >> (drop - 8) : 0u;
}

RVIT_DEVICE int check_scores(const float *scores, int n, sums_memory &memory, uint32_t *out_exponent)
{
    if (threadIdx.x == 0)
        memory.largest = 0, memory.flaw = FLAW_NONE;
    block_sync();
    int flaw = FLAW_NONE, largest = 0;
    for (int i = threadIdx.x; i < n; i += blockDim.x) {
        const uint32_t bits = float_bits(scores[i]);
        if ((bits & 0x7fffffffu) > 0x7f800000u)
            flaw = FLAW_NAN;
        else if (bits > 0x80000000u || bits == 0x7f800000u)
            flaw = max(flaw, (int)FLAW_SUM);
        else if (bits < 0x80000000u)
            largest = max(largest, (int)bits);
    }
    for (int mask = 16; mask > 0; mask /= 2) {
        largest = max(largest, shuffle_xor(largest, mask));
        flaw = max(flaw, shuffle_xor(flaw, mask));
    }
    if ((threadIdx.x & 31) == 0) {
        (void)atomic_max(&memory.largest, largest);
        (void)atomic_max(&memory.flaw, flaw);
    }
    block_sync();
    *out_exponent = max((uint32_t)memory.largest >> 23, 1u);
    return memory.largest == 0 ? max(memory.flaw, (int)FLAW_SUM) : memory.flaw;
}

/* Sorts up to one key per thread, ascending, in place; keys past n count as the largest. A thread exchanges with its warp by
   shuffles. */
RVIT_DEVICE void sort_one_per_thread(unsigned long long *keys, int n)
{
    const int thread = threadIdx.x;
    block_sync();
    unsigned long long x = thread < n ? keys[thread] : ~0ull;
#pragma unroll 1
    for (int run = 2; run / 2 < n; run *= 2) {
        int with = run - 1; /* first the mirrored index in the other half, then the same index */
#pragma unroll 1
        for (int step = run / 2; step > 0; step /= 2) {
            unsigned long long y;
            if (with < 32) {
                const unsigned low = shuffle_xor((unsigned)x, with), high = shuffle_xor((unsigned)(x >> 32), with);
                y = (unsigned long long)high << 32 | low;
            } else {
                block_sync();
                if (thread < n)
                    keys[thread] = x;
                block_sync();
                y = (thread ^ with) < n ? keys[thread ^ with] : ~0ull;
            }
            if (((thread & step) == 0) == (y < x))
                x = y;
            with = step / 2;
        }
    }
    block_sync();
    if (thread < n)
        keys[thread] = x;
    block_sync();
}

/* A bitonic sort, ascending, in place, padded to a power of two with the largest key. The larger key always moves to the later
   index, so the padding stays in place and need not be stored. Steps of up to a warp stay within a warp's 64 keys. */
RVIT_DEVICE void sort_bitonic(unsigned long long *keys, int n)
{
    block_sync();
#pragma unroll 1
    for (int run = 2; run / 2 < n; run *= 2) {
#pragma unroll 1
        for (int step = run / 2; step > 0; step /= 2) {
#pragma unroll 1
            for (int t = threadIdx.x;; t += blockDim.x) {
                const int a = t * 2 - (t & (step - 1));
                if (a >= n)
                    break;
                const int b = step == run / 2 ? a ^ (run - 1) : a + step;
                if (b >= n)
                    continue;
                const unsigned long long x = keys[a], y = keys[b];
                if (x > y)
                    keys[a] = y, keys[b] = x;
            }
            if (step > 32 || (step == 1 && run > 32))
                block_sync();
            else
                warp_sync();
        }
    }
    block_sync();
}

/* Replaces each sorted key, a score above an index, by the prefix sum of the integers above the same index. With SAMPLE, the first
   counts as 0. Indices are clamped: with an invalid layout, images may share this memory. */
RVIT_DEVICE void compute_prefix_sums(unsigned long long *sorted, const float *scores, int n, uint32_t exponent, bool without_first,
                                     sums_memory &memory)
{
    const int each = (n + (int)blockDim.x - 1) / (int)blockDim.x, begin = min(n, (int)threadIdx.x * each), end = min(n, begin + each);
    unsigned long long sum = 0;
#pragma unroll 1
    for (int rank = begin; rank < end; rank++) {
        const unsigned index = min((unsigned)sorted[rank] & ((1u << INDEX_BITS) - 1u), (unsigned)n - 1u);
        sum += without_first && rank == 0 ? 0u : integer_of(float_bits(scores[index]) & 0x7fffffffu, exponent);
        sorted[rank] = sum << INDEX_BITS | index;
    }
    const int lane = threadIdx.x & 31, warp = threadIdx.x / 32;
    unsigned long long before = sum;
    for (int delta = 1; delta < 32; delta *= 2) {
        const unsigned low = shuffle_up((unsigned)before, delta), high = shuffle_up((unsigned)(before >> 32), delta);
        before += lane >= delta ? (unsigned long long)high << 32 | low : 0;
    }
    if (lane == 31)
        memory.totals[warp] = before;
    block_sync();
    before -= sum;
#pragma unroll 1
    for (int i = 0; i < warp; i++)
        before += memory.totals[i];
#pragma unroll 1
    for (int rank = begin; rank < end; rank++)
        sorted[rank] += before << INDEX_BITS;
    block_sync();
}

/* The first of n ascending sums that exceeds value / factor, or n. */
RVIT_DEVICE int first_above(const unsigned long long *sums, int n, unsigned long long value, unsigned long long factor)
{
    int low = 0, high = n;
#pragma unroll 1
    while (low < high) {
        const int middle = (low + high) / 2;
        if ((sums[middle] >> INDEX_BITS) * factor > value)
            high = middle;
        else
            low = middle + 1;
    }
    return low;
}

/* Marks the rank whose sum is nearest to each sample point. All is multiplied by n_samples - 1 to stay integral; sums are below 2^48. */
RVIT_DEVICE void mark_sampled(const unsigned long long *sums, int n, int n_samples, uint8_t *marks)
{
    const unsigned long long steps = n_samples > 1 ? (unsigned)n_samples - 1u : 1u;
    const unsigned long long first = sums[min(first_above(sums, n, 0, 1), n - 1)] >> INDEX_BITS, all = sums[n - 1] >> INDEX_BITS;
#pragma unroll 1
    for (int k = threadIdx.x; k < n_samples; k += blockDim.x) {
        const unsigned long long point = first * steps + (unsigned)k * (all - first);
        const int next = first_above(sums, n, point, steps), last = max(next - 1, 0);
        const unsigned long long below = sums[last] >> INDEX_BITS;
        int nearest = below == 0 ? 0 : first_above(sums, n, below - 1, 1);
        if (next < n && (sums[next] >> INDEX_BITS) * steps - point < point - below * steps)
            nearest = next;
        marks[min((unsigned)sums[min(nearest, n - 1)] & ((1u << INDEX_BITS) - 1u), (unsigned)n - 1u)] = 1;
    }
}

RVIT_DEVICE void mark_mass(const rvit_cu_select_params &params, const unsigned long long *sums, int n, uint8_t *marks)
{
    const unsigned long long all = sums[n - 1] >> INDEX_BITS;
    const unsigned long long bound = params.all_mass ? all : (all >> 32) * params.mass + ((all & 0xffffffffu) * params.mass >> 32);
    for (int rank = threadIdx.x; rank < n; rank += blockDim.x)
        if (rank == 0 || sums[rank] >> INDEX_BITS <= bound)
            marks[min((unsigned)sums[rank] & ((1u << INDEX_BITS) - 1u), (unsigned)n - 1u)] = 1;
}

/* Marks which of n scores are sampled or hold the mass. Returns the scores' flaw; with one, keeps the first rows, as many as could be
   kept otherwise. global_keys: memory for more than SHARED_ROWS keys. */
RVIT_DEVICE int mark_sums(const rvit_cu_select_params &params, bool is_sample, const float *scores, int n, unsigned long long *global_keys,
                          sums_memory &memory, uint8_t *marks)
{
    int flaw = FLAW_NONE;
    uint32_t exponent = 1;
    if (n >= 2)
        flaw = check_scores(scores, n, memory, &exponent);
    else if (n == 1 && (float_bits(scores[0]) & 0x7fffffffu) > 0x7f800000u)
        flaw = FLAW_NAN;
    const bool is_summable = n >= 2 && flaw == FLAW_NONE;
    const int n_first = is_summable ? 0 : n >= 2 && is_sample ? min(params.n_samples, n - 1) : n;
    for (int i = threadIdx.x; i < n; i += blockDim.x)
        marks[i] = i < n_first;
    if (!is_summable)
        return flaw;
    unsigned long long *sorted = n <= SHARED_ROWS ? memory.sorted : global_keys;
    /* SAMPLE ranks ascending, MASS descending; ties go to the first. */
    const uint32_t flip = is_sample ? 0u : 0xffffffffu;
    for (int i = threadIdx.x; i < n; i += blockDim.x)
        sorted[i] = (unsigned long long)(key_of(scores[i]) ^ flip) << INDEX_BITS | (unsigned)i;
    if (n <= (int)blockDim.x)
        sort_one_per_thread(sorted, n);
    else
        sort_bitonic(sorted, n);
    compute_prefix_sums(sorted, scores, n, exponent, is_sample, memory);
    if (is_sample)
        mark_sampled(sorted, n, params.n_samples, marks);
    else
        mark_mass(params, sorted, n, marks);
    return FLAW_NONE;
}

#endif

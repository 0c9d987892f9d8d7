/* The modes of select that sum scores. They add integers, so the order of addition does not matter and all backends agree. */
#include <string.h>

#include "backend_cpu/cpu.h"
#include "backend_cpu/rank.h"

/* Sort keys: the rank of the score in the upper bits, the index among the image's competing rows in the lower bits. */
#define INDEX_BITS 16
#define MAX_ROWS ((int64_t)1 << INDEX_BITS)
#define INDEX(key) ((int64_t)((key) & (uint64_t)(MAX_ROWS - 1)))

_Static_assert(2 * MAX_ROWS * sizeof(uint64_t) <= RVIT_CPU_SCRATCH_FLOATS * sizeof(float), "two lists of rows must fit the scratch memory");

/* Stable sort by the 32 bits above the index. Returns the buffer that holds the result: keys or other. */
static uint64_t *sort(uint64_t *keys, uint64_t *other, int64_t n)
{
    for (int shift = INDEX_BITS; shift < INDEX_BITS + 32; shift += 8) {
        int32_t offsets[256] = {0};
        for (int64_t i = 0; i < n; i++)
            offsets[keys[i] >> shift & 255u]++;
        if (offsets[keys[0] >> shift & 255u] == n)
            continue;
        int32_t offset = 0;
        for (int digit = 0; digit < 256; digit++) {
            const int32_t count = offsets[digit];
            offsets[digit] = offset;
            offset += count;
        }
        for (int64_t i = 0; i < n; i++)
            other[offsets[keys[i] >> shift & 255u]++] = keys[i];
        uint64_t *sorted = other;
        other = keys;
        keys = sorted;
    }
    return keys;
}

/* A score as an integer, scaled so that the largest score has 32 bits. */
static uint64_t integer_of(float score, uint32_t largest_exponent)
{
    const uint32_t bits = rvit_float_bits(score) & 0x7fffffffu;
    const uint32_t field = bits >> 23;
    const uint32_t significand = (bits & 0x7fffffu) | (field > 0 ? 0x800000u : 0u);
    const uint32_t drop = largest_exponent - (field > 0 ? field : 1u);
    return drop <= 8 ? significand << (8 - drop) : drop < 32 ? significand >> (drop - 8) : 0;
}

/* Whether the n scores of two or more rows can be summed. */
static int check(const float *scores, int64_t n, uint32_t *out_largest_exponent)
{
    int kind = RVIT_CPU_SELECT_FINE;
    uint32_t largest = 0;
    for (int64_t i = 0; i < n; i++) {
        const uint32_t bits = rvit_float_bits(scores[i]);
        if (rvit_cpu_is_nan(scores[i]))
            return RVIT_CPU_SELECT_NAN;
        if (bits > 0x80000000u || bits == 0x7f800000u)
            kind = RVIT_CPU_SELECT_SUM;
        else if (bits < 0x80000000u && bits > largest)
            largest = bits;
    }
    *out_largest_exponent = largest >> 23 > 0 ? largest >> 23 : 1u;
    return largest == 0 ? RVIT_CPU_SELECT_SUM : kind;
}

/* Walks the sums c[r] and the sample points together, both in ascending order. Everything is multiplied by n_samples - 1 to stay
   integer: c is below 2^48, so every product is below 2^64. */
static void sample(const float *scores, const uint64_t *sorted, uint64_t *c, int64_t n, int32_t n_samples, uint32_t exponent, uint8_t *keep)
{
    uint64_t first = 0; /* the smallest sum above 0 */
    c[0] = 0;
    for (int64_t rank = 1; rank < n; rank++) {
        c[rank] = c[rank - 1] + integer_of(scores[INDEX(sorted[rank])], exponent);
        if (first == 0)
            first = c[rank];
    }
    memset(keep, 0, (size_t)n);
    const uint64_t steps = n_samples > 1 ? (uint64_t)n_samples - 1 : 1;
    int64_t last = 0, lowest = 0; /* first and last rank with the largest sum that is not above the point */
    for (uint64_t k = 0; k < (uint64_t)n_samples; k++) {
        const uint64_t point = first * steps + k * (c[n - 1] - first);
        while (last + 1 < n && c[last + 1] * steps <= point) {
            last++;
            if (c[last] != c[lowest])
                lowest = last;
        }
        const int next = last + 1 < n && c[last + 1] * steps - point < point - c[lowest] * steps;
        keep[INDEX(sorted[next ? last + 1 : lowest])] = 1;
    }
}

static void mass(const float *scores, const uint64_t *sorted, int64_t n, double fraction, uint32_t exponent, uint8_t *keep)
{
    uint64_t sum = 0, bound = 0;
    for (int64_t i = 0; i < n; i++)
        bound += integer_of(scores[i], exponent);
    if (fraction < 1.0) {
        const uint64_t factor = (uint64_t)(fraction * 0x1p32);
        bound = (bound >> 32) * factor + ((bound & 0xffffffffu) * factor >> 32);
    }
    memset(keep, 0, (size_t)n);
    for (int64_t rank = 0; rank < n; rank++) {
        sum += integer_of(scores[INDEX(sorted[rank])], exponent);
        if (rank > 0 && sum > bound)
            break;
        keep[INDEX(sorted[rank])] = 1;
    }
}

/* The maximum number of rows kept of n competing rows (n >= 2); later buffers have room for no more. */
static int64_t max_kept(const rvit_select_args *a, int64_t n)
{
    if (a->mode != RVIT_SELECT_SAMPLE)
        return n;
    return a->n_samples < n - 1 ? a->n_samples : n - 1;
}

int rvit_cpu_mark_sums(const rvit_select_args *a, const float *scores, int64_t n, uint8_t *keep, float *scratch)
{
    if (n < 2) {
        memset(keep, 1, (size_t)n);
        return n == 1 && rvit_cpu_is_nan(scores[0]) ? RVIT_CPU_SELECT_NAN : RVIT_CPU_SELECT_FINE;
    }
    uint32_t exponent = 1;
    const int kind = check(scores, n, &exponent);
    if (kind != RVIT_CPU_SELECT_FINE) {
        const int64_t kept = max_kept(a, n);
        memset(keep, 1, (size_t)kept);
        memset(keep + kept, 0, (size_t)(n - kept));
        return kind;
    }
    /* SAMPLE ranks in ascending order, MASS in descending order. */
    const uint32_t flip = a->mode == RVIT_SELECT_MASS ? 0xffffffffu : 0u;
    uint64_t *keys = (uint64_t *)(void *)scratch, *other = keys + n;
    for (int64_t i = 0; i < n; i++)
        keys[i] = (uint64_t)(rvit_cpu_rank(scores[i]) ^ flip) << INDEX_BITS | (uint64_t)i;
    const uint64_t *sorted = sort(keys, other, n);
    if (a->mode == RVIT_SELECT_MASS)
        mass(scores, sorted, n, a->mass, exponent, keep);
    else
        sample(scores, sorted, sorted == keys ? other : keys, n, a->n_samples, exponent, keep);
    return RVIT_CPU_SELECT_FINE;
}

/* The order of scores: (score descending, index ascending), as integers. */
#ifndef RVIT_CPU_RANK_H
#define RVIT_CPU_RANK_H

#include "core/base/half.h"

static inline int rvit_cpu_is_nan(float score)
{
    return (rvit_float_bits(score) & 0x7fffffffu) > 0x7f800000u;
}

/* Maps scores to unsigned integers in ascending order: NaN is 0, -infinity above it, and the two zeros are equal. */
static inline uint32_t rvit_cpu_rank(float score)
{
    const uint32_t bits = rvit_float_bits(score);
    if (rvit_cpu_is_nan(score))
        return 0;
    if ((bits & 0x7fffffffu) == 0)
        return 0x80000000u;
    return bits & 0x80000000u ? ~bits : bits | 0x80000000u;
}

/* Finds the k-th largest rank of n scores, `stride` apart, 1 <= k <= n, and how many scores of that rank are among the k best. A radix
   select: it counts digit by digit, among the scores that share the digits found so far. */
static inline uint32_t rvit_cpu_kth_rank(const float *scores, int64_t n, int64_t stride, int64_t k, int64_t *out_ties)
{
    uint32_t rank = 0, found = 0;
    for (int shift = 24; shift >= 0; shift -= 8) {
        int32_t histogram[256] = {0};
        for (int64_t i = 0; i < n; i++) {
            const uint32_t r = rvit_cpu_rank(scores[i * stride]);
            if ((r & found) == rank)
                histogram[r >> shift & 255u]++;
        }
        uint32_t digit = 255;
        while (k > histogram[digit] && digit > 0)
            k -= histogram[digit--];
        rank |= digit << shift;
        found |= 255u << shift;
    }
    *out_ties = k;
    return rank;
}

#endif

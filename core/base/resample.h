/* The taps of one line or column of a resampled position table: which entries it reads, and their weights. Positions are ratios of
   integers, so the choice of entries is exact. */
#ifndef RVIT_CORE_BASE_RESAMPLE_H
#define RVIT_CORE_BASE_RESAMPLE_H

#include <raggedvit/ops.h>

typedef struct rvit_taps {
    rvit_resample how;
    int32_t side;     /* of the table */
    int32_t first, n; /* entries first .. first + n - 1, clamped to the table */
    int64_t at, step; /* distance from the first entry to the source, and between entries, in fixed point */
    double one;       /* 1.0 in that fixed point */
    double sum;       /* of the weights, to normalise them */
} rvit_taps;

/* Line or column i of a grid that has `grid` of them. how: not DEFAULT. */
rvit_taps rvit_taps_of(rvit_resample how, int32_t side, int32_t grid, int32_t i);
static inline int32_t rvit_taps_entry(const rvit_taps *taps, int32_t tap)
{
    const int32_t entry = taps->first + tap;
    return entry < 0 ? 0 : entry < taps->side ? entry : taps->side - 1;
}
double rvit_taps_weight(const rvit_taps *taps, int32_t tap);

#endif

/* One line or column of a resampled position table: which entries of the table it is made of, and by which weights. A source and its
   distances are ratios of whole numbers, so that which entries count is exact. */
#ifndef RVIT_CORE_BASE_RESAMPLE_H
#define RVIT_CORE_BASE_RESAMPLE_H

#include <raggedvit/ops.h>

typedef struct rvit_taps {
    rvit_resample how;
    int32_t side;     /* of the table */
    int32_t first, n; /* entries first .. first + n - 1, at the edges clamped to the table */
    int64_t at, step; /* distance of the source from the first entry, and from one to the next, in units */
    double unit;      /* these many are 1 */
    double sum;       /* of the weights, by which they are divided */
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

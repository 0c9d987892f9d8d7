#include "core/base/resample.h"

#include <math.h>

/* Keys' cubic kernel. */
static double cubic(double x, double a)
{
    if (x <= 1)
        return ((a + 2) * x - (a + 3)) * x * x + 1;
    if (x < 2)
        return a * (x - 1) * (x - 2) * (x - 2);
    return 0;
}

static double raw_weight(const rvit_taps *taps, int32_t tap)
{
    const double x = fabs((double)(taps->at - tap * taps->step)) / taps->one;
    if (taps->how == RVIT_RESAMPLE_TIMM)
        return cubic(x, -0.5);
    if (taps->how == RVIT_RESAMPLE_BICUBIC)
        return cubic(x, -0.75);
    return x < 1 ? 1 - x : 0;
}

static int64_t floor_ratio(int64_t a, int64_t b)
{
    return a >= 0 ? a / b : -((b - 1 - a) / b);
}

/* The kernel widens when the table shrinks. Only entries of the table within its support count. */
static rvit_taps antialiased(rvit_taps taps, int64_t grid, int64_t i)
{
    const int64_t side = taps.side, centre = (2 * i + 1) * side, unit = 2 * (side > grid ? side : grid);
    const int64_t support = taps.how == RVIT_RESAMPLE_TIMM ? 2 * unit : unit;
    const int64_t first = floor_ratio(centre - support - grid, 2 * grid) + 1, past = -floor_ratio(grid - centre - support, 2 * grid);
    taps.first = first < 0 ? 0 : (int32_t)first;
    taps.n = (int32_t)(past < side ? past : side) - taps.first;
    taps.at = centre - (2 * (int64_t)taps.first + 1) * grid;
    taps.step = 2 * grid;
    taps.one = (double)unit;
    taps.sum = 0;
    for (int32_t tap = 0; tap < taps.n; tap++)
        taps.sum += raw_weight(&taps, tap);
    return taps;
}

rvit_taps rvit_taps_of(rvit_resample how, int32_t side, int32_t grid, int32_t i)
{
    rvit_taps taps = {.how = how, .side = side, .first = i, .n = 1, .step = 1, .one = 1, .sum = 1};
    if (side == grid)
        return taps;
    if (how == RVIT_RESAMPLE_NEAREST) {
        taps.first = (int32_t)((int64_t)i * side / grid);
        return taps;
    }
    if (how == RVIT_RESAMPLE_TIMM || how == RVIT_RESAMPLE_BILINEAR_ANTIALIAS)
        return antialiased(taps, grid, i);
    int64_t source = (2 * (int64_t)i + 1) * side - grid, unit = 2 * (int64_t)grid;
    if (how == RVIT_RESAMPLE_ALIGN_CORNERS) {
        source = (int64_t)i * (side - 1);
        unit = grid > 1 ? grid - 1 : 1;
    }
    if (source < 0 && how == RVIT_RESAMPLE_BILINEAR)
        source = 0;
    const int64_t below = floor_ratio(source, unit), past = source - below * unit;
    const int wide = how == RVIT_RESAMPLE_BICUBIC;
    taps.first = (int32_t)below - wide;
    taps.n = wide ? 4 : past > 0 ? 2 : 1;
    taps.at = past + wide * unit;
    taps.step = unit;
    taps.one = (double)unit;
    return taps;
}

double rvit_taps_weight(const rvit_taps *taps, int32_t tap)
{
    return raw_weight(taps, tap) / taps->sum;
}

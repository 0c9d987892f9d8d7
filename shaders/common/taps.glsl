// One line or column of a resampled position table (core/base/resample.h): the table entries that it combines, and their weights.
#ifndef TAPS_GLSL
#define TAPS_GLSL

const bool IS_CUBIC = RESAMPLE == RVIT_EMBED_BICUBIC || RESAMPLE == RVIT_EMBED_BICUBIC_ANTIALIAS;
const bool IS_ANTIALIASED = RESAMPLE == RVIT_EMBED_BICUBIC_ANTIALIAS || RESAMPLE == RVIT_EMBED_BILINEAR_ANTIALIAS;

struct rvit_taps {
    int side, first, n;
    int at, step, unit; // distance of the source from the first entry, and from one to the next, in units
};

int floor_ratio(int a, int b)
{
    return a >= 0 ? a / b : -((b - 1 - a) / b);
}

rvit_taps antialiased_taps(int side, int grid, int i)
{
    const int longest = max(side, grid);
    const int centre = (2 * i + 1) * side;
    const int support = (IS_CUBIC ? 4 : 2) * longest;
    const int first = max(floor_ratio(centre - support - grid, 2 * grid) + 1, 0);
    const int past = min(-floor_ratio(grid - centre - support, 2 * grid), side);
    return rvit_taps(side, first, past - first, centre - (2 * first + 1) * grid, 2 * grid, 2 * longest);
}

rvit_taps taps_of(int side, int grid, int i)
{
    if (side == grid || RESAMPLE == RVIT_EMBED_NEAREST)
        return rvit_taps(side, side == grid ? i : i * side / grid, 1, 0, 1, 1);
    if (IS_ANTIALIASED)
        return antialiased_taps(side, grid, i);
    const bool aligned = RESAMPLE == RVIT_EMBED_ALIGN_CORNERS;
    const int unit = aligned ? max(grid - 1, 1) : 2 * grid;
    int source = aligned ? i * (side - 1) : (2 * i + 1) * side - grid;
    if (!IS_CUBIC)
        source = max(source, 0);
    const int below = floor_ratio(source, unit);
    const int past = source - below * unit;
    if (IS_CUBIC)
        return rvit_taps(side, below - 1, 4, past + unit, unit, unit);
    return rvit_taps(side, below, past > 0 ? 2 : 1, past, unit, unit);
}

uint tap_entry(rvit_taps taps, int tap)
{
    return uint(clamp(taps.first + tap, 0, taps.side - 1));
}

// The kernel at a tap; a linear one is multiplied by `unit`, which makes it an integer.
float kernel_at(rvit_taps taps, int tap)
{
    const int away = abs(taps.at - tap * taps.step);
    if (!IS_CUBIC)
        return float(max(taps.unit - away, 0));
    const float x = float(away) / float(taps.unit);
    const float a = IS_ANTIALIASED ? -0.5 : -0.75;
    if (x <= 1.0)
        return ((a + 2.0) * x - (a + 3.0)) * x * x + 1.0;
    return x < 2.0 ? a * (x - 1.0) * (x - 2.0) * (x - 2.0) : 0.0;
}

float tap_weight(rvit_taps taps, int tap)
{
    if (taps.n == 1)
        return 1.0;
    float sum = IS_CUBIC ? 1.0 : float(taps.unit);
    if (IS_ANTIALIASED) {
        sum = 0.0;
        for (int i = 0; i < taps.n; i++)
            sum += kernel_at(taps, i);
    }
    return kernel_at(taps, tap) / sum;
}

#endif

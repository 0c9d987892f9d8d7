#include "noise.h"

#include <stdlib.h>

/* SplitMix64. */
static uint64_t next_random(uint64_t *state)
{
    uint64_t z = *state += 0x9e3779b97f4a7c15u;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return z ^ z >> 31;
}

/* Nearly normal: the sum of twelve uniform numbers. */
static float next_normal(uint64_t *state)
{
    float sum = -6;
    for (int i = 0; i < 12; i++)
        sum += (float)(next_random(state) >> 40) * 0x1p-24f;
    return sum;
}

/* out = bilinearly interpolated noise on a lattice of `step` pixels, plus a little fine noise. */
static void fill_plane(uint64_t *state, int32_t width, int32_t height, int32_t step, float *lattice, float *out)
{
    const int32_t n = width / step + 2, n_lines = height / step + 2;
    for (int32_t i = 0; i < n * n_lines; i++)
        lattice[i] = next_normal(state);
    for (int32_t y = 0; y < height; y++)
        for (int32_t x = 0; x < width; x++) {
            const float v = (float)(y % step) / (float)step, u = (float)(x % step) / (float)step;
            const float *corner = lattice + y / step * n + x / step;
            const float upper = corner[0] + u * (corner[1] - corner[0]), lower = corner[n] + u * (corner[n + 1] - corner[n]);
            out[y * width + x] = 1.3f * (upper + v * (lower - upper)) + 0.25f * next_normal(state);
        }
}

bool noise_image(int64_t index, int32_t channels, int32_t width, int32_t height, float *out)
{
    const int32_t edge = width < height ? width : height, step = edge / 12 > 0 ? edge / 12 : 1;
    const int32_t n = width / step + 2, n_lines = height / step + 2;
    uint64_t state = 0x7a66e1d5u + (uint64_t)index * 0x100000001u;
    float *lattice = calloc((size_t)n * (size_t)n_lines, sizeof *lattice);
    if (!lattice)
        return false;
    for (int32_t c = 0; c < channels; c++)
        fill_plane(&state, width, height, step, lattice, out + (int64_t)c * width * height);
    free(lattice);
    return true;
}

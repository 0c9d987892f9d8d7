#include "core/model/rope_table.h"

#include <math.h>
#include <string.h>

#include "core/base/entry.h"
#include "core/base/status.h"

static const double two_pi = 6.283185307179586477;

static double coordinate(const rvit_rope_config *rope, int32_t i, int32_t n, double reference)
{
    if (rope->coordinates == RVIT_ROPE_CENTRED)
        return two_pi * (2 * ((i + 0.5 + rope->offset) / n) - 1);
    const double at = i + rope->offset;
    return reference > 0 ? at / n * reference : at;
}

static void fill_axis(const rvit_rope_config *rope, double at, int32_t head_dim, float *cosines, float *sines)
{
    for (int32_t j = 0; j < head_dim / 4; j++) {
        const double angle = at * pow(rope->base, -4.0 * j / head_dim);
        cosines[j] = (float)cos(angle);
        sines[j] = (float)sin(angle);
    }
}

void rvit_rope_fill_table(const rvit_rope_config *rope, int32_t height, int32_t width, int32_t n_prefix, int32_t head_dim, float *out)
{
    const int32_t half = head_dim / 2, y_at = rope->order == RVIT_ROPE_YX ? 0 : head_dim / 4, x_at = head_dim / 4 - y_at;
    for (int64_t i = 0; i < (int64_t)n_prefix * head_dim; i++)
        out[i] = i % head_dim < half;
    out += (int64_t)n_prefix * head_dim;
    for (int32_t y = 0; y < height; y++)
        for (int32_t x = 0; x < width; x++, out += head_dim) {
            fill_axis(rope, coordinate(rope, y, height, rope->reference[0]), head_dim, out + y_at, out + half + y_at);
            fill_axis(rope, coordinate(rope, x, width, rope->reference[1]), head_dim, out + x_at, out + half + x_at);
        }
}

void rvit_rope_to_half(const float *from, int32_t n_heads, int32_t head_dim, int64_t row, float *to)
{
    for (int32_t h = 0; h < n_heads; h++)
        for (int32_t i = 0; i < head_dim; i++, to += row)
            memcpy(to, from + ((int64_t)h * head_dim + (i < head_dim / 2 ? 2 * i : 2 * i - head_dim + 1)) * row, (size_t)row * sizeof *to);
}

rvit_status rvit_rope_frequencies(rvit_rope_coordinates coordinates, double base, int32_t head_dim, float *out)
{
    RVIT_ENTRY;
    if (coordinates != RVIT_ROPE_INDEX && coordinates != RVIT_ROPE_CENTRED)
        return rvit_fail(RVIT_INVALID_ARGUMENT, "rope_frequencies: coordinates is %d, expected 0..1", (int)coordinates);
    if (!(base > 0) || !isfinite(base))
        return rvit_fail(RVIT_INVALID_ARGUMENT, "rope_frequencies: base is %g, expected a finite value above 0", base);
    if (head_dim < 8 || head_dim > 128 || head_dim % 8 != 0)
        return rvit_fail(RVIT_INVALID_ARGUMENT, "rope_frequencies: head_dim is %d, expected a multiple of 8, 8..128", (int)head_dim);
    if (out == NULL)
        return rvit_fail(RVIT_INVALID_ARGUMENT, "rope_frequencies: out is NULL");
    for (int32_t j = 0; j < head_dim / 4; j++) {
        const double radians = pow(base, -4.0 * j / head_dim), turns = coordinates == RVIT_ROPE_INDEX ? radians / two_pi : radians;
        out[2 * j] = (float)turns;
        out[2 * j + 1] = (float)(turns - out[2 * j]);
    }
    return RVIT_OK;
}

// The table of rvit_rope for a batch of images with different grids. A thread computes one cosine and its sine.
#version 450
#extension GL_GOOGLE_include_directive : require
#include "common/interface_grids.h"
#include "common/group.glsl"
#include "common/position.glsl"

layout(constant_id = RVIT_GRID_ROPE_FLAGS) const uint FLAGS = 0;

layout(binding = 0) readonly buffer TokenMap { ivec4 token_map[]; };
layout(binding = 1) readonly buffer Frequencies { vec2 frequencies[]; };
layout(binding = 2) writeonly buffer Out { float angles[]; };
layout(binding = 3) readonly buffer Live { int live[]; };
layout(push_constant) uniform Push { rvit_grid_rope_push push; };

// Splits a number into two of 12 bits, whose products are exact.
vec2 halves(float x)
{
    precise const float shifted = 4097.0 * x;
    precise const float high = shifted - (shifted - x);
    precise const float low = x - high;
    return vec2(high, low);
}

// The rounding error of product = a * b.
float rounding_error(float product, float a, float b)
{
    const vec2 x = halves(a);
    const vec2 y = halves(b);
    precise const float lost = ((x.x * y.x - product) + x.x * y.y + x.y * y.x) + x.y * y.y;
    return lost;
}

// Cosine and sine of (high + low) turns, after subtracting the nearest quarter turn exactly: the device's functions are less accurate.
vec2 turn(float high, float low)
{
    precise const float rest = high - roundEven(high);
    precise const float quarter = roundEven(4.0 * rest);
    precise const float u = ((rest - 0.25 * quarter) + low) * 6.283185307;
    const float square = u * u;
    const float sine =
        u + u * square * (-1.666666667e-1 + square * (8.333333333e-3 + square * (-1.984126984e-4 + square * 2.755731922e-6)));
    const float cosine = 1.0 + square * (-0.5 + square * (4.166666667e-2 +
                               square * (-1.388888889e-3 + square * (2.480158730e-5 - square * 2.755731922e-7))));
    if (abs(quarter) == 1.0)
        return quarter * vec2(-sine, cosine);
    return quarter == 0.0 ? vec2(cosine, sine) : vec2(-cosine, -sine);
}

void main()
{
    const uint n_rows = push.live_at < 0 ? uint(push.rows) : clamp_rows(live[push.live_at], push.rows);
    const uint at = group_index() * THREADS + gl_LocalInvocationIndex;
    const uint pairs = uint(push.pairs);
    const uint row = at / pairs;
    if (row >= n_rows)
        return;
    const uint pair = at % pairs;
    const ivec4 entry = token_map[uint(push.token_map_at) + row];
    const rvit_position position = position_of(entry);
    const bool is_second = pair >= pairs / 2;
    const bool is_x = is_second != ((FLAGS & RVIT_GRID_ROPE_IS_XY) != 0);
    const int i = is_x ? position.x : position.y;
    const int side = is_x ? position.width : position.height;
    const float reference = is_x ? push.reference_width : push.reference_height;
    precise float above = float(i) + push.offset;
    float below = 1.0;
    float lost = 0.0;
    if ((FLAGS & RVIT_GRID_ROPE_IS_CENTRED) != 0) {
        above = float(2 * i + 1 - side) + 2.0 * push.offset;
        below = float(side);
    } else if (reference > 0.0) {
        const float index = above;
        above = index * reference;
        lost = rounding_error(above, index, reference);
        below = float(side);
    }
    // The coordinate and the turns as sums of two numbers, which keep the rounding errors of products and quotients.
    precise const float high = above / below;
    precise const float product = high * below;
    precise const float low = (((above - product) - rounding_error(product, high, below)) + lost) / below;
    const vec2 frequency = frequencies[uint(push.frequencies_at) + (is_second ? pair - pairs / 2 : pair)];
    precise const float turns = high * frequency.x;
    precise const float rest = rounding_error(turns, high, frequency.x) + (high * frequency.y + low * frequency.x);
    const vec2 angle = entry.x < 0 ? vec2(1.0, 0.0) : turn(turns, rest);
    const uint to = uint(push.out_at) + row * 2 * pairs + pair;
    angles[to] = angle.x;
    angles[to + pairs] = angle.y;
}

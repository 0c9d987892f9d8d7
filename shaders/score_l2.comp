// Squared L2 norms of rows, in the order that prune.h fixes: 32 lanes, then a tree. Multiplications and additions stay separate, so that
// every backend gives the same bits.
#version 450
#extension GL_GOOGLE_include_directive : require
#include "common/interface.h"
#include "common/group.glsl"

layout(binding = RVIT_SCORE_INPUT) readonly buffer X { uint x_words[]; };
layout(binding = RVIT_SCORE_SCORES) writeonly buffer Scores { float scores[]; };
layout(binding = RVIT_SCORE_LIVE) readonly buffer Live { int live[]; };
layout(push_constant) uniform Push { rvit_score_push push; };

shared float lanes[THREADS];

float x_element(uint at)
{
#if IN_F16
    const uint word = x_words[uint(push.input_at) + at / 2];
    return unpackHalf2x16(word >> at % 2 * 16).x;
#else
    return uintBitsToFloat(x_words[uint(push.input_at) + at]);
#endif
}

void main()
{
    const uint n_rows = push.live_at < 0 ? uint(push.rows) : clamp_rows(live[push.live_at], push.rows);
    const uint lane = gl_LocalInvocationIndex % RVIT_SCORE_LANES;
    const uint row = group_index() * (THREADS / RVIT_SCORE_LANES) + gl_LocalInvocationIndex / RVIT_SCORE_LANES;
    precise float sum = 0.0;
    if (row < n_rows)
        for (uint i = lane; i < uint(push.width); i += RVIT_SCORE_LANES) {
            precise const float x = x_element(row * uint(push.width) + i);
            precise const float square = x * x;
            sum = sum + square;
        }
    lanes[gl_LocalInvocationIndex] = sum;
    barrier();
    for (uint half_width = RVIT_SCORE_LANES / 2; half_width > 0; half_width /= 2) {
        if (lane < half_width) {
            precise const float pair = lanes[gl_LocalInvocationIndex] + lanes[gl_LocalInvocationIndex + half_width];
            lanes[gl_LocalInvocationIndex] = pair;
        }
        barrier();
    }
    if (lane == 0 && row < n_rows)
        scores[uint(push.scores_at) + row] = lanes[gl_LocalInvocationIndex];
}

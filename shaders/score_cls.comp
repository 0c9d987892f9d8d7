// The mean over heads of the CLS row's attention, heads added in order.
#version 450
#extension GL_GOOGLE_include_directive : require
#include "common/interface.h"
#include "common/group.glsl"

layout(binding = RVIT_SCORE_INPUT) readonly buffer ClsProbs { float cls_probs[]; };
layout(binding = RVIT_SCORE_SCORES) writeonly buffer Scores { float scores[]; };
layout(binding = RVIT_SCORE_LIVE) readonly buffer Live { int live[]; };
layout(push_constant) uniform Push { rvit_score_push push; };

void main()
{
    const uint n_rows = push.live_at < 0 ? uint(push.rows) : clamp_rows(live[push.live_at], push.rows);
    const uint row = group_index() * THREADS + gl_LocalInvocationIndex;
    if (row >= n_rows)
        return;
    precise float sum = 0.0;
    for (uint head = 0; head < uint(push.width); head++)
        sum = sum + cls_probs[uint(push.input_at) + row * uint(push.width) + head];
    precise const float mean = sum * push.scale;
    scores[uint(push.scores_at) + row] = mean;
}

// Group counts for indirect dispatches over a live row count, folded over two grid dimensions.
#version 450
#extension GL_GOOGLE_include_directive : require
#include "common/interface.h"
#include "common/group.glsl"

layout(binding = RVIT_INDIRECT_LIVE) readonly buffer Live { int live[]; };
layout(binding = RVIT_INDIRECT_COUNTS) writeonly buffer Counts { uint counts[]; };
layout(push_constant) uniform Push { rvit_indirect_push push; };

void main()
{
    const uint i = gl_LocalInvocationIndex;
    if (i >= uint(push.n))
        return;
    const uint rows = clamp_rows(live[push.live_at], push.capacity);
    const uint divide = uint(push.divide[i]);
    const uint units = rows * uint(push.multiply[i]);
    const uint groups = (units / divide + uint(units % divide != 0)) * uint(push.times[i]);
    const uint width = max(min(groups, uint(push.max_groups)), 1);
    const uint at = (uint(push.first) + i) * 3;
    counts[at] = width;
    counts[at + 1] = groups / width + uint(groups % width != 0);
    counts[at + 2] = 1;
}

// Computes the workgroup counts of indirect dispatches from a live row count that no select or bipartite_match has written.
#version 450
#extension GL_GOOGLE_include_directive : require
#include "common/interface.h"
#include "common/group.glsl"

layout(push_constant) uniform Push { rvit_indirect_push push; };
layout(binding = 1) readonly buffer Live { int live[]; };

#define DISPATCH_SIZES_BINDING 0
#include "common/dispatch_sizes.glsl"

void main()
{
    store_dispatch_sizes(uint(max(live[push.live_at], 0)), gl_LocalInvocationIndex);
}

// Copies the used part of the staging buffer.
#version 450
#extension GL_GOOGLE_include_directive : require
#include "common/interface_images.h"
#include "common/group.glsl"

layout(binding = 0) readonly buffer Source { uvec4 source[]; };
layout(binding = 1) writeonly buffer Staging { uvec4 staging[]; };
layout(push_constant) uniform Push { rvit_fetch_push push; };

void main()
{
    const uint at = group_index() * THREADS + gl_LocalInvocationIndex;
    if (at < clamp_rows(int(source[push.source_at].y), push.units))
        staging[uint(push.staging_at) + at] = source[uint(push.source_at) + at];
}

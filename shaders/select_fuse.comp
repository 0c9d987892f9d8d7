// Only the fused tokens, for devices that cannot bind everything that select.comp needs at once. One workgroup per image.
#version 450
#extension GL_GOOGLE_include_directive : require
#if TIER_SUBGROUP
#extension GL_KHR_shader_subgroup_basic : require
#extension GL_KHR_shader_subgroup_arithmetic : require
#endif
#include "common/interface_prune.h"
#include "common/group.glsl"
#include "common/group_scan.glsl"
#include "common/storage.glsl"

layout(constant_id = RVIT_SELECT_FLAGS) const uint FLAGS = 0;

layout(push_constant) uniform Push { rvit_select_push push; };
layout(binding = 1) readonly buffer Scores { uint scores[]; };

#define KEEP_BINDING 2
#define FUSE_X_BINDING 3
#include "common/images.glsl"
#include "common/keep_marks.glsl"
#include "common/fuse.glsl"

void main()
{
    const uint rank = group_rank();
    const uint n_groups = gl_NumWorkGroups.x * gl_NumWorkGroups.y;
    for (uint image = group_index(); image < uint(push.n_images); image += n_groups)
        fuse_image(image_rows(image), rank);
}

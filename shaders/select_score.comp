// Only the scores, for devices that cannot bind everything that select.comp needs at once. One workgroup per image.
#version 450
#extension GL_GOOGLE_include_directive : require
#include "common/interface_prune.h"
#include "common/group.glsl"
#include "common/storage.glsl"

layout(constant_id = RVIT_SELECT_SCORE) const uint SCORE = RVIT_SELECT_L2;
layout(constant_id = RVIT_SELECT_FLAGS) const uint FLAGS = 0;

layout(push_constant) uniform Push { rvit_select_push push; };
layout(binding = 1) writeonly buffer Scores { uint scores[]; };

#define SCORE_X_BINDING 2
#define SCORE_TABLE_BINDING 3
#define SCORE_BIAS_BINDING 4
#include "common/images.glsl"
#include "common/score.glsl"

void main()
{
    const uint n_groups = gl_NumWorkGroups.x * gl_NumWorkGroups.y;
    for (uint image = group_index(); image < uint(push.n_images); image += n_groups)
        score_image(image_rows(image));
}

// Weighted means of the rows that bipartite_match.comp linked into lists. A thread computes four elements of a row.
#version 450
#extension GL_GOOGLE_include_directive : require
#include "common/interface_prune.h"
#include "common/group.glsl"
#include "common/storage.glsl"
#include "common/math.glsl"

layout(constant_id = RVIT_MERGE_HAS_SIZES) const uint HAS_SIZES = 0;

layout(binding = 0) readonly buffer X { IN_VEC4 x_words[]; };
layout(binding = 1) readonly buffer Sizes { float sizes[]; };
layout(binding = 2) readonly buffer SrcRows { int src_rows[]; };
layout(binding = 3) readonly buffer NextRows { int next_rows[]; };
layout(binding = 4) writeonly buffer OutX { IN_VEC4 out_x_words[]; };
layout(binding = 5) writeonly buffer OutSizes { float out_sizes[]; };
layout(binding = 6) writeonly buffer OutKeyBias { float out_key_bias[]; };
layout(binding = 7) readonly buffer Live { int live[]; };
layout(push_constant) uniform Push { rvit_merge_push push; };

float size_of(uint row)
{
    return HAS_SIZES != 0 ? sizes[uint(push.sizes_at) + row] : 1.0;
}

int next_of(uint row)
{
    return next_rows[uint(push.next_rows_at) + row];
}

void main()
{
    const uint n_rows = push.live_at < 0 ? uint(push.rows) : clamp_rows(live[push.live_at], push.rows);
    const uint dim4 = uint(push.dim4);
    const uint at = group_index() * THREADS + gl_LocalInvocationIndex;
    const uint row = at / dim4;
    if (row >= n_rows)
        return;
    const uint i = at % dim4;
    const uint source = uint(clamp(src_rows[uint(push.src_rows_at) + row], 0, push.x_rows - 1));
    const IN_VEC4 own = x_words[uint(push.x_at) + source * dim4 + i];
    IN_VEC4 result = own;
    precise float size = size_of(source);
    int next = next_of(source);
    if (next >= 0 && next < push.x_rows) {
        precise vec4 sum = in_vec4(own) * size;
        // Follows the list only while it ascends: a damaged list might never end.
        for (int before = -1; next > before && next < push.x_rows; next = next_of(uint(before))) {
            const float weight = size_of(uint(next));
            precise const vec4 product = in_vec4(x_words[uint(push.x_at) + uint(next) * dim4 + i]) * weight;
            sum = sum + product;
            size = size + weight;
            before = next;
        }
        result = in_encode(sum / size);
    }
    out_x_words[uint(push.out_x_at) + at] = result;
    if (i == 0) {
        out_sizes[uint(push.out_sizes_at) + row] = size;
        out_key_bias[uint(push.out_key_bias_at) + row] = log_accurate(size);
    }
}

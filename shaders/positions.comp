// The positions of the rows that a prune stage keeps, one per thread.
#version 450
#extension GL_GOOGLE_include_directive : require
#include "common/interface_prune.h"
#include "common/group.glsl"

layout(constant_id = RVIT_POSITIONS_FLAGS) const uint FLAGS = 0;

layout(binding = 0) readonly buffer SrcRows { int src_rows[]; };
layout(binding = 1) readonly buffer Keep { uint keep_words[]; };
layout(binding = 2) readonly buffer Positions { int positions[]; };
layout(binding = 3) writeonly buffer Out { int out_positions[]; };
layout(binding = 4) readonly buffer Live { int live[]; };
layout(push_constant) uniform Push { rvit_positions_push push; };

bool is_kept(uint row)
{
    return (FLAGS & RVIT_POSITIONS_HAS_KEEP) == 0 || (keep_words[uint(push.keep_at) + row / 4] >> row % 4 * 8 & 0xffu) != 0;
}

void main()
{
    const uint n_rows = push.live_at < 0 ? uint(push.rows) : clamp_rows(live[push.live_at], push.rows);
    const uint row = group_index() * THREADS + gl_LocalInvocationIndex;
    if (row >= n_rows)
        return;
    const int source = min(src_rows[uint(push.src_rows_at) + row], push.source_rows - 1);
    int position = -1;
    if (source >= 0 && is_kept(uint(source)))
        position = (FLAGS & RVIT_POSITIONS_HAS_POSITIONS) != 0 ? positions[uint(push.positions_at) + uint(source)]
                                                               : source % push.n_positions;
    out_positions[uint(push.out_at) + row] = position;
}

// destination[t] = source[src_rows[t]], bit for bit; a thread copies one UNIT.
#version 450
#extension GL_GOOGLE_include_directive : require
#include "common/interface_prune.h"
#include "common/group.glsl"

layout(binding = 0) readonly buffer Source { UNIT source[]; };
layout(binding = 1) readonly buffer SrcRows { int src_rows[]; };
layout(binding = 2) writeonly buffer Destination { UNIT destination[]; };
layout(binding = 3) readonly buffer Live { int live[]; };
layout(push_constant) uniform Push { rvit_pack_push push; };

void main()
{
    const uint n_rows = push.live_at < 0 ? uint(push.rows) : clamp_rows(live[push.live_at], push.rows);
    const uint units = uint(push.row_units);
    const uint at = group_index() * THREADS + gl_LocalInvocationIndex;
    const uint row = at / units;
    if (row >= n_rows)
        return;
    const uint from = uint(clamp(src_rows[uint(push.src_rows_at) + row], 0, push.source_rows - 1));
    destination[uint(push.destination_at) + at] = source[uint(push.source_at) + from * units + at % units];
}

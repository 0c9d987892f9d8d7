// Scatters packed rows to the destination rows that src_rows lists; every other row comes from base or gets the fill value. src_rows
// ascends, so each destination row finds its source by binary search and is written once.
#version 450
#extension GL_GOOGLE_include_directive : require
#include "common/interface_prune.h"
#include "common/group.glsl"

layout(constant_id = RVIT_UNPACK_ROWS) const uint ROWS = 8;
layout(constant_id = RVIT_UNPACK_BASE_MODE) const uint BASE_MODE = RVIT_UNPACK_FILL;

layout(binding = 0) readonly buffer Source { uvec2 source[]; };
layout(binding = 1) readonly buffer SrcRows { int src_rows[]; };
layout(binding = 2) readonly buffer Base { uvec2 base[]; };
layout(binding = 3) writeonly buffer Destination { uvec2 destination[]; };
layout(binding = 4) readonly buffer Live { int live[]; };
layout(binding = 5) readonly buffer DestinationLive { int destination_live[]; };
layout(push_constant) uniform Push { rvit_unpack_push push; };

#define NOT_FOUND 0xffffffffu
shared uint source_of[ROWS];

uint find(int row, uint n_rows)
{
    uint low = 0, high = n_rows; // the first entry >= row is in low..high
    while (low < high) {
        const uint middle = low + (high - low) / 2;
        if (src_rows[uint(push.src_rows_at) + middle] < row)
            low = middle + 1;
        else
            high = middle;
    }
    return low < n_rows && src_rows[uint(push.src_rows_at) + low] == row ? low : NOT_FOUND;
}

void main()
{
    const uint n_rows = push.live_at < 0 ? uint(push.rows) : clamp_rows(live[push.live_at], push.rows);
    const uint n_destination = push.destination_live_at < 0
                                   ? uint(push.destination_rows)
                                   : clamp_rows(destination_live[push.destination_live_at], push.destination_rows);
    const uint first = group_index() * ROWS;
    if (first >= n_destination)
        return;
    for (uint r = gl_LocalInvocationIndex; r < ROWS; r += THREADS)
        source_of[r] = find(int(first + r), n_rows);
    barrier();
    const uint units = uint(push.row_units);
    const uint n = min(ROWS, n_destination - first) * units;
    for (uint i = gl_LocalInvocationIndex; i < n; i += THREADS) {
        const uint from = source_of[i / units];
        const uint at = first * units + i;
        uvec2 value = uvec2(uint(push.fill));
        if (from != NOT_FOUND)
            value = source[uint(push.source_at) + from * units + i % units];
        else if (BASE_MODE == RVIT_UNPACK_COPY_BASE)
            value = base[uint(push.base_at) + at];
        else if (BASE_MODE == RVIT_UNPACK_IN_PLACE)
            continue;
        destination[uint(push.destination_at) + at] = value;
    }
}

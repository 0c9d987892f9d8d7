// The input rows of a ViT's first block: prefix tokens, and patches with their positions. A workgroup makes one row.
#version 450
#extension GL_GOOGLE_include_directive : require
#include "common/interface_grids.h"
#include "common/group.glsl"
#include "common/storage.glsl"
#include "common/position.glsl"

layout(constant_id = RVIT_EMBED_RESAMPLE) const uint RESAMPLE = 0;

layout(binding = 0) readonly buffer TokenMap { ivec4 token_map[]; };
layout(binding = 1) readonly buffer Patches { IN_VEC4 patches[]; };
layout(binding = 2) readonly buffer Prefix { vec4 prefix[]; };
layout(binding = 3) readonly buffer Table { vec4 table[]; };
layout(binding = 4) writeonly buffer Out { vec4 out_rows[]; };
layout(binding = 5) readonly buffer Live { int live[]; };
layout(push_constant) uniform Push { rvit_embed_push push; };

#include "common/taps.glsl"

shared float down_weights[RVIT_EMBED_MAX_TABLE];
shared float across_weights[RVIT_EMBED_MAX_TABLE];

// Four columns of the resampled table.
vec4 position_at(rvit_taps down, rvit_taps across, uint column)
{
    const uint dim4 = uint(push.dim4);
    vec4 sum = vec4(0.0);
    for (int i = 0; i < down.n; i++) {
        const uint entries = uint(push.table_at) + tap_entry(down, i) * uint(push.table_width) * dim4 + column;
        vec4 line = across_weights[0] * table[entries + tap_entry(across, 0) * dim4];
        for (int j = 1; j < across.n; j++)
            line += across_weights[j] * table[entries + tap_entry(across, j) * dim4];
        sum = i == 0 ? down_weights[0] * line : sum + down_weights[i] * line;
    }
    return sum;
}

void main()
{
    const uint n_rows = push.live_at < 0 ? uint(push.rows) : clamp_rows(live[push.live_at], push.rows);
    const uint row = group_index();
    if (row >= n_rows)
        return;
    const uint dim4 = uint(push.dim4);
    const uint to = uint(push.out_at) + row * dim4;
    const ivec4 entry = token_map[uint(push.token_map_at) + row];
    if (entry.x < 0 || push.patch_rows == 0) {
        const bool is_there = entry.x < 0 && push.n_prefix > 0;
        const uint from = uint(push.prefix_at) + uint(max(min(~entry.x, push.n_prefix - 1), 0)) * dim4;
        for (uint column = gl_LocalInvocationIndex; column < dim4; column += THREADS)
            out_rows[to + column] = is_there ? prefix[from + column] : vec4(0.0);
        return;
    }
    const rvit_position position = position_of(entry);
    const rvit_taps down = taps_of(push.table_height, position.height, position.y);
    const rvit_taps across = taps_of(push.table_width, position.width, position.x);
    if (RESAMPLE != 0) {
        for (int tap = int(gl_LocalInvocationIndex); tap < down.n; tap += int(THREADS))
            down_weights[tap] = tap_weight(down, tap);
        for (int tap = int(gl_LocalInvocationIndex); tap < across.n; tap += int(THREADS))
            across_weights[tap] = tap_weight(across, tap);
        barrier();
    }
    const uint from = uint(push.patches_at) + uint(min(entry.x, push.patch_rows - 1)) * dim4;
    for (uint column = gl_LocalInvocationIndex; column < dim4; column += THREADS) {
        vec4 x = in_vec4(patches[from + column]);
        if (RESAMPLE != 0)
            x += position_at(down, across, column);
        out_rows[to + column] = x;
    }
}

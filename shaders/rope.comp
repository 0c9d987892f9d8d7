// Rotates the queries and keys of each row in place, by its position. A thread rotates four pairs of a head.
#version 450
#extension GL_GOOGLE_include_directive : require
#include "common/interface.h"
#include "common/group.glsl"
#include "common/storage.glsl"

layout(constant_id = RVIT_ROPE_HAS_POSITIONS) const uint HAS_POSITIONS = 0;

layout(binding = 0) buffer Q { IN_VEC4 q_words[]; };
layout(binding = 1) buffer K { IN_VEC4 k_words[]; };
layout(binding = 2) readonly buffer Table { vec4 table[]; };
layout(binding = 3) readonly buffer Positions { int positions[]; };
layout(binding = 4) readonly buffer Live { int live[]; };
layout(push_constant) uniform Push { rvit_rope_push push; };

void main()
{
    const uint n_rows = push.live_at < 0 ? uint(push.rows) : clamp_rows(live[push.live_at], push.rows);
    const uint pairs4 = uint(push.pairs4);
    const uint n_heads = uint(push.n_heads);
    const uint at = group_index() * THREADS + gl_LocalInvocationIndex;
    const uint head = at / pairs4 % (2 * n_heads); // first the queries' heads, then the keys'
    const uint row = at / pairs4 / (2 * n_heads);
    if (row >= n_rows)
        return;
    const int position = HAS_POSITIONS != 0 ? positions[uint(push.positions_at) + row] : int(row % uint(push.n_positions));
    if (position < push.n_prefix || position >= push.n_positions)
        return;
    const uint j = at % pairs4;
    const uint angle = uint(push.table_at) + uint(position) * 2 * pairs4 + j;
    const vec4 cosine = table[angle];
    const vec4 sine = table[angle + pairs4];
    if (head < n_heads) {
        const uint first = uint(push.q_at) + row * uint(push.q_stride4) + head * 2 * pairs4 + j;
        const vec4 x = in_vec4(q_words[first]);
        const vec4 y = in_vec4(q_words[first + pairs4]);
        q_words[first] = in_encode(x * cosine - y * sine);
        q_words[first + pairs4] = in_encode(y * cosine + x * sine);
    } else {
        const uint first = uint(push.k_at) + row * uint(push.k_stride4) + (head - n_heads) * 2 * pairs4 + j;
        const vec4 x = in_vec4(k_words[first]);
        const vec4 y = in_vec4(k_words[first + pairs4]);
        k_words[first] = in_encode(x * cosine - y * sine);
        k_words[first + pairs4] = in_encode(y * cosine + x * sine);
    }
}

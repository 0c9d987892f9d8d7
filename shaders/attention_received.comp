// The attention that tokens receive. A workgroup takes RECEIVED_KEYS keys of one head of one image, and the image's queries block by block.
// Dot products of a block of queries and the keys are computed in pieces of 4 * PIECE channels, which are staged in shared memory as
// float32. RECEIVED_COLUMNS consecutive invocations have the same ROWS keys, and each of them some queries of a block; their sums are added
// at the end. Blocks start at the image's first row, so the bits of an image do not depend on the other images of its batch.
#version 450
#extension GL_GOOGLE_include_directive : require
#include "common/interface.h"
#include "common/group.glsl"
#include "common/storage.glsl"
#include "common/math.glsl"
#include "common/seqlens.glsl"

layout(constant_id = RVIT_ATTENTION_RECEIVED_HAS_BIAS) const uint HAS_BIAS = 0;

layout(binding = 0) readonly buffer Q { IN_VEC4 q_words[]; };
layout(binding = 1) readonly buffer K { IN_VEC4 k_words[]; };
layout(binding = 2) readonly buffer CuSeqlens { int cu_seqlens[]; };
layout(binding = 3) readonly buffer KeyBias { float key_bias[]; };
layout(binding = 4) readonly buffer Lse { float lse[]; };
layout(binding = 5) writeonly buffer Out { float out_values[]; };
layout(push_constant) uniform Push { rvit_attention_received_push push; };

const uint KEYS = RVIT_ATTENTION_RECEIVED_KEYS;
const uint QUERIES = RVIT_ATTENTION_RECEIVED_QUERIES;
const uint COLUMNS = RVIT_ATTENTION_RECEIVED_COLUMNS;
const uint ROWS = KEYS * COLUMNS / RVIT_MAX_THREADS;
const uint LANE_QUERIES = QUERIES / COLUMNS;
const uint PIECE = 8;
const uint STEP = PIECE | 1; // odd, so that consecutive rows begin in different banks

const float LOG2_E = 1.4426950408889634;
const float NEVER = -8.0e37; // three times this is still finite

shared vec4 k_tile[KEYS * STEP];
shared vec4 q_tile[QUERIES * STEP];
shared float query_added[QUERIES]; // added to the logits of a query
shared float partial_sums[KEYS * COLUMNS];

// Rows past the image's end are copies of its last row; channels past the head are 0.
void stage(rvit_sequence image, uint head, uint first_key, uint first_query, uint d4)
{
    const uint last = image.len - 1;
    const uint channel = head * uint(push.dim4) + d4;
    [[unroll]] for (uint f = 0; f < (KEYS + QUERIES) * PIECE / RVIT_MAX_THREADS; f++) {
        const uint i = f * RVIT_MAX_THREADS + gl_LocalInvocationIndex;
        const uint row = i / PIECE;
        const bool inside = d4 + i % PIECE < uint(push.dim4);
        if (row < KEYS) {
            const uint at = (image.begin + min(first_key + row, last)) * uint(push.k_stride4) + channel + i % PIECE;
            k_tile[row * STEP + i % PIECE] = inside ? in_vec4(k_words[uint(push.k_at) + at]) : vec4(0.0);
        } else {
            const uint at = (image.begin + min(first_query + row - KEYS, last)) * uint(push.q_stride4) + channel + i % PIECE;
            q_tile[(row - KEYS) * STEP + i % PIECE] = inside ? in_vec4(q_words[uint(push.q_at) + at]) : vec4(0.0);
        }
    }
}

// In units of ln 2, like the logits. A query past the end, or without weights, contributes nothing.
float added_by_query(rvit_sequence image, uint head, uint query)
{
    if (query >= image.len)
        return NEVER;
    const float value = lse[uint(push.lse_at) + (image.begin + query) * uint(push.n_heads) + head];
    return is_negative_infinity(value) ? NEVER : -value * LOG2_E;
}

float added_by_key(rvit_sequence image, uint key)
{
    if (HAS_BIAS == 0 || key >= image.len)
        return 0.0;
    const float value = key_bias[uint(push.key_bias_at) + image.begin + key];
    return is_negative_infinity(value) ? NEVER : max(value * LOG2_E, NEVER);
}

void main()
{
    const uint item = group_index() / uint(push.n_tiles);
    const uint head = item % uint(push.n_heads);
    const uint first_key = group_index() % uint(push.n_tiles) * KEYS;
    if (item / uint(push.n_heads) >= uint(push.n_images))
        return;
    const uint cu_at = uint(push.cu_seqlens_at) + item / uint(push.n_heads);
    const rvit_sequence image = clamp_sequence(cu_seqlens[cu_at], cu_seqlens[cu_at + 1], push.max_len, push.rows);
    if (first_key >= image.len)
        return;
    const uint column = gl_LocalInvocationIndex % COLUMNS;
    const uint line = gl_LocalInvocationIndex / COLUMNS;
    float sums[ROWS];
    float bias[ROWS];
    [[unroll]] for (uint r = 0; r < ROWS; r++) {
        sums[r] = 0.0;
        bias[r] = added_by_key(image, first_key + line * ROWS + r);
    }
    for (uint first = 0; first < image.len; first += QUERIES) {
        float logits[ROWS][LANE_QUERIES];
        [[unroll]] for (uint r = 0; r < ROWS; r++)
            [[unroll]] for (uint c = 0; c < LANE_QUERIES; c++)
                logits[r][c] = 0.0;
        for (uint d4 = 0; d4 < uint(push.dim4); d4 += PIECE) {
            barrier();
            stage(image, head, first_key, first, d4);
            if (d4 == 0 && gl_LocalInvocationIndex < QUERIES)
                query_added[gl_LocalInvocationIndex] = added_by_query(image, head, first + gl_LocalInvocationIndex);
            barrier();
            [[unroll]] for (uint u = 0; u < PIECE; u++) {
                vec4 q[LANE_QUERIES];
                [[unroll]] for (uint c = 0; c < LANE_QUERIES; c++)
                    q[c] = q_tile[(c * COLUMNS + column) * STEP + u];
                [[unroll]] for (uint r = 0; r < ROWS; r++) {
                    const vec4 k = k_tile[(line * ROWS + r) * STEP + u];
                    [[unroll]] for (uint c = 0; c < LANE_QUERIES; c++) {
                        logits[r][c] += q[c].x * k.x;
                        logits[r][c] += q[c].y * k.y;
                        logits[r][c] += q[c].z * k.z;
                        logits[r][c] += q[c].w * k.w;
                    }
                }
            }
        }
        [[unroll]] for (uint c = 0; c < LANE_QUERIES; c++) {
            const float added = query_added[c * COLUMNS + column];
            [[unroll]] for (uint r = 0; r < ROWS; r++)
                sums[r] += exp2(fma(logits[r][c], push.scale * LOG2_E, added + bias[r]));
        }
    }
    [[unroll]] for (uint r = 0; r < ROWS; r++)
        partial_sums[(line * ROWS + r) * COLUMNS + column] = sums[r];
    barrier();
    const uint key = first_key + gl_LocalInvocationIndex;
    if (gl_LocalInvocationIndex >= KEYS || key >= image.len)
        return;
    float sum = 0.0;
    [[unroll]] for (uint c = 0; c < COLUMNS; c++)
        sum += partial_sums[gl_LocalInvocationIndex * COLUMNS + c];
    out_values[uint(push.out_at) + (image.begin + key) * uint(push.n_heads) + head] = sum / float(image.len);
}

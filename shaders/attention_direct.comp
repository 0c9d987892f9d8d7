// Attention for software devices: a workgroup is one subgroup, reads through texel buffers and keeps its tiles in registers. Lanes hold
// keys while logits are computed and columns of the head while results are; in between, probabilities are broadcast.
#version 450
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_control_flow_attributes : require
#extension GL_KHR_shader_subgroup_basic : require
#extension GL_KHR_shader_subgroup_arithmetic : require
#extension GL_KHR_shader_subgroup_ballot : require
#include "common/interface.h"
#include "common/group.glsl"
#include "common/storage.glsl"
#include "common/texels.glsl"
#include "common/math.glsl"
#include "common/seqlens.glsl"
#include "common/attention.glsl"

#define LANES THREADS
const uint LANE_KEYS = KEYS / LANES;                   // keys per lane in a block
const uint LANE_COLUMNS = (D4 + LANES - 1) / LANES;    // groups of four columns of the head per lane

layout(binding = 0) uniform TEXELS q_texels;
layout(binding = 1) uniform TEXELS k_texels;
layout(binding = 2) uniform TEXELS v_texels;

shared float p_tile[QUERIES * KEYS];

// exp(logit - maximum): exactly 1 at the maximum, and 0 for -infinity, even if all logits so far are -infinity.
float softmax_term(float logit, float maximum)
{
    return is_negative_infinity(logit) ? 0.0 : logit == maximum ? 1.0 : exp(logit - maximum);
}

// The first query's logits stay in cls_probs until its maximum and total are known. The lane that stored one finishes it.
void finish_cls_prob(attention_tile tile, uint key, float maximum, float total)
{
    const uint at = cls_probs_at(tile, key);
    cls_probs[at] = total == 0.0 ? 0.0 : softmax_term(cls_probs[at], maximum) / total;
}

void main()
{
    attention_tile tile;
    if (!find_tile(tile))
        return;
    const uint lane = gl_SubgroupInvocationID;
    const uint len = tile.image.len;
    const int head_at = int(tile.head * D4);
    int q_at[QUERIES];
    float maximum[QUERIES];
    float total[QUERIES];
    vec4 sums[QUERIES][LANE_COLUMNS];
    [[unroll]] for (uint r = 0; r < QUERIES; r++) {
        q_at[r] = push.q_at + int((tile.image.begin + min(tile.first_query + r, len - 1)) * uint(push.q_stride4)) + head_at;
        maximum[r] = negative_infinity();
        total[r] = 0.0;
        [[unroll]] for (uint n = 0; n < LANE_COLUMNS; n++)
            sums[r][n] = vec4(0.0);
    }

    for (uint first_key = 0; first_key < len; first_key += KEYS) {
        int k_at[LANE_KEYS];
        float logits[QUERIES][LANE_KEYS];
        [[unroll]] for (uint c = 0; c < LANE_KEYS; c++) {
            const uint key = min(first_key + c * LANES + lane, len - 1);
            k_at[c] = push.k_at + int((tile.image.begin + key) * uint(push.k_stride4)) + head_at;
            [[unroll]] for (uint r = 0; r < QUERIES; r++)
                logits[r][c] = 0.0;
        }
        for (int d4 = 0; d4 < int(D4); d4++) {
            vec4 q[QUERIES];
            [[unroll]] for (uint r = 0; r < QUERIES; r++)
                q[r] = fetch(q_texels, q_at[r] + d4);
            [[unroll]] for (uint c = 0; c < LANE_KEYS; c++) {
                const vec4 k = fetch(k_texels, k_at[c] + d4);
                [[unroll]] for (uint r = 0; r < QUERIES; r++) {
                    logits[r][c] += q[r].x * k.x;
                    logits[r][c] += q[r].y * k.y;
                    logits[r][c] += q[r].z * k.z;
                    logits[r][c] += q[r].w * k.w;
                }
            }
        }
        float bias[LANE_KEYS];
        [[unroll]] for (uint c = 0; c < LANE_KEYS; c++) {
            const uint key = first_key + c * LANES + lane;
            bias[c] = 0.0;
            if ((FLAGS & RVIT_ATTENTION_HAS_BIAS) != 0 && key < len)
                bias[c] = key_bias[uint(push.key_bias_at) + tile.image.begin + key];
        }
        [[unroll]] for (uint r = 0; r < QUERIES; r++) {
            float block_maximum = maximum[r];
            [[unroll]] for (uint c = 0; c < LANE_KEYS; c++) {
                logits[r][c] = push.scale * logits[r][c] + bias[c];
                if (first_key + c * LANES + lane < len)
                    block_maximum = max(block_maximum, logits[r][c]);
            }
            block_maximum = subgroupMax(block_maximum);
            float block_total = 0.0;
            [[unroll]] for (uint c = 0; c < LANE_KEYS; c++) {
                const float term = softmax_term(logits[r][c], block_maximum);
                const float p = first_key + c * LANES + lane < len ? term : 0.0;
                p_tile[r * KEYS + c * LANES + lane] = p;
                block_total += p;
            }
            const float scale = softmax_term(maximum[r], block_maximum);
            total[r] = total[r] * scale + subgroupAdd(block_total);
            maximum[r] = block_maximum;
            [[unroll]] for (uint n = 0; n < LANE_COLUMNS; n++)
                sums[r][n] *= scale;
        }
        if ((FLAGS & RVIT_ATTENTION_HAS_CLS_PROBS) != 0 && tile.first_query == 0)
            [[unroll]] for (uint c = 0; c < LANE_KEYS; c++)
                if (first_key + c * LANES + lane < len)
                    cls_probs[cls_probs_at(tile, first_key + c * LANES + lane)] = logits[0][c];

        const uint n_keys = min(KEYS, len - first_key);
        for (uint first = 0; first < n_keys; first += LANES) {
            float p[QUERIES];
            [[unroll]] for (uint r = 0; r < QUERIES; r++)
                p[r] = p_tile[r * KEYS + first + lane]; // this lane wrote it
            const int v_at = push.v_at + int((tile.image.begin + first_key + first) * uint(push.v_stride4)) + head_at;
            // A lane number must be a constant, so this is not a loop.
#define STEP(l)                                                                                                    \
    if (l < LANES) {                                                                                               \
        vec4 v[LANE_COLUMNS];                                                                                      \
        [[unroll]] for (uint n = 0; n < LANE_COLUMNS; n++) {                                                       \
            v[n] = fetch(v_texels, v_at + int(min(l, n_keys - 1 - first) * uint(push.v_stride4) +                  \
                                              min(lane + n * LANES, D4 - 1)));                                     \
            if (first + l >= n_keys)                                                                               \
                v[n] = vec4(0.0);                                                                                  \
        }                                                                                                          \
        [[unroll]] for (uint r = 0; r < QUERIES; r++) {                                                            \
            const float weight = subgroupBroadcast(p[r], l);                                                       \
            [[unroll]] for (uint n = 0; n < LANE_COLUMNS; n++)                                                     \
                sums[r][n] += weight * v[n];                                                                       \
        }                                                                                                          \
    }
            STEP(0) STEP(1) STEP(2) STEP(3) STEP(4) STEP(5) STEP(6) STEP(7)
            STEP(8) STEP(9) STEP(10) STEP(11) STEP(12) STEP(13) STEP(14) STEP(15)
        }
    }

    [[unroll]] for (uint r = 0; r < QUERIES; r++) {
        const uint query = tile.first_query + r;
        const float inverse = inverse_total(total[r]);
        if (query < len) {
            [[unroll]] for (uint n = 0; n < LANE_COLUMNS; n++)
                if (lane + n * LANES < D4)
                    store_out(tile, query, lane + n * LANES, sums[r][n] * inverse);
            if ((FLAGS & RVIT_ATTENTION_HAS_LSE) != 0 && lane == 0)
                store_lse(tile, query, maximum[r], total[r]);
        }
    }
    if ((FLAGS & RVIT_ATTENTION_HAS_CLS_PROBS) != 0 && tile.first_query == 0)
        for (uint key = lane; key < len; key += LANES)
            finish_cls_prob(tile, key, maximum[0], total[0]);
}

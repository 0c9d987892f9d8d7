// Ragged attention by cooperative matrices: a subgroup takes MATRIX_M queries of one head of one image, a group's subgroups share the keys
// and values of a block in shared memory, and the next block is fetched into registers meanwhile. The results stay in matrices from block
// to block; only logits and weights pass through shared memory, each subgroup's through a part of its own. As the running maximum grows,
// the results are multiplied by a matrix whose rows hold one factor each.
// Every subgroup meets every barrier, those of subgroups too: one without rows only skips what is between them.
// Tiles and blocks start at the image's first row, so an image's bits do not depend on its batch mates.
#version 450
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_control_flow_attributes : require
#extension GL_KHR_shader_subgroup_vote : require
#extension GL_KHR_shader_subgroup_shuffle : require
#include "common/interface.h"
#include "common/group.glsl"
#include "common/storage.glsl"
#include "common/math.glsl"
#include "common/seqlens.glsl"
#include "common/attention.glsl"
#define SPEC_SUBGROUP RVIT_ATTENTION_SUBGROUP
#define SPEC_MATRIX_M RVIT_ATTENTION_MATRIX_M
#define SPEC_MATRIX_N RVIT_ATTENTION_MATRIX_N
#define SPEC_MATRIX_K RVIT_ATTENTION_MATRIX_K
#include "common/matrix.glsl"

const uint D8 = HEAD_DIM / 8;
const uint STEP8 = D8 + 1;
const uint UNITS = KEYS * D8; // of a block's keys, and as many of its values
const uint FETCHES = (UNITS + THREADS - 1) / THREADS;
const uint STAGED_ROWS = 2 * KEYS > QUERIES ? 2 * KEYS : QUERIES;
const uint Q_PARTS = HEAD_DIM / MATRIX_K;
const uint OUT_PARTS = HEAD_DIM / MATRIX_N;
// Rows of logits and of weights, in fours; the two more keep rows below each other in different banks.
const uint S_STEP = KEYS / 4 + 2;
const uint P_STEP = KEYS / 4 + 2;
// The softmax: ROW_LANES lanes a row, which take its fours of keys in turn, and as many rows at a time as there are lanes for.
const uint ROW_LANES = SUBGROUP > MATRIX_M ? SUBGROUP / MATRIX_M : 1;
const uint ROW_QUADS = KEYS / (4 * ROW_LANES);
const uint ROW_STEP = SUBGROUP / ROW_LANES;
const uint PASSES = MATRIX_M / ROW_STEP;

layout(binding = RVIT_ATTENTION_Q) readonly buffer Q { uvec4 q_units[]; };
layout(binding = RVIT_ATTENTION_K) readonly buffer K { uvec4 k_units[]; };
layout(binding = RVIT_ATTENTION_V) readonly buffer V { uvec4 v_units[]; };

shared uvec4 staged[STAGED_ROWS * STEP8]; // the queries; then keys and, below them, values: [row][d / 8]
shared vec4 s_tile[QUERIES * S_STEP];     // logits; then factors, and at last results
shared uvec2 p_tile[QUERIES * P_STEP];

// Where a row's part for the tile's head begins, in units of eight.
uint head_at(attention_tile tile, uint row, int stride4)
{
    return (tile.image.begin + row) * (uint(stride4) / 2) + tile.head * D8;
}

// Rows past the image's end count as zeros.
void fetch(attention_tile tile, uint first_key, out uvec4 k_next[FETCHES], out uvec4 v_next[FETCHES])
{
    [[unroll]] for (uint i = 0; i < FETCHES; i++) {
        const uint unit = i * THREADS + gl_LocalInvocationIndex;
        const uint key = first_key + unit / D8;
        const bool inside = unit < UNITS && key < tile.image.len;
        k_next[i] = inside ? k_units[uint(push.k_at) + head_at(tile, key, push.k_stride4) + unit % D8] : uvec4(0);
        v_next[i] = inside ? v_units[uint(push.v_at) + head_at(tile, key, push.v_stride4) + unit % D8] : uvec4(0);
    }
}

void stage(uvec4 k_next[FETCHES], uvec4 v_next[FETCHES])
{
    [[unroll]] for (uint i = 0; i < FETCHES; i++) {
        const uint unit = i * THREADS + gl_LocalInvocationIndex;
        if (unit < UNITS) {
            const uint at = unit / D8 * STEP8 + unit % D8;
            staged[at] = k_next[i];
            staged[KEYS * STEP8 + at] = v_next[i];
        }
    }
}

// A maximum or sum over the lanes of a row; the same in each of them.
float row_maximum(float value)
{
    [[unroll]] for (uint step = 1; step < ROW_LANES; step *= 2)
        value = max(value, subgroupShuffleXor(value, step));
    return value;
}

float row_total(float value)
{
    [[unroll]] for (uint step = 1; step < ROW_LANES; step *= 2)
        value += subgroupShuffleXor(value, step);
    return value;
}

// Logits of four of the row's keys as the matrices left them, scaled and biased; past the block's keys minus infinity, whose weight is 0.
vec4 finish_logits(attention_tile tile, vec4 logits, uint first_key, uint key, uint n_keys, bool keep)
{
    logits *= push.scale;
    [[unroll]] for (uint i = 0; i < 4; i++)
        if (key + i < n_keys) {
            if ((FLAGS & RVIT_ATTENTION_HAS_BIAS) != 0)
                logits[i] += key_bias[uint(push.key_bias_at) + tile.image.begin + first_key + key + i];
            if (keep)
                cls_probs[cls_probs_at(tile, first_key + key + i)] = logits[i];
        } else {
            logits[i] = negative_infinity();
        }
    return logits;
}

void main()
{
    attention_tile tile;
    if (!find_tile(tile))
        return;
    const uint len = tile.image.len;
    const uint first_row = gl_SubgroupID * MATRIX_M; // of the subgroup, in the tile
    const bool has_rows = tile.first_query + first_row < len;
    const bool keeps_cls = (FLAGS & RVIT_ATTENTION_HAS_CLS_PROBS) != 0 && tile.first_query + first_row == 0;
    const uint s_at = first_row * S_STEP;
    const uint p_at = first_row * P_STEP;
    const uint line = gl_SubgroupInvocationID / ROW_LANES;
    const uint part = gl_SubgroupInvocationID % ROW_LANES;

    for (uint i = gl_LocalInvocationIndex; i < QUERIES * D8; i += THREADS) {
        const uint query = tile.first_query + i / D8;
        staged[i / D8 * STEP8 + i % D8] =
            query < len ? q_units[uint(push.q_at) + head_at(tile, query, push.q_stride4) + i % D8] : uvec4(0);
    }
    uvec4 k_next[FETCHES];
    uvec4 v_next[FETCHES];
    fetch(tile, 0, k_next, v_next);
    barrier();
    MATRIX_A q[Q_PARTS];
    [[unroll]] for (uint d = 0; d < Q_PARTS; d++)
        coopMatLoad(q[d], staged, first_row * STEP8 + d * MATRIX_K / 8, STEP8, ROW_MAJOR);
    MATRIX_SUM results[OUT_PARTS];
    [[unroll]] for (uint d = 0; d < OUT_PARTS; d++)
        results[d] = MATRIX_SUM(0.0);
    float maximum[PASSES];
    float total[PASSES];
    [[unroll]] for (uint r = 0; r < PASSES; r++) {
        maximum[r] = negative_infinity();
        total[r] = 0.0;
    }

    for (uint first_key = 0; first_key < len; first_key += KEYS) {
        const uint n_keys = min(KEYS, len - first_key);
        barrier();
        stage(k_next, v_next);
        barrier();
        if (first_key + KEYS < len)
            fetch(tile, first_key + KEYS, k_next, v_next);

        if (has_rows)
            for (uint c = 0; c < KEYS; c += MATRIX_N) {
                MATRIX_SUM logits = MATRIX_SUM(0.0);
                [[unroll]] for (uint d = 0; d < Q_PARTS; d++) {
                    MATRIX_B k;
                    coopMatLoad(k, staged, c * STEP8 + d * MATRIX_K / 8, STEP8, COLUMN_MAJOR);
                    logits = coopMatMulAdd(q[d], k, logits);
                }
                coopMatStore(logits, s_tile, s_at + c / 4, S_STEP, ROW_MAJOR);
            }
        subgroupBarrier();

        float factor[PASSES];
        bool grown = false;
        if (has_rows)
            [[unroll]] for (uint r = 0; r < PASSES; r++) {
                const uint row = line + r * ROW_STEP;
                vec4 quads[ROW_QUADS];
                float block_maximum = maximum[r];
                [[unroll]] for (uint j = 0; j < ROW_QUADS; j++) {
                    const uint quad = part + j * ROW_LANES;
                    quads[j] = finish_logits(tile, s_tile[s_at + row * S_STEP + quad], first_key, quad * 4, n_keys, keeps_cls && row == 0);
                    block_maximum = max(block_maximum, max(max(quads[j].x, quads[j].y), max(quads[j].z, quads[j].w)));
                }
                block_maximum = row_maximum(block_maximum);
                factor[r] = softmax_term(maximum[r], block_maximum);
                grown = grown || factor[r] != 1.0;
                float block_total = 0.0;
                [[unroll]] for (uint j = 0; j < ROW_QUADS; j++) {
                    vec4 p;
                    [[unroll]] for (uint i = 0; i < 4; i++) {
                        p[i] = softmax_term(quads[j][i], block_maximum);
                        block_total += p[i];
                    }
                    p_tile[p_at + row * P_STEP + part + j * ROW_LANES] = uvec2(packFloat2x16(f16vec2(p.xy)), packFloat2x16(f16vec2(p.zw)));
                }
                total[r] = total[r] * factor[r] + row_total(block_total);
                maximum[r] = block_maximum;
            }
        subgroupBarrier();

        const bool rescales = first_key > 0 && subgroupAny(grown);
        if (rescales)
            [[unroll]] for (uint r = 0; r < PASSES; r++)
                for (uint quad = part; quad < MATRIX_N / 4; quad += ROW_LANES)
                    s_tile[s_at + (line + r * ROW_STEP) * S_STEP + quad] = vec4(factor[r]);
        subgroupBarrier();
        if (rescales) {
            MATRIX_SUM factors;
            coopMatLoad(factors, s_tile, s_at, S_STEP, ROW_MAJOR);
            [[unroll]] for (uint d = 0; d < OUT_PARTS; d++)
                results[d] = results[d] * factors;
        }
        if (has_rows)
            for (uint c = 0; c < KEYS; c += MATRIX_K) {
                MATRIX_A p;
                coopMatLoad(p, p_tile, p_at + c / 4, P_STEP, ROW_MAJOR);
                [[unroll]] for (uint d = 0; d < OUT_PARTS; d++) {
                    MATRIX_B v;
                    coopMatLoad(v, staged, (KEYS + c) * STEP8 + d * MATRIX_N / 8, STEP8, ROW_MAJOR);
                    results[d] = coopMatMulAdd(p, v, results[d]);
                }
            }
        subgroupBarrier();
    }

    const uint n_queries = has_rows ? min(MATRIX_M, len - tile.first_query - first_row) : 0;
    [[unroll]] for (uint d = 0; d < OUT_PARTS; d++) {
        coopMatStore(results[d], s_tile, s_at, S_STEP, ROW_MAJOR);
        subgroupBarrier();
        [[unroll]] for (uint r = 0; r < PASSES; r++) {
            const uint row = line + r * ROW_STEP;
            if (row < n_queries)
                for (uint quad = part; quad < MATRIX_N / 4; quad += ROW_LANES)
                    store_out(tile, tile.first_query + first_row + row, d * MATRIX_N / 4 + quad, s_tile[s_at + row * S_STEP + quad],
                              total[r]);
        }
        subgroupBarrier();
    }
    if ((FLAGS & RVIT_ATTENTION_HAS_LSE) != 0 && part == 0)
        [[unroll]] for (uint r = 0; r < PASSES; r++)
            if (line + r * ROW_STEP < n_queries)
                store_lse(tile, tile.first_query + first_row + line + r * ROW_STEP, maximum[r], total[r]);
    if (keeps_cls && line == 0)
        for (uint first_key = 0; first_key < len; first_key += KEYS)
            for (uint key = part * 4; key < min(KEYS, len - first_key); key += ROW_LANES * 4)
                for (uint i = key; i < min(key + 4, len - first_key); i++)
                    finish_cls_prob(tile, first_key + i, maximum[0], total[0]);
}

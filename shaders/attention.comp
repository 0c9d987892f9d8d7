// Ragged attention with an online softmax: a group takes a tile of queries of one head of one image and goes over the image's keys block
// by block, each fetched while the one before is worked on. Per block: the logits of tile x block, their softmax against the running
// maximum, then the weighted sum of the values.
// Tiles and blocks start at the image's first row, so an image's bits do not depend on its batch mates.
#version 450
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_control_flow_attributes : require
#include "common/interface.h"
#include "common/group.glsl"
#include "common/storage.glsl"
#include "common/math.glsl"
#include "common/seqlens.glsl"
#include "common/attention.glsl"

const uint KEY_QUADS = KEYS / 4;
// Logits: threads lie KEY_QUADS along the keys, LOGIT_LINES along the queries, each with four keys of LOGIT_ROWS queries.
const uint LOGIT_LINES = THREADS / KEY_QUADS;
const uint LOGIT_ROWS = (QUERIES + LOGIT_LINES - 1) / LOGIT_LINES;
// Sums: threads lie D4 along the head, SUM_LINES along the queries (what is left over rests), each with SUM_ROWS queries.
const uint SUM_LINES = THREADS / D4;
const uint SUM_ROWS = (QUERIES + SUM_LINES - 1) / SUM_LINES;
const uint ROW_THREADS = THREADS / QUERIES; // of a row in the softmax
const uint Q_STEP = QUERIES + 1;
const uint K_STEP = KEYS + 1;
const uint P_STEP = KEY_QUADS + 1;
const uint FETCHES = (KEYS * D4 + THREADS - 1) / THREADS; // of a thread, for the keys of a block or its values

layout(binding = RVIT_ATTENTION_Q) readonly buffer Q { IN_VEC4 q_words[]; };
layout(binding = RVIT_ATTENTION_K) readonly buffer K { IN_VEC4 k_words[]; };
layout(binding = RVIT_ATTENTION_V) readonly buffer V { IN_VEC4 v_words[]; };

shared vec4 q_tile[D4 * Q_STEP];      // [d / 4][query]
shared vec4 kv_tile[D4 * K_STEP];     // keys: [d / 4][key % 4][key / 4]; then values: [key][d / 4]
shared vec4 p_tile[QUERIES * P_STEP]; // logits, then probabilities: [query][key / 4]
shared float row_max[QUERIES];
shared float row_sum[QUERIES];
shared float row_scale[QUERIES];      // what the sums so far are multiplied by, as the maximum has grown
shared float partial[THREADS];

// Where a row's part for the tile's head begins, in fours.
uint head_at(attention_tile tile, uint row, int stride4)
{
    return (tile.image.begin + row) * uint(stride4) + tile.head * D4;
}

// Rows past the image's end count as zeros.
void load_queries(attention_tile tile)
{
    for (uint i = gl_LocalInvocationIndex; i < QUERIES * D4; i += THREADS) {
        const uint query = i / D4;
        const uint d4 = i % D4;
        vec4 value = vec4(0.0);
        if (tile.first_query + query < tile.image.len)
            value = in_vec4(q_words[uint(push.q_at) + head_at(tile, tile.first_query + query, push.q_stride4) + d4]);
        q_tile[d4 * Q_STEP + query] = value;
    }
}

void fetch_keys(attention_tile tile, uint first_key, out IN_VEC4 next[FETCHES])
{
    [[unroll]] for (uint f = 0; f < FETCHES; f++) {
        const uint i = f * THREADS + gl_LocalInvocationIndex;
        next[f] = IN_VEC4(0);
        if (i < KEYS * D4 && first_key + i / D4 < tile.image.len)
            next[f] = k_words[uint(push.k_at) + head_at(tile, first_key + i / D4, push.k_stride4) + i % D4];
    }
}

void stage_keys(IN_VEC4 next[FETCHES])
{
    [[unroll]] for (uint f = 0; f < FETCHES; f++) {
        const uint i = f * THREADS + gl_LocalInvocationIndex;
        const uint key = i / D4;
        if (i < KEYS * D4)
            kv_tile[i % D4 * K_STEP + key % 4 * KEY_QUADS + key / 4] = in_vec4(next[f]);
    }
}

void fetch_values(attention_tile tile, uint first_key, out IN_VEC4 next[FETCHES])
{
    [[unroll]] for (uint f = 0; f < FETCHES; f++) {
        const uint i = f * THREADS + gl_LocalInvocationIndex;
        next[f] = IN_VEC4(0);
        if (i < KEYS * D4 && first_key + i / D4 < tile.image.len)
            next[f] = v_words[uint(push.v_at) + head_at(tile, first_key + i / D4, push.v_stride4) + i % D4];
    }
}

void stage_values(IN_VEC4 next[FETCHES])
{
    [[unroll]] for (uint f = 0; f < FETCHES; f++) {
        const uint i = f * THREADS + gl_LocalInvocationIndex;
        if (i < KEYS * D4)
            kv_tile[i] = in_vec4(next[f]);
    }
}

void logits(attention_tile tile, uint first_key)
{
    const uint quad = gl_LocalInvocationIndex % KEY_QUADS;
    const uint line = gl_LocalInvocationIndex / KEY_QUADS;
    vec4 sums[LOGIT_ROWS];
    [[unroll]] for (uint r = 0; r < LOGIT_ROWS; r++)
        sums[r] = vec4(0.0);
    for (uint d4 = 0; d4 < D4; d4++) {
        const uint at = d4 * K_STEP + quad;
        const vec4 k0 = kv_tile[at], k1 = kv_tile[at + KEY_QUADS], k2 = kv_tile[at + 2 * KEY_QUADS], k3 = kv_tile[at + 3 * KEY_QUADS];
        [[unroll]] for (uint r = 0; r < LOGIT_ROWS; r++) {
            const vec4 q = q_tile[d4 * Q_STEP + min(line + r * LOGIT_LINES, QUERIES - 1)];
            sums[r] += q.x * vec4(k0.x, k1.x, k2.x, k3.x);
            sums[r] += q.y * vec4(k0.y, k1.y, k2.y, k3.y);
            sums[r] += q.z * vec4(k0.z, k1.z, k2.z, k3.z);
            sums[r] += q.w * vec4(k0.w, k1.w, k2.w, k3.w);
        }
    }
    vec4 bias = vec4(0.0);
    if ((FLAGS & RVIT_ATTENTION_HAS_BIAS) != 0)
        [[unroll]] for (uint c = 0; c < 4; c++)
            if (first_key + quad * 4 + c < tile.image.len)
                bias[c] = key_bias[uint(push.key_bias_at) + tile.image.begin + first_key + quad * 4 + c];
    [[unroll]] for (uint r = 0; r < LOGIT_ROWS; r++)
        if (line + r * LOGIT_LINES < QUERIES)
            p_tile[(line + r * LOGIT_LINES) * P_STEP + quad] = push.scale * sums[r] + bias;
}

// The softmax of the block's logits, and the rows' new maximum, sum and scale. A row's key quads are dealt to ROW_THREADS threads: a
// block is too narrow for a whole subgroup to a row to pay.
void softmax_block(uint n_keys)
{
    const uint row = gl_LocalInvocationIndex / ROW_THREADS;
    const uint part = gl_LocalInvocationIndex % ROW_THREADS;
    float maximum = row_max[row];
    const float maximum_before = maximum;
    for (uint quad = part; quad < KEY_QUADS; quad += ROW_THREADS)
        [[unroll]] for (uint c = 0; c < 4; c++)
            if (quad * 4 + c < n_keys)
                maximum = max(maximum, p_tile[row * P_STEP + quad][c]);
    partial[gl_LocalInvocationIndex] = maximum;
    barrier();
    for (uint i = 0; i < ROW_THREADS; i++)
        maximum = max(maximum, partial[row * ROW_THREADS + i]);
    barrier();
    float sum = 0.0;
    for (uint quad = part; quad < KEY_QUADS; quad += ROW_THREADS) {
        vec4 p = p_tile[row * P_STEP + quad];
        [[unroll]] for (uint c = 0; c < 4; c++) {
            p[c] = quad * 4 + c < n_keys ? softmax_term(p[c], maximum) : 0.0;
            sum += p[c];
        }
        p_tile[row * P_STEP + quad] = p;
    }
    partial[gl_LocalInvocationIndex] = sum;
    barrier();
    if (part == 0) {
        const float scale = softmax_term(maximum_before, maximum);
        sum = 0.0;
        for (uint i = 0; i < ROW_THREADS; i++)
            sum += partial[row * ROW_THREADS + i];
        row_scale[row] = scale;
        row_sum[row] = row_sum[row] * scale + sum;
        row_max[row] = maximum;
    }
}

void main()
{
    attention_tile tile;
    if (!find_tile(tile))
        return;
    const uint len = tile.image.len;
    const uint column = gl_LocalInvocationIndex % D4;
    const uint line = gl_LocalInvocationIndex / D4;
    const bool keeps_cls = (FLAGS & RVIT_ATTENTION_HAS_CLS_PROBS) != 0 && tile.first_query == 0;
    vec4 sums[SUM_ROWS];
    [[unroll]] for (uint r = 0; r < SUM_ROWS; r++)
        sums[r] = vec4(0.0);
    for (uint i = gl_LocalInvocationIndex; i < QUERIES; i += THREADS) {
        row_max[i] = negative_infinity();
        row_sum[i] = 0.0;
    }
    load_queries(tile);
    IN_VEC4 k_next[FETCHES];
    IN_VEC4 v_next[FETCHES];
    fetch_keys(tile, 0, k_next);

    for (uint first_key = 0; first_key < len; first_key += KEYS) {
        const uint n_keys = min(KEYS, len - first_key);
        stage_keys(k_next);
        fetch_values(tile, first_key, v_next);
        barrier();
        logits(tile, first_key);
        barrier();
        if (keeps_cls) {
            for (uint key = gl_LocalInvocationIndex; key < n_keys; key += THREADS)
                cls_probs[cls_probs_at(tile, first_key + key)] = p_tile[key / 4][key % 4];
            barrier();
        }
        stage_values(v_next);
        fetch_keys(tile, first_key + KEYS, k_next);
        softmax_block(n_keys);
        barrier();
        if (line < SUM_LINES) {
            [[unroll]] for (uint r = 0; r < SUM_ROWS; r++)
                sums[r] *= row_scale[min(line + r * SUM_LINES, QUERIES - 1)];
            for (uint quad = 0; quad < KEY_QUADS; quad++) {
                const uint at = quad * 4 * D4 + column;
                const vec4 v0 = kv_tile[at], v1 = kv_tile[at + D4], v2 = kv_tile[at + 2 * D4], v3 = kv_tile[at + 3 * D4];
                [[unroll]] for (uint r = 0; r < SUM_ROWS; r++) {
                    const vec4 p = p_tile[min(line + r * SUM_LINES, QUERIES - 1) * P_STEP + quad];
                    sums[r] += p.x * v0;
                    sums[r] += p.y * v1;
                    sums[r] += p.z * v2;
                    sums[r] += p.w * v3;
                }
            }
        }
        barrier();
    }

    const uint n_queries = min(QUERIES, len - tile.first_query);
    if (line < SUM_LINES)
        [[unroll]] for (uint r = 0; r < SUM_ROWS; r++) {
            const uint query = line + r * SUM_LINES;
            if (query < n_queries)
                store_out(tile, tile.first_query + query, column, sums[r], row_sum[query]);
        }
    if ((FLAGS & RVIT_ATTENTION_HAS_LSE) != 0)
        for (uint query = gl_LocalInvocationIndex; query < n_queries; query += THREADS)
            store_lse(tile, tile.first_query + query, row_max[query], row_sum[query]);
    if (keeps_cls)
        for (uint first_key = 0; first_key < len; first_key += KEYS)
            for (uint key = gl_LocalInvocationIndex; key < min(KEYS, len - first_key); key += THREADS)
                finish_cls_prob(tile, first_key + key, row_max[0], row_sum[0]);
}

// Ragged attention with an online softmax. A workgroup processes a tile of queries of one head of one image. It visits the image's keys
// block by block and loads each block while it computes the previous one.
// COLUMNS consecutive invocations form a line, which has ROWS queries. Each invocation of a line computes the logits of LANE_KEYS keys of a
// block, and the results of LANE_UNITS units of the head, all in registers. The invocations of a line exchange maxima and weights through
// shared memory. With TIER_SUBGROUP a line is inside one subgroup and needs no barrier.
// Queries are widened to float32 when they are staged; keys and values when they are used, so that more workgroups fit.
// Tiles and blocks start at the image's first row, so the bits of an image do not depend on the other images of its batch.
#version 450
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_control_flow_attributes : require
#if TIER_SUBGROUP
#extension GL_KHR_shader_subgroup_basic : require
#extension GL_KHR_shader_subgroup_arithmetic : require
#endif
#include "common/interface.h"
#include "common/group.glsl"
#include "common/storage.glsl"
#include "common/math.glsl"
#include "common/seqlens.glsl"
#include "common/attention.glsl"

layout(constant_id = RVIT_ATTENTION_COLUMNS) const uint COLUMNS = 8;

// A unit is 16 bytes.
#if IN_F16
#define UNIT uvec4
#define UNIT_VEC4S 2
#define UNIT_AT(words, at) uvec4(words[at], words[(at) + 1])
vec4 unit_vec4(uvec4 unit, uint i)
{
    return half4_decode(i == 0 ? unit.xy : unit.zw, IN_BF16);
}
#else
#define UNIT vec4
#define UNIT_VEC4S 1
#define UNIT_AT(words, at) words[at]
vec4 unit_vec4(vec4 unit, uint i)
{
    return unit;
}
#endif

const uint ROWS = QUERIES * COLUMNS / THREADS; // a multiple of four
const uint LINES = THREADS / COLUMNS;
const uint LANE_KEYS = KEYS / COLUMNS;
const uint UNITS = D4 / UNIT_VEC4S;
const uint LANE_UNITS = (UNITS + COLUMNS - 1) / COLUMNS;
const uint LANE_VEC4S = LANE_UNITS * UNIT_VEC4S;
const uint FETCHES = (KEYS * UNITS + THREADS - 1) / THREADS;
// Odd, so that consecutive rows begin in different banks.
const uint Q_STEP = D4 | 1;
const uint KV_STEP = UNITS | 1;
const uint P_STEP = QUERIES / 4 | 1;
// Keys whose weights are exchanged at a time: one per invocation where synchronising is cheap, which saves shared memory.
#if TIER_SUBGROUP
const uint PASSED = COLUMNS;
#else
const uint PASSED = KEYS;
#endif

const float LOG2_E = 1.4426950408889634;
const float LN_2 = 0.6931471805599453;
const float NEVER = -3.4028234e38; // logit past the last key

layout(binding = 0) readonly buffer Q { IN_VEC4 q_words[]; };
layout(binding = 1) readonly buffer K { IN_VEC4 k_words[]; };
layout(binding = 2) readonly buffer V { IN_VEC4 v_words[]; };

shared vec4 q_tile[QUERIES * Q_STEP]; // [row of a line][line][d / 4]
shared UNIT k_tile[KEYS * KV_STEP];   // [key][unit]
shared UNIT v_tile[KEYS * KV_STEP];
shared vec4 p_tile[PASSED * P_STEP];  // [key][query / 4]
shared float key_added[KEYS];         // added to the logits of a key

void line_barrier()
{
#if TIER_SUBGROUP
    subgroupBarrier();
#else
    barrier();
#endif
}

// Offset of the tile's head in a row, in units of four elements.
uint head_at(attention_tile tile, uint row, int stride4)
{
    return (tile.image.begin + row) * uint(stride4) + tile.head * D4;
}

// Rows past the image's end are copies of its last row; their results are not stored.
void stage_queries(attention_tile tile)
{
    [[unroll]] for (uint f = 0; f < (QUERIES * UNITS + THREADS - 1) / THREADS; f++) {
        const uint i = f * THREADS + gl_LocalInvocationIndex;
        const uint query = i / UNITS;
        const uint row = min(tile.first_query + query, tile.image.len - 1);
        const uint at = uint(push.q_at) + head_at(tile, row, push.q_stride4) + i % UNITS * UNIT_VEC4S;
        const UNIT unit = UNIT_AT(q_words, at);
        if (i < QUERIES * UNITS)
            [[unroll]] for (uint j = 0; j < UNIT_VEC4S; j++)
                q_tile[(query % ROWS * LINES + query / ROWS) * Q_STEP + i % UNITS * UNIT_VEC4S + j] = unit_vec4(unit, j);
    }
}

// Loads the keys and values of a block. Rows past the image's end are copies of its last row and get weight 0.
void fetch(attention_tile tile, uint first_key, out UNIT k_next[FETCHES], out UNIT v_next[FETCHES])
{
    const uint last = tile.image.len - 1;
    [[unroll]] for (uint f = 0; f < FETCHES; f++) {
        const uint i = f * THREADS + gl_LocalInvocationIndex;
        const uint key = min(first_key + i / UNITS, last);
        const uint k_at = uint(push.k_at) + head_at(tile, key, push.k_stride4) + i % UNITS * UNIT_VEC4S;
        const uint v_at = uint(push.v_at) + head_at(tile, key, push.v_stride4) + i % UNITS * UNIT_VEC4S;
        k_next[f] = UNIT_AT(k_words, k_at);
        v_next[f] = UNIT_AT(v_words, v_at);
    }
}

void stage_block(attention_tile tile, uint first_key, UNIT k_next[FETCHES], UNIT v_next[FETCHES])
{
    barrier();
    [[unroll]] for (uint f = 0; f < FETCHES; f++) {
        const uint i = f * THREADS + gl_LocalInvocationIndex;
        if (i < KEYS * UNITS) {
            k_tile[i / UNITS * KV_STEP + i % UNITS] = k_next[f];
            v_tile[i / UNITS * KV_STEP + i % UNITS] = v_next[f];
        }
    }
    [[unroll]] for (uint f = 0; f < (KEYS + THREADS - 1) / THREADS; f++) {
        const uint i = f * THREADS + gl_LocalInvocationIndex;
        float value = NEVER;
        if (i < KEYS && first_key + i < tile.image.len)
            value = (FLAGS & RVIT_ATTENTION_HAS_BIAS) != 0 ? key_bias[uint(push.key_bias_at) + tile.image.begin + first_key + i] * LOG2_E
                                                           : 0.0;
        if (i < KEYS)
            key_added[i] = max(value, NEVER);
    }
    barrier();
}

// Logits in units of ln 2.
void find_logits(uint line, uint column, out float logits[ROWS][LANE_KEYS])
{
    [[unroll]] for (uint r = 0; r < ROWS; r++)
        [[unroll]] for (uint c = 0; c < LANE_KEYS; c++)
            logits[r][c] = 0.0;
    for (uint u = 0; u < UNITS; u++) {
        UNIT k[LANE_KEYS];
        [[unroll]] for (uint c = 0; c < LANE_KEYS; c++)
            k[c] = k_tile[(c * COLUMNS + column) * KV_STEP + u];
        [[unroll]] for (uint i = 0; i < UNIT_VEC4S; i++)
            [[unroll]] for (uint r = 0; r < ROWS; r++) {
                const vec4 q = q_tile[(r * LINES + line) * Q_STEP + u * UNIT_VEC4S + i];
                [[unroll]] for (uint c = 0; c < LANE_KEYS; c++) {
                    const vec4 value = unit_vec4(k[c], i);
                    logits[r][c] += q.x * value.x;
                    logits[r][c] += q.y * value.y;
                    logits[r][c] += q.z * value.z;
                    logits[r][c] += q.w * value.w;
                }
            }
    }
    [[unroll]] for (uint c = 0; c < LANE_KEYS; c++) {
        const float added = key_added[c * COLUMNS + column];
        [[unroll]] for (uint r = 0; r < ROWS; r++)
            logits[r][c] = fma(logits[r][c], push.scale * LOG2_E, added);
    }
}

void put_rows(uint slot, uint line, float values[ROWS])
{
    [[unroll]] for (uint r = 0; r < ROWS; r += 4)
        p_tile[slot * P_STEP + (line * ROWS + r) / 4] = vec4(values[r], values[r + 1], values[r + 2], values[r + 3]);
}

vec4 get_rows(uint slot, uint line, uint r)
{
    return p_tile[slot * P_STEP + (line * ROWS + r) / 4];
}

// Reductions over the invocations of a line.
void share_max(uint line, uint column, inout float values[ROWS])
{
    put_rows(column, line, values);
    line_barrier();
    [[unroll]] for (uint i = 0; i < COLUMNS; i++)
        [[unroll]] for (uint r = 0; r < ROWS; r++)
            values[r] = max(values[r], get_rows(i, line, r / 4 * 4)[r % 4]);
    line_barrier();
}

void share_sum(uint line, uint column, inout float values[ROWS])
{
    put_rows(column, line, values);
    line_barrier();
    [[unroll]] for (uint r = 0; r < ROWS; r++)
        values[r] = 0.0;
    [[unroll]] for (uint i = 0; i < COLUMNS; i++)
        [[unroll]] for (uint r = 0; r < ROWS; r++)
            values[r] += get_rows(i, line, r / 4 * 4)[r % 4];
    line_barrier();
}

// Stores the weights of the next keys in the slots: always the first elements, because an index into registers must be constant.
void pass_weights(uint line, uint column, inout float weights[ROWS][LANE_KEYS])
{
    const uint n = PASSED / COLUMNS;
    [[unroll]] for (uint c = 0; c < n; c++) {
        float values[ROWS];
        [[unroll]] for (uint r = 0; r < ROWS; r++)
            values[r] = weights[r][c];
        put_rows(c * COLUMNS + column, line, values);
    }
    [[unroll]] for (uint r = 0; r < ROWS; r++)
        [[unroll]] for (uint c = n; c < LANE_KEYS; c++)
            weights[r][c - n] = weights[r][c];
}

// Adds the weighted values of COLUMNS keys of the block; their weights begin at a slot.
void add_values(uint first, uint slot, uint line, uint column, inout vec4 sums[ROWS][LANE_VEC4S])
{
    [[unroll]] for (uint key = 0; key < COLUMNS; key++) {
        vec4 weights[ROWS / 4];
        [[unroll]] for (uint r = 0; r < ROWS; r += 4)
            weights[r / 4] = get_rows(slot + key, line, r);
        [[unroll]] for (uint n = 0; n < LANE_UNITS; n++) {
            const UNIT v = v_tile[(first + key) * KV_STEP + min(n * COLUMNS + column, UNITS - 1)];
            [[unroll]] for (uint i = 0; i < UNIT_VEC4S; i++) {
                const vec4 value = unit_vec4(v, i);
                [[unroll]] for (uint r = 0; r < ROWS; r++)
                    sums[r][n * UNIT_VEC4S + i] += weights[r / 4][r % 4] * value;
            }
        }
    }
}

void main()
{
    attention_tile tile;
    if (!find_tile(tile))
        return;
    const uint len = tile.image.len;
    const uint column = gl_LocalInvocationIndex % COLUMNS;
    const uint line = gl_LocalInvocationIndex / COLUMNS;
    const bool keeps_cls = (FLAGS & RVIT_ATTENTION_HAS_CLS_PROBS) != 0 && tile.first_query + line == 0;
#if TIER_SUBGROUP
    const bool has_rows = (FLAGS & RVIT_ATTENTION_TOGETHER) != 0 || tile.first_query + subgroupMin(line) * ROWS < len; // the subgroup
#else
    const bool has_rows = true;
#endif
    stage_queries(tile);

    vec4 sums[ROWS][LANE_VEC4S];
    float maximum[ROWS];
    float total[ROWS];
    [[unroll]] for (uint r = 0; r < ROWS; r++) {
        maximum[r] = 0.5 * NEVER;
        total[r] = 0.0;
        [[unroll]] for (uint n = 0; n < LANE_VEC4S; n++)
            sums[r][n] = vec4(0.0);
    }

    UNIT k_next[FETCHES];
    UNIT v_next[FETCHES];
    fetch(tile, 0, k_next, v_next);
    for (uint first_key = 0; first_key < len; first_key += KEYS) {
        stage_block(tile, first_key, k_next, v_next);
        fetch(tile, first_key + KEYS, k_next, v_next);
        if (!has_rows)
            continue;
        float logits[ROWS][LANE_KEYS];
        find_logits(line, column, logits);
        [[unroll]] for (uint c = 0; c < LANE_KEYS; c++)
            if (keeps_cls && first_key + c * COLUMNS + column < len)
                cls_probs[cls_probs_at(tile, first_key + c * COLUMNS + column)] = logits[0][c];

        float maximum_before[ROWS];
        [[unroll]] for (uint r = 0; r < ROWS; r++) {
            maximum_before[r] = maximum[r];
            [[unroll]] for (uint c = 0; c < LANE_KEYS; c++)
                maximum[r] = max(maximum[r], logits[r][c]);
        }
        share_max(line, column, maximum);
        [[unroll]] for (uint r = 0; r < ROWS; r++) {
            const float shrunk = exp2(maximum_before[r] - maximum[r]);
            total[r] *= shrunk;
            [[unroll]] for (uint n = 0; n < LANE_VEC4S; n++)
                sums[r][n] *= shrunk;
            [[unroll]] for (uint c = 0; c < LANE_KEYS; c++) {
                logits[r][c] = exp2(logits[r][c] - maximum[r]);
                total[r] += logits[r][c];
            }
        }
        const uint n_keys = min(KEYS, len - first_key);
        for (uint first = 0; first < n_keys; first += COLUMNS) {
            if (first % PASSED == 0) {
                pass_weights(line, column, logits);
                line_barrier();
            }
            add_values(first, first % PASSED, line, column, sums);
            if (PASSED < KEYS)
                line_barrier();
        }
    }

    share_sum(line, column, total);
    [[unroll]] for (uint r = 0; r < ROWS; r++) {
        const uint query = tile.first_query + line * ROWS + r;
        const float inverse = inverse_total(total[r]);
        if (query < len) {
            [[unroll]] for (uint n = 0; n < LANE_VEC4S; n++) {
                const uint d4 = (n / UNIT_VEC4S * COLUMNS + column) * UNIT_VEC4S + n % UNIT_VEC4S;
                if (d4 < D4)
                    store_out(tile, query, d4, sums[r][n] * inverse);
            }
            if ((FLAGS & RVIT_ATTENTION_HAS_LSE) != 0 && column == 0)
                store_lse(tile, query, maximum[r] * LN_2, total[r]);
        }
    }
    if (keeps_cls)
        for (uint key = column; key < len; key += COLUMNS) {
            const uint at = cls_probs_at(tile, key); // written by this invocation
            cls_probs[at] = exp2(cls_probs[at] - maximum[0]) * inverse_total(total[0]);
        }
}

// Ragged attention with cooperative matrices: a subgroup takes MATRIX_M queries of one head of one image. The subgroups of a workgroup
// share the keys and values of a block in shared memory, while the next block is prefetched into registers.
// The driver decides which lane holds which element of a matrix. Per-row values are therefore matrices with equal elements along each row:
// the reference that exponents are relative to, loaded from one number per row, and the sum of the weights, computed by multiplying with
// ones. Logits become weights in place.
// A row's reference is the maximum of its first block of keys. If a row turns out to have a logit more than SLACK above it, the whole
// workgroup computes its sums again with the true maxima: a branch that rescaled sums in the loop would cost more than it saves.
// Every subgroup reaches every barrier, including subgroup barriers. Tiles and blocks start at the image's first row, so an image's bits do
// not depend on the other images of its batch, nor a row's bits on the other rows of its tile.
#version 450
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_control_flow_attributes : require
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
const uint UNITS = KEYS * D8; // of a block's keys, and the same number of its values
const uint FETCHES = (UNITS + THREADS - 1) / THREADS;
const uint BLOCK = 2 * KEYS * STEP8;
const uint STAGED = 2 * BLOCK > QUERIES * STEP8 ? 2 * BLOCK : QUERIES * STEP8;
const uint Q_PARTS = HEAD_DIM / MATRIX_K;
const uint OUT_PARTS = HEAD_DIM / MATRIX_N;
const uint KEY_PARTS = KEYS / MATRIX_N;
const uint WEIGHT_PARTS = KEYS / MATRIX_K;
// Each subgroup's shared memory: weights, MATRIX_M rows of KEYS, or a matrix of floats. A unit of padding avoids bank conflicts of rows.
const uint WEIGHT_STEP = KEYS / 8 + 1;
const uint SUM_STEP = MATRIX_N / 4 + 1;
#if MATRIX_BF16 // a matrix of floats is rounded to weights, which are stored behind it
const uint WEIGHTS_AT = MATRIX_M * SUM_STEP;
const uint OWN = MATRIX_M * (WEIGHT_STEP + SUM_STEP);
#else
const uint WEIGHTS_AT = 0;
const uint OWN = MATRIX_M * (WEIGHT_STEP > SUM_STEP ? WEIGHT_STEP : SUM_STEP);
#endif
// For accesses to single rows: ROW_LANES lanes per row, and as many rows at a time as there are lanes for.
const uint ROW_LANES = SUBGROUP > MATRIX_M ? SUBGROUP / MATRIX_M : 1;
const uint ROW_STEP = SUBGROUP / ROW_LANES;
const uint PASSES = MATRIX_M / ROW_STEP;

const bool HAS_BIAS = (FLAGS & RVIT_ATTENTION_HAS_BIAS) != 0;
const bool HAS_CLS_PROBS = (FLAGS & RVIT_ATTENTION_HAS_CLS_PROBS) != 0;
const bool HAS_LSE = (FLAGS & RVIT_ATTENTION_HAS_LSE) != 0;
const float LOG2_E = 1.4426950408889634;
const float LN_2 = 0.6931471805599453;
const float SLACK = 15.0;          // 2^15 fits in a half
const float NEVER = -3.4028234e38; // the logit of a missing key

layout(binding = 0) readonly buffer Q { uvec4 q_units[]; };
layout(binding = 1) readonly buffer K { uvec4 k_units[]; };
layout(binding = 2) readonly buffer V { uvec4 v_units[]; };

shared uvec4 staged[STAGED];                   // two blocks of keys and then values, [row][d / 8]; outside the loop, queries or results
shared uvec4 own[SUBGROUPS * OWN];
shared float row_values[SUBGROUPS * MATRIX_M]; // one for each row of a matrix
shared float key_values[2 * KEYS];             // two blocks of what is added to the logits of the keys
shared uint outgrown;

// Offset of the tile's head in a row, in units of eight elements.
uint head_at(attention_tile tile, uint row, int stride4)
{
    return (tile.image.begin + row) * (uint(stride4) / 2) + tile.head * D8;
}

// Fetches the keys and values of a block. Rows past the image's end count as zeros.
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

void stage(uint block_at, uvec4 k_next[FETCHES], uvec4 v_next[FETCHES])
{
    [[unroll]] for (uint i = 0; i < FETCHES; i++) {
        const uint unit = i * THREADS + gl_LocalInvocationIndex;
        if (unit < UNITS) {
            const uint at = block_at + unit / D8 * STEP8 + unit % D8;
            staged[at] = k_next[i];
            staged[KEYS * STEP8 + at] = v_next[i];
        }
    }
}

void stage_key_values(attention_tile tile, uint first_key)
{
    for (uint i = gl_LocalInvocationIndex; i < KEYS; i += THREADS) {
        float value = NEVER;
        if (first_key + i < tile.image.len)
            value = HAS_BIAS ? key_bias[uint(push.key_bias_at) + tile.image.begin + first_key + i] * LOG2_E : 0.0;
        key_values[first_key / KEYS % 2 * KEYS + i] = max(value, NEVER);
    }
}

// The largest element of the lane's i-th row of a matrix in the subgroup's own memory; then their sum.
float largest_of_row(uint own_at, uint i)
{
    float largest = NEVER;
    for (uint u = gl_SubgroupInvocationID % ROW_LANES; u < MATRIX_N / 4; u += ROW_LANES) {
        const vec4 four = uintBitsToFloat(own[own_at + (gl_SubgroupInvocationID / ROW_LANES + i * ROW_STEP) * SUM_STEP + u]);
        largest = max(largest, max(max(four.x, four.y), max(four.z, four.w)));
    }
    [[unroll]] for (uint step = 1; step < ROW_LANES; step *= 2)
        largest = max(largest, subgroupShuffleXor(largest, step));
    return largest;
}

float sum_of_row(uint own_at, uint i)
{
    float sum = 0.0;
    for (uint u = gl_SubgroupInvocationID % ROW_LANES; u < MATRIX_N / 4; u += ROW_LANES) {
        const vec4 four = uintBitsToFloat(own[own_at + (gl_SubgroupInvocationID / ROW_LANES + i * ROW_STEP) * SUM_STEP + u]);
        sum += (four.x + four.y) + (four.z + four.w);
    }
    [[unroll]] for (uint step = 1; step < ROW_LANES; step *= 2)
        sum += subgroupShuffleXor(sum, step);
    return sum;
}

#if MATRIX_BF16
const uint N8 = MATRIX_N / 8;

// Unit i, in row-major order, of the matrix of floats in the subgroup's own memory, rounded to bf16.
uvec4 rounded_unit(uint own_at, uint i)
{
    const uint at = own_at + i / N8 * SUM_STEP + i % N8 * 2;
    return uvec4(half4_encode(uintBitsToFloat(own[at]), true), half4_encode(uintBitsToFloat(own[at + 1]), true));
}
#endif

void main()
{
    attention_tile tile;
    if (!find_tile(tile))
        return;
    const uint len = tile.image.len;
    const uint first_row = gl_SubgroupID * MATRIX_M; // of the subgroup, in the tile
    const bool keeps_cls = HAS_CLS_PROBS && tile.first_query + first_row == 0;
    const uint own_at = gl_SubgroupID * OWN;
    const uint row_at = gl_SubgroupID * MATRIX_M;
    const uint line = gl_SubgroupInvocationID / ROW_LANES;
    const float log_scale = max(abs(push.scale) * LOG2_E, 1e-30); // NEVER times it is far below any logit
    const float scale = HAS_BIAS ? 1.0 : log_scale;               // of logits after the bias is added
    const float min_reference = 0.5 * NEVER * scale;
    const uint sign = push.scale < 0.0 ? 0x80008000u : 0;

    for (uint i = gl_LocalInvocationIndex; i < QUERIES * D8; i += THREADS) {
        const uint query = tile.first_query + i / D8;
        staged[i / D8 * STEP8 + i % D8] =
            query < len ? q_units[uint(push.q_at) + head_at(tile, query, push.q_stride4) + i % D8] ^ sign : uvec4(0);
    }
    if (gl_LocalInvocationIndex == 0)
        outgrown = 0;
    barrier();
    MATRIX_A q[Q_PARTS];
    [[unroll]] for (uint d = 0; d < Q_PARTS; d++)
        coopMatLoad(q[d], staged, first_row * STEP8 + d * MATRIX_K / 8, STEP8, ROW_MAJOR);

    MATRIX_SUM results[OUT_PARTS];
    MATRIX_SUM total; // of the rounded weights, the same in each column
    MATRIX_SUM exact; // of the unrounded weights, to be added up along rows
    MATRIX_SUM reference;
    float row_reference[PASSES];
    for (uint attempt = 0; attempt < 2; attempt++) {
        uvec4 k_next[FETCHES];
        uvec4 v_next[FETCHES];
        fetch(tile, 0, k_next, v_next);
        [[unroll]] for (uint d = 0; d < OUT_PARTS; d++)
            results[d] = MATRIX_SUM(0.0);
        total = MATRIX_SUM(0.0);
        exact = MATRIX_SUM(0.0);
        MATRIX_SUM peak = MATRIX_SUM(NEVER);
        barrier();
        stage(0, k_next, v_next);
        stage_key_values(tile, 0);
        barrier();

        for (uint first_key = 0; first_key < len; first_key += KEYS) {
            const uint parity = first_key / KEYS % 2;
            const uint block_at = parity * BLOCK;
            const bool is_last = first_key + KEYS >= len;
            if (!is_last)
                fetch(tile, first_key + KEYS, k_next, v_next);

            MATRIX_SUM logits[KEY_PARTS];
            [[unroll]] for (uint c = 0; c < KEY_PARTS; c++) {
                if (HAS_BIAS)
                    logits[c] = MATRIX_SUM(0.0);
                else
                    coopMatLoad(logits[c], key_values, parity * KEYS + c * MATRIX_N, 0, ROW_MAJOR);
                [[unroll]] for (uint d = 0; d < Q_PARTS; d++) {
                    MATRIX_B k;
                    coopMatLoad(k, staged, block_at + c * MATRIX_N * STEP8 + d * MATRIX_K / 8, STEP8, COLUMN_MAJOR);
                    logits[c] = coopMatMulAdd(q[d], k, logits[c]);
                }
                if (HAS_BIAS) { // rounds only once; accumulating in the GEMM would round at every step
                    MATRIX_SUM added;
                    coopMatLoad(added, key_values, parity * KEYS + c * MATRIX_N, 0, ROW_MAJOR);
                    for (int i = 0; i < added.length(); i++)
                        logits[c][i] = fma(logits[c][i], log_scale, added[i]);
                }
            }
            for (int i = 0; i < peak.length(); i++)
                [[unroll]] for (uint c = 0; c < KEY_PARTS; c++)
                    peak[i] = max(peak[i], logits[c][i]);
            if (HAS_CLS_PROBS)
                [[unroll]] for (uint c = 0; c < KEY_PARTS; c++) {
                    coopMatStore(logits[c], own, own_at, SUM_STEP, ROW_MAJOR);
                    subgroupBarrier();
                    for (uint key = gl_SubgroupInvocationID; key < MATRIX_N; key += SUBGROUP)
                        if (keeps_cls && first_key + c * MATRIX_N + key < len)
                            cls_probs[cls_probs_at(tile, first_key + c * MATRIX_N + key)] =
                                uintBitsToFloat(own[own_at + key / 4][key % 4]);
                    subgroupBarrier();
                }
            if (attempt == 0 && first_key == 0) {
                coopMatStore(peak, own, own_at, SUM_STEP, ROW_MAJOR);
                subgroupBarrier();
                [[unroll]] for (uint i = 0; i < PASSES; i++) {
                    row_reference[i] = max(largest_of_row(own_at, i) * scale, min_reference);
                    row_values[row_at + line + i * ROW_STEP] = row_reference[i];
                }
                subgroupBarrier();
                coopMatLoad(reference, row_values, row_at, 0, COLUMN_MAJOR);
                subgroupBarrier();
            }

            [[unroll]] for (uint c = 0; c < KEY_PARTS; c++) {
                for (int i = 0; i < logits[c].length(); i++) {
                    logits[c][i] = exp2(fma(logits[c][i], scale, -reference[i]));
                    if (HAS_CLS_PROBS || HAS_LSE)
                        exact[i] += logits[c][i];
                }
#if MATRIX_BF16
                coopMatStore(logits[c], own, own_at, SUM_STEP, ROW_MAJOR);
                subgroupBarrier();
                for (uint i = gl_SubgroupInvocationID; i < MATRIX_M * N8; i += SUBGROUP)
                    own[own_at + WEIGHTS_AT + i / N8 * WEIGHT_STEP + c * N8 + i % N8] = rounded_unit(own_at, i);
                subgroupBarrier();
#else
                coopMatStore(MATRIX_HALF(logits[c]), own, own_at + c * MATRIX_N / 8, WEIGHT_STEP, ROW_MAJOR);
#endif
            }
            subgroupBarrier();
            [[unroll]] for (uint c = 0; c < WEIGHT_PARTS; c++) {
                MATRIX_A weights;
                coopMatLoad(weights, own, own_at + WEIGHTS_AT + c * MATRIX_K / 8, WEIGHT_STEP, ROW_MAJOR);
                total = coopMatMulAdd(weights, MATRIX_B(MATRIX_ELEMENT(1.0)), total);
                [[unroll]] for (uint d = 0; d < OUT_PARTS; d++) {
                    MATRIX_B v;
                    coopMatLoad(v, staged, block_at + (KEYS + c * MATRIX_K) * STEP8 + d * MATRIX_N / 8, STEP8, ROW_MAJOR);
                    results[d] = coopMatMulAdd(weights, v, results[d]);
                }
            }
            if (!is_last) {
                stage(BLOCK - block_at, k_next, v_next);
                stage_key_values(tile, first_key + KEYS);
            }
            barrier();
        }

        coopMatStore(peak, own, own_at, SUM_STEP, ROW_MAJOR);
        subgroupBarrier();
        bool again = false;
        [[unroll]] for (uint i = 0; i < PASSES; i++) {
            const float largest = largest_of_row(own_at, i) * scale;
            if (largest > row_reference[i] + SLACK) {
                row_reference[i] = largest;
                again = true;
            }
            row_values[row_at + line + i * ROW_STEP] = row_reference[i];
        }
        if (again)
            outgrown = 1;
        barrier();
        coopMatLoad(reference, row_values, row_at, 0, COLUMN_MAJOR);
        if (outgrown == 0)
            break;
    }

    // Results are stored through the shared memory of keys and values, which is no longer needed.
    for (int i = 0; i < total.length(); i++)
        total[i] = total[i] == 0.0 ? 0.0 : 1.0 / total[i];
    [[unroll]] for (uint d = 0; d < OUT_PARTS; d++) {
#if MATRIX_BF16
        coopMatStore(results[d] * total, own, own_at, SUM_STEP, ROW_MAJOR);
        subgroupBarrier();
        for (uint i = gl_SubgroupInvocationID; i < MATRIX_M * N8; i += SUBGROUP)
            staged[(first_row + i / N8) * STEP8 + d * N8 + i % N8] = rounded_unit(own_at, i);
        subgroupBarrier();
#else
        coopMatStore(MATRIX_HALF(results[d] * total), staged, first_row * STEP8 + d * MATRIX_N / 8, STEP8, ROW_MAJOR);
#endif
    }
    subgroupBarrier();
    const uint n_queries = min(MATRIX_M, max(len - tile.first_query, first_row) - first_row);
    for (uint i = gl_SubgroupInvocationID; i < n_queries * D8; i += SUBGROUP) {
        const uvec4 unit = staged[(first_row + i / D8) * STEP8 + i % D8];
        const uint at = uint(push.out_at) + (tile.image.begin + tile.first_query + first_row + i / D8) * uint(push.out_stride4) +
                        tile.head * D4 + i % D8 * 2;
        out_words[at] = unit.xy;
        out_words[at + 1] = unit.zw;
    }

    if (!HAS_CLS_PROBS && !HAS_LSE)
        return;
    coopMatStore(exact, own, own_at, SUM_STEP, ROW_MAJOR);
    subgroupBarrier();
    [[unroll]] for (uint i = 0; i < PASSES; i++) {
        const uint row = line + i * ROW_STEP;
        const float sum = sum_of_row(own_at, i);
        if (gl_SubgroupInvocationID % ROW_LANES == 0) {
            if (HAS_LSE && row < n_queries)
                store_lse(tile, tile.first_query + first_row + row, row_reference[i] * LN_2, sum);
            if (HAS_CLS_PROBS && row == 0) {
                row_values[row_at] = sum;
                row_values[row_at + 1] = row_reference[i];
            }
        }
    }
    subgroupBarrier();
    if (keeps_cls)
        for (uint first_key = 0; first_key < len; first_key += MATRIX_N)
            for (uint key = gl_SubgroupInvocationID; key < min(MATRIX_N, len - first_key); key += SUBGROUP) {
                const uint at = cls_probs_at(tile, first_key + key); // stored there by this lane
                const float weight = exp2(fma(cls_probs[at], scale, -row_values[row_at + 1]));
                cls_probs[at] = row_values[row_at] == 0.0 ? 0.0 : weight / row_values[row_at];
            }
}

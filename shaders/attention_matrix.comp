// Ragged attention by cooperative matrices: a subgroup takes ROWS matrices of MATRIX_M queries of one head of one image, so that each
// operand of keys or values that it loads feeds as many products. A group's subgroups share the keys and values of a block in shared
// memory, while the next block is fetched into registers.
// Which element of a matrix lies in which lane is the driver's own, so that what belongs to a row is a matrix equal along each row: the
// reference that exponents are taken relative to, loaded from one number a row, and the sum of the weights, a product with ones. Logits
// become weights in place, and weights an operand by way of shared memory, unless operands are known to lie as sums do (IN_PLACE).
// A row's reference is the maximum of its first block of keys. A row that has a logit more than SLACK above it by the end is summed up
// anew with its true maximum, its group with it: a branch that rescaled sums in the loop would cost more than it saves.
// Every subgroup meets every barrier, those of subgroups too. Tiles and blocks start at the image's first row, so an image's bits do not
// depend on its batch mates; nor do a row's on those it shares a tile with.
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

layout(constant_id = RVIT_ATTENTION_MATRIX_ROWS) const uint ROWS = 1;
const uint D8 = HEAD_DIM / 8;
const uint STEP8 = D8 + 1;
const uint UNITS = KEYS * D8; // of a block's keys, and as many of its values
const uint FETCHES = (UNITS + THREADS - 1) / THREADS;
const uint BLOCK = 2 * KEYS * STEP8;
const uint STAGED = 2 * BLOCK > QUERIES * STEP8 ? 2 * BLOCK : QUERIES * STEP8;
const uint Q_PARTS = HEAD_DIM / MATRIX_K;
const uint OUT_PARTS = HEAD_DIM / MATRIX_N;
const uint KEY_PARTS = KEYS / MATRIX_N;
const uint WEIGHT_PARTS = KEYS / MATRIX_K;
// A subgroup's own shared memory: weights, MATRIX_M rows of KEYS, or a matrix of floats. One unit more keeps rows below each
// other in different banks.
const uint WEIGHT_STEP = KEYS / 8 + 1;
const uint SUM_STEP = MATRIX_N / 4 + 1;
#if MATRIX_BF16 // a matrix of floats is rounded from there to weights, which lie behind it
const uint WEIGHTS_AT = MATRIX_M * SUM_STEP;
const uint OWN = MATRIX_M * (WEIGHT_STEP + SUM_STEP);
#else
const uint WEIGHTS_AT = 0;
const uint OWN = MATRIX_M * (WEIGHT_STEP > SUM_STEP ? WEIGHT_STEP : SUM_STEP);
#endif
// Where rows are looked at one by one: ROW_LANES lanes a row, and as many rows at a time as there are lanes for.
const uint ROW_LANES = SUBGROUP > MATRIX_M ? SUBGROUP / MATRIX_M : 1;
const uint ROW_STEP = SUBGROUP / ROW_LANES;
const uint PASSES = MATRIX_M / ROW_STEP;

const bool IN_FLIGHT = (FLAGS & RVIT_ATTENTION_IN_FLIGHT) != 0;
const bool IN_PLACE = (FLAGS & RVIT_ATTENTION_IN_PLACE) != 0;
const uint OWN_ROWS = IN_PLACE ? 1 : ROWS; // matrices that have such a part at once
const bool HAS_BIAS = (FLAGS & RVIT_ATTENTION_HAS_BIAS) != 0;
const bool HAS_CLS_PROBS = (FLAGS & RVIT_ATTENTION_HAS_CLS_PROBS) != 0;
const bool HAS_LSE = (FLAGS & RVIT_ATTENTION_HAS_LSE) != 0;
const float LOG2_E = 1.4426950408889634;
const float LN_2 = 0.6931471805599453;
const float SLACK = 15.0;          // 2^15 is a half
const float NEVER = -3.4028234e38; // the logit of what is no key

layout(binding = RVIT_ATTENTION_Q) readonly buffer Q { uvec4 q_units[]; };
layout(binding = RVIT_ATTENTION_K) readonly buffer K { uvec4 k_units[]; };
layout(binding = RVIT_ATTENTION_V) readonly buffer V { uvec4 v_units[]; };

shared uvec4 staged[STAGED];                   // two blocks, each keys and, below them, values: [row][d / 8]; before and after, rows
shared uvec4 own[SUBGROUPS * OWN_ROWS * OWN];
shared float row_values[QUERIES];              // one for each row of a matrix
shared float key_values[2 * KEYS];             // twice: what is added to the logits of a block's keys
shared uint outgrown;

// Where a row's part for the tile's head begins, in units of eight.
uint head_at(attention_tile tile, uint row, int stride4)
{
    return (tile.image.begin + row) * (uint(stride4) / 2) + tile.head * D8;
}

// Keys and values of a block. Rows past the image's end count as zeros. NVIDIA's compiler waits for a load in a branch, or one that may be
// left out, at once; with IN_FLIGHT there is neither, and the image's last row is fetched again.
void fetch(attention_tile tile, uint first_key, out uvec4 k_next[FETCHES], out uvec4 v_next[FETCHES])
{
    [[unroll]] for (uint i = 0; i < FETCHES; i++) {
        const uint unit = i * THREADS + gl_LocalInvocationIndex;
        const uint wanted = first_key + unit / D8;
        const uint key = IN_FLIGHT ? min(wanted, tile.image.len - 1) : wanted;
        const bool inside = IN_FLIGHT || (unit < UNITS && key < tile.image.len);
        k_next[i] = inside ? k_units[uint(push.k_at) + head_at(tile, key, push.k_stride4) + unit % D8] : uvec4(0);
        v_next[i] = inside ? v_units[uint(push.v_at) + head_at(tile, key, push.v_stride4) + unit % D8] : uvec4(0);
    }
}

void stage(attention_tile tile, uint first_key, uvec4 k_next[FETCHES], uvec4 v_next[FETCHES])
{
    const bool is_whole = !IN_FLIGHT || first_key + KEYS <= tile.image.len;
    [[unroll]] for (uint i = 0; i < FETCHES; i++) {
        const uint unit = i * THREADS + gl_LocalInvocationIndex;
        const uint at = first_key / KEYS % 2 * BLOCK + unit / D8 * STEP8 + unit % D8;
        if (unit < UNITS) {
            staged[at] = k_next[i];
            staged[KEYS * STEP8 + at] = v_next[i];
        }
        if (!is_whole && unit < UNITS && first_key + unit / D8 >= tile.image.len) {
            staged[at] = uvec4(0);
            staged[KEYS * STEP8 + at] = uvec4(0);
        }
    }
}

void stage_key_values(attention_tile tile, uint first_key)
{
    [[unroll]] for (uint first = 0; first < KEYS; first += THREADS) {
        const uint i = first + gl_LocalInvocationIndex;
        float value = NEVER;
        if (i < KEYS && first_key + i < tile.image.len)
            value = HAS_BIAS ? key_bias[uint(push.key_bias_at) + tile.image.begin + first_key + i] * LOG2_E : 0.0;
        if (i < KEYS)
            key_values[first_key / KEYS % 2 * KEYS + i] = max(value, NEVER);
    }
}

// The largest element of the lane's i-th row of a matrix in the subgroup's own memory; then their sum.
float largest_of_row(uint own_at, uint i)
{
    float most = NEVER;
    for (uint u = gl_SubgroupInvocationID % ROW_LANES; u < MATRIX_N / 4; u += ROW_LANES) {
        const vec4 four = uintBitsToFloat(own[own_at + (gl_SubgroupInvocationID / ROW_LANES + i * ROW_STEP) * SUM_STEP + u]);
        most = max(most, max(max(four.x, four.y), max(four.z, four.w)));
    }
    [[unroll]] for (uint step = 1; step < ROW_LANES; step *= 2)
        most = max(most, subgroupShuffleXor(most, step));
    return most;
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

// Unit i, along rows, of the matrix of floats in the subgroup's own memory, rounded.
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
    const uint first_row = gl_SubgroupID * ROWS * MATRIX_M; // of the subgroup, in the tile
    const bool keeps_cls = HAS_CLS_PROBS && tile.first_query + first_row == 0;
    const uint own_at = gl_SubgroupID * OWN_ROWS * OWN;
    const uint line = gl_SubgroupInvocationID / ROW_LANES;
    const float log_scale = max(abs(push.scale) * LOG2_E, 1e-30); // NEVER times it is far below any logit
    const float scale = HAS_BIAS ? 1.0 : log_scale;               // of logits that have been added to
    const float least = 0.5 * NEVER * scale;                      // of references
    const uint sign = push.scale < 0.0 ? 0x80008000u : 0;

    for (uint i = gl_LocalInvocationIndex; i < QUERIES * D8; i += THREADS) {
        const uint query = tile.first_query + i / D8;
        staged[i / D8 * STEP8 + i % D8] =
            query < len ? q_units[uint(push.q_at) + head_at(tile, query, push.q_stride4) + i % D8] ^ sign : uvec4(0);
    }
    if (gl_LocalInvocationIndex == 0)
        outgrown = 0;
    barrier();
    MATRIX_A q[ROWS * Q_PARTS];
    [[unroll]] for (uint r = 0; r < ROWS; r++)
        [[unroll]] for (uint d = 0; d < Q_PARTS; d++)
            coopMatLoad(q[r * Q_PARTS + d], staged, (first_row + r * MATRIX_M) * STEP8 + d * MATRIX_K / 8, STEP8, ROW_MAJOR);

    MATRIX_SUM results[ROWS * OUT_PARTS];
    MATRIX_SUM total[ROWS]; // of the weights as rounded, the same in each column
    MATRIX_SUM exact[ROWS]; // of the weights, to be added up along rows
    MATRIX_SUM reference[ROWS];
    float row_reference[ROWS * PASSES];
    for (uint attempt = 0; attempt < 2; attempt++) {
        uvec4 k_next[FETCHES];
        uvec4 v_next[FETCHES];
        fetch(tile, 0, k_next, v_next);
        [[unroll]] for (uint d = 0; d < ROWS * OUT_PARTS; d++)
            results[d] = MATRIX_SUM(0.0);
        MATRIX_SUM peak[ROWS];
        [[unroll]] for (uint r = 0; r < ROWS; r++) {
            total[r] = MATRIX_SUM(0.0);
            exact[r] = MATRIX_SUM(0.0);
            peak[r] = MATRIX_SUM(NEVER);
        }
        barrier();
        stage(tile, 0, k_next, v_next);
        stage_key_values(tile, 0);
        barrier();

        for (uint first_key = 0; first_key < len; first_key += KEYS) {
            const uint parity = first_key / KEYS % 2;
            const uint block_at = parity * BLOCK;
            const bool fetches = IN_FLIGHT || first_key + KEYS < len;
            if (fetches)
                fetch(tile, first_key + KEYS, k_next, v_next);

            MATRIX_SUM logits[ROWS * KEY_PARTS];
            [[unroll]] for (uint c = 0; c < KEY_PARTS; c++) {
                MATRIX_SUM added;
                coopMatLoad(added, key_values, parity * KEYS + c * MATRIX_N, 0, ROW_MAJOR);
                [[unroll]] for (uint r = 0; r < ROWS; r++)
                    if (HAS_BIAS)
                        logits[r * KEY_PARTS + c] = MATRIX_SUM(0.0);
                    else
                        logits[r * KEY_PARTS + c] = added;
                [[unroll]] for (uint d = 0; d < Q_PARTS; d++) {
                    MATRIX_B k;
                    coopMatLoad(k, staged, block_at + c * MATRIX_N * STEP8 + d * MATRIX_K / 8, STEP8, COLUMN_MAJOR);
                    [[unroll]] for (uint r = 0; r < ROWS; r++)
                        logits[r * KEY_PARTS + c] = coopMatMulAdd(q[r * Q_PARTS + d], k, logits[r * KEY_PARTS + c]);
                }
                if (HAS_BIAS) // rounded but once: in the product it would be at every step
                    [[unroll]] for (uint r = 0; r < ROWS; r++)
                        for (int i = 0; i < added.length(); i++)
                            logits[r * KEY_PARTS + c][i] = fma(logits[r * KEY_PARTS + c][i], log_scale, added[i]);
            }
            [[unroll]] for (uint r = 0; r < ROWS; r++)
                for (int i = 0; i < peak[r].length(); i++)
                    [[unroll]] for (uint c = 0; c < KEY_PARTS; c++)
                        peak[r][i] = max(peak[r][i], logits[r * KEY_PARTS + c][i]);
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
            if (attempt == 0 && first_key == 0)
                [[unroll]] for (uint r = 0; r < ROWS; r++) {
                    const uint row_at = first_row + r * MATRIX_M;
                    coopMatStore(peak[r], own, own_at, SUM_STEP, ROW_MAJOR);
                    subgroupBarrier();
                    [[unroll]] for (uint i = 0; i < PASSES; i++) {
                        row_reference[r * PASSES + i] = max(largest_of_row(own_at, i) * scale, least);
                        row_values[row_at + line + i * ROW_STEP] = row_reference[r * PASSES + i];
                    }
                    subgroupBarrier();
                    coopMatLoad(reference[r], row_values, row_at, 0, COLUMN_MAJOR);
                    subgroupBarrier();
                }

            MATRIX_A weights[ROWS * WEIGHT_PARTS];
            [[unroll]] for (uint r = 0; r < ROWS; r++) {
                const uint weights_at = own_at + r % OWN_ROWS * OWN;
                [[unroll]] for (uint c = 0; c < KEY_PARTS; c++) {
                    const uint at = r * KEY_PARTS + c;
                    for (int i = 0; i < logits[at].length(); i++) {
                        logits[at][i] = exp2(fma(logits[at][i], scale, -reference[r][i]));
                        if (HAS_CLS_PROBS || HAS_LSE)
                            exact[r][i] += logits[at][i];
                    }
#if MATRIX_BF16
                    coopMatStore(logits[at], own, weights_at, SUM_STEP, ROW_MAJOR);
                    subgroupBarrier();
                    for (uint i = gl_SubgroupInvocationID; i < MATRIX_M * N8; i += SUBGROUP)
                        own[weights_at + WEIGHTS_AT + i / N8 * WEIGHT_STEP + c * N8 + i % N8] = rounded_unit(weights_at, i);
                    subgroupBarrier();
#else
                    const MATRIX_HALF rounded = MATRIX_HALF(logits[at]);
                    if (IN_PLACE)
                        for (int i = 0; i < rounded.length(); i++)
                            weights[r * WEIGHT_PARTS + c % WEIGHT_PARTS][i] = rounded[i];
                    else
                        coopMatStore(rounded, own, weights_at + c * MATRIX_N / 8, WEIGHT_STEP, ROW_MAJOR);
#endif
                }
            }
            if (!IN_PLACE) {
                subgroupBarrier();
                [[unroll]] for (uint r = 0; r < ROWS; r++)
                    [[unroll]] for (uint c = 0; c < WEIGHT_PARTS; c++)
                        coopMatLoad(weights[r * WEIGHT_PARTS + c], own, own_at + r % OWN_ROWS * OWN + WEIGHTS_AT + c * MATRIX_K / 8,
                                    WEIGHT_STEP, ROW_MAJOR);
            }
            [[unroll]] for (uint c = 0; c < WEIGHT_PARTS; c++) {
                [[unroll]] for (uint r = 0; r < ROWS; r++)
                    total[r] = coopMatMulAdd(weights[r * WEIGHT_PARTS + c], MATRIX_B(MATRIX_ELEMENT(1.0)), total[r]);
                [[unroll]] for (uint d = 0; d < OUT_PARTS; d++) {
                    MATRIX_B v;
                    coopMatLoad(v, staged, block_at + (KEYS + c * MATRIX_K) * STEP8 + d * MATRIX_N / 8, STEP8, ROW_MAJOR);
                    [[unroll]] for (uint r = 0; r < ROWS; r++)
                        results[r * OUT_PARTS + d] = coopMatMulAdd(weights[r * WEIGHT_PARTS + c], v, results[r * OUT_PARTS + d]);
                }
            }
            if (fetches) {
                stage(tile, first_key + KEYS, k_next, v_next);
                stage_key_values(tile, first_key + KEYS);
            }
            barrier();
        }

        bool again = false;
        [[unroll]] for (uint r = 0; r < ROWS; r++) {
            coopMatStore(peak[r], own, own_at, SUM_STEP, ROW_MAJOR);
            subgroupBarrier();
            [[unroll]] for (uint i = 0; i < PASSES; i++) {
                const float most = largest_of_row(own_at, i) * scale;
                if (most > row_reference[r * PASSES + i] + SLACK) {
                    row_reference[r * PASSES + i] = most;
                    again = true;
                }
                row_values[first_row + r * MATRIX_M + line + i * ROW_STEP] = row_reference[r * PASSES + i];
            }
            subgroupBarrier();
        }
        if (again)
            outgrown = 1;
        barrier();
        [[unroll]] for (uint r = 0; r < ROWS; r++)
            coopMatLoad(reference[r], row_values, first_row + r * MATRIX_M, 0, COLUMN_MAJOR);
        if (outgrown == 0)
            break;
    }

    // Results leave by way of the memory of keys and values, which nobody needs any more.
    [[unroll]] for (uint r = 0; r < ROWS; r++) {
        const uint row_at = first_row + r * MATRIX_M;
        for (int i = 0; i < total[r].length(); i++)
            total[r][i] = total[r][i] == 0.0 ? 0.0 : 1.0 / total[r][i];
        [[unroll]] for (uint d = 0; d < OUT_PARTS; d++) {
            const MATRIX_SUM divided = results[r * OUT_PARTS + d] * total[r];
#if MATRIX_BF16
            coopMatStore(divided, own, own_at, SUM_STEP, ROW_MAJOR);
            subgroupBarrier();
            for (uint i = gl_SubgroupInvocationID; i < MATRIX_M * N8; i += SUBGROUP)
                staged[(row_at + i / N8) * STEP8 + d * N8 + i % N8] = rounded_unit(own_at, i);
            subgroupBarrier();
#else
            coopMatStore(MATRIX_HALF(divided), staged, row_at * STEP8 + d * MATRIX_N / 8, STEP8, ROW_MAJOR);
#endif
        }
    }
    subgroupBarrier();
    const uint n_queries = min(ROWS * MATRIX_M, max(len - tile.first_query, first_row) - first_row);
    for (uint i = gl_SubgroupInvocationID; i < n_queries * D8; i += SUBGROUP) {
        const uvec4 unit = staged[(first_row + i / D8) * STEP8 + i % D8];
        const uint at = uint(push.out_at) + (tile.image.begin + tile.first_query + first_row + i / D8) * uint(push.out_stride4) +
                        tile.head * D4 + i % D8 * 2;
        out_words[at] = unit.xy;
        out_words[at + 1] = unit.zw;
    }

    if (!HAS_CLS_PROBS && !HAS_LSE)
        return;
    [[unroll]] for (uint r = 0; r < ROWS; r++) {
        coopMatStore(exact[r], own, own_at, SUM_STEP, ROW_MAJOR);
        subgroupBarrier();
        [[unroll]] for (uint i = 0; i < PASSES; i++) {
            const uint row = r * MATRIX_M + line + i * ROW_STEP;
            const float sum = sum_of_row(own_at, i);
            if (gl_SubgroupInvocationID % ROW_LANES == 0) {
                if (HAS_LSE && row < n_queries)
                    store_lse(tile, tile.first_query + first_row + row, row_reference[r * PASSES + i] * LN_2, sum);
                if (HAS_CLS_PROBS && row == 0) {
                    row_values[first_row] = sum;
                    row_values[first_row + 1] = row_reference[i];
                }
            }
        }
        subgroupBarrier();
    }
    if (keeps_cls)
        for (uint first_key = 0; first_key < len; first_key += MATRIX_N)
            for (uint key = gl_SubgroupInvocationID; key < min(MATRIX_N, len - first_key); key += SUBGROUP) {
                const uint at = cls_probs_at(tile, first_key + key); // left there by this lane
                const float weight = exp2(fma(cls_probs[at], scale, -row_values[first_row + 1]));
                cls_probs[at] = row_values[first_row] == 0.0 ? 0.0 : weight / row_values[first_row];
            }
}

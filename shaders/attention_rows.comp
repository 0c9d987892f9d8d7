// Ragged attention with cooperative matrices of f16, 16x16x16, on drivers that lay them out as common/matrix_rows.glsl describes: of each
// accumulator a lane has two rows, l / 4 and l / 4 + 8, and four columns of each. Per-row values are therefore two numbers per lane,
// weights become an operand in place, and only keys, values, queries and results pass through shared memory. A subgroup takes ROWS matrices
// of queries of one head of one image, so that each operand of keys or values that it loads is used that many times. The subgroups of a
// workgroup share the keys and values of a block, while the next block is prefetched into registers. NVIDIA's compiler waits immediately
// for a load in a branch or a conditional one, so past the image's end the last row is fetched again, and overwritten.
// A row's reference is the maximum of its first block of keys. If a row turns out to have a logit more than SLACK above it, the whole
// workgroup computes its sums again with the true maxima: a branch that rescaled sums in the loop would cost more than it saves. Tiles and
// blocks start at the image's first row, so an image's bits do not depend on the other images of its batch, nor a row's bits on the other
// rows of its tile.
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
const uint UNITS = KEYS * D8; // of a block's keys, and the same number of its values
const uint FETCHES = (UNITS + THREADS - 1) / THREADS;
const uint BLOCK = 2 * KEYS * STEP8;
const uint STAGED = 2 * BLOCK > QUERIES * STEP8 ? 2 * BLOCK : QUERIES * STEP8;
const uint PARTS = HEAD_DIM / 16;
const uint KEY_PARTS = KEYS / 16;
const uint HALF_N = MATRIX_N / 2;
// The sum of a row's weights needs only the narrowest matrix of ones.
#define MATRIX_ONES coopmat<float16_t, gl_ScopeSubgroup, MATRIX_K, HALF_N, gl_MatrixUseB>
#define MATRIX_TOTAL coopmat<float, gl_ScopeSubgroup, MATRIX_M, HALF_N, gl_MatrixUseAccumulator>

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

shared uvec4 staged[STAGED]; // two blocks of keys and then values, [row][d / 8]; outside the loop, queries or results
shared uint outgrown;

// Offset of the tile's head in a row, in units of eight elements.
uint head_at(attention_tile tile, uint row, int stride4)
{
    return (tile.image.begin + row) * (uint(stride4) / 2) + tile.head * D8;
}

void fetch(attention_tile tile, uint first_key, out uvec4 k_next[FETCHES], out uvec4 v_next[FETCHES])
{
    [[unroll]] for (uint i = 0; i < FETCHES; i++) {
        const uint unit = i * THREADS + gl_LocalInvocationIndex;
        const uint key = min(first_key + unit / D8, tile.image.len - 1);
        k_next[i] = k_units[uint(push.k_at) + head_at(tile, key, push.k_stride4) + unit % D8];
        v_next[i] = v_units[uint(push.v_at) + head_at(tile, key, push.v_stride4) + unit % D8];
    }
}

// Rows past the image's end count as zeros.
void stage(attention_tile tile, uint first_key, uvec4 k_next[FETCHES], uvec4 v_next[FETCHES])
{
    const bool is_whole = first_key + KEYS <= tile.image.len;
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

// Over the four lanes that hold a row.
float row_max(float x)
{
    const float two = max(x, subgroupShuffleXor(x, 1));
    return max(two, subgroupShuffleXor(two, 2));
}

float row_sum(float x)
{
    const float two = x + subgroupShuffleXor(x, 1);
    return two + subgroupShuffleXor(two, 2);
}

void main()
{
    attention_tile tile;
    if (!find_tile(tile))
        return;
    const uint len = tile.image.len;
    const uint first_row = gl_SubgroupID * ROWS * 16; // of the subgroup, in the tile
    const uint line = gl_SubgroupInvocationID / 4, part = gl_SubgroupInvocationID % 4;
    const bool keeps_cls = HAS_CLS_PROBS && tile.first_query + first_row == 0 && line == 0;
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
    MATRIX_A q[ROWS * PARTS];
    [[unroll]] for (uint r = 0; r < ROWS; r++)
        [[unroll]] for (uint d = 0; d < PARTS; d++)
            coopMatLoad(q[r * PARTS + d], staged, (first_row + r * 16) * STEP8 + d * 2, STEP8, ROW_MAJOR);

    // Column of element i of an accumulator, which is also a key of a block's first matrix.
#define COLUMN(i) (part * 2 + (i) % 2 + (i) / 2 % 2 * 8)
    MATRIX_SUM results[ROWS * PARTS];
    MATRIX_TOTAL total[ROWS]; // of the rounded weights, the same in each column
    float exact[ROWS * 2];    // of the unrounded weights, this lane's part
    float reference[ROWS * 2];
    for (uint attempt = 0; attempt < 2; attempt++) {
        uvec4 k_next[FETCHES];
        uvec4 v_next[FETCHES];
        fetch(tile, 0, k_next, v_next);
        [[unroll]] for (uint i = 0; i < ROWS * PARTS; i++)
            results[i] = MATRIX_SUM(0.0);
        float peak[ROWS * 2];
        [[unroll]] for (uint r = 0; r < ROWS; r++) {
            total[r] = MATRIX_TOTAL(0.0);
            exact[2 * r] = exact[2 * r + 1] = 0.0;
            peak[2 * r] = peak[2 * r + 1] = NEVER;
        }
        barrier();
        stage(tile, 0, k_next, v_next);
        barrier();

        for (uint first_key = 0; first_key < len; first_key += KEYS) {
            const uint block_at = first_key / KEYS % 2 * BLOCK;
            fetch(tile, first_key + KEYS, k_next, v_next);

            MATRIX_SUM logits[ROWS * KEY_PARTS];
            [[unroll]] for (uint c = 0; c < KEY_PARTS; c++) {
                MATRIX_SUM added;
                [[unroll]] for (uint i = 0; i < 8; i++) {
                    const uint key = first_key + c * 16 + COLUMN(i);
                    added[i] = key < len ? 0.0 : NEVER;
                    if (HAS_BIAS && i < 4) {
                        const float bias = key_bias[uint(push.key_bias_at) + tile.image.begin + min(key, len - 1)] * LOG2_E;
                        added[i] = key < len ? max(bias, NEVER) : NEVER;
                    }
                    if (HAS_BIAS && i >= 4)
                        added[i] = added[i - 4];
                }
                [[unroll]] for (uint r = 0; r < ROWS; r++)
                    if (HAS_BIAS)
                        logits[r * KEY_PARTS + c] = MATRIX_SUM(0.0);
                    else
                        logits[r * KEY_PARTS + c] = added;
                [[unroll]] for (uint d = 0; d < PARTS; d++) {
                    MATRIX_B k;
                    coopMatLoad(k, staged, block_at + c * 16 * STEP8 + d * 2, STEP8, COLUMN_MAJOR);
                    [[unroll]] for (uint r = 0; r < ROWS; r++)
                        logits[r * KEY_PARTS + c] = coopMatMulAdd(q[r * PARTS + d], k, logits[r * KEY_PARTS + c]);
                }
                if (HAS_BIAS) // rounds only once; accumulating in the GEMM would round at every step
                    [[unroll]] for (uint r = 0; r < ROWS; r++)
                        [[unroll]] for (uint i = 0; i < 8; i++)
                            logits[r * KEY_PARTS + c][i] = fma(logits[r * KEY_PARTS + c][i], log_scale, added[i]);
            }
            [[unroll]] for (uint r = 0; r < ROWS; r++)
                [[unroll]] for (uint c = 0; c < KEY_PARTS; c++)
                    [[unroll]] for (uint i = 0; i < 8; i++)
                        peak[2 * r + i / 4] = max(peak[2 * r + i / 4], logits[r * KEY_PARTS + c][i]);
            if (keeps_cls)
                [[unroll]] for (uint c = 0; c < KEY_PARTS; c++)
                    [[unroll]] for (uint i = 0; i < 4; i++)
                        if (first_key + c * 16 + COLUMN(i) < len)
                            cls_probs[cls_probs_at(tile, first_key + c * 16 + COLUMN(i))] = logits[c][i];
            if (attempt == 0 && first_key == 0)
                [[unroll]] for (uint i = 0; i < 2 * ROWS; i++)
                    reference[i] = max(row_max(peak[i]) * scale, min_reference);

            MATRIX_A weights[ROWS * KEY_PARTS];
            [[unroll]] for (uint r = 0; r < ROWS; r++)
                [[unroll]] for (uint c = 0; c < KEY_PARTS; c++) {
                    [[unroll]] for (uint i = 0; i < 8; i++) {
                        logits[r * KEY_PARTS + c][i] = exp2(fma(logits[r * KEY_PARTS + c][i], scale, -reference[2 * r + i / 4]));
                        if (HAS_CLS_PROBS || HAS_LSE)
                            exact[2 * r + i / 4] += logits[r * KEY_PARTS + c][i];
                    }
                    const MATRIX_HALF rounded = MATRIX_HALF(logits[r * KEY_PARTS + c]);
                    [[unroll]] for (uint i = 0; i < 8; i++)
                        weights[r * KEY_PARTS + c][i] = rounded[i];
                }
            [[unroll]] for (uint c = 0; c < KEY_PARTS; c++) {
                [[unroll]] for (uint r = 0; r < ROWS; r++)
                    total[r] = coopMatMulAdd(weights[r * KEY_PARTS + c], MATRIX_ONES(MATRIX_ELEMENT(1.0)), total[r]);
                [[unroll]] for (uint d = 0; d < PARTS; d++) {
                    MATRIX_B v;
                    coopMatLoad(v, staged, block_at + (KEYS + c * 16) * STEP8 + d * 2, STEP8, ROW_MAJOR);
                    [[unroll]] for (uint r = 0; r < ROWS; r++)
                        results[r * PARTS + d] = coopMatMulAdd(weights[r * KEY_PARTS + c], v, results[r * PARTS + d]);
                }
            }
            stage(tile, first_key + KEYS, k_next, v_next);
            barrier();
        }

        bool again = false;
        [[unroll]] for (uint i = 0; i < 2 * ROWS; i++) {
            const float largest = row_max(peak[i]) * scale;
            if (largest > reference[i] + SLACK) {
                reference[i] = largest;
                again = true;
            }
        }
        if (again)
            outgrown = 1;
        barrier();
        if (outgrown == 0)
            break;
    }

    // Results are stored through the shared memory of keys and values, which is no longer needed.
    [[unroll]] for (uint r = 0; r < ROWS; r++) {
        const float low = total[r][0] == 0.0 ? 0.0 : 1.0 / total[r][0], high = total[r][2] == 0.0 ? 0.0 : 1.0 / total[r][2];
        [[unroll]] for (uint d = 0; d < PARTS; d++) {
            MATRIX_SUM divided = results[r * PARTS + d];
            [[unroll]] for (uint i = 0; i < 8; i++)
                divided[i] *= i < 4 ? low : high;
            coopMatStore(MATRIX_HALF(divided), staged, (first_row + r * 16) * STEP8 + d * 2, STEP8, ROW_MAJOR);
        }
    }
    subgroupBarrier();
    const uint n_queries = min(ROWS * 16, max(len - tile.first_query, first_row) - first_row);
    for (uint i = gl_SubgroupInvocationID; i < n_queries * D8; i += SUBGROUP) {
        const uvec4 unit = staged[(first_row + i / D8) * STEP8 + i % D8];
        const uint at = uint(push.out_at) + (tile.image.begin + tile.first_query + first_row + i / D8) * uint(push.out_stride4) +
                        tile.head * D4 + i % D8 * 2;
        out_words[at] = unit.xy;
        out_words[at + 1] = unit.zw;
    }

    if (!HAS_CLS_PROBS && !HAS_LSE)
        return;
    [[unroll]] for (uint i = 0; i < 2 * ROWS; i++) {
        exact[i] = row_sum(exact[i]);
        if (HAS_LSE && part == 0 && i * 8 + line < n_queries)
            store_lse(tile, tile.first_query + first_row + i * 8 + line, reference[i] * LN_2, exact[i]);
    }
    if (keeps_cls)
        for (uint key = part * 2; key < len; key += key % 2 == 0 ? 1 : 7) { // the ones that this lane stored there
            const uint at = cls_probs_at(tile, key);
            const float weight = exp2(fma(cls_probs[at], scale, -reference[0]));
            cls_probs[at] = exact[0] == 0.0 ? 0.0 : weight / exact[0];
        }
}

// The scores of an image's rows. Sums have the order that prune.h specifies, and multiplications and additions stay separate, so that every
// backend computes the same bits. Define SCORE_X_BINDING, SCORE_TABLE_BINDING and SCORE_BIAS_BINDING.
#ifndef SCORE_GLSL
#define SCORE_GLSL

#include "math.glsl"

layout(binding = SCORE_X_BINDING) readonly buffer X32 { vec4 x_f32[]; };
layout(binding = SCORE_X_BINDING) readonly buffer X16 { uvec2 x_f16[]; };
layout(binding = SCORE_TABLE_BINDING) readonly buffer Weight32 { vec4 weight_f32[]; };
layout(binding = SCORE_TABLE_BINDING) readonly buffer Weight16 { uvec2 weight_f16[]; };
layout(binding = SCORE_TABLE_BINDING) readonly buffer ClsProbs { float cls_probs[]; };
layout(binding = SCORE_TABLE_BINDING) readonly buffer PositionScores { uint position_scores[]; };
layout(binding = SCORE_BIAS_BINDING) readonly buffer Bias { float bias_values[]; };
layout(binding = SCORE_BIAS_BINDING) readonly buffer Anchors { uint anchors[]; };

#define SCORE_TEAM 8 // threads that share a row; each holds four consecutive lanes of the 32
#define SCORE_ITEMS 12 // loads in flight per thread
shared vec4 team_sums[THREADS];

vec4 x_vec4(uint row, uint i)
{
    const uint at = uint(push.x_at) + row * uint(push.x_stride4) + i;
    return (FLAGS & RVIT_SELECT_HALF_X) != 0 ? half4_decode(x_f16[at], IN_BF16) : x_f32[at];
}

vec4 weight_vec4(uint i)
{
    const uint at = uint(push.table_at) + i;
    return (FLAGS & RVIT_SELECT_HALF_X) != 0 ? half4_decode(weight_f16[at], IN_BF16) : weight_f32[at];
}

float cls_attention(uint row)
{
    const uint at = uint(push.table_at) + row * uint(push.n_heads);
    precise float sum = cls_probs[at];
    for (uint head = 1; head < uint(push.n_heads); head++)
        sum = sum + cls_probs[at + head];
    precise const float mean = sum * push.inverse_heads;
    return mean;
}

bool is_anchor(uint row)
{
    return (anchors[uint(push.bias_at) + row / 4] >> row % 4 * 8 & 0xffu) != 0;
}

bool any_anchor(uint begin, uint end)
{
    bool any = false;
    for (uint row = begin; row < end; row++)
        any = any || is_anchor(row);
    return any;
}

// Whether patch i of n is an anchor or next to one, as prune.h defines it. `first` is the row of patch 0.
bool near_anchor(uint first, uint n, uint i)
{
    const uint columns = uint(push.anchor_columns);
    const uint row = first + i;
    if (is_anchor(row) || (i > 0 && is_anchor(row - 1)) || (i + 1 < n && is_anchor(row + 1)) ||
        (i >= columns && is_anchor(row - columns)) || (n - i > columns && is_anchor(row + columns)))
        return true;
    const uint line = min(columns, n);
    return (i == 0 && any_anchor(first, first + line)) || (i == n - 1 && any_anchor(first + n - line, first + n));
}

// The rows of a merge group share the mean of their scores: the position of the first, and how many there are.
uint merge_group_begin(uint position)
{
    return position - position % uint(push.group_size);
}

uint merge_group_len(rvit_sequence image, uint begin)
{
    return min(uint(push.group_size), image.len - begin);
}

float merge_group_mean(float sum)
{
    precise const float mean = sum * push.inverse_group_size;
    return push.group_size == 1 ? sum : mean;
}

// The score of the row at this position of an image; 2 is added near anchors, so that they rank before all others.
float cls_score(rvit_sequence image, uint position)
{
    const uint prefix = prefix_end(image);
    const uint first = merge_group_begin(position);
    precise float score = cls_attention(image.begin + first);
    for (uint other = 1; other < merge_group_len(image, first); other++)
        score = score + cls_attention(image.begin + first + other);
    score = merge_group_mean(score);
    if ((FLAGS & RVIT_SELECT_HAS_ANCHORS) != 0 && position >= prefix &&
        near_anchor(image.begin + prefix, image.len - prefix, position - prefix))
        score = score + 2.0;
    return score;
}

// log(1 / (1 + e^d)), accurate also where it is close to 0. Returns bits, so that a driver cannot optimise NaN away.
uint log_sigmoid_bits(float d)
{
    if ((floatBitsToUint(d) & 0x7fffffffu) > 0x7f800000u)
        return 0x7fc00000u;
    const float e = exp(-abs(d));
    precise const float u = 1.0 + e;
    precise const float rounded = u - 1.0;
    precise const float log_u = rounded == 0.0 ? e : log_accurate(u) * (e / rounded);
    return floatBitsToUint(d > 0.0 ? -d - log_u : -log_u);
}

// A thread's contribution to a row: squares in its four lanes, or two dot products.
vec4 row_part(uint row, uint lane)
{
    precise vec4 sum = vec4(0.0);
    for (uint first = lane; first < uint(push.dim4); first += SCORE_TEAM * SCORE_ITEMS)
        [[unroll]] for (uint j = 0; j < SCORE_ITEMS; j++) {
            const uint i = first + j * SCORE_TEAM;
            const bool live = i < uint(push.dim4);
            const vec4 x = live ? x_vec4(row, i) : vec4(0.0);
            if (SCORE == RVIT_SELECT_PREDICTOR) {
                sum.x = sum.x + (live ? dot(x, weight_vec4(i)) : 0.0);
                sum.y = sum.y + (live ? dot(x, weight_vec4(uint(push.dim4) + i)) : 0.0);
            } else {
                precise const vec4 squares = x * x;
                sum = sum + squares;
            }
        }
    return sum;
}

// The bits of a row's score, from the contributions of its team, whose first thread is `first`.
uint score_of_parts(uint row, uint first)
{
    precise vec4 four[SCORE_TEAM / 2];
    for (uint i = 0; i < SCORE_TEAM / 2; i++)
        four[i] = team_sums[first + i] + team_sums[first + i + SCORE_TEAM / 2];
    precise const vec4 low = four[0] + four[2];
    precise const vec4 high = four[1] + four[3];
    precise const vec4 all = low + high;
    if (SCORE == RVIT_SELECT_PREDICTOR) {
        const uint at = uint(push.bias_at);
        return log_sigmoid_bits((all.y + bias_values[at + 1]) - (all.x + bias_values[at]));
    }
    precise const vec2 pair = all.xy + all.zw;
    precise const float norm2 = pair.x + pair.y;
    if (SCORE == RVIT_SELECT_L2)
        return floatBitsToUint(norm2);
    precise const float score = cls_attention(row) * sqrt(norm2);
    return floatBitsToUint(score);
}

// The mean squared norms of merge groups: a team takes a group, row by row. All threads must call it.
void score_merge_groups(rvit_sequence image)
{
    const uint index = gl_LocalInvocationIndex;
    const uint group_size = uint(push.group_size);
    for (uint first = 0; first < image.len; first += THREADS / SCORE_TEAM * group_size) {
        const uint begin = first + index / SCORE_TEAM * group_size;
        precise float sum = 0.0;
        for (uint row = 0; row < group_size; row++) {
            const bool live = begin + row < image.len;
            team_sums[index] = live ? row_part(image.begin + begin + row, index % SCORE_TEAM) : vec4(0.0);
            barrier();
            if (live && index % SCORE_TEAM == 0) {
                precise const float score = uintBitsToFloat(score_of_parts(image.begin + begin + row, index));
                sum = row == 0 ? score : sum + score;
            }
            barrier();
        }
        for (uint position = begin; index % SCORE_TEAM == 0 && position < min(begin + group_size, image.len); position++)
            scores[uint(push.input_at) + image.begin + position] = floatBitsToUint(merge_group_mean(sum));
    }
}

// All threads must call it.
void score_image(rvit_sequence image)
{
    const uint index = gl_LocalInvocationIndex;
    if (SCORE == RVIT_SELECT_CLS_ATTENTION || SCORE == RVIT_SELECT_POSITION) {
        for (uint position = index; position < image.len; position += THREADS)
            scores[uint(push.input_at) + image.begin + position] =
                SCORE == RVIT_SELECT_POSITION ? position_scores[uint(push.table_at) + position]
                                              : floatBitsToUint(cls_score(image, position));
        return;
    }
    if (SCORE == RVIT_SELECT_L2 && push.group_size > 1) {
        score_merge_groups(image);
        return;
    }
    const uint lane = index % SCORE_TEAM;
    for (uint first = 0; first < image.len; first += THREADS / SCORE_TEAM) {
        const uint position = first + index / SCORE_TEAM;
        team_sums[index] = position < image.len ? row_part(image.begin + position, lane) : vec4(0.0);
        barrier();
        if (lane == 0 && position < image.len)
            scores[uint(push.input_at) + image.begin + position] = score_of_parts(image.begin + position, index);
        barrier();
    }
}

#endif

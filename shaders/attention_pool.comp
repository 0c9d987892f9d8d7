// Attention pooling: a workgroup takes a head of an image. It computes the softmax over the image's rows; then, for a range of columns at a
// time, the weighted sum of the rows, which it multiplies with the head's weights.
#version 450
#extension GL_GOOGLE_include_directive : require
#if TIER_SUBGROUP
#extension GL_KHR_shader_subgroup_basic : require
#extension GL_KHR_shader_subgroup_arithmetic : require
#endif
#include "common/interface.h"
#include "common/group.glsl"
#include "common/math.glsl"
#include "common/seqlens.glsl"
#include "common/storage.glsl"

layout(constant_id = RVIT_ATTENTION_POOL_TEAMS) const uint TEAMS = 4;
layout(constant_id = RVIT_ATTENTION_POOL_FLAGS) const uint FLAGS = 0;
const uint COLUMNS = RVIT_ATTENTION_POOL_COLUMNS;

layout(push_constant) uniform Push { rvit_attention_pool_push push; };
layout(binding = 0) readonly buffer CuSeqlens { int cu_seqlens[]; };
layout(binding = 1) readonly buffer X { IN_VEC4 x_words[]; };
layout(binding = 2) readonly buffer Logits { float logits[]; };
layout(binding = 3) readonly buffer Sizes { float sizes[]; };
layout(binding = 4) readonly buffer Weight { IN_VEC4 weight_words[]; };
layout(binding = 5) readonly buffer Bias { float bias_values[]; };
layout(binding = 6) writeonly buffer Out { OUT_VEC4 out_words[]; };
layout(binding = 7) writeonly buffer Probs { float probs[]; };

#include "common/group_add.glsl"
#include "common/row_team.glsl"

shared float stored[RVIT_NEAR_KEYS]; // weights of the first rows; those of the others are recomputed
shared float largest_logits[THREADS];
shared vec4 partial_sums[THREADS];
shared vec4 z[COLUMNS];
shared float values[RVIT_ATTENTION_POOL_MAX_HEAD_DIM];

float logit_of(uint row, uint head)
{
    const float logit = logits[uint(push.logits_at) + row * uint(push.logits_stride) + head];
    return (FLAGS & RVIT_ATTENTION_POOL_HAS_SIZES) == 0 ? logit : logit + log_accurate(sizes[uint(push.sizes_at) + row]);
}

// The largest logit of the image, or 0 if that is -infinity.
float largest_of(rvit_sequence image, uint head)
{
    float largest = negative_infinity();
    for (uint t = gl_LocalInvocationIndex; t < image.len; t += THREADS)
        largest = max(largest, logit_of(image.begin + t, head));
    largest_logits[gl_LocalInvocationIndex] = largest;
    barrier();
    for (uint width = THREADS / 2; width > 0; width /= 2) {
        if (gl_LocalInvocationIndex < width)
            largest_logits[gl_LocalInvocationIndex] =
                max(largest_logits[gl_LocalInvocationIndex], largest_logits[gl_LocalInvocationIndex + width]);
        barrier();
    }
    return is_negative_infinity(largest_logits[0]) ? 0.0 : largest_logits[0];
}

void main()
{
    const uint image_index = group_index() / uint(push.n_heads), head = group_index() % uint(push.n_heads);
    if (image_index >= uint(push.n_images))
        return;
    const uint cu_at = uint(push.cu_seqlens_at) + image_index;
    const rvit_sequence image = clamp_sequence(cu_seqlens[cu_at], cu_seqlens[cu_at + 1], push.max_len, push.rows);
    const uint dim4 = uint(push.dim4), head_dim = uint(push.head_dim), index = gl_LocalInvocationIndex;
    const float largest = largest_of(image, head);
    float part = 0.0;
    for (uint t = index; t < image.len; t += THREADS) {
        const float weight = exp(logit_of(image.begin + t, head) - largest);
        if (t < RVIT_NEAR_KEYS)
            stored[t] = weight;
        part += weight;
    }
    const float sum = group_add(part);
    const float scale = sum > 0.0 ? 1.0 / sum : 0.0;
    if ((FLAGS & RVIT_ATTENTION_POOL_HAS_PROBS) != 0)
        for (uint t = index; t < image.len; t += THREADS)
            probs[uint(push.probs_at) + (image.begin + t) * uint(push.n_heads) + head] =
                (t < RVIT_NEAR_KEYS ? stored[t] : exp(logit_of(image.begin + t, head) - largest)) * scale;
    for (uint j = index; j < head_dim; j += THREADS)
        values[j] = 0.0;
    barrier();

    const row_team team = make_row_team(TEAMS);
    const uint sharers = THREADS / COLUMNS; // threads that share the rows of four columns
    for (uint first = 0; first < dim4; first += COLUMNS) {
        const uint column = first + index % COLUMNS;
        vec4 total = vec4(0.0);
        for (uint t = index / COLUMNS; t < image.len && column < dim4; t += sharers) {
            const float weight = t < RVIT_NEAR_KEYS ? stored[t] : exp(logit_of(image.begin + t, head) - largest);
            total += weight * in_vec4(x_words[uint(push.x_at) + (image.begin + t) * dim4 + column]);
        }
        partial_sums[index] = total;
        barrier();
        if (index < COLUMNS) {
            for (uint s = 1; s < sharers; s++)
                total += partial_sums[s * COLUMNS + index];
            z[index] = total * scale;
        }
        barrier();
        for (uint round = 0; round < head_dim; round += team.step) {
            const uint j = min(round + team.first, head_dim - 1);
            const uint from = uint(push.weight_at) + (head * head_dim + j) * dim4 + first;
            float dots = 0.0;
            for (uint i = team.lane; i < COLUMNS && first + i < dim4; i += team.lanes)
                dots += dot(in_vec4(weight_words[from + i]), z[i]);
            dots = team_add(team, dots);
            if (team.lane == 0 && round + team.first < head_dim)
                values[j] += dots;
        }
        barrier();
    }
    for (uint q = index; q < head_dim / 4; q += THREADS) {
        vec4 value = vec4(values[4 * q], values[4 * q + 1], values[4 * q + 2], values[4 * q + 3]);
        const uint bias_at = uint(push.bias_at) + head * head_dim + 4 * q;
        if ((FLAGS & RVIT_ATTENTION_POOL_HAS_BIAS) != 0 && image.len > 0)
            value += vec4(bias_values[bias_at], bias_values[bias_at + 1], bias_values[bias_at + 2], bias_values[bias_at + 3]);
        out_words[uint(push.out_at) + (image_index * uint(push.n_heads) + head) * (head_dim / 4) + q] = out_vec4(value);
    }
}

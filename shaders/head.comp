// logits = (the first rows of an image, normalised or not, concatenated) times weight^T, plus bias. A workgroup computes classes of one
// image, CLASSES per team of lanes; neighbouring lanes read neighbouring weights.
#version 450
#extension GL_GOOGLE_include_directive : require
#if TIER_SUBGROUP
#extension GL_KHR_shader_subgroup_basic : require
#extension GL_KHR_shader_subgroup_arithmetic : require
#endif
#include "common/interface.h"
#include "common/group.glsl"
#include "common/storage.glsl"
#include "common/seqlens.glsl"

layout(constant_id = RVIT_HEAD_TEAMS) const uint TEAMS = 4;
layout(constant_id = RVIT_HEAD_FLAGS) const uint FLAGS = 0;
const uint CLASSES = RVIT_HEAD_CLASSES;
const uint BURST = 4; // loads of four features that each lane has in flight

#if WEIGHT_F16
#define WEIGHT_VEC4 uvec2
#define weight_vec4(words) half4_decode(words, OUT_BF16)
#else
#define WEIGHT_VEC4 vec4
#define weight_vec4(words) (words)
#endif

layout(binding = 0) readonly buffer X { IN_VEC4 x_words[]; };
layout(binding = 1) readonly buffer CuSeqlens { int cu_seqlens[]; };
layout(binding = 2) readonly buffer Gamma { vec4 gamma_values[]; };
layout(binding = 3) readonly buffer Beta { vec4 beta_values[]; };
layout(binding = 4) readonly buffer Weight { WEIGHT_VEC4 weight_words[]; };
layout(binding = 5) readonly buffer Bias { float bias_values[]; };
layout(binding = 6) writeonly buffer Logits { float logits[]; };
layout(push_constant) uniform Push { rvit_head_push push; };

#include "common/group_add.glsl"
#include "common/row_team.glsl"

// The mean and scale that normalise a row.
vec2 mean_and_scale(uint from)
{
    const uint dim4 = uint(push.dim4);
    float mean = 0.0, part = 0.0;
    if ((FLAGS & RVIT_HEAD_HAS_NORM) == 0)
        return vec2(0.0, 1.0);
    if ((FLAGS & RVIT_HEAD_RMS) == 0) {
        const float shift = in_vec4(x_words[from]).x;
        for (uint i = gl_LocalInvocationIndex; i < dim4; i += THREADS) {
            const vec4 d = in_vec4(x_words[from + i]) - shift;
            part += (d.x + d.y) + (d.z + d.w);
        }
        mean = shift + group_add(part) / float(push.dim4 * 4);
    }
    part = 0.0;
    for (uint i = gl_LocalInvocationIndex; i < dim4; i += THREADS) {
        const vec4 d = in_vec4(x_words[from + i]) - mean;
        part += dot(d, d);
    }
    return vec2(mean, 1.0 / sqrt(group_add(part) / float(push.dim4 * 4) + push.eps));
}

// Unit i of the row that begins at `from`, normalised.
vec4 normal(uint from, uint i, vec2 stats)
{
    const vec4 x = in_vec4(x_words[from + i]);
    if ((FLAGS & RVIT_HEAD_HAS_NORM) == 0)
        return x;
    const vec4 scaled = (x - stats.x) * stats.y * gamma_values[uint(push.gamma_at) + i];
    return (FLAGS & RVIT_HEAD_HAS_BETA) == 0 ? scaled : scaled + beta_values[uint(push.beta_at) + i];
}

rvit_sequence rows_of(uint image)
{
    if ((FLAGS & RVIT_HEAD_HAS_LENGTHS) == 0)
        return rvit_sequence(image * uint(push.n_tokens), uint(push.n_tokens));
    const uint at = uint(push.cu_seqlens_at) + image;
    return clamp_sequence(cu_seqlens[at], cu_seqlens[at + 1], push.rows, push.rows);
}

void main()
{
    const uint groups = (uint(push.n_classes) + TEAMS * CLASSES - 1) / (TEAMS * CLASSES);
    const uint image_index = group_index() / groups;
    const uint group_class = group_index() % groups * TEAMS * CLASSES;
    if (image_index >= uint(push.n_images))
        return;
    const rvit_sequence image = rows_of(image_index);
    const uint n_tokens = image.len < uint(push.n_tokens) ? 0 : uint(push.n_tokens);
    const uint dim4 = uint(push.dim4);
    const row_team team = make_row_team(TEAMS);
    for (uint round = 0; round < TEAMS; round += team.step) { // one, unless subgroups are wider than the driver reported
        const uint first_class = group_class + (round + team.first) * CLASSES;
        uint weight_at[CLASSES];
        vec4 sums[CLASSES];
        [[unroll]] for (uint c = 0; c < CLASSES; c++) {
            weight_at[c] = uint(push.weight_at) + min(first_class + c, uint(push.n_classes) - 1) * uint(push.n_tokens) * dim4;
            sums[c] = vec4(0.0);
        }
        for (uint token = 0; token < n_tokens; token++) {
            const uint from = uint(push.x_at) + (image.begin + token) * dim4;
            const vec2 stats = mean_and_scale(from);
            for (uint first = team.lane; first < dim4; first += team.lanes * BURST) {
                WEIGHT_VEC4 words[BURST][CLASSES];
                vec4 x[BURST];
                [[unroll]] for (uint u = 0; u < BURST; u++) {
                    const uint i = min(first + u * team.lanes, dim4 - 1);
                    [[unroll]] for (uint c = 0; c < CLASSES; c++)
                        words[u][c] = weight_words[weight_at[c] + token * dim4 + i];
                    x[u] = normal(from, i, stats);
                }
                [[unroll]] for (uint u = 0; u < BURST; u++)
                    if (first + u * team.lanes < dim4)
                        [[unroll]] for (uint c = 0; c < CLASSES; c++)
                            sums[c] += x[u] * weight_vec4(words[u][c]);
            }
        }
        [[unroll]] for (uint c = 0; c < CLASSES; c++) {
            float logit = team_add(team, (sums[c].x + sums[c].y) + (sums[c].z + sums[c].w));
            const uint class_index = first_class + c;
            if (team.lane != 0 || round + team.first >= TEAMS || class_index >= uint(push.n_classes))
                continue;
            if ((FLAGS & RVIT_HEAD_HAS_BIAS) != 0 && n_tokens > 0)
                logit += bias_values[uint(push.bias_at) + class_index];
            logits[uint(push.logits_at) + image_index * uint(push.n_classes) + class_index] = logit;
        }
    }
}

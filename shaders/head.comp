// logits = the layernormed first rows of an image, side by side, times weight^T, plus bias: a group takes THREADS classes of one image.
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

layout(constant_id = RVIT_HEAD_CHUNK) const uint CHUNK = 256;
layout(constant_id = RVIT_HEAD_HAS_BIAS) const uint HAS_BIAS = 0;
const uint CHUNK4 = CHUNK / 4;
const uint BURST = 8; // fours of weights on their way at once

#if WEIGHT_F16
#define WEIGHT_VEC4 uvec2
#define weight_vec4(words) half4_decode(words)
#else
#define WEIGHT_VEC4 vec4
#define weight_vec4(words) (words)
#endif

layout(binding = RVIT_HEAD_X) readonly buffer X { IN_VEC4 x_words[]; };
layout(binding = RVIT_HEAD_CU_SEQLENS) readonly buffer CuSeqlens { int cu_seqlens[]; };
layout(binding = RVIT_HEAD_GAMMA) readonly buffer Gamma { vec4 gamma_values[]; };
layout(binding = RVIT_HEAD_BETA) readonly buffer Beta { vec4 beta_values[]; };
layout(binding = RVIT_HEAD_WEIGHT) readonly buffer Weight { WEIGHT_VEC4 weight_words[]; };
layout(binding = RVIT_HEAD_BIAS) readonly buffer Bias { float bias_values[]; };
layout(binding = RVIT_HEAD_LOGITS) writeonly buffer Logits { float logits[]; };
layout(push_constant) uniform Push { rvit_head_push push; };

shared vec4 normal_rows[CHUNK4];

#include "common/group_add.glsl"

void main()
{
    const uint groups = (uint(push.n_classes) + THREADS - 1) / THREADS;
    const uint image_index = group_index() / groups;
    const uint first_class = group_index() % groups * THREADS;
    if (image_index >= uint(push.n_images))
        return;
    const uint cu_at = uint(push.cu_seqlens_at) + image_index;
    const rvit_sequence image = clamp_sequence(cu_seqlens[cu_at], cu_seqlens[cu_at + 1], push.rows, push.rows);
    const uint class_index = first_class + gl_LocalInvocationIndex;
    const uint logit_at = uint(push.logits_at) + image_index * uint(push.n_classes) + class_index;
    if (image.len < uint(push.n_tokens)) {
        if (class_index < uint(push.n_classes))
            logits[logit_at] = 0.0;
        return;
    }
    const uint dim4 = uint(push.dim4);
    const uint weight_at = uint(push.weight_at) + min(class_index, uint(push.n_classes) - 1) * uint(push.n_tokens) * dim4;
    float sum = 0.0;
    for (uint token = 0; token < uint(push.n_tokens); token++) {
        const uint from = uint(push.x_at) + (image.begin + token) * dim4;
        const float shift = in_vec4(x_words[from]).x;
        float part = 0.0;
        for (uint i = gl_LocalInvocationIndex; i < dim4; i += THREADS) {
            const vec4 d = in_vec4(x_words[from + i]) - shift;
            part += (d.x + d.y) + (d.z + d.w);
        }
        const float mean = shift + group_add(part) / float(push.dim4 * 4);
        part = 0.0;
        for (uint i = gl_LocalInvocationIndex; i < dim4; i += THREADS) {
            const vec4 d = in_vec4(x_words[from + i]) - mean;
            part += dot(d, d);
        }
        const float scale = 1.0 / sqrt(group_add(part) / float(push.dim4 * 4) + push.eps);
        for (uint first = 0; first < dim4; first += CHUNK4) {
            const uint n = min(CHUNK4, dim4 - first);
            for (uint i = gl_LocalInvocationIndex; i < n; i += THREADS)
                normal_rows[i] = (in_vec4(x_words[from + first + i]) - mean) * scale * gamma_values[uint(push.gamma_at) + first + i] +
                                 beta_values[uint(push.beta_at) + first + i];
            barrier();
            const uint at = weight_at + token * dim4 + first;
            for (uint i = 0; i < n; i += BURST) {
                WEIGHT_VEC4 words[BURST];
                [[unroll]] for (uint u = 0; u < BURST; u++)
                    words[u] = weight_words[at + min(i + u, n - 1)];
                [[unroll]] for (uint u = 0; u < BURST; u++)
                    if (i + u < n) {
                        const vec4 w = weight_vec4(words[u]);
                        const vec4 x = normal_rows[i + u];
                        sum += x.x * w.x;
                        sum += x.y * w.y;
                        sum += x.z * w.z;
                        sum += x.w * w.w;
                    }
            }
            barrier();
        }
    }
    if (class_index >= uint(push.n_classes))
        return;
    logits[logit_at] = HAS_BIAS != 0 ? sum + bias_values[uint(push.bias_at) + class_index] : sum;
}

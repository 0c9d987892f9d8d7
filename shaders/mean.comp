// Replaces columns of each image by their mean over the rows past the prefix. A workgroup processes 4 * MEAN_COLUMNS columns of an image.
#version 450
#extension GL_GOOGLE_include_directive : require
#include "common/interface_prune.h"
#include "common/group.glsl"
#include "common/storage.glsl"

layout(push_constant) uniform Push { rvit_mean_push push; };
layout(binding = 1) buffer X { IN_VEC4 x_words[]; };

#include "common/images.glsl"

shared vec4 partial_sums[THREADS];

void main()
{
    const uint image = group_index() / uint(push.n_blocks);
    const uint column = uint(push.first4) + group_index() % uint(push.n_blocks) * RVIT_MEAN_COLUMNS +
                        gl_LocalInvocationIndex % RVIT_MEAN_COLUMNS;
    if (image >= uint(push.n_images))
        return;
    const rvit_sequence rows = image_rows(image);
    const uint teams = THREADS / RVIT_MEAN_COLUMNS;
    const uint team = gl_LocalInvocationIndex / RVIT_MEAN_COLUMNS;
    const uint from = uint(push.x_at) + rows.begin * uint(push.dim4) + column;
    const uint first = prefix_end(rows);
    const bool live = column < uint(push.dim4);
    vec4 sum = vec4(0.0);
    for (uint row = first + team; live && row < rows.len; row += teams)
        sum += in_vec4(x_words[from + row * uint(push.dim4)]);
    partial_sums[gl_LocalInvocationIndex] = sum;
    barrier();
    sum = vec4(0.0);
    for (uint i = gl_LocalInvocationIndex % RVIT_MEAN_COLUMNS; i < THREADS; i += RVIT_MEAN_COLUMNS)
        sum += partial_sums[i];
    const IN_VEC4 mean = in_encode(first < rows.len ? sum / float(rows.len - first) : vec4(0.0));
    for (uint row = team; live && row < rows.len; row += teams)
        x_words[from + row * uint(push.dim4)] = mean;
}

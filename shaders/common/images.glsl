// The images of a ragged batch, for shaders that process one image at a time. `push` has n_images, max_len, rows, n_prefix, cu_seqlens_at.
#ifndef IMAGES_GLSL
#define IMAGES_GLSL

#include "seqlens.glsl"

layout(binding = 0) readonly buffer CuSeqlens { int cu_seqlens[]; };

rvit_sequence image_rows(uint image)
{
    const uint at = uint(push.cu_seqlens_at) + image;
    return clamp_sequence(cu_seqlens[at], cu_seqlens[at + 1], push.max_len, push.rows);
}

// The first row of the image past the prefix.
uint prefix_end(rvit_sequence image)
{
    return min(uint(push.n_prefix), image.len);
}

#endif

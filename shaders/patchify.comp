// Writes images as the input rows of the patch embedding GEMM. A thread copies two adjacent pixels, which are in the same patch because its
// width is even. In images of odd width they may straddle two of the pairs that are loaded.
#version 450
#extension GL_GOOGLE_include_directive : require
#include "common/interface.h"
#include "common/group.glsl"
#include "common/storage.glsl"

layout(constant_id = RVIT_PATCHIFY_FLAGS) const uint FLAGS = 0;

#if OUT_F16
#define PAIR uint
#define encode_pair(value) half_pair(value.x, value.y, OUT_BF16)
#define decode_pair(word) half4_decode(uvec2(word, 0u), OUT_BF16).xy
#else
#define PAIR vec2
#define encode_pair(value) (value)
#define decode_pair(value) (value)
#endif

layout(binding = 0) readonly buffer Images { vec2 images[]; };
layout(binding = 1) writeonly buffer Out { PAIR out_pairs[]; };
layout(binding = 2) writeonly buffer CuSeqlens { int cu_seqlens[]; };
layout(binding = 3) readonly buffer Live { int live[]; };
layout(push_constant) uniform Push { rvit_patchify_push push; };

void main()
{
    const uint n_images =
        (FLAGS & RVIT_PATCHIFY_HAS_LIVE) == 0 ? uint(push.n_images) : clamp_rows(live[push.live_at], push.n_images);
    const uint size = uint(push.patch_size);
    const uint grid = uint(push.grid_width);
    const uint prefix = uint(push.n_prefix);
    const uint tokens = prefix + uint(push.grid_height) * grid;
    const uint patch_pairs = size * size / 2;
    const uint row_pairs = uint(push.out_stride) / 2;
    const uint at = group_index() * THREADS + gl_LocalInvocationIndex;
    if ((FLAGS & RVIT_PATCHIFY_HAS_CU_SEQLENS) != 0 && at <= uint(push.n_images))
        cu_seqlens[uint(push.cu_seqlens_at) + at] = int(min(at, n_images) * tokens);

    const uint row = at / row_pairs;
    const uint image = row / tokens;
    if (image >= n_images)
        return;
    const uint token = row % tokens;
    vec2 value = vec2(0.0);
    const uint part_pairs = uint(push.part) / 2;
    const uint pair = at % row_pairs % part_pairs;
    if (token >= prefix && pair < uint(push.channels) * patch_pairs) {
        const uint patch_y = (token - prefix) / grid;
        const uint patch_x = (token - prefix) % grid;
        const uint channel = pair / patch_pairs;
        const uint y = pair % patch_pairs / (size / 2);
        const uint x2 = pair % (size / 2);
        const uint line = (image * uint(push.channels) + channel) * uint(push.height) + patch_y * size + y;
        const uint pixel = line * uint(push.width) + patch_x * size + 2 * x2;
        const uint first = uint(push.images_at) + pixel / 2;
        if (pixel % 2 == 0)
            value = images[first];
        else
            value = vec2(images[first].y, images[first + 1].x);
    }
    PAIR stored = encode_pair(value);
    if (at % row_pairs >= part_pairs) // the lo part: the rounding error of the hi part
        stored = encode_pair((value - decode_pair(stored)));
    out_pairs[uint(push.out_at) + at] = stored;
}

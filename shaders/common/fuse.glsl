// The fused token: the sum of an image's dropped rows, weighted by scores, in ascending order; replaces the first. Define FUSE_X_BINDING.
#ifndef FUSE_GLSL
#define FUSE_GLSL

#include "workspace.glsl"

layout(binding = FUSE_X_BINDING) buffer FuseX32 { vec4 fuse_f32[]; };
layout(binding = FUSE_X_BINDING) buffer FuseX16 { uvec2 fuse_f16[]; };

// The workspace holds rows, then the bits of their scores; a chunk has as many rows as the threads can list at once.
#define FUSE_CHUNK (WORKSPACE / 2)

uint fuse_at(uint row, uint i)
{
    return uint(push.fuse_x_at) + row * uint(push.fuse_dim4) + i;
}

vec4 load_fuse_x(uint row, uint i)
{
    return (FLAGS & RVIT_SELECT_HALF_FUSE) != 0 ? half4_decode(fuse_f16[fuse_at(row, i)], OUT_BF16) : fuse_f32[fuse_at(row, i)];
}

void store_fuse_x(uint row, uint i, vec4 value)
{
    if ((FLAGS & RVIT_SELECT_HALF_FUSE) != 0)
        fuse_f16[fuse_at(row, i)] = half4_encode(value, OUT_BF16);
    else
        fuse_f32[fuse_at(row, i)] = value;
}

// Lists the dropped rows of the words first_word .. first_word + THREADS - 1 and returns how many there are.
uint list_dropped(uint first_word, uint begin, uint end, uint rank)
{
    const uint word = first_word + rank;
    const uint kept = load_marks(word, begin, end);
    const uint dropped = bytes_inside(word, begin, end) & EACH_BYTE & ~kept;
    uint total;
    uint at = group_exclusive_add(bitCount(dropped), total);
    for (uint i = 0; i < 4; i++)
        if ((dropped >> i * 8 & 1u) != 0) {
            workspace[at] = word * 4 + i;
            workspace[FUSE_CHUNK + at] = scores[uint(push.input_at) + word * 4 + i];
            at++;
        }
    barrier();
    return total;
}

// All threads must call it.
void fuse_image(rvit_sequence image, uint rank)
{
    const uint end = image.begin + image.len;
    for (uint block = 0; block < uint(push.fuse_dim4); block += THREADS) {
        const uint i = block + rank;
        const bool live = i < uint(push.fuse_dim4);
        uint first_dropped = NO_ROW;
        precise vec4 sum = vec4(0.0);
        for (uint first_word = image.begin / 4; first_word < (end + 3) / 4; first_word += THREADS) {
            const uint n = list_dropped(first_word, image.begin, end, rank);
            for (uint d = 0; live && d < n; d++) {
                precise const vec4 product = uintBitsToFloat(workspace[FUSE_CHUNK + d]) * load_fuse_x(workspace[d], i);
                sum = sum + product;
            }
            if (n > 0 && first_dropped == NO_ROW)
                first_dropped = workspace[0];
            barrier();
        }
        if (live && first_dropped != NO_ROW)
            store_fuse_x(first_dropped, i, sum);
    }
}

#endif

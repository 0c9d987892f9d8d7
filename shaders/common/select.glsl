// What the three shaders of select share.
#ifndef SELECT_GLSL
#define SELECT_GLSL

#if TIER_SUBGROUP
#extension GL_KHR_shader_subgroup_basic : require
#extension GL_KHR_shader_subgroup_arithmetic : require
#endif
#include "common/interface.h"
#include "common/group.glsl"
#include "common/group_scan.glsl"
#include "common/seqlens.glsl"

layout(constant_id = RVIT_SELECT_MODE) const uint MODE = RVIT_SELECT_TOP_K_MODE;
layout(constant_id = RVIT_SELECT_HAS_ERROR) const uint HAS_ERROR = 0;

layout(binding = RVIT_SELECT_CU_SEQLENS) readonly buffer CuSeqlens { int cu_seqlens[]; };
layout(binding = RVIT_SELECT_OUT_CU_SEQLENS) buffer OutCuSeqlens { uint out_cu_seqlens[]; };
layout(push_constant) uniform Push { rvit_select_push push; };

rvit_sequence image_rows(uint image)
{
    const uint at = uint(push.cu_seqlens_at) + image;
    return clamp_sequence(cu_seqlens[at], cu_seqlens[at + 1], push.max_len, push.rows);
}

// keep is read and written as words of four rows. Byte i of the word at `word` is row 4 * word + i; these are the bytes of rows
// begin..end-1, all bits set.
uint bytes_inside(uint word, uint begin, uint end)
{
    uint mask = 0;
    for (uint i = 0; i < 4; i++)
        if (word * 4 + i >= begin && word * 4 + i < end)
            mask |= 0xffu << i * 8;
    return mask;
}

#endif

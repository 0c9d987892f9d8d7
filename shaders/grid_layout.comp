// The layout of a batch from the grids of its images, and where in its image each row lies. A workgroup takes some images one after the
// other, and adds up those before them by itself.
#version 450
#extension GL_GOOGLE_include_directive : require
#include "common/interface_grids.h"
#include "common/group.glsl"

layout(constant_id = RVIT_GRID_LAYOUT_FLAGS) const uint FLAGS = 0;

layout(binding = RVIT_GRID_LAYOUT_GRIDS) readonly buffer Grids { ivec2 grids[]; };
layout(binding = RVIT_GRID_LAYOUT_CU_SEQLENS) writeonly buffer CuSeqlens { int cu_seqlens[]; };
layout(binding = RVIT_GRID_LAYOUT_PATCH_CU_SEQLENS) writeonly buffer PatchCuSeqlens { int patch_cu_seqlens[]; };
layout(binding = RVIT_GRID_LAYOUT_CELLS) writeonly buffer Cells { ivec4 cells[]; };
layout(binding = RVIT_GRID_LAYOUT_LIVE) readonly buffer Live { int live[]; };
layout(push_constant) uniform Push { rvit_grid_layout_push push; };

shared uvec2 sums[THREADS];

// Tokens and patch rows. What is above the capacities counts as that much, so that no sum overflows.
uvec2 add_sizes(uvec2 a, uvec2 b)
{
    return min(a + b, uvec2(push.rows, push.patch_rows));
}

ivec2 grid_of(int image)
{
    const ivec2 grid = clamp(grids[push.grids_at + image], ivec2(0), ivec2(RVIT_GRID_MAX_SIDE));
    return grid - grid % push.merge;
}

uvec2 size_of(ivec2 grid)
{
    const int n = grid.x * grid.y;
    return uvec2(n == 0 ? 0 : min(n + push.n_prefix, push.max_len), min(n, push.patch_rows));
}

void fill_cells(ivec2 grid, int image, uint begin, uint end, uint first)
{
    const int merge = push.merge;
    const int blocks = grid.y / merge;
    for (uint row = begin + gl_LocalInvocationIndex; row < end; row += THREADS) {
        const int token = int(row - begin) - push.n_prefix;
        ivec4 cell = ivec4(-1 - int(row - begin), image, 0, grid.x << 16 | grid.y);
        if (token >= 0) {
            const int block = token / (merge * merge);
            const int inner = token % (merge * merge);
            cell.x = int(first) + token;
            cell.z = (block / blocks * merge + inner / merge) << 16 | (block % blocks * merge + inner % merge);
        }
        cells[uint(push.cells_at) + row] = cell;
    }
}

void main()
{
    const int n_images =
        (FLAGS & RVIT_GRID_LAYOUT_HAS_LIVE) == 0 ? push.n_images : int(clamp_rows(live[push.live_at], push.n_images));
    const uint index = gl_LocalInvocationIndex;
    const uint first = group_index() * uint(push.per_group);
    if (first > uint(push.n_images))
        return;
    uvec2 before = uvec2(0);
    for (uint i = index; i < min(first, uint(n_images)); i += THREADS)
        before = add_sizes(before, size_of(grid_of(int(i))));
    sums[index] = before;
    barrier();
    for (uint width = THREADS / 2; width > 0; width /= 2) {
        if (index < width)
            sums[index] = add_sizes(sums[index], sums[index + width]);
        barrier();
    }
    before = sums[0];
    const uint past = min(first + uint(push.per_group), uint(push.n_images) + 1);
    for (uint image = first; image < past; image++) {
        if (index == 0) {
            cu_seqlens[uint(push.cu_seqlens_at) + image] = int(before.x);
            if ((FLAGS & RVIT_GRID_LAYOUT_HAS_PATCHES) != 0)
                patch_cu_seqlens[uint(push.patch_cu_seqlens_at) + image] = int(before.y);
        }
        if (image >= uint(n_images))
            continue;
        const ivec2 grid = grid_of(int(image));
        const uvec2 after = add_sizes(before, size_of(grid));
        if ((FLAGS & RVIT_GRID_LAYOUT_HAS_CELLS) != 0)
            fill_cells(grid, int(image), before.x, after.x, before.y);
        before = after;
    }
}

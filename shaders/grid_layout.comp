// The layout of a batch from the patch grids of its images, and the position of each row in its image. A workgroup takes several
// consecutive images, and adds up the sizes of the images before them itself.
#version 450
#extension GL_GOOGLE_include_directive : require
#include "common/interface_grids.h"
#include "common/group.glsl"

layout(constant_id = RVIT_GRID_LAYOUT_FLAGS) const uint FLAGS = 0;

layout(binding = 0) readonly buffer Grids { ivec2 grids[]; };
layout(binding = 1) writeonly buffer CuSeqlens { int cu_seqlens[]; };
layout(binding = 2) writeonly buffer PatchCuSeqlens { int patch_cu_seqlens[]; };
layout(binding = 3) writeonly buffer TokenMap { ivec4 token_map[]; };
layout(binding = 5) writeonly buffer GroupCuSeqlens { int group_cu_seqlens[]; };
layout(binding = 6) writeonly buffer WindowCuSeqlens { int window_cu_seqlens[]; };
layout(binding = 7) writeonly buffer GroupRows { int group_rows[]; };
layout(binding = 4) readonly buffer Live { int live[]; };
layout(push_constant) uniform Push { rvit_grid_layout_push push; };

shared uvec3 sums[THREADS];

// Tokens, patch rows and windows. Values are clamped to the capacities, so that no sum overflows.
uvec3 add_sizes(uvec3 a, uvec3 b)
{
    return min(a + b, uvec3(push.rows, push.patch_rows, push.max_windows + 1));
}

ivec2 grid_of(int image)
{
    const ivec2 grid = clamp(grids[push.grids_at + image], ivec2(0), ivec2(RVIT_GRID_MAX_SIDE));
    return grid - grid % push.merge;
}

uvec3 size_of(ivec2 grid)
{
    const int n = grid.x * grid.y;
    int windows = 0;
    if (push.window > 0) {
        const ivec2 across = (grid + push.merge * push.window - 1) / (push.merge * push.window);
        windows = across.x * across.y;
    }
    return uvec3(n == 0 ? 0 : min(n + push.n_prefix, push.max_len), min(n, push.patch_rows), windows);
}

// The position (y, x) of a merge group, from its index in the row order, in an image of `groups` merge groups.
ivec2 position_of_group(ivec2 groups, int group)
{
    if (push.window == 0)
        return ivec2(group / groups.y, group % groups.y);
    const int top = group / groups.y / push.window * push.window;
    const int lines = min(push.window, groups.x - top);
    const int in_band = group - top * groups.y;
    const int left = in_band / lines / push.window * push.window;
    const int columns = min(push.window, groups.y - left);
    const int inner = in_band - left * lines;
    return ivec2(top + inner / columns, left + inner % columns);
}

// The inverse.
int group_at(ivec2 groups, int y, int x)
{
    if (push.window == 0)
        return y * groups.y + x;
    const int top = y / push.window * push.window;
    const int left = x / push.window * push.window;
    const int lines = min(push.window, groups.x - top);
    const int columns = min(push.window, groups.y - left);
    return top * groups.y + left * lines + (y - top) * columns + x - left;
}

void fill_token_map(ivec2 grid, int image, uint begin, uint end, uint first)
{
    const int merge = push.merge;
    const ivec2 groups = grid / merge;
    for (uint row = begin + gl_LocalInvocationIndex; row < end; row += THREADS) {
        const int token = int(row - begin) - push.n_prefix;
        ivec4 entry = ivec4(-1 - int(row - begin), image, 0, grid.x << 16 | grid.y);
        if (token >= 0) {
            const int inner = token % (merge * merge);
            const ivec2 group = position_of_group(groups, token / (merge * merge));
            const int y = group.x * merge + inner / merge;
            const int x = group.y * merge + inner % merge;
            entry.x = int(first) + ((FLAGS & RVIT_GRID_LAYOUT_LINE_BY_LINE) != 0 ? y * grid.y + x
                                                                               : (group.x * groups.y + group.y) * merge * merge + inner);
            entry.z = y << 16 | x;
        }
        token_map[uint(push.token_map_at) + row] = entry;
    }
}

// Writes the index in the row order of each merge group, in raster order, for an image with rows begin .. end - 1.
void fill_group_rows(ivec2 groups, uint begin, uint end)
{
    const uint area = uint(push.merge * push.merge);
    const uint first = begin / area;
    const uint past = end / area;
    for (uint i = first + gl_LocalInvocationIndex; i < past; i += THREADS) {
        const int k = int(i - first);
        const uint group = first + uint(group_at(groups, k / groups.y, k % groups.y));
        group_rows[uint(push.group_rows_at) + i] = int(min(group, past - 1));
    }
}

// Writes the first row of each of the n windows of such an image. `window` is the index of the first one.
void fill_windows(ivec2 groups, uint window, uint n, uint begin, uint end)
{
    const int across = (groups.y + push.window - 1) / push.window;
    const uint n_windows = min(n, uint(push.max_windows) + 1 - window);
    for (uint i = gl_LocalInvocationIndex; i < n_windows; i += THREADS) {
        const uint group = uint(group_at(groups, int(i) / across * push.window, int(i) % across * push.window));
        window_cu_seqlens[uint(push.window_cu_seqlens_at) + window + i] = int(min(begin + group * uint(push.merge * push.merge), end));
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
    uvec3 before = uvec3(0);
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
            if ((FLAGS & RVIT_GRID_LAYOUT_HAS_GROUPS) != 0)
                group_cu_seqlens[uint(push.group_cu_seqlens_at) + image] = int(before.x) / (push.merge * push.merge);
        }
        if (image == uint(push.n_images) && (FLAGS & RVIT_GRID_LAYOUT_HAS_WINDOWS) != 0)
            for (uint i = before.z + index; i <= uint(push.max_windows); i += THREADS)
                window_cu_seqlens[uint(push.window_cu_seqlens_at) + i] = int(before.x);
        if (image >= uint(n_images))
            continue;
        const ivec2 grid = grid_of(int(image));
        const uvec3 own = size_of(grid);
        const uvec3 after = add_sizes(before, own);
        if ((FLAGS & RVIT_GRID_LAYOUT_HAS_CELLS) != 0)
            fill_token_map(grid, int(image), before.x, after.x, before.y);
        if ((FLAGS & RVIT_GRID_LAYOUT_HAS_GROUP_ROWS) != 0)
            fill_group_rows(grid / push.merge, before.x, after.x);
        if ((FLAGS & RVIT_GRID_LAYOUT_HAS_WINDOWS) != 0)
            fill_windows(grid / push.merge, before.z, own.z, before.x, after.x);
        before = after;
    }
}

// Merge groups and attention windows after a selection.
#version 450
#extension GL_GOOGLE_include_directive : require
#include "common/interface_prune.h"
#include "common/group.glsl"
#include "common/group_scan.glsl"

layout(constant_id = RVIT_GRID_RELAYOUT_FLAGS) const uint FLAGS = 0;

layout(push_constant) uniform Push { rvit_grid_relayout_push push; };
layout(binding = 1) readonly buffer After { int out_cu_seqlens[]; };
layout(binding = 2) readonly buffer SrcRows { int src_rows[]; };
layout(binding = 3) readonly buffer Keep { uint keep_words[]; };
layout(binding = 4) readonly buffer Windows { int windows[]; };
layout(binding = 5) readonly buffer GroupRows { int group_rows[]; };
layout(binding = 6) writeonly buffer GroupCuSeqlens { int group_cu_seqlens[]; };
layout(binding = 7) writeonly buffer OutWindows { int out_windows[]; };
layout(binding = 8) writeonly buffer OutGroupRows { int out_group_rows[]; };
#include "common/images.glsl"

int end_of(uint image)
{
    return clamp(out_cu_seqlens[uint(push.out_cu_seqlens_at) + image], 0, push.rows);
}

// How many of the remaining rows were before this one.
int left_before(int row)
{
    int begin = 0;
    int end = end_of(uint(push.n_images));
    while (begin < end) {
        const int middle = begin + (end - begin) / 2;
        if (src_rows[uint(push.src_rows_at) + uint(middle)] < row)
            begin = middle + 1;
        else
            end = middle;
    }
    return begin;
}

bool is_kept(uint row)
{
    return (keep_words[uint(push.keep_at) + row / 4] >> row % 4 * 8 & 0xffu) != 0;
}

// Lists the remaining merge groups of an image in order.
void list_merge_groups(uint image)
{
    const uint group_size = uint(push.group_size);
    const uint n_groups = uint(push.rows) / group_size;
    const rvit_sequence rows = image_rows(image);
    const uint after = uint(push.out_cu_seqlens_at) + image;
    const rvit_sequence left = clamp_sequence(out_cu_seqlens[after], out_cu_seqlens[after + 1], push.max_len, push.rows);
    const uint past = (rows.begin + rows.len) / group_size;
    const uint out_past = (left.begin + left.len) / group_size;
    const uint rank = group_rank();
    uint to = left.begin / group_size;
    for (uint first = rows.begin / group_size; first < past; first += THREADS) {
        const uint number = first + rank;
        const bool live = number < past;
        const uint row = live ? uint(clamp(group_rows[uint(push.group_rows_at) + number], 0, int(n_groups) - 1)) * group_size : 0;
        const bool kept = live && is_kept(row);
        uint total;
        const uint before = group_exclusive_add(kept ? 1 : 0, total);
        if (kept && to + before < out_past)
            out_group_rows[uint(push.out_group_rows_at) + to + before] = left_before(int(row)) / push.group_size;
        to += total;
    }
}

void main()
{
    const uint step = gl_NumWorkGroups.x * THREADS;
    const uint thread = gl_WorkGroupID.x * THREADS + gl_LocalInvocationIndex;
    for (uint i = thread; i <= uint(push.n_images); i += step)
        group_cu_seqlens[uint(push.group_cu_seqlens_at) + i] = end_of(i) / push.group_size;
    if ((FLAGS & RVIT_GRID_RELAYOUT_HAS_WINDOWS) != 0)
        for (uint i = thread; i <= uint(push.n_windows); i += step)
            out_windows[uint(push.out_window_cu_seqlens_at) + i] = left_before(windows[uint(push.window_cu_seqlens_at) + i]);
    if ((FLAGS & RVIT_GRID_RELAYOUT_HAS_GROUP_ROWS) != 0)
        for (uint image = gl_WorkGroupID.x; image < uint(push.n_images); image += gl_NumWorkGroups.x)
            list_merge_groups(image);
}

// Marks the merge groups of an image that the groups on their left and above do not predict. A team of threads takes a group at a time and
// compares four pairs of groups. Equality is tested on bits, because a driver may flush denormals or assume that there is no NaN.
#version 450
#extension GL_GOOGLE_include_directive : require
#include "common/interface_grids.h"
#include "common/group.glsl"
#include "common/position.glsl"

layout(constant_id = RVIT_PIXELPRUNE_FLAGS) const uint FLAGS = 0;
const bool RECONSTRUCTS = (FLAGS & RVIT_PIXELPRUNE_RECONSTRUCTS) != 0;

layout(push_constant) uniform Push { rvit_pixelprune_push push; };
layout(binding = 1) readonly buffer TokenMap { ivec4 token_map[]; };
layout(binding = 2) readonly buffer Pixels { uvec4 pixels[]; };
layout(binding = 4) readonly buffer GroupRows { int group_rows[]; };
layout(binding = 5) coherent buffer Sources { int sources[]; };
#define KEEP_BINDING 3
#include "common/images.glsl"
#include "common/keep_marks.glsl"

const uint CORNER_LEFT = 1;
const uint CORNER_ABOVE = 2;
const uint OWN_LEFT = 4;
const uint OWN_ABOVE = 8;

shared uint team_pairs[THREADS / RVIT_PIXELPRUNE_TEAM];

float limit_of(uint value)
{
    const uint channels = uint(push.channels);
    const uint channel = (FLAGS & RVIT_PIXELPRUNE_IS_INTERLEAVED) != 0 ? value % channels : value / (uint(push.columns4) * 4 / channels);
    return channel == 0 ? push.limit_0 : channel == 1 ? push.limit_1 : channel == 2 ? push.limit_2 : push.limit_3;
}

bool value_differs(uint x, uint y, float limit)
{
    if (x == y)
        return (x & 0x7fffffffu) > 0x7f800000u; // NaN
    if (((x | y) & 0x7fffffffu) == 0u)
        return false;
    if (!RECONSTRUCTS || limit == 0.0)
        return true;
    precise const float difference = uintBitsToFloat(x) - uintBitsToFloat(y);
    return (floatBitsToUint(difference) & 0x7fffffffu) > floatBitsToUint(limit);
}

bool values_differ(uvec4 x, uvec4 y, vec4 limits)
{
    return value_differs(x.x, y.x, limits.x) || value_differs(x.y, y.y, limits.y) || value_differs(x.z, y.z, limits.z) ||
           value_differs(x.w, y.w, limits.w);
}

uvec4 pixel(int patch_row, uint i)
{
    return pixels[uint(push.pixels_at) + uint(patch_row) * uint(push.stride4) + i];
}

// Distances between the patch rows of an image's merge groups.
struct patch_order {
    int line;        // between lines of a group
    int left, above; // to the group on the left, above
    int last_begin;  // the last valid first patch row of a group; negative: none
};

patch_order order_of(rvit_position position)
{
    const int m = push.merge;
    if ((FLAGS & RVIT_PIXELPRUNE_BY_LINES) != 0)
        return patch_order(position.width, m, m * position.width, push.patch_rows - (m - 1) * position.width - m);
    return patch_order(m, m * m, m * m * max(position.width / m, 1), push.patch_rows - m * m);
}

// Which of the four pairs of groups, given by their first patch rows, differ. All threads must call it.
uint differing(bool live, patch_order order, int own, int left, int above, int corner)
{
    const uint lane = gl_LocalInvocationIndex % RVIT_PIXELPRUNE_TEAM;
    const uint team = gl_LocalInvocationIndex / RVIT_PIXELPRUNE_TEAM;
    uint pairs = 0;
    for (int patch_number = 0; live && patch_number < push.merge * push.merge; patch_number++) {
        const int row = patch_number / push.merge * order.line + patch_number % push.merge;
        for (uint i = lane; i < uint(push.columns4); i += RVIT_PIXELPRUNE_TEAM) {
            const vec4 limits = RECONSTRUCTS ? vec4(limit_of(i * 4), limit_of(i * 4 + 1), limit_of(i * 4 + 2), limit_of(i * 4 + 3))
                                             : vec4(0.0);
            const uvec4 x = pixel(own + row, i);
            const uvec4 a = pixel(left + row, i);
            const uvec4 b = pixel(above + row, i);
            const uvec4 c = pixel(corner + row, i);
            pairs |= (values_differ(c, a, limits) ? CORNER_LEFT : 0) | (values_differ(c, b, limits) ? CORNER_ABOVE : 0) |
                     (values_differ(x, a, limits) ? OWN_LEFT : 0) | (values_differ(x, b, limits) ? OWN_ABOVE : 0);
        }
    }
    if (lane == 0)
        team_pairs[team] = 0;
    barrier();
    if (pairs != 0)
        atomicOr(team_pairs[team], pairs);
    barrier();
    pairs = team_pairs[team];
    barrier();
    return pairs;
}

// The first patch row of the group that reconstructs the group at this patch row.
int reconstruction(patch_order order, int patch_row)
{
    const int at = clamp(patch_row, 0, order.last_begin);
    return RECONSTRUCTS ? clamp(sources[uint(push.sources_at) + uint(at)], 0, order.last_begin) : at;
}

void set_mark(uint row, bool kept)
{
    clear_mark(row, 0xffu);
    if (kept)
        add_mark(row, KEPT);
}

// Marks the group whose first row is `row`, of an image that ends at `past`. All threads must call it.
void mark_merge_group(bool live, uint row, uint past)
{
    const int merge = push.merge;
    const int area = merge * merge;
    const uint lane = gl_LocalInvocationIndex % RVIT_PIXELPRUNE_TEAM;
    const ivec4 entry = live ? token_map[uint(push.token_map_at) + row] : ivec4(0);
    const rvit_position position = position_of(entry);
    const patch_order order = order_of(position);
    const bool has_pixels = order.last_begin >= 0;
    const int own = clamp(entry.x, 0, max(order.last_begin, 0));
    const bool on_left = has_pixels && position.x >= merge;
    const bool above = has_pixels && position.y >= merge;
    const bool has_both = on_left && above;
    const bool compares = live && (on_left || above);
    const int a = compares ? reconstruction(order, own - (on_left ? order.left : order.above)) : 0;
    const int b = compares && has_both ? reconstruction(order, own - order.above) : a;
    const int c = compares && has_both ? reconstruction(order, own - order.above - order.left) : a;
    const uint pairs = differing(compares, order, own, a, b, c);
    const bool takes_b = (pairs & CORNER_LEFT) == 0 && (pairs & CORNER_ABOVE) != 0;
    const bool kept = !(on_left || above) || (pairs & (takes_b ? OWN_ABOVE : OWN_LEFT)) != 0;
    if (!live)
        return;
    if (RECONSTRUCTS && has_pixels && lane == 0)
        sources[uint(push.sources_at) + uint(own)] = kept ? own : takes_b ? b : a;
    if (lane < uint(area) && row + lane < past)
        set_mark(row + lane, kept);
}

// The first row of a group, from its index in the image in raster order.
uint row_of_merge_group(uint first, uint past, uint number)
{
    const uint area = uint(push.merge * push.merge);
    const uint row = first + number * area;
    if ((FLAGS & RVIT_PIXELPRUNE_HAS_GROUP_ROWS) == 0 || row / area >= uint(push.rows) / area)
        return row;
    const int group = clamp(group_rows[uint(push.group_rows_at) + row / area], 0, push.rows / int(area));
    return clamp(uint(group) * area, first, past - 1);
}

void main()
{
    const uint image = group_index() / uint(push.groups);
    const uint part = group_index() % uint(push.groups);
    if (image >= uint(push.n_images))
        return;
    const uint area = uint(push.merge * push.merge);
    const rvit_sequence rows = image_rows(image);
    const uint first = rows.begin + prefix_end(rows);
    const uint past = rows.begin + rows.len;
    if (part == 0)
        for (uint row = rows.begin + gl_LocalInvocationIndex; row < first; row += THREADS)
            set_mark(row, true);
    const uint n = (past - first + area - 1) / area;
    if (n == 0)
        return;
    const uint team = gl_LocalInvocationIndex / RVIT_PIXELPRUNE_TEAM;
    const uint teams = THREADS / RVIT_PIXELPRUNE_TEAM;
    if (!RECONSTRUCTS) {
        for (uint start = part * teams; start < n; start += uint(push.groups) * teams)
            mark_merge_group(start + team < n, first + (start + team) * area, past);
        return;
    }
    // The groups of a diagonal depend on those of the two previous diagonals.
    const uint columns = min(uint(max(position_of(token_map[uint(push.token_map_at) + first]).width / push.merge, 1)), n);
    const uint lines = (n + columns - 1) / columns;
    for (uint diagonal = 0; diagonal < lines + columns - 1; diagonal++) {
        const uint end = min(lines, diagonal + 1);
        for (uint start = diagonal < columns ? 0 : diagonal - columns + 1; start < end; start += teams) {
            const uint y = start + team;
            const uint group = y * columns + diagonal - y;
            mark_merge_group(y < end && group < n, y < end && group < n ? row_of_merge_group(first, past, group) : first, past);
        }
        memoryBarrierBuffer();
        barrier();
    }
}

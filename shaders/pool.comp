// The mean of an image's rows, or its first row, each normalised or not. A workgroup takes 4 * COLUMNS columns of an image and visits the
// rows in blocks: teams of lanes compute the mean and scale of each row of the block, then each thread adds its four columns of every
// THREADS / COLUMNS-th row.
#version 450
#extension GL_GOOGLE_include_directive : require
#if TIER_SUBGROUP
#extension GL_KHR_shader_subgroup_basic : require
#extension GL_KHR_shader_subgroup_arithmetic : require
#endif
#include "common/interface.h"
#include "common/group.glsl"
#include "common/storage.glsl"

layout(constant_id = RVIT_POOL_TEAMS) const uint TEAMS = 4;
layout(constant_id = RVIT_POOL_COLUMNS) const uint COLUMNS = RVIT_POOL_PLAIN_COLUMNS;
layout(constant_id = RVIT_POOL_FLAGS) const uint FLAGS = 0;
const uint ROWS = RVIT_POOL_ROWS;

layout(push_constant) uniform Push { rvit_pool_push push; };
layout(binding = 1) readonly buffer X { IN_VEC4 x_words[]; };
layout(binding = 2) readonly buffer Sizes { float sizes[]; };
layout(binding = 3) readonly buffer Gamma { vec4 gamma_values[]; };
layout(binding = 4) readonly buffer Beta { vec4 beta_values[]; };
layout(binding = 5) writeonly buffer Out { OUT_VEC4 out_words[]; };

#include "common/images.glsl"
#include "common/row_team.glsl"

shared vec4 partial_sums[THREADS];
shared float partial_sizes[THREADS];
shared vec2 stats[ROWS]; // mean and scale

// Called by a team: the mean and scale of the row that begins at `from`.
vec2 stats_of(row_team team, uint from)
{
    const uint dim4 = uint(push.dim4);
    const float inverse_dim = 1.0 / float(push.dim4 * 4);
    float mean = 0.0;
    vec4 sum = vec4(0.0);
    if ((FLAGS & RVIT_POOL_RMS) == 0) {
        const float shift = in_vec4(x_words[from]).x;
        for (uint i = team.lane; i < dim4; i += team.lanes)
            sum += in_vec4(x_words[from + i]) - shift;
        mean = shift + team_add(team, (sum.x + sum.y) + (sum.z + sum.w)) * inverse_dim;
    }
    sum = vec4(0.0);
    for (uint i = team.lane; i < dim4; i += team.lanes) {
        const vec4 d = in_vec4(x_words[from + i]) - mean;
        sum += d * d;
    }
    return vec2(mean, 1.0 / sqrt(team_add(team, (sum.x + sum.y) + (sum.z + sum.w)) * inverse_dim + push.eps));
}

void find_stats(uint first, uint end)
{
    const row_team team = make_row_team(TEAMS);
    for (uint r = team.first; r < ROWS; r += team.step) {
        const vec2 found = stats_of(team, uint(push.x_at) + min(first + r, end - 1) * uint(push.dim4));
        if (team.lane == 0)
            stats[r] = found;
    }
}

void main()
{
    const uint image = group_index() / uint(push.n_blocks);
    const uint column = group_index() % uint(push.n_blocks) * COLUMNS + gl_LocalInvocationIndex % COLUMNS;
    if (image >= uint(push.n_images))
        return;
    const rvit_sequence rows = image_rows(image);
    const bool is_first = (FLAGS & RVIT_POOL_FIRST_ROW) != 0;
    const uint begin = rows.begin + (is_first ? 0 : prefix_end(rows));
    const uint end = rows.begin + (is_first ? min(rows.len, 1) : rows.len);
    const uint teams = THREADS / COLUMNS, team = gl_LocalInvocationIndex / COLUMNS;
    const bool live = column < uint(push.dim4);
    vec4 sum = vec4(0.0);
    float total = 0.0;
    for (uint first = begin; first < end; first += ROWS) {
        if ((FLAGS & RVIT_POOL_HAS_NORM) != 0) {
            find_stats(first, end);
            barrier();
        }
        for (uint r = team; r < ROWS && first + r < end; r += teams) {
            const float size = (FLAGS & RVIT_POOL_HAS_SIZES) != 0 ? sizes[uint(push.sizes_at) + first + r] : 1.0;
            total += size;
            const vec2 norm = (FLAGS & RVIT_POOL_HAS_NORM) != 0 ? stats[r] : vec2(0.0, 1.0);
            if (live)
                sum += (in_vec4(x_words[uint(push.x_at) + (first + r) * uint(push.dim4) + column]) - norm.x) * (norm.y * size);
        }
        if ((FLAGS & RVIT_POOL_HAS_NORM) != 0)
            barrier();
    }
    partial_sums[gl_LocalInvocationIndex] = sum;
    partial_sizes[gl_LocalInvocationIndex] = total;
    barrier();
    if (team != 0 || !live)
        return;
    for (uint t = 1; t < teams; t++) {
        sum += partial_sums[t * COLUMNS + gl_LocalInvocationIndex];
        total += partial_sizes[t * COLUMNS + gl_LocalInvocationIndex];
    }
    vec4 mean = begin < end ? sum / total : vec4(0.0);
    if ((FLAGS & RVIT_POOL_HAS_NORM) != 0 && begin < end)
        mean *= gamma_values[uint(push.gamma_at) + column];
    if ((FLAGS & RVIT_POOL_HAS_BETA) != 0 && begin < end)
        mean += beta_values[uint(push.beta_at) + column];
    out_words[uint(push.out_at) + image * uint(push.out_stride4) + column] = out_vec4(mean);
}

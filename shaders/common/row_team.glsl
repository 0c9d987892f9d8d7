// A team of threads that share a row and sum over it, or with TEAM_MAX find its maximum: either a subgroup that visits the workgroup's rows
// in turn, or an equal share of the workgroup, which uses shared memory and has one row. Sums do not depend on the row's position.
#ifndef ROW_TEAM_GLSL
#define ROW_TEAM_GLSL

struct row_team {
    uint first, step;  // the rows of the team
    uint lane, lanes;
};

#if TIER_SUBGROUP

row_team make_row_team(uint rows)
{
    return row_team(gl_SubgroupID, gl_NumSubgroups, subgroupExclusiveAdd(1u), subgroupAdd(1u));
}

float team_add(row_team team, float value)
{
    return subgroupAdd(value);
}

#if TEAM_MAX
uint team_max(row_team team, uint value)
{
    return subgroupMax(value);
}
#endif

#else

shared float team_values[THREADS];

// THREADS / rows must be a power of two.
row_team make_row_team(uint rows)
{
    const uint lanes = THREADS / rows;
    return row_team(gl_LocalInvocationIndex / lanes, rows, gl_LocalInvocationIndex % lanes, lanes);
}

float team_add(row_team team, float value)
{
    team_values[gl_LocalInvocationIndex] = value;
    barrier();
    for (uint half_width = team.lanes / 2; half_width > 0; half_width /= 2) {
        if (team.lane < half_width)
            team_values[gl_LocalInvocationIndex] += team_values[gl_LocalInvocationIndex + half_width];
        barrier();
    }
    const float sum = team_values[gl_LocalInvocationIndex - team.lane];
    barrier();
    return sum;
}

#if TEAM_MAX
shared uint team_bits[THREADS];

uint team_max(row_team team, uint value)
{
    team_bits[gl_LocalInvocationIndex] = value;
    barrier();
    for (uint half_width = team.lanes / 2; half_width > 0; half_width /= 2) {
        if (team.lane < half_width)
            team_bits[gl_LocalInvocationIndex] = max(team_bits[gl_LocalInvocationIndex], team_bits[gl_LocalInvocationIndex + half_width]);
        barrier();
    }
    const uint largest = team_bits[gl_LocalInvocationIndex - team.lane];
    barrier();
    return largest;
}
#endif

#endif

#endif

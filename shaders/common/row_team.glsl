// Threads that share a row and add over it: a subgroup that walks over the group's rows, or an equal share of the group through shared
// memory, one row each. A row's sum is taken the same way wherever the row lies.
#ifndef ROW_TEAM_GLSL
#define ROW_TEAM_GLSL

struct row_team {
    uint first, step;  // the rows it takes
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

#endif

#endif

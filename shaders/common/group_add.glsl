// The sum of a float over a workgroup, the same for all threads; all must call it.
#ifndef GROUP_ADD_GLSL
#define GROUP_ADD_GLSL

#if TIER_SUBGROUP

shared float subgroup_values[RVIT_MAX_THREADS];

float group_add(float value)
{
    const float sum = subgroupAdd(value);
    if (subgroupElect())
        subgroup_values[gl_SubgroupID] = sum;
    barrier();
    float total = 0.0;
    for (uint s = 0; s < gl_NumSubgroups; s++)
        total += subgroup_values[s];
    barrier();
    return total;
}

#else

shared float group_values[THREADS];

// THREADS must be a power of two.
float group_add(float value)
{
    const uint index = gl_LocalInvocationIndex;
    group_values[index] = value;
    barrier();
    for (uint width = THREADS / 2; width > 0; width /= 2) {
        if (index < width)
            group_values[index] += group_values[index + width];
        barrier();
    }
    const float total = group_values[0];
    barrier();
    return total;
}

#endif

#endif

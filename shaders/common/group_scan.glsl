// Sums over a workgroup. group_rank() numbers the threads in the order in which group_exclusive_add() adds them, which need not be the
// order of gl_LocalInvocationIndex. All threads must call both.
#ifndef GROUP_SCAN_GLSL
#define GROUP_SCAN_GLSL

#if TIER_SUBGROUP

shared uint subgroup_sums[RVIT_MAX_THREADS];

uint group_exclusive_add(uint value, out uint total)
{
    const uint before = subgroupExclusiveAdd(value);
    const uint sum = subgroupAdd(value);
    if (subgroupElect())
        subgroup_sums[gl_SubgroupID] = sum;
    barrier();
    uint offset = 0;
    total = 0;
    for (uint s = 0; s < gl_NumSubgroups; s++) {
        offset += s < gl_SubgroupID ? subgroup_sums[s] : 0;
        total += subgroup_sums[s];
    }
    barrier();
    return offset + before;
}

uint group_rank()
{
    uint total;
    return group_exclusive_add(1u, total);
}

#else

shared uint scan_values[THREADS];

uint group_exclusive_add(uint value, out uint total)
{
    const uint index = gl_LocalInvocationIndex;
    uint sum = value;
    scan_values[index] = sum;
    barrier();
    for (uint distance = 1; distance < THREADS; distance *= 2) {
        const uint below = index >= distance ? scan_values[index - distance] : 0;
        barrier();
        sum += below;
        scan_values[index] = sum;
        barrier();
    }
    total = scan_values[THREADS - 1];
    barrier();
    return sum - value;
}

uint group_rank()
{
    return gl_LocalInvocationIndex;
}

#endif

#endif

// The workgroup: its size, and its index in a dispatch spread over two dimensions.
#ifndef GROUP_GLSL
#define GROUP_GLSL

#extension GL_EXT_control_flow_attributes : require // for [[unroll]]

layout(local_size_x_id = RVIT_SPEC_THREADS, local_size_y = 1, local_size_z = 1) in;

#define THREADS gl_WorkGroupSize.x

uint group_index()
{
    return gl_WorkGroupID.x + gl_WorkGroupID.y * gl_NumWorkGroups.x;
}

// min(capacity, max(live, 0))
uint clamp_rows(int live, int capacity)
{
    return uint(clamp(live, 0, capacity));
}

#endif

/* Shared memory of GEMMs of warpgroups: barriers, and a ring of stages with rows of x and of weight. */
#ifndef RVIT_RING_CUH
#define RVIT_RING_CUH

#include "hopper.cuh"

#ifdef RVIT_HOPPER

/* Shared addresses. Of each stage there is a barrier for rows that have come, and that all have left. A kernel's own barriers begin 512
   bytes behind those of stage 0. */
template <int X_BYTES, int STAGE_BYTES> struct ring_of_stages {
    uint32_t barriers;

    __device__ __forceinline__ ring_of_stages(const unsigned char *memory)
    {
        barriers = (shared_address(memory) + 1023) & ~1023u; /* the swizzle is one of addresses */
    }
    __device__ __forceinline__ uint32_t came(int stage) const
    {
        return barriers + stage * 16;
    }
    __device__ __forceinline__ uint32_t left(int stage) const
    {
        return barriers + stage * 16 + 8;
    }
    __device__ __forceinline__ uint32_t x(int stage) const
    {
        return barriers + 1024 + stage * STAGE_BYTES;
    }
    __device__ __forceinline__ uint32_t weight(int stage) const
    {
        return x(stage) + X_BYTES;
    }
};

#endif

#endif

/* Shared memory of the wgmma GEMMs: barriers, and pipeline stages with rows of x and weight. */
#ifndef RVIT_RING_CUH
#define RVIT_RING_CUH

#include "hopper.cuh"

#ifdef RVIT_HOPPER

/* Shared memory addresses. Each stage has a full and an empty barrier. A kernel's own barriers start 512 bytes after those of stage 0. */
template <int X_BYTES, int STAGE_BYTES> struct ring_of_stages {
    uint32_t barriers;

    __device__ __forceinline__ ring_of_stages(const unsigned char *memory)
    {
        barriers = (shared_address(memory) + 1023) & ~1023u; /* the swizzle depends on addresses */
    }
    __device__ __forceinline__ uint32_t full(int stage) const
    {
        return barriers + stage * 16;
    }
    __device__ __forceinline__ uint32_t empty(int stage) const
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

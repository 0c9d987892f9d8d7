/* A small kernel with clusters, and its mistakes. */
#include "backend_cuda/kernels/hopper.cuh"

#include "kernels.h"
#include "runtime/kernel.h"

/* Each thread of a cluster's blocks of 64 sends its number to the next block. Option 1: before that block is known to have started; 2:
   reads without waiting; 3: the last block returns early; 4: waits at the cluster's barrier without arriving; 5: sends to its own memory
   by a cluster address; 6: uses static shared memory. */
extern "C" void cluster_pass(const test_params params);
EMU_KERNEL(cluster_pass)
extern "C" __global__ void cluster_pass(const test_params params)
{
    RVIT_DYNAMIC_SHARED(memory);
    const uint32_t slots = shared_address(memory), barrier = slots + 64 * 16;
    const int i = (int)threadIdx.x, rank = cluster_rank(), n = params.n;
    if (i == 0)
        barrier_init(barrier, 1);
    block_sync();
    if (i == 0)
        barrier_arrive_expect(barrier, 64 * 16);
    if (params.option != 1)
        cluster_sync();
    if (params.option == 4)
        cluster_wait();
    if (params.option == 5)
        store_shared_16(cluster_address(slots, rank), 0u);
    const int next = (rank + 1) % n;
    float x = static_cast<const float *>(params.in)[blockIdx.x * 64 + threadIdx.x];
    if (params.option == 6) {
        RVIT_SHARED volatile float mine[64];
        mine[i] = x;
        x = mine[i];
    }
    store_async_cluster(cluster_address(slots + (uint32_t)i * 16, next), make_float4(x, 0.0f, 0.0f, 0.0f), cluster_address(barrier, next));
    if (params.option == 3 && rank == n - 1)
        return;
    if (params.option != 2)
        barrier_wait_for_cluster(barrier, 0);
    static_cast<float *>(params.out)[blockIdx.x * 64 + threadIdx.x] = load_shared_4(slots + (uint32_t)(i ^ 1) * 16).x;
    cluster_sync();
}

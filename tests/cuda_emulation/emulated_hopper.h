/* Replaces the functions of backend_cuda/kernels/hopper.cuh when the kernels are compiled for the CPU. */
#ifndef EMULATED_HOPPER_H
#define EMULATED_HOPPER_H

RVIT_DEVICE void barrier_init(uint32_t barrier, int arrivals, emu::site at = emu::site::here())
{
    emu::barrier_init(at, barrier, arrivals);
}

RVIT_DEVICE void barrier_init_fence()
{
}

RVIT_DEVICE void barrier_arrive(uint32_t barrier, emu::site at = emu::site::here())
{
    emu::barrier_arrive(at, barrier, 0);
}

RVIT_DEVICE void barrier_arrive_expect(uint32_t barrier, int bytes, emu::site at = emu::site::here())
{
    emu::barrier_arrive(at, barrier, bytes);
}

RVIT_DEVICE void barrier_expect(uint32_t barrier, int bytes, emu::site at = emu::site::here())
{
    emu::barrier_expect(at, barrier, bytes);
}

RVIT_DEVICE void barrier_wait(uint32_t barrier, int parity, emu::site at = emu::site::here())
{
    emu::barrier_wait(at, barrier, parity);
}

RVIT_DEVICE void barrier_wait_for_cluster(uint32_t barrier, int parity, emu::site at = emu::site::here())
{
    emu::barrier_wait(at, barrier, parity);
}

RVIT_DEVICE void prefetch_map(const void *)
{
}

RVIT_DEVICE void copy_box(uint32_t shared, const void *map, int x, int y, int z, uint32_t barrier, emu::site at = emu::site::here())
{
    emu::copy_box(at, shared, map, 3, {x, y, z}, barrier);
}

RVIT_DEVICE void copy_box(uint32_t shared, const void *map, int x, int y, uint32_t barrier, emu::site at = emu::site::here())
{
    emu::copy_box(at, shared, map, 2, {x, y}, barrier);
}

RVIT_DEVICE void copy_folded_box(uint32_t shared, const void *map, int x, int y, uint32_t barrier, emu::site at = emu::site::here())
{
    emu::copy_box(at, shared, map, 5, {x, 0, 0, 0, y}, barrier);
}

RVIT_DEVICE int cluster_rank()
{
    return emu::cluster_rank();
}

RVIT_DEVICE void cluster_arrive(emu::site at = emu::site::here())
{
    emu::cluster_arrive(at);
}

RVIT_DEVICE void cluster_wait(emu::site at = emu::site::here())
{
    emu::cluster_wait(at);
}

RVIT_DEVICE void cluster_sync(emu::site at = emu::site::here())
{
    emu::cluster_arrive(at);
    emu::cluster_wait(at);
}

RVIT_DEVICE uint32_t cluster_address(uint32_t shared, int rank, emu::site at = emu::site::here())
{
    return emu::cluster_address(at, shared, rank);
}

RVIT_DEVICE void store_async_cluster(uint32_t there, float4 x, uint32_t barrier_there, emu::site at = emu::site::here())
{
    emu::store_async_cluster(at, there, &x, barrier_there);
}

RVIT_DEVICE void barrier_arrive_in(uint32_t barrier, int rank, emu::site at = emu::site::here())
{
    emu::barrier_arrive_in(at, barrier, rank);
}

RVIT_DEVICE void copy_box_to(uint32_t shared, const void *map, int x, int y, uint32_t barrier, int mask, emu::site at = emu::site::here())
{
    emu::copy_box(at, shared, map, 2, {x, y}, barrier, (unsigned)mask);
}

RVIT_DEVICE void copy_folded_box_to(uint32_t shared, const void *map, int x, int y, uint32_t barrier, int mask,
                                    emu::site at = emu::site::here())
{
    emu::copy_box(at, shared, map, 5, {x, 0, 0, 0, y}, barrier, (unsigned)mask);
}

template <int N> RVIT_DEVICE void release_registers()
{
}

template <int N> RVIT_DEVICE void take_registers()
{
}

RVIT_DEVICE void store_shared_16(uint32_t shared, uint32_t word, emu::site at = emu::site::here())
{
    *static_cast<uint4 *>(emu::shared_bytes(at, shared, 16)) = make_uint4(word, word, word, word);
}

RVIT_DEVICE void store_shared_16(uint32_t shared, uint4 x, emu::site at = emu::site::here())
{
    *static_cast<uint4 *>(emu::shared_bytes(at, shared, 16)) = x;
}

RVIT_DEVICE float4 load_shared_4(uint32_t shared, emu::site at = emu::site::here())
{
    return *static_cast<const float4 *>(emu::shared_bytes(at, shared, 16));
}

RVIT_DEVICE void group_arrive(int number, int threads, emu::site at = emu::site::here())
{
    emu::group_arrive(at, number, threads);
}

RVIT_DEVICE void async_proxy_fence()
{
}

RVIT_DEVICE void wgmma_fence()
{
}

RVIT_DEVICE void wgmma_commit(emu::site at = emu::site::here())
{
    emu::wgmma_commit(at);
}

template <int PENDING> RVIT_DEVICE void wgmma_wait(emu::site at = emu::site::here())
{
    emu::wgmma_wait(at, PENDING);
}

template <typename A> RVIT_DEVICE void keep_here(A &)
{
}

template <typename T> const emu::operand operand_of = emu::operand::f16;
template <> const emu::operand operand_of<bf16> = emu::operand::bf16;
template <> const emu::operand operand_of<e4m3> = emu::operand::e4m3;

template <typename T, int N> struct wgmma {

    static void smem_smem_first(float (&d)[N / 2], uint64_t a, uint64_t b, emu::site at = emu::site::here())
    {
        emu::wgmma_issue(at, {N, operand_of<T>, false, nullptr, a, b, d});
    }
    static void smem_smem(float (&d)[N / 2], uint64_t a, uint64_t b, emu::site at = emu::site::here())
    {
        emu::wgmma_issue(at, {N, operand_of<T>, true, nullptr, a, b, d});
    }
    static void regs_smem(float (&d)[N / 2], const uint32_t (&a)[4], uint64_t b, emu::site at = emu::site::here())
    {
        emu::wgmma_issue(at, {N, operand_of<T>, true, a, 0, b, d});
    }
};

#endif

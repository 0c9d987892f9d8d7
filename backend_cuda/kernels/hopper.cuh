/* sm_90a instructions, each in a small function: mbarriers, TMA copies, clusters and wgmma. No other file has inline assembly for them. */
#ifndef RVIT_HOPPER_CUH
#define RVIT_HOPPER_CUH

#include "elements.cuh"

#ifdef RVIT_EMULATION
#define RVIT_HOPPER
#include "emulated_hopper.h"
#elif defined(__CUDA_ARCH_FEAT_SM90_ALL)
#define RVIT_HOPPER

/* mbarriers, by shared address, 8 bytes each. A phase ends when all its arrivals and all expected bytes have come. */

RVIT_DEVICE void barrier_init(uint32_t barrier, int arrivals)
{
    asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(barrier), "r"(arrivals) : "memory");
}

/* Makes initialised barriers visible to TMA. */
RVIT_DEVICE void barrier_init_fence()
{
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
}

RVIT_DEVICE void barrier_arrive(uint32_t barrier)
{
    asm volatile("mbarrier.arrive.release.cta.shared::cta.b64 _, [%0];" ::"r"(barrier) : "memory");
}

RVIT_DEVICE void barrier_arrive_expect(uint32_t barrier, int bytes)
{
    asm volatile("mbarrier.arrive.expect_tx.release.cta.shared::cta.b64 _, [%0], %1;" ::"r"(barrier), "r"(bytes) : "memory");
}

/* Expects bytes without arriving. */
RVIT_DEVICE void barrier_expect(uint32_t barrier, int bytes)
{
    asm volatile("mbarrier.expect_tx.relaxed.cta.shared::cta.b64 [%0], %1;" ::"r"(barrier), "r"(bytes) : "memory");
}

/* Waits until the phase of that parity ends. The phase before the first counts as ended. */
RVIT_DEVICE void barrier_wait(uint32_t barrier, int parity)
{
    asm volatile(
        "{\n.reg .pred done;\nagain:\nmbarrier.try_wait.parity.acquire.cta.shared::cta.b64 done, [%0], %1;\n@!done bra again;\n}" ::"r"(
            barrier),
        "r"(parity)
        : "memory");
}

/* The same, if other CTAs of the cluster stored the data. */
RVIT_DEVICE void barrier_wait_for_cluster(uint32_t barrier, int parity)
{
    asm volatile("{\n.reg .pred done;\nagain:\nmbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 done, [%0], %1;\n@!done bra "
                 "again;\n}" ::"r"(barrier),
                 "r"(parity)
                 : "memory");
}

/* Prefetches the tensor map. */
RVIT_DEVICE void prefetch_map(const void *map)
{
    asm volatile("prefetch.tensormap [%0];" ::"l"(map) : "memory");
}

/* Copies a box of a 3D tensor, from (x, y, z) on. Out-of-bounds elements become zero. */
RVIT_DEVICE void copy_box(uint32_t shared, const void *map, int x, int y, int z, uint32_t barrier)
{
    asm volatile(
        "cp.async.bulk.tensor.3d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%0], [%1, {%2, %3, %4}], [%5];" ::"r"(shared),
        "l"(map), "r"(x), "r"(y), "r"(z), "r"(barrier)
        : "memory");
}

/* The same for 2D, and for 5D from (x, 0, 0, 0, y) on. */
RVIT_DEVICE void copy_box(uint32_t shared, const void *map, int x, int y, uint32_t barrier)
{
    asm volatile(
        "cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%0], [%1, {%2, %3}], [%4];" ::"r"(shared),
        "l"(map), "r"(x), "r"(y), "r"(barrier)
        : "memory");
}

RVIT_DEVICE void copy_folded_box(uint32_t shared, const void *map, int x, int y, uint32_t barrier)
{
    asm volatile("cp.async.bulk.tensor.5d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%0], [%1, {%2, %4, %4, %4, %3}], "
                 "[%5];" ::"r"(shared),
                 "l"(map), "r"(x), "r"(y), "r"(0), "r"(barrier)
                 : "memory");
}

/* Clusters: CTAs that run at the same time and can access each other's shared memory. Shared memory has the same layout in all of them. */

RVIT_DEVICE int cluster_rank()
{
    int rank;
    asm volatile("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
    return rank;
}

/* A barrier of all threads of the cluster. It does not order stores. */
RVIT_DEVICE void cluster_sync()
{
    asm volatile("barrier.cluster.arrive.relaxed;\nbarrier.cluster.wait;" ::: "memory");
}

/* The same, split into arrive and wait. */
RVIT_DEVICE void cluster_arrive()
{
    asm volatile("barrier.cluster.arrive.relaxed;" ::: "memory");
}

RVIT_DEVICE void cluster_wait()
{
    asm volatile("barrier.cluster.wait;" ::: "memory");
}

/* The address of `shared` in the CTA of that rank. */
RVIT_DEVICE uint32_t cluster_address(uint32_t shared, int rank)
{
    uint32_t there;
    asm("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(there) : "r"(shared), "r"(rank));
    return there;
}

/* Stores 16 bytes in another CTA and completes them on its barrier, which must expect them. */
RVIT_DEVICE void store_async_cluster(uint32_t there, float4 x, uint32_t barrier_there)
{
    asm volatile("st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.v4.f32 [%0], {%1,%2,%3,%4}, [%5];" ::"r"(there), "f"(x.x),
                 "f"(x.y), "f"(x.z), "f"(x.w), "r"(barrier_there)
                 : "memory");
}

/* Arrives at the barrier of the CTA of that rank. It orders no memory there: it only reports what wgmma has read. */
RVIT_DEVICE void barrier_arrive_in(uint32_t barrier, int rank)
{
    asm volatile("{\n.reg .b32 there;\nmapa.shared::cluster.u32 there, %0, %1;\n"
                 "mbarrier.arrive.shared::cluster.b64 _, [there];\n}" ::"r"(barrier),
                 "r"(rank)
                 : "memory");
}

/* Multicasts a 5D box to the CTAs in mask, and completes the bytes on the barrier of each. */
RVIT_DEVICE void copy_folded_box_to(uint32_t shared, const void *map, int x, int y, uint32_t barrier, int mask)
{
    asm volatile("cp.async.bulk.tensor.5d.shared::cluster.global.tile.mbarrier::complete_tx::bytes.multicast::cluster [%0], [%1, {%2, "
                 "%4, %4, %4, %3}], [%5], %6;" ::"r"(shared),
                 "l"(map), "r"(x), "r"(y), "r"(0), "r"(barrier), "h"((uint16_t)mask)
                 : "memory");
}

/* The same for 2D. */
RVIT_DEVICE void copy_box_to(uint32_t shared, const void *map, int x, int y, uint32_t barrier, int mask)
{
    asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes.multicast::cluster [%0], [%1, {%2, "
                 "%3}], [%4], %5;" ::"r"(shared),
                 "l"(map), "r"(x), "r"(y), "r"(barrier), "h"((uint16_t)mask)
                 : "memory");
}

/* The warpgroup releases registers, or takes released ones. */
template <int N> RVIT_DEVICE void release_registers()
{
    asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(N));
}

template <int N> RVIT_DEVICE void take_registers()
{
    asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(N));
}

RVIT_DEVICE void store_shared_16(uint32_t shared, uint4 x)
{
    asm volatile("st.shared.v4.u32 [%0], {%1,%2,%3,%4};" ::"r"(shared), "r"(x.x), "r"(x.y), "r"(x.z), "r"(x.w) : "memory");
}

RVIT_DEVICE void store_shared_16(uint32_t shared, uint32_t word)
{
    asm volatile("st.shared.v4.u32 [%0], {%1,%1,%1,%1};" ::"r"(shared), "r"(word) : "memory");
}

RVIT_DEVICE float4 load_shared_4(uint32_t shared)
{
    float4 x;
    asm volatile("ld.shared.v4.f32 {%0,%1,%2,%3}, [%4];" : "=f"(x.x), "=f"(x.y), "=f"(x.z), "=f"(x.w) : "r"(shared) : "memory");
    return x;
}

/* Arrives at a barrier of group_sync without waiting. */
RVIT_DEVICE void group_arrive(int number, int threads)
{
    asm volatile("bar.arrive %0, %1;" ::"r"(number), "r"(threads) : "memory");
}

/* Makes this thread's stores to shared memory visible to wgmma and TMA. */
RVIT_DEVICE void async_proxy_fence()
{
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
}

/* Needed before a wgmma that accesses registers written by other instructions. */
RVIT_DEVICE void wgmma_fence()
{
    asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
}

RVIT_DEVICE void wgmma_commit()
{
    asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
}

/* Waits until at most PENDING groups are in flight. Before, the registers of a wgmma must not be used. */
template <int PENDING> RVIT_DEVICE void wgmma_wait()
{
    asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(PENDING) : "memory");
}

/* The compiler moves no use of x across this point. It does not know that wgmma uses the registers until waited for. */
template <int N> RVIT_DEVICE void keep_here(float (&x)[N])
{
#pragma unroll
    for (int i = 0; i < N; i++)
        asm volatile("" : "+f"(x[i])::"memory");
}

template <int M> RVIT_DEVICE void keep_here(uint32_t (&x)[M][4])
{
#pragma unroll
    for (int i = 0; i < M; i++)
#pragma unroll
        for (int j = 0; j < 4; j++)
            asm volatile("" : "+r"(x[i][j])::"memory");
}

/* A wgmma of 64 rows of A, 32 bytes each, and N columns of B. d is laid out like mma.m16n8k16 in each of four warps. e4m3 accumulates in
   some 13 bits (cuBLASLt's fast accumulation).
   smem_smem: d += a b, with A and B in shared memory, K contiguous.
   smem_smem_first: d = a b. d is not an input, because uninitialised inputs would occupy registers from the start of the kernel.
   regs_smem: d += a b, with A in registers like mma.m16n8k16, and B in shared memory, N contiguous. */
template <typename T, int N> struct wgmma;

#define NUMBERS_4 "%0,%1,%2,%3"
#define NUMBERS_8 NUMBERS_4 ",%4,%5,%6,%7"
#define NUMBERS_16 NUMBERS_8 ",%8,%9,%10,%11,%12,%13,%14,%15"
#define NUMBERS_32 NUMBERS_16 ",%16,%17,%18,%19,%20,%21,%22,%23,%24,%25,%26,%27,%28,%29,%30,%31"
#define NUMBERS_36 NUMBERS_32 ",%32,%33,%34,%35"
#define NUMBERS_40 NUMBERS_36 ",%36,%37,%38,%39"
#define NUMBERS_48 NUMBERS_40 ",%40,%41,%42,%43,%44,%45,%46,%47"
#define NUMBERS_64 NUMBERS_40 ",%40,%41,%42,%43,%44,%45,%46,%47,%48,%49,%50,%51,%52,%53,%54,%55,%56,%57,%58,%59,%60,%61,%62,%63"
#define NUMBERS_68 NUMBERS_64 ",%64,%65,%66,%67"
#define NUMBERS_96 \
    NUMBERS_68 ",%68,%69,%70,%71,%72,%73,%74,%75,%76,%77,%78,%79,%80,%81,%82,%83,%84,%85,%86,%87,%88,%89,%90,%91,%92,%93,%94,%95"
#define OPERANDS_4(i) "+f"(d[i]), "+f"(d[i + 1]), "+f"(d[i + 2]), "+f"(d[i + 3])
#define OPERANDS_8(i) OPERANDS_4(i), OPERANDS_4(i + 4)
#define OPERANDS_16(i) OPERANDS_8(i), OPERANDS_8(i + 8)
#define OPERANDS_32(i) OPERANDS_16(i), OPERANDS_16(i + 16)
#define OPERANDS_36(i) OPERANDS_32(i), OPERANDS_4(i + 32)
#define OPERANDS_40(i) OPERANDS_32(i), OPERANDS_8(i + 32)
#define OPERANDS_48(i) OPERANDS_32(i), OPERANDS_16(i + 32)
#define OPERANDS_64(i) OPERANDS_32(i), OPERANDS_32(i + 32)
#define OPERANDS_68(i) OPERANDS_64(i), OPERANDS_4(i + 64)
#define OPERANDS_96(i) OPERANDS_64(i), OPERANDS_32(i + 64)
#define RESULTS_4(i) "=f"(d[i]), "=f"(d[i + 1]), "=f"(d[i + 2]), "=f"(d[i + 3])
#define RESULTS_8(i) RESULTS_4(i), RESULTS_4(i + 4)
#define RESULTS_16(i) RESULTS_8(i), RESULTS_8(i + 8)
#define RESULTS_32(i) RESULTS_16(i), RESULTS_16(i + 16)
#define RESULTS_36(i) RESULTS_32(i), RESULTS_4(i + 32)
#define RESULTS_40(i) RESULTS_32(i), RESULTS_8(i + 32)
#define RESULTS_48(i) RESULTS_32(i), RESULTS_16(i + 32)
#define RESULTS_64(i) RESULTS_32(i), RESULTS_32(i + 32)
#define RESULTS_68(i) RESULTS_64(i), RESULTS_4(i + 64)
#define RESULTS_96(i) RESULTS_64(i), RESULTS_32(i + 64)
#define INSTRUCTION(T, N) "wgmma.mma_async.sync.aligned.m64n" #N "k16.f32." #T "." #T
/* N0 to N4: operand numbers after the REGS of d. */
#define WGMMA(T, N, REGS, N0, N1, N2, N3, N4)                                                                                   \
    template <> struct wgmma<T, N> {                                                                                            \
        static __device__ __forceinline__ void smem_smem_first(float (&d)[REGS], uint64_t a, uint64_t b)                        \
        {                                                                                                                       \
            asm volatile("{\n.reg .pred p;\nsetp.ne.u32 p, 0, 0;\n" INSTRUCTION(T, N) " {" NUMBERS_##REGS "}, %" #N0 ", %" #N1  \
                                                                                                          ", p, 1, 1, 0, 0;\n}" \
                         : RESULTS_##REGS(0)                                                                                    \
                         : "l"(a), "l"(b));                                                                                     \
        }                                                                                                                       \
        static __device__ __forceinline__ void smem_smem(float (&d)[REGS], uint64_t a, uint64_t b)                              \
        {                                                                                                                       \
            asm volatile("{\n.reg .pred p;\nsetp.eq.u32 p, 0, 0;\n" INSTRUCTION(T, N) " {" NUMBERS_##REGS "}, %" #N0 ", %" #N1  \
                                                                                                          ", p, 1, 1, 0, 0;\n}" \
                         : OPERANDS_##REGS(0)                                                                                   \
                         : "l"(a), "l"(b));                                                                                     \
        }                                                                                                                       \
        static __device__ __forceinline__ void regs_smem(float (&d)[REGS], const uint32_t (&a)[4], uint64_t b)                  \
        {                                                                                                                       \
            asm volatile("{\n.reg .pred p;\nsetp.eq.u32 p, 0, 0;\n" INSTRUCTION(T, N) " {" NUMBERS_##REGS                       \
                         "}, {%" #N0 ",%" #N1 ",%" #N2 ",%" #N3 "}, %" #N4 ", p, 1, 1, 1;\n}"                                   \
                         : OPERANDS_##REGS(0)                                                                                   \
                         : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b));                                                 \
        }                                                                                                                       \
    };
#define WGMMA_16_BIT(N, ...) WGMMA(f16, N, __VA_ARGS__) WGMMA(bf16, N, __VA_ARGS__)
WGMMA_16_BIT(8, 4, 4, 5, 6, 7, 8)
WGMMA_16_BIT(16, 8, 8, 9, 10, 11, 12)
WGMMA_16_BIT(32, 16, 16, 17, 18, 19, 20)
WGMMA_16_BIT(64, 32, 32, 33, 34, 35, 36)
WGMMA_16_BIT(72, 36, 36, 37, 38, 39, 40)
WGMMA_16_BIT(80, 40, 40, 41, 42, 43, 44)
WGMMA_16_BIT(96, 48, 48, 49, 50, 51, 52)
WGMMA_16_BIT(128, 64, 64, 65, 66, 67, 68)
WGMMA_16_BIT(136, 68, 68, 69, 70, 71, 72)
WGMMA_16_BIT(192, 96, 96, 97, 98, 99, 100)
#define WGMMA_E4M3(N, REGS, N0, N1)                                                                     \
    template <> struct wgmma<e4m3, N> {                                                                 \
        static __device__ __forceinline__ void smem_smem(float (&d)[REGS], uint64_t a, uint64_t b)      \
        {                                                                                               \
            asm volatile("{\n.reg .pred p;\nsetp.eq.u32 p, 0, 0;\nwgmma.mma_async.sync.aligned.m64n" #N \
                         "k32.f32.e4m3.e4m3 {" NUMBERS_##REGS "}, %" #N0 ", %" #N1 ", p, 1, 1;\n}"      \
                         : OPERANDS_##REGS(0)                                                           \
                         : "l"(a), "l"(b));                                                             \
        }                                                                                               \
    };
WGMMA_E4M3(64, 32, 32, 33)
WGMMA_E4M3(96, 48, 48, 49)
WGMMA_E4M3(128, 64, 64, 65)
WGMMA_E4M3(192, 96, 96, 97)
#undef WGMMA_E4M3
#undef WGMMA_16_BIT
#undef WGMMA
#undef INSTRUCTION

#endif

#ifdef RVIT_HOPPER

/* The wgmma descriptor of a matrix in shared memory, with rows of 128 bytes and the 128-byte swizzle; `leading` bytes from one panel to
   the next. */
RVIT_DEVICE uint64_t matrix_at(uint32_t shared, int leading)
{
    return (uint64_t)((shared & 0x3ffff) >> 4) | (uint64_t)((leading & 0x3ffff) >> 4) << 16 | (uint64_t)(1024 >> 4) << 32 | 1ull << 62;
}

#endif
#endif

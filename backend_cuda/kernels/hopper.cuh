/* What only sm_90a has: mbarriers, copies by tensor maps (TMA) and products by warpgroups, four warps each (wgmma). Each is a small
   function. No other file has its instructions. */
#ifndef RVIT_HOPPER_CUH
#define RVIT_HOPPER_CUH

#include "elements.cuh"

#ifdef RVIT_EMULATION
#define RVIT_HOPPER
#include "emulated_hopper.h"
#elif defined(__CUDA_ARCH_FEAT_SM90_ALL)
#define RVIT_HOPPER

/* mbarriers, by shared address, of 8 bytes. A phase ends when all arrivals it was made for have come, and all bytes they announced. */

RVIT_DEVICE void barrier_init(uint32_t barrier, int arrivals)
{
    asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(barrier), "r"(arrivals) : "memory");
}

/* Makes the barriers seen by copies. */
RVIT_DEVICE void barrier_init_fence()
{
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
}

RVIT_DEVICE void barrier_arrive(uint32_t barrier)
{
    asm volatile("mbarrier.arrive.release.cta.shared::cta.b64 _, [%0];" ::"r"(barrier) : "memory");
}

RVIT_DEVICE void barrier_announce(uint32_t barrier, int bytes)
{
    asm volatile("mbarrier.arrive.expect_tx.release.cta.shared::cta.b64 _, [%0], %1;" ::"r"(barrier), "r"(bytes) : "memory");
}

/* The bytes alone: an arrival is still to come. */
RVIT_DEVICE void barrier_expect(uint32_t barrier, int bytes)
{
    asm volatile("mbarrier.expect_tx.relaxed.cta.shared::cta.b64 [%0], %1;" ::"r"(barrier), "r"(bytes) : "memory");
}

/* Waits for the end of the phase of that parity; that before the first phase has ended. */
RVIT_DEVICE void barrier_wait(uint32_t barrier, int parity)
{
    asm volatile(
        "{\n.reg .pred done;\nagain:\nmbarrier.try_wait.parity.acquire.cta.shared::cta.b64 done, [%0], %1;\n@!done bra again;\n}" ::"r"(
            barrier),
        "r"(parity)
        : "memory");
}

/* The same where threads of other CTAs of the cluster have stored what is waited for. */
RVIT_DEVICE void barrier_wait_for_cluster(uint32_t barrier, int parity)
{
    asm volatile("{\n.reg .pred done;\nagain:\nmbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 done, [%0], %1;\n@!done bra "
                 "again;\n}" ::"r"(barrier),
                 "r"(parity)
                 : "memory");
}

/* Has the tensor map fetched, before a copy needs it. */
RVIT_DEVICE void prefetch_map(const void *map)
{
    asm volatile("prefetch.tensormap [%0];" ::"l"(map) : "memory");
}

/* A box of a tensor of three dimensions, from (x, y, z) on. What lies outside the tensor becomes zero. */
RVIT_DEVICE void copy_box(uint32_t shared, const void *map, int x, int y, int z, uint32_t barrier)
{
    asm volatile(
        "cp.async.bulk.tensor.3d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%0], [%1, {%2, %3, %4}], [%5];" ::"r"(shared),
        "l"(map), "r"(x), "r"(y), "r"(z), "r"(barrier)
        : "memory");
}

/* The same of two dimensions, and of five from (x, 0, 0, 0, y) on. */
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

/* Clusters: CTAs that run at the same time and reach each other's shared memory. What is at an address in one is there in all. */

RVIT_DEVICE int cluster_rank()
{
    int rank;
    asm volatile("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
    return rank;
}

/* All threads of all CTAs meet. It orders no stores. */
RVIT_DEVICE void cluster_sync()
{
    asm volatile("barrier.cluster.arrive.relaxed;\nbarrier.cluster.wait;" ::: "memory");
}

/* The same in two parts: this thread is there, and waits for all others. */
RVIT_DEVICE void cluster_arrive()
{
    asm volatile("barrier.cluster.arrive.relaxed;" ::: "memory");
}

RVIT_DEVICE void cluster_wait()
{
    asm volatile("barrier.cluster.wait;" ::: "memory");
}

/* A shared address as one of the CTA of that rank. */
RVIT_DEVICE uint32_t cluster_address(uint32_t shared, int rank)
{
    uint32_t there;
    asm("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(there) : "r"(shared), "r"(rank));
    return there;
}

/* Stores 16 bytes in another CTA. They are there when its barrier, which has been told of them, ends its phase. */
RVIT_DEVICE void store_in_cluster(uint32_t there, float4 x, uint32_t barrier_there)
{
    asm volatile("st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.v4.f32 [%0], {%1,%2,%3,%4}, [%5];" ::"r"(there), "f"(x.x),
                 "f"(x.y), "f"(x.z), "f"(x.w), "r"(barrier_there)
                 : "memory");
}

/* Arrives at the barrier of one of the CTAs. It orders nothing there: what the thread has read by products is all that it tells of. */
RVIT_DEVICE void barrier_arrive_in(uint32_t barrier, int rank)
{
    asm volatile("{\n.reg .b32 there;\nmapa.shared::cluster.u32 there, %0, %1;\n"
                 "mbarrier.arrive.shared::cluster.b64 _, [there];\n}" ::"r"(barrier),
                 "r"(rank)
                 : "memory");
}

/* A folded box for the CTAs whose bits are set in mask; the barrier of each is told of it. */
RVIT_DEVICE void copy_folded_box_to(uint32_t shared, const void *map, int x, int y, uint32_t barrier, int mask)
{
    asm volatile("cp.async.bulk.tensor.5d.shared::cluster.global.tile.mbarrier::complete_tx::bytes.multicast::cluster [%0], [%1, {%2, "
                 "%4, %4, %4, %3}], [%5], %6;" ::"r"(shared),
                 "l"(map), "r"(x), "r"(y), "r"(0), "r"(barrier), "h"((uint16_t)mask)
                 : "memory");
}

/* The same of two dimensions. */
RVIT_DEVICE void copy_box_to(uint32_t shared, const void *map, int x, int y, uint32_t barrier, int mask)
{
    asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes.multicast::cluster [%0], [%1, {%2, "
                 "%3}], [%4], %5;" ::"r"(shared),
                 "l"(map), "r"(x), "r"(y), "r"(barrier), "h"((uint16_t)mask)
                 : "memory");
}

/* The warpgroup gives registers back, or takes what others gave back. */
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

/* Arrives at a barrier of group_sync and does not wait. */
RVIT_DEVICE void group_arrive(int number, int threads)
{
    asm volatile("bar.arrive %0, %1;" ::"r"(number), "r"(threads) : "memory");
}

/* Makes this thread's stores to shared memory seen by products. */
RVIT_DEVICE void async_proxy_fence()
{
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
}

/* Before the first product that reads or writes registers which other instructions have written. */
RVIT_DEVICE void wgmma_fence()
{
    asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
}

RVIT_DEVICE void wgmma_commit()
{
    asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
}

/* Until at most PENDING groups are under way. Until then the registers of a product must not be touched. */
template <int PENDING> RVIT_DEVICE void wgmma_wait()
{
    asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(PENDING) : "memory");
}

/* The compiler moves no use of x over this place: it does not know that products work on registers until they are waited for. */
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

/* Products of 64 rows of A, 32 bytes of each, and N columns of B; d as four mma.m16n8k16 have it, a warp's rows after another's. The sums
   of e4m3 are those that cuBLASLt calls fast: the accumulators keep some 13 bits. smem_smem: d += a b; A and B in shared memory, both
   with k contiguous. smem_smem_first: d = a b. It does not read d: numbers read before they are set would occupy registers from the
   kernel's begin on. registers: d += a b; A in registers as mma.m16n8k16 has it, B in shared memory with N contiguous. */
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
/* The numbers are those of the operands behind the REGS of d. */
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

/* What wgmma is told of a matrix in shared memory. Rows of 128 bytes, swizzled, 8 of them are 1024 bytes; `leading` bytes from a panel to
   the next. */
RVIT_DEVICE uint64_t matrix_at(uint32_t shared, int leading)
{
    return (uint64_t)((shared & 0x3ffff) >> 4) | (uint64_t)((leading & 0x3ffff) >> 4) << 16 | (uint64_t)(1024 >> 4) << 32 | 1ull << 62;
}

#endif
#endif

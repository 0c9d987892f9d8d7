/* Device features beyond C++, each in a small function. No other file has inline assembly for them or CUDA built-in functions. */
#ifndef RVIT_INTRINSICS_CUH
#define RVIT_INTRINSICS_CUH

#include <math.h>
#include <stdint.h>

#include "../tile.h"

#ifdef RVIT_EMULATION
#include "emulated_intrinsics.h"
#else

#define RVIT_DEVICE static __device__ __forceinline__
#define RVIT_SHARED __shared__
#define RVIT_DYNAMIC_SHARED(name) extern __shared__ __align__(128) unsigned char name[]

/* Synchronisation. */

RVIT_DEVICE void block_sync()
{
    __syncthreads();
}

/* The named barrier `number`, from 1 on, for `threads` threads of the block in whole warps. */
RVIT_DEVICE void group_sync(int number, int threads)
{
    asm volatile("bar.sync %0, %1;" ::"r"(number), "r"(threads) : "memory");
}

RVIT_DEVICE void warp_sync()
{
    __syncwarp();
}

template <typename T> RVIT_DEVICE T shuffle_xor(T value, int mask)
{
    return __shfl_xor_sync(0xffffffffu, value, mask);
}

template <typename T> RVIT_DEVICE T shuffle(T value, int lane)
{
    return __shfl_sync(0xffffffffu, value, lane);
}

template <typename T> RVIT_DEVICE T shuffle_down(T value, int delta)
{
    return __shfl_down_sync(0xffffffffu, value, delta);
}

template <typename T> RVIT_DEVICE T shuffle_up(T value, int delta)
{
    return __shfl_up_sync(0xffffffffu, value, delta);
}

RVIT_DEVICE unsigned warp_ballot(bool predicate)
{
    return __ballot_sync(0xffffffffu, predicate);
}

RVIT_DEVICE bool warp_any(bool predicate)
{
    return __any_sync(0xffffffffu, predicate) != 0;
}

/* The maximum over the warp. */
RVIT_DEVICE unsigned warp_max(unsigned value)
{
    return __reduce_max_sync(0xffffffffu, value);
}

RVIT_DEVICE int atomic_add(int *p, int value)
{
    return atomicAdd(p, value);
}

RVIT_DEVICE int atomic_max(int *p, int value)
{
    return atomicMax(p, value);
}

/* With acquire and release: a thread that reads the new value sees what the block wrote before its last barrier. */
RVIT_DEVICE int atomic_add_ordered(int *p, int value)
{
    int before;
    asm volatile("atom.acq_rel.gpu.global.add.s32 %0, [%1], %2;" : "=r"(before) : "l"(p), "r"(value) : "memory");
    return before;
}

/* Orders this thread's accesses before its later ones for all blocks, including what other threads wrote before a common barrier. */
RVIT_DEVICE void memory_fence()
{
    __threadfence();
}

/* A kernel launched early (queue.c) runs concurrently with the previous ones. Until it has waited, it writes nothing, and reads only
   what no op of the program writes. From launch_next on, the next kernel may start. */
RVIT_DEVICE void launch_next()
{
#if __CUDA_ARCH__ >= 900
    asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
#endif
}

RVIT_DEVICE void wait_for_previous()
{
#if __CUDA_ARCH__ >= 900
    asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}

/* Visible to other blocks, without ordering. */
RVIT_DEVICE unsigned long long load_relaxed(const unsigned long long *p)
{
    unsigned long long value;
    asm volatile("ld.relaxed.gpu.global.u64 %0, [%1];" : "=l"(value) : "l"(p) : "memory");
    return value;
}

RVIT_DEVICE void store_relaxed(unsigned long long *p, unsigned long long value)
{
    asm volatile("st.relaxed.gpu.global.u64 [%0], %1;" ::"l"(p), "l"(value) : "memory");
}

/* Bits and numbers. */

RVIT_DEVICE int bit_count(unsigned x)
{
    return __popc(x);
}

RVIT_DEVICE int find_first(unsigned x)
{
    return __ffs((int)x) - 1;
}

RVIT_DEVICE int leading_zeros(unsigned x)
{
    return __clz((int)x);
}

/* The two low and the two high halves of two pairs of 16-bit values. */
RVIT_DEVICE uint32_t low_halves(uint32_t a, uint32_t b)
{
    return __byte_perm(a, b, 0x5410);
}

RVIT_DEVICE uint32_t high_halves(uint32_t a, uint32_t b)
{
    return __byte_perm(a, b, 0x7632);
}

/* The low 32 bits of the pair, shifted right by 0..31 bits. */
RVIT_DEVICE uint32_t shift_pair(uint32_t low, uint32_t high, int bits)
{
    return __funnelshift_r(low, high, (unsigned)bits);
}

/* Two bytes, saturated to 0..255. */
RVIT_DEVICE uint32_t saturate_u8x2(int low, int high)
{
    uint32_t y;
    asm("cvt.pack.sat.u8.s32.b32 %0, %1, %2, %3;" : "=r"(y) : "r"(high), "r"(low), "r"(0));
    return y;
}

RVIT_DEVICE uint32_t float_bits(float x)
{
    return __float_as_uint(x);
}

RVIT_DEVICE float bits_float(uint32_t x)
{
    return __uint_as_float(x);
}

/* Rounded, never contracted into an fma. */
RVIT_DEVICE float mul_rn(float a, float b)
{
    return __fmul_rn(a, b);
}

RVIT_DEVICE float add_rn(float a, float b)
{
    return __fadd_rn(a, b);
}

/* The maximum; NaN if an operand is. */
RVIT_DEVICE float max_or_nan(float a, float b)
{
    float y;
    asm("max.NaN.f32 %0, %1, %2;" : "=f"(y) : "f"(a), "f"(b));
    return y;
}

/* Error of at most 2 ulp. */
RVIT_DEVICE float inverse_sqrt(float x)
{
    return rsqrtf(x);
}

RVIT_DEVICE float exp2_fast(float x)
{
    float y;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
}

RVIT_DEVICE float reciprocal_fast(float x)
{
    float y;
    asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
}

RVIT_DEVICE float f16_float(uint16_t x)
{
    float y;
    asm("cvt.f32.f16 %0, %1;" : "=f"(y) : "h"(x));
    return y;
}

RVIT_DEVICE float bf16_float(uint16_t x)
{
    return bits_float((uint32_t)x << 16);
}

RVIT_DEVICE uint16_t float_f16(float x)
{
    uint16_t y;
    asm("cvt.rn.f16.f32 %0, %1;" : "=h"(y) : "f"(x));
    return y;
}

RVIT_DEVICE uint16_t float_bf16(float x)
{
    uint16_t y;
    asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(y) : "f"(x));
    return y;
}

RVIT_DEVICE uint32_t pack_f16(float low, float high)
{
    uint32_t y;
    asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(y) : "f"(high), "f"(low));
    return y;
}

RVIT_DEVICE uint32_t pack_bf16(float low, float high)
{
    uint32_t y;
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(y) : "f"(high), "f"(low));
    return y;
}

/* e4m3 needs compute capability 8.9. Other devices never launch its kernels. */
#if __CUDA_ARCH__ >= 890
#define RVIT_HAS_E4M3
#endif

/* Rounds four numbers to nearest. Magnitudes above 448 saturate; NaN stays NaN. */
RVIT_DEVICE uint32_t pack_e4m3(float a, float b, float c, float d)
{
    uint32_t y = 0;
#ifdef RVIT_HAS_E4M3
    uint16_t low, high;
    asm("cvt.rn.satfinite.e4m3x2.f32 %0, %1, %2;" : "=h"(low) : "f"(b), "f"(a));
    asm("cvt.rn.satfinite.e4m3x2.f32 %0, %1, %2;" : "=h"(high) : "f"(d), "f"(c));
    y = (uint32_t)low | (uint32_t)high << 16;
#endif
    return y;
}

/* Saturates at 65504. */
RVIT_DEVICE uint32_t pack_f16_finite(float low, float high)
{
    uint32_t y;
    asm("cvt.rn.satfinite.f16x2.f32 %0, %1, %2;" : "=r"(y) : "f"(high), "f"(low));
    return y;
}

/* The same value in both halves. */
RVIT_DEVICE uint32_t pair_of_halves(float x)
{
    return pack_f16(x, x);
}

RVIT_DEVICE uint32_t magnitude_of_halves(uint32_t x)
{
    uint32_t y;
    asm("abs.f16x2 %0, %1;" : "=r"(y) : "r"(x));
    return y;
}

RVIT_DEVICE uint32_t max_halves(uint32_t a, uint32_t b)
{
    uint32_t y;
    asm("max.f16x2 %0, %1, %2;" : "=r"(y) : "r"(a), "r"(b));
    return y;
}

RVIT_DEVICE uint32_t mul_halves(uint32_t a, uint32_t b)
{
    uint32_t y;
    asm("mul.rn.f16x2 %0, %1, %2;" : "=r"(y) : "r"(a), "r"(b));
    return y;
}

RVIT_DEVICE uint32_t fma_halves(uint32_t a, uint32_t b, uint32_t c)
{
    uint32_t y;
    asm("fma.rn.f16x2 %0, %1, %2, %3;" : "=r"(y) : "r"(a), "r"(b), "r"(c));
    return y;
}

/* c - a b */
RVIT_DEVICE uint32_t sub_product_halves(uint32_t c, uint32_t a, uint32_t b)
{
    uint32_t y;
    asm("{\n.reg .b32 minus;\nneg.f16x2 minus, %1;\nfma.rn.f16x2 %0, minus, %2, %3;\n}" : "=r"(y) : "r"(a), "r"(b), "r"(c));
    return y;
}

RVIT_DEVICE uint32_t exp2_halves(uint32_t x)
{
    uint32_t y;
    asm("ex2.approx.f16x2 %0, %1;" : "=r"(y) : "r"(x));
    return y;
}

/* 1 where a > b, otherwise 0. */
RVIT_DEVICE uint32_t beyond_halves(uint32_t a, uint32_t b)
{
    uint32_t y;
    asm("set.gt.f16x2.f16x2 %0, %1, %2;" : "=r"(y) : "r"(a), "r"(b));
    return y;
}

/* pack_e4m3 for two pairs of halves. */
RVIT_DEVICE uint32_t pack_e4m3_of_halves(uint32_t low, uint32_t high)
{
    uint32_t y = 0;
#ifdef RVIT_HAS_E4M3
    uint16_t first, second;
    asm("cvt.rn.satfinite.e4m3x2.f16x2 %0, %1;" : "=h"(first) : "r"(low));
    asm("cvt.rn.satfinite.e4m3x2.f16x2 %0, %1;" : "=h"(second) : "r"(high));
    y = (uint32_t)first | (uint32_t)second << 16;
#endif
    return y;
}

/* Asynchronous copies to shared memory. A thread waits for the groups that it committed. Without valid, zeros are written and source is
   not read. */

RVIT_DEVICE uint32_t shared_address(const void *p)
{
    return static_cast<uint32_t>(__cvta_generic_to_shared(p));
}

/* Prefetches the cache line of p into L2. */
RVIT_DEVICE void prefetch_l2(const void *p)
{
    asm volatile("prefetch.global.L2 [%0];" ::"l"(p));
}

/* Predicated stores, without a branch. */
RVIT_DEVICE void store_16_where(bool is_there, void *p, uint4 x)
{
    asm volatile(
        "{\n.reg .pred there;\nsetp.ne.u32 there, %0, 0;\n@there st.global.v4.u32 [%1], {%2,%3,%4,%5};\n}" ::"r"((uint32_t)is_there),
        "l"(p), "r"(x.x), "r"(x.y), "r"(x.z), "r"(x.w)
        : "memory");
}

RVIT_DEVICE void store_8_where(bool is_there, void *p, uint2 x)
{
    asm volatile("{\n.reg .pred there;\nsetp.ne.u32 there, %0, 0;\n@there st.global.v2.u32 [%1], {%2,%3};\n}" ::"r"((uint32_t)is_there),
                 "l"(p), "r"(x.x), "r"(x.y)
                 : "memory");
}

RVIT_DEVICE void store_4_where(bool is_there, void *p, uint32_t x)
{
    asm volatile("{\n.reg .pred there;\nsetp.ne.u32 there, %0, 0;\n@there st.global.u32 [%1], %2;\n}" ::"r"((uint32_t)is_there), "l"(p),
                 "r"(x)
                 : "memory");
}

RVIT_DEVICE uint4 load_shared_16(uint32_t shared)
{
    uint4 x;
    asm volatile("ld.shared.v4.u32 {%0,%1,%2,%3}, [%4];\n" : "=r"(x.x), "=r"(x.y), "=r"(x.z), "=r"(x.w) : "r"(shared) : "memory");
    return x;
}

RVIT_DEVICE uint2 load_shared_8(uint32_t shared)
{
    uint2 x;
    asm volatile("ld.shared.v2.u32 {%0,%1}, [%2];\n" : "=r"(x.x), "=r"(x.y) : "r"(shared) : "memory");
    return x;
}

RVIT_DEVICE void copy_async_16(uint32_t shared, const void *source, bool valid)
{
    const int size = valid ? 16 : 0;
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;\n" ::"r"(shared), "l"(source), "r"(size) : "memory");
}

RVIT_DEVICE void copy_async_8(uint32_t shared, const void *source, bool valid)
{
    const int size = valid ? 8 : 0;
    asm volatile("cp.async.ca.shared.global [%0], [%1], 8, %2;\n" ::"r"(shared), "l"(source), "r"(size) : "memory");
}

RVIT_DEVICE void copy_commit()
{
    asm volatile("cp.async.commit_group;\n" ::: "memory");
}

template <int PENDING> RVIT_DEVICE void copy_wait()
{
    asm volatile("cp.async.wait_group %0;\n" ::"n"(PENDING) : "memory");
}

/* Matrix fragments: four 8x8 matrices of 16-bit elements, where lane l addresses row l % 8 of matrix l / 8; and mma.m16n8k16. */

RVIT_DEVICE void load_matrix_x4(uint32_t (&r)[4], uint32_t shared)
{
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];\n"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
                 : "r"(shared)
                 : "memory");
}

RVIT_DEVICE void load_matrix_x4_transposed(uint32_t (&r)[4], uint32_t shared)
{
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3}, [%4];\n"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
                 : "r"(shared)
                 : "memory");
}

/* Transposes an 8x8 matrix of 16-bit elements. A lane has two adjacent elements in row lane / 4, and gets those in column lane / 4. */
RVIT_DEVICE uint32_t transpose_matrix(uint32_t pair)
{
    uint32_t y;
    asm volatile("movmatrix.sync.aligned.m8n8.trans.b16 %0, %1;\n" : "=r"(y) : "r"(pair));
    return y;
}

RVIT_DEVICE void mma_f16(float (&d)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1)
{
    asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};\n"
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

RVIT_DEVICE void mma_bf16(float (&d)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1)
{
    asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};\n"
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

/* mma.m16n8k32. 8-bit tensor cores keep 13 bits of a sum. So each sum of 32 products starts at zero, and is added to d in float32.
   Architectures that multiply e4m3 as float16 accumulate in float32. */
RVIT_DEVICE void mma_e4m3(float (&d)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1)
{
#if RVIT_CU_IS_LARGE(__CUDA_ARCH__ / 10)
    asm("mma.sync.aligned.m16n8k32.row.col.f32.e4m3.e4m3.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};\n"
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
#elif defined(RVIT_HAS_E4M3)
    float sum[4];
    asm("mma.sync.aligned.m16n8k32.row.col.f32.e4m3.e4m3.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%10,%10,%10,%10};\n"
        : "=f"(sum[0]), "=f"(sum[1]), "=f"(sum[2]), "=f"(sum[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1), "f"(0.0f));
    d[0] += sum[0], d[1] += sum[1], d[2] += sum[2], d[3] += sum[3];
#endif
}

/* mma.m16n8k32: A is unsigned bytes; B is unsigned or signed bytes. */
template <bool SIGNED> RVIT_DEVICE void mma_u8(int (&d)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1)
{
    if (SIGNED)
        asm("mma.sync.aligned.m16n8k32.row.col.s32.u8.s8.s32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};\n"
            : "+r"(d[0]), "+r"(d[1]), "+r"(d[2]), "+r"(d[3])
            : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
    else
        asm("mma.sync.aligned.m16n8k32.row.col.s32.u8.u8.s32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};\n"
            : "+r"(d[0]), "+r"(d[1]), "+r"(d[2]), "+r"(d[3])
            : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

#endif
#endif

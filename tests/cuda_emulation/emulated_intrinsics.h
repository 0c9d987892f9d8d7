/* Replaces the functions of backend_cuda/kernels/intrinsics.cuh when the kernels are compiled for the CPU. */
#ifndef EMULATED_INTRINSICS_H
#define EMULATED_INTRINSICS_H

#include <math.h>
#include <stdint.h>
#include <string.h>

#include "runtime/device.h"
#include "runtime/half.h"

#define __global__
#define __grid_constant__
#define __device__
#define __forceinline__ inline __attribute__((always_inline))
#define __launch_bounds__(...)
#define RVIT_DEVICE static inline

/* An OS thread runs one block at a time, so shared variables can be thread-local. */
#define RVIT_SHARED thread_local
#define RVIT_DYNAMIC_SHARED(name) unsigned char *const name = ::emu::dynamic_shared()

#define threadIdx (::emu::self()->index)
#define blockIdx (::emu::self()->launch->block_index)
#define blockDim (::emu::self()->launch->block_size)
#define gridDim (::emu::self()->launch->grid_size)

struct alignas(8) float2 {
    float x, y;
};
struct alignas(16) float4 {
    float x, y, z, w;
};
struct alignas(8) int2 {
    int x, y;
};
struct alignas(16) int4 {
    int x, y, z, w;
};
struct alignas(8) uint2 {
    unsigned x, y;
};
struct alignas(16) uint4 {
    unsigned x, y, z, w;
};

RVIT_DEVICE float2 make_float2(float x, float y)
{
    return {x, y};
}

RVIT_DEVICE float4 make_float4(float x, float y, float z, float w)
{
    return {x, y, z, w};
}

RVIT_DEVICE int2 make_int2(int x, int y)
{
    return {x, y};
}

RVIT_DEVICE int4 make_int4(int x, int y, int z, int w)
{
    return {x, y, z, w};
}

RVIT_DEVICE uint2 make_uint2(unsigned x, unsigned y)
{
    return {x, y};
}

RVIT_DEVICE uint4 make_uint4(unsigned x, unsigned y, unsigned z, unsigned w)
{
    return {x, y, z, w};
}

#define EMU_MIN_MAX(T)          \
    RVIT_DEVICE T min(T a, T b) \
    {                           \
        return b < a ? b : a;   \
    }                           \
    RVIT_DEVICE T max(T a, T b) \
    {                           \
        return a < b ? b : a;   \
    }
EMU_MIN_MAX(int)
EMU_MIN_MAX(unsigned)
EMU_MIN_MAX(long long)
EMU_MIN_MAX(unsigned long long)
#undef EMU_MIN_MAX

/* Synchronisation. The last argument is the caller's source location. */

RVIT_DEVICE void block_sync(emu::site at = emu::site::here())
{
    emu::block_barrier(at);
}

RVIT_DEVICE void group_sync(int number, int threads, emu::site at = emu::site::here())
{
    emu::group_barrier(at, number, threads);
}

RVIT_DEVICE void warp_sync(emu::site at = emu::site::here())
{
    emu::warp_collective(at, emu::collective::sync, 0, 0);
}

RVIT_DEVICE void memory_fence()
{
}

/* Here a kernel ends before the next one starts; accesses of an early kernel before its wait are checked. */
RVIT_DEVICE void launch_next()
{
}

RVIT_DEVICE void wait_for_previous()
{
    emu::wait_for_previous();
}

template <typename T> RVIT_DEVICE T emulated_shuffle(emu::site at, emu::collective kind, T value, int argument)
{
    static_assert(sizeof(T) == 4, "a shuffle moves 4 bytes");
    uint32_t bits;
    memcpy(&bits, &value, 4);
    bits = emu::warp_collective(at, kind, bits, argument);
    memcpy(&value, &bits, 4);
    return value;
}

template <typename T> RVIT_DEVICE T shuffle_xor(T value, int mask, emu::site at = emu::site::here())
{
    return emulated_shuffle(at, emu::collective::shuffle_xor, value, mask);
}

template <typename T> RVIT_DEVICE T shuffle(T value, int lane, emu::site at = emu::site::here())
{
    return emulated_shuffle(at, emu::collective::shuffle, value, lane);
}

template <typename T> RVIT_DEVICE T shuffle_down(T value, int delta, emu::site at = emu::site::here())
{
    return emulated_shuffle(at, emu::collective::shuffle_down, value, delta);
}

template <typename T> RVIT_DEVICE T shuffle_up(T value, int delta, emu::site at = emu::site::here())
{
    return emulated_shuffle(at, emu::collective::shuffle_up, value, delta);
}

RVIT_DEVICE unsigned warp_ballot(bool predicate, emu::site at = emu::site::here())
{
    return emu::warp_collective(at, emu::collective::ballot, predicate, 0);
}

RVIT_DEVICE bool warp_any(bool predicate, emu::site at = emu::site::here())
{
    return warp_ballot(predicate, at) != 0;
}

RVIT_DEVICE unsigned warp_max(unsigned value, emu::site at = emu::site::here())
{
    for (int mask = 16; mask > 0; mask /= 2)
        value = max(value, emulated_shuffle(at, emu::collective::shuffle_xor, value, mask));
    return value;
}

/* Between CTAs. */

RVIT_DEVICE int atomic_add(int *p, int value)
{
    return emu::atomic_add(p, value);
}

RVIT_DEVICE int atomic_max(int *p, int value)
{
    return emu::atomic_max(p, value);
}

RVIT_DEVICE int atomic_add_ordered(int *p, int value)
{
    return emu::atomic_add(p, value);
}

RVIT_DEVICE unsigned long long load_relaxed(const unsigned long long *p)
{
    return emu::load_relaxed(p);
}

RVIT_DEVICE void store_relaxed(unsigned long long *p, unsigned long long value)
{
    emu::store_relaxed(p, value);
}

/* Bits and numbers. */

RVIT_DEVICE int bit_count(unsigned x)
{
    return __builtin_popcount(x);
}

RVIT_DEVICE int find_first(unsigned x)
{
    return __builtin_ffs((int)x) - 1;
}

RVIT_DEVICE int leading_zeros(unsigned x)
{
    return x ? __builtin_clz(x) : 32;
}

RVIT_DEVICE uint32_t low_halves(uint32_t a, uint32_t b)
{
    return (a & 0xffff) | b << 16;
}

RVIT_DEVICE uint32_t high_halves(uint32_t a, uint32_t b)
{
    return a >> 16 | (b & 0xffff0000);
}

RVIT_DEVICE uint32_t shift_pair(uint32_t low, uint32_t high, int bits)
{
    return (uint32_t)(((uint64_t)high << 32 | low) >> bits);
}

RVIT_DEVICE uint32_t saturate_u8x2(int low, int high)
{
    return (uint32_t)min(max(low, 0), 255) | (uint32_t)min(max(high, 0), 255) << 8;
}

RVIT_DEVICE uint32_t float_bits(float x)
{
    return emu::bits_of_float(x);
}

RVIT_DEVICE float bits_float(uint32_t x)
{
    return emu::float_of_bits(x);
}

/* The barrier keeps the compiler, which contracts like nvcc, from fusing the operation. */
RVIT_DEVICE float mul_rn(float a, float b)
{
    return emu::rounded(a * b);
}

RVIT_DEVICE float add_rn(float a, float b)
{
    return emu::rounded(emu::rounded(a) + emu::rounded(b));
}

RVIT_DEVICE float max_or_nan(float a, float b)
{
    return a != a ? a : b <= a ? a : b;
}

/* Exact here, within 2 ulp on the device. Both flush denormals. */
RVIT_DEVICE float inverse_sqrt(float x)
{
    return 1.0f / sqrtf(x);
}

RVIT_DEVICE float exp2_fast(float x)
{
    const float y = exp2f(x);
    return y < 1.17549435e-38f ? 0.0f : y;
}

RVIT_DEVICE float reciprocal_fast(float x)
{
    return 1.0f / x;
}

RVIT_DEVICE float f16_float(uint16_t x)
{
    return emu::f16_to_f32(x);
}

RVIT_DEVICE float bf16_float(uint16_t x)
{
    return emu::bf16_to_f32(x);
}

RVIT_DEVICE uint16_t float_f16(float x)
{
    return emu::f32_to_f16(x);
}

RVIT_DEVICE uint16_t float_bf16(float x)
{
    return emu::f32_to_bf16(x);
}

RVIT_DEVICE uint32_t pack_f16(float low, float high)
{
    return emu::f32_to_f16(low) | (uint32_t)emu::f32_to_f16(high) << 16;
}

RVIT_DEVICE uint32_t pack_bf16(float low, float high)
{
    return emu::f32_to_bf16(low) | (uint32_t)emu::f32_to_bf16(high) << 16;
}

#define RVIT_HAS_E4M3

RVIT_DEVICE uint32_t pack_e4m3(float a, float b, float c, float d)
{
    return (uint32_t)emu::f32_to_e4m3(a) | (uint32_t)emu::f32_to_e4m3(b) << 8 | (uint32_t)emu::f32_to_e4m3(c) << 16 |
           (uint32_t)emu::f32_to_e4m3(d) << 24;
}

/* Pairs of halves, computed in float32 and rounded again. */

template <typename F> RVIT_DEVICE uint32_t each_half(F of)
{
    return pack_f16(of(0), of(16));
}

RVIT_DEVICE float half_at(uint32_t x, int bit)
{
    return f16_float((uint16_t)(x >> bit));
}

RVIT_DEVICE uint32_t pack_f16_finite(float low, float high)
{
    return pack_f16(low > 65504 ? 65504 : low < -65504 ? -65504 : low, high > 65504 ? 65504 : high < -65504 ? -65504 : high);
}

RVIT_DEVICE uint32_t pair_of_halves(float x)
{
    return pack_f16(x, x);
}

RVIT_DEVICE uint32_t magnitude_of_halves(uint32_t x)
{
    return x & 0x7fff7fff;
}

RVIT_DEVICE uint32_t max_halves(uint32_t a, uint32_t b)
{
    return each_half([=](int bit) { return fmaxf(half_at(a, bit), half_at(b, bit)); });
}

RVIT_DEVICE uint32_t mul_halves(uint32_t a, uint32_t b)
{
    return each_half([=](int bit) { return half_at(a, bit) * half_at(b, bit); });
}

RVIT_DEVICE uint32_t fma_halves(uint32_t a, uint32_t b, uint32_t c)
{
    return each_half([=](int bit) { return fmaf(half_at(a, bit), half_at(b, bit), half_at(c, bit)); });
}

RVIT_DEVICE uint32_t sub_product_halves(uint32_t c, uint32_t a, uint32_t b)
{
    return each_half([=](int bit) { return fmaf(-half_at(a, bit), half_at(b, bit), half_at(c, bit)); });
}

RVIT_DEVICE uint32_t exp2_halves(uint32_t x)
{
    return each_half([=](int bit) { return exp2f(half_at(x, bit)); });
}

RVIT_DEVICE uint32_t beyond_halves(uint32_t a, uint32_t b)
{
    return each_half([=](int bit) { return half_at(a, bit) > half_at(b, bit) ? 1.0f : 0.0f; });
}

RVIT_DEVICE uint32_t pack_e4m3_of_halves(uint32_t low, uint32_t high)
{
    return pack_e4m3(half_at(low, 0), half_at(low, 16), half_at(high, 0), half_at(high, 16));
}

/* Asynchronous copies and matrix fragments. */

RVIT_DEVICE uint32_t shared_address(const void *p, emu::site at = emu::site::here())
{
    return emu::shared_address(at, p);
}

RVIT_DEVICE void prefetch_l2(const void *p)
{
    (void)*static_cast<const volatile unsigned char *>(p);
}

RVIT_DEVICE void store_16_where(bool is_there, void *p, uint4 x)
{
    if (is_there)
        *static_cast<uint4 *>(p) = x;
}

RVIT_DEVICE void store_8_where(bool is_there, void *p, uint2 x)
{
    if (is_there)
        *static_cast<uint2 *>(p) = x;
}

RVIT_DEVICE void store_4_where(bool is_there, void *p, uint32_t x)
{
    if (is_there)
        *static_cast<uint32_t *>(p) = x;
}

RVIT_DEVICE uint4 load_shared_16(uint32_t shared, emu::site at = emu::site::here())
{
    return *static_cast<const uint4 *>(emu::shared_bytes(at, shared, 16));
}

RVIT_DEVICE uint2 load_shared_8(uint32_t shared, emu::site at = emu::site::here())
{
    return *static_cast<const uint2 *>(emu::shared_bytes(at, shared, 8));
}

RVIT_DEVICE void copy_async_16(uint32_t shared, const void *source, bool valid, emu::site at = emu::site::here())
{
    emu::copy_async(at, shared, source, 16, valid);
}

RVIT_DEVICE void copy_async_8(uint32_t shared, const void *source, bool valid, emu::site at = emu::site::here())
{
    emu::copy_async(at, shared, source, 8, valid);
}

RVIT_DEVICE void copy_commit()
{
    emu::copy_async_commit();
}

template <int PENDING> RVIT_DEVICE void copy_wait()
{
    emu::copy_async_wait(PENDING);
}

RVIT_DEVICE void load_matrix_x4(uint32_t (&r)[4], uint32_t shared, emu::site at = emu::site::here())
{
    emu::load_matrix(at, r, false, shared);
}

RVIT_DEVICE void load_matrix_x4_transposed(uint32_t (&r)[4], uint32_t shared, emu::site at = emu::site::here())
{
    emu::load_matrix(at, r, true, shared);
}

RVIT_DEVICE uint32_t transpose_matrix(uint32_t pair, emu::site at = emu::site::here())
{
    return emu::warp_collective(at, emu::collective::transpose, pair, 0);
}

RVIT_DEVICE void mma_f16(float (&d)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1, emu::site at = emu::site::here())
{
    const uint32_t b[2] = {b0, b1};
    emu::multiply(at, emu::collective::multiply_f16, d, a, b);
}

RVIT_DEVICE void mma_bf16(float (&d)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1, emu::site at = emu::site::here())
{
    const uint32_t b[2] = {b0, b1};
    emu::multiply(at, emu::collective::multiply_bf16, d, a, b);
}

/* Same as on sm_89, which has the narrowest accumulator. */
RVIT_DEVICE void mma_e4m3(float (&d)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1, emu::site at = emu::site::here())
{
    const uint32_t b[2] = {b0, b1};
    float sum[4] = {0.0f, 0.0f, 0.0f, 0.0f};
    emu::multiply_e4m3(at, sum, a, b);
    for (int i = 0; i < 4; i++)
        d[i] += sum[i];
}

template <bool SIGNED>
RVIT_DEVICE void mma_u8(int (&d)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1, emu::site at = emu::site::here())
{
    const uint32_t b[2] = {b0, b1};
    emu::multiply_u8(at, SIGNED, d, a, b);
}

#endif

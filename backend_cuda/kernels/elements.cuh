/* Element types, and helpers of all kernels: rows, images, vectors of four elements. */
#ifndef RVIT_ELEMENTS_CUH
#define RVIT_ELEMENTS_CUH

#include "intrinsics.cuh"

#include "../params.h"

typedef float f32;
struct f16 {
    uint16_t bits;
};
struct bf16 {
    uint16_t bits;
};
struct e4m3 {
    uint8_t bits;
};

RVIT_DEVICE float to_float(float x)
{
    return x;
}

RVIT_DEVICE float to_float(f16 x)
{
    return f16_float(x.bits);
}

RVIT_DEVICE float to_float(bf16 x)
{
    return bf16_float(x.bits);
}

/* For each type: rounding and unpacking a pair, and its mma. */
template <typename T> struct element;

template <> struct element<f16> {
    static const uint32_t ONES = 0x3c003c00u; /* a pair */
    static __device__ __forceinline__ uint32_t pack(float low, float high)
    {
        return pack_f16(low, high);
    }
    static __device__ __forceinline__ float2 unpack(uint32_t pair)
    {
        return make_float2(f16_float((uint16_t)pair), f16_float((uint16_t)(pair >> 16)));
    }
    static __device__ __forceinline__ void mma(float (&d)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1)
    {
        mma_f16(d, a, b0, b1);
    }
};

template <> struct element<bf16> {
    static const uint32_t ONES = 0x3f803f80u;
    static __device__ __forceinline__ uint32_t pack(float low, float high)
    {
        return pack_bf16(low, high);
    }
    static __device__ __forceinline__ float2 unpack(uint32_t pair)
    {
        return make_float2(bf16_float((uint16_t)pair), bf16_float((uint16_t)(pair >> 16)));
    }
    static __device__ __forceinline__ void mma(float (&d)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1)
    {
        mma_bf16(d, a, b0, b1);
    }
};

/* Four elements, at a multiple of four elements from a 16-byte boundary, in stored form or as float32. The stored form allows many loads
   in flight. */
template <typename T> struct raw_4 {
    typedef uint2 type;
    static __device__ __forceinline__ float4 floats(uint2 raw)
    {
        const float2 low = element<T>::unpack(raw.x), high = element<T>::unpack(raw.y);
        return make_float4(low.x, low.y, high.x, high.y);
    }
    static __device__ __forceinline__ uint2 stored(float4 x)
    {
        return make_uint2(element<T>::pack(x.x, x.y), element<T>::pack(x.z, x.w));
    }
};

template <> struct raw_4<float> {
    typedef float4 type;
    static __device__ __forceinline__ float4 floats(float4 raw)
    {
        return raw;
    }
    static __device__ __forceinline__ float4 stored(float4 x)
    {
        return x;
    }
};

template <typename T> RVIT_DEVICE typename raw_4<T>::type load_raw_4(const T *p)
{
    return *reinterpret_cast<const typename raw_4<T>::type *>(p);
}

template <typename T> RVIT_DEVICE float4 load_4(const T *p)
{
    return raw_4<T>::floats(load_raw_4(p));
}

template <typename T> RVIT_DEVICE void store_4(T *p, float4 x)
{
    *reinterpret_cast<typename raw_4<T>::type *>(p) = raw_4<T>::stored(x);
}

/* Two elements. */
RVIT_DEVICE float2 load_2(const float *p)
{
    return *reinterpret_cast<const float2 *>(p);
}

template <typename T> RVIT_DEVICE float2 load_2(const T *p)
{
    return element<T>::unpack(*reinterpret_cast<const uint32_t *>(p));
}

RVIT_DEVICE void store_2(float *p, float2 x)
{
    *reinterpret_cast<float2 *>(p) = x;
}

template <typename T> RVIT_DEVICE void store_2(T *p, float2 x)
{
    *reinterpret_cast<uint32_t *>(p) = element<T>::pack(x.x, x.y);
}

/* Stores a value and, low_offset elements further on, its rounding error; 0: no low half. float32 is not rounded. */
RVIT_DEVICE void store_split(float *p, int, float4 x)
{
    store_4(p, x);
}

RVIT_DEVICE void store_split(float *p, int, float2 x)
{
    store_2(p, x);
}

template <typename T> RVIT_DEVICE void store_split(T *p, int low_offset, float4 x)
{
    const uint2 stored = raw_4<T>::stored(x);
    *reinterpret_cast<uint2 *>(p) = stored;
    const float4 y = raw_4<T>::floats(stored);
    if (low_offset > 0)
        store_4(p + low_offset, make_float4(x.x - y.x, x.y - y.y, x.z - y.z, x.w - y.w));
}

template <typename T> RVIT_DEVICE void store_split(T *p, int low_offset, float2 x)
{
    const uint32_t stored = element<T>::pack(x.x, x.y);
    *reinterpret_cast<uint32_t *>(p) = stored;
    const float2 y = element<T>::unpack(stored);
    if (low_offset > 0)
        store_2(p + low_offset, make_float2(x.x - y.x, x.y - y.y));
}

/* Four elements with the type known at run time. index counts elements. */
RVIT_DEVICE float4 load_4_as(int dtype, const void *p, long long index)
{
    if (dtype == RVIT_CU_F32)
        return load_4(static_cast<const float *>(p) + index);
    if (dtype == RVIT_CU_F16)
        return load_4(static_cast<const f16 *>(p) + index);
    return load_4(static_cast<const bf16 *>(p) + index);
}

RVIT_DEVICE void store_4_as(int dtype, void *p, long long index, float4 x)
{
    if (dtype == RVIT_CU_F32)
        store_4(static_cast<float *>(p) + index, x);
    else if (dtype == RVIT_CU_F16)
        store_4(static_cast<f16 *>(p) + index, x);
    else
        store_4(static_cast<bf16 *>(p) + index, x);
}

/* Returns x, opaque to the compiler, so that what depends on it is recomputed instead of kept in registers through a loop. */
RVIT_DEVICE int recompute(int x)
{
    asm volatile("" : "+r"(x));
    return x;
}

RVIT_DEVICE int live_rows(const rvit_cu_rows &rows)
{
    return rows.live == nullptr ? rows.capacity : min(max(*rows.live, 0), rows.capacity);
}

/* The rows of an image, clamped to 0..rows and at most max_len, whatever cu_seqlens holds. */
struct image_rows {
    int begin, len;
};

RVIT_DEVICE image_rows rows_of_image(const int32_t *cu_seqlens, int image, int rows, int max_len)
{
    image_rows r;
    r.begin = min(max(cu_seqlens[image], 0), rows);
    const int end = min(max(cu_seqlens[image + 1], r.begin), rows);
    r.len = min(end - r.begin, max_len);
    return r;
}

/* The sum of two non-negative numbers, at most `limit`. */
RVIT_DEVICE int saturating_add(int a, int b, int limit)
{
    return (int)min((unsigned)a + (unsigned)b, (unsigned)limit);
}

/* A warp copies n pieces, with several loads in flight. */
template <typename V> RVIT_DEVICE void copy_pieces(V *to, const V *from, int n)
{
    enum { AHEAD = 8 };
    for (int first = threadIdx.x & 31; first < n; first += 32 * AHEAD) {
        V piece[AHEAD];
#pragma unroll
        for (int i = 0; i < AHEAD; i++)
            if (first + i * 32 < n)
                piece[i] = from[first + i * 32];
#pragma unroll
        for (int i = 0; i < AHEAD; i++)
            if (first + i * 32 < n)
                to[first + i * 32] = piece[i];
    }
}

RVIT_DEVICE float warp_sum(float x)
{
    for (int mask = 16; mask > 0; mask /= 2)
        x += shuffle_xor(x, mask);
    return x;
}

#endif

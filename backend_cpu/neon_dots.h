/* NEON's dot products and small matrix multiplications, on registers of 16 bytes. Only kernel files include this; with
   RVIT_NEON_EMULATED they are plain C, which any processor runs. `lane` is a literal number.

     dot_s8     each of 4 int32 of sum += 4 int8 of b times those of lane `lane` of a
     dot_bf16   each of 4 floats of sum += 2 bf16 of b times those of lane `lane` of a
     mmla_s8    sum [2, 2] of int32 += a [2, 8] b [2, 8]^T of int8
     mmla_bf16  sum [2, 2] of floats += a [2, 4] b [2, 4]^T of bf16

   Sums of int8 are exact. Those of bf16 are rounded to odd after each addition, and subnormal numbers count as zero; the emulation rounds
   to the nearest. Either way the bits of a sum depend only on its operands. */
#ifndef RVIT_CPU_NEON_DOTS_H
#define RVIT_CPU_NEON_DOTS_H

#include <stdint.h>
#include <string.h>

typedef int8_t neon_s8 __attribute__((vector_size(16)));
typedef uint16_t neon_u16 __attribute__((vector_size(16)));
typedef int32_t neon_s32 __attribute__((vector_size(16)));
typedef int64_t neon_s64 __attribute__((vector_size(16)));
typedef float neon_f32 __attribute__((vector_size(16)));

static inline neon_s8 neon_load(const void *p)
{
    neon_s8 lanes;
    memcpy(&lanes, p, sizeof lanes);
    return lanes;
}

static inline void neon_store(void *p, neon_s8 lanes)
{
    memcpy(p, &lanes, sizeof lanes);
}

/* The lower, or upper, halves of two registers. */
#define neon_low(a, b) ((neon_s8)__builtin_shufflevector((neon_s64)(a), (neon_s64)(b), 0, 2))
#define neon_high(a, b) ((neon_s8)__builtin_shufflevector((neon_s64)(a), (neon_s64)(b), 1, 3))

#if defined(RVIT_NEON_EMULATED)

static inline neon_s32 dot_s8(neon_s32 sum, neon_s8 b, neon_s8 a, int lane)
{
    for (int i = 0; i < 16; i++)
        sum[i / 4] += a[4 * lane + i % 4] * b[i];
    return sum;
}

static inline neon_s32 mmla_s8(neon_s32 sum, neon_s8 a, neon_s8 b)
{
    for (int i = 0; i < 32; i++)
        sum[i / 8] += a[i / 16 * 8 + i % 8] * b[i / 8 % 2 * 8 + i % 8];
    return sum;
}

static inline float neon_bf16(neon_s8 v, int i)
{
    const uint32_t bits = (uint32_t)((neon_u16)v)[i] << 16;
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

static inline neon_f32 dot_bf16(neon_f32 sum, neon_s8 b, neon_s8 a, int lane)
{
    for (int i = 0; i < 4; i++)
        sum[i] += neon_bf16(a, 2 * lane) * neon_bf16(b, 2 * i) + neon_bf16(a, 2 * lane + 1) * neon_bf16(b, 2 * i + 1);
    return sum;
}

static inline neon_f32 mmla_bf16(neon_f32 sum, neon_s8 a, neon_s8 b)
{
    for (int i = 0; i < 8; i++) {
        const int left = i / 4 * 4 + i % 2 * 2, right = i / 2 % 2 * 4 + i % 2 * 2;
        sum[i / 2] += neon_bf16(a, left) * neon_bf16(b, right) + neon_bf16(a, left + 1) * neon_bf16(b, right + 1);
    }
    return sum;
}

#else

#include <arm_neon.h>

#define dot_s8(sum, b, a, lane) ((neon_s32)vdotq_laneq_s32((int32x4_t)(sum), (int8x16_t)(b), (int8x16_t)(a), lane))
#define mmla_s8(sum, a, b) ((neon_s32)vmmlaq_s32((int32x4_t)(sum), (int8x16_t)(a), (int8x16_t)(b)))
#define mmla_bf16(sum, a, b) ((neon_f32)vbfmmlaq_f32((float32x4_t)(sum), (bfloat16x8_t)(a), (bfloat16x8_t)(b)))

/* Not vbfdotq_laneq_f32: clang 19 copies the lane to all others first, which takes registers that a block needs. */
static inline __attribute__((always_inline)) neon_f32 dot_bf16(neon_f32 sum, neon_s8 b, neon_s8 a, int lane)
{
    __asm__("bfdot %0.4s, %1.8h, %2.2h[%c3]" : "+w"(sum) : "w"(b), "w"(a), "i"(lane));
    return sum;
}

#endif

#endif

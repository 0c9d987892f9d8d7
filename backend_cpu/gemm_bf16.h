/* bf16 GEMM on tiles, for attention: c = a b, where c has 16 x 16 floats, and a and b, 16 lines of 64 bytes each, are as in tile.h. It
   uses AMX tiles, or dot products of pairs (RVIT_CPU_DOTS) of AVX-512 or NEON. Only kernel files include this. */
#ifndef RVIT_CPU_GEMM_BF16_H
#define RVIT_CPU_GEMM_BF16_H

#include "backend_cpu/vector.h"

#define TILE_ELEMENTS 512
#define TILE_FLOATS 256

/* Two lists of n_steps consecutive tiles; the second list begins `next` elements after the first. */
typedef struct tile_lists {
    const uint16_t *first;
    int64_t next;
} tile_lists;

#if !defined(RVIT_CPU_DOTS)

#include "backend_cpu/tile.h"

#define gemm_begin tile_begin
#define gemm_end tile_end

/* c[i][j] = the sum over steps of a[i][step] b[j][step]; c[0] and c[1] are `c_next` floats apart. two_rows 0: computes c[0] only. */
INLINE void gemm_tiles(tile_lists a, tile_lists b, int n_steps, int two_rows, float *c, int64_t c_next)
{
    const uint16_t *a_next = a.first + a.next, *b_next = b.first + b.next;
    tile_zero(0);
    tile_zero(1);
    if (two_rows) {
        tile_zero(2);
        tile_zero(3);
        for (int64_t i = 0; i < (int64_t)n_steps * TILE_ELEMENTS; i += TILE_ELEMENTS) {
            tile_load(4, a.first + i, 64);
            tile_load(6, b.first + i, 64);
            tile_dp_bf16(0, 4, 6);
            tile_load(7, b_next + i, 64);
            tile_dp_bf16(1, 4, 7);
            tile_load(5, a_next + i, 64);
            tile_dp_bf16(2, 5, 6);
            tile_dp_bf16(3, 5, 7);
        }
        tile_store(2, c + c_next, 64);
        tile_store(3, c + c_next + TILE_FLOATS, 64);
    } else {
        for (int64_t i = 0; i < (int64_t)n_steps * TILE_ELEMENTS; i += TILE_ELEMENTS) {
            tile_load(4, a.first + i, 64);
            tile_load(6, b.first + i, 64);
            tile_dp_bf16(0, 4, 6);
            tile_load(7, b_next + i, 64);
            tile_dp_bf16(1, 4, 7);
        }
    }
    tile_store(0, c, 64);
    tile_store(1, c + TILE_FLOATS, 64);
}

#else

INLINE void gemm_begin(void)
{
}

INLINE void gemm_end(void)
{
}

#if defined(RVIT_CPU_MMLA)

#include "backend_cpu/neon_dots.h"

/* Computes up to 6 lines of c, in 24 accumulators. */
INLINE void gemm_lines(int rows, const uint16_t *a, const uint16_t *b, int n_steps, float *c)
{
    neon_f32 sums[6][4];
    UNROLL
    for (int i = 0; i < rows; i++) {
        UNROLL
        for (int j = 0; j < 4; j++)
            sums[i][j] = (neon_f32){0};
    }
    /* Four pairs of each line of a at a time. */
    for (int64_t s = 0; s < 4 * (int64_t)n_steps; s++) {
        const uint16_t *left = a + (s >> 2) * TILE_ELEMENTS + (s & 3) * 8, *right = b + s * 128;
        neon_s8 lines[6];
        UNROLL
        for (int i = 0; i < rows; i++)
            lines[i] = neon_load(left + 32 * i);
#define STEP(lane)                                                    \
    UNROLL                                                            \
    for (int j = 0; j < 4; j++) {                                     \
        const neon_s8 pairs = neon_load(right + 32 * lane + 8 * j);   \
        UNROLL                                                        \
        for (int i = 0; i < rows; i++)                                \
            sums[i][j] = dot_bf16(sums[i][j], pairs, lines[i], lane); \
    }
        STEP(0)
        STEP(1)
        STEP(2)
        STEP(3)
#undef STEP
    }
    UNROLL
    for (int i = 0; i < rows; i++) {
        UNROLL
        for (int j = 0; j < 4; j++)
            neon_store(c + 16 * i + 4 * j, (neon_s8)sums[i][j]);
    }
}

__attribute__((noinline)) static void gemm_6_lines(const uint16_t *a, const uint16_t *b, int n_steps, float *c)
{
    gemm_lines(6, a, b, n_steps, c);
}

__attribute__((noinline)) static void gemm_4_lines(const uint16_t *a, const uint16_t *b, int n_steps, float *c)
{
    gemm_lines(4, a, b, n_steps, c);
}

INLINE void gemm_tiles(tile_lists a, tile_lists b, int n_steps, int two_rows, float *c, int64_t c_next)
{
    for (int i = 0; i <= two_rows; i++)
        for (int j = 0; j < 2; j++) {
            const uint16_t *left = a.first + i * a.next, *right = b.first + j * b.next;
            float *out = c + i * c_next + j * TILE_FLOATS;
            gemm_6_lines(left, right, n_steps, out);
            gemm_6_lines(left + 6 * 32, right, n_steps, out + 6 * 16);
            gemm_4_lines(left + 12 * 32, right, n_steps, out + 12 * 16);
        }
}

#else

/* Computes 8 lines of c for two columns of tiles, in 16 accumulators. */
INLINE void gemm_half(const uint16_t *a, const uint16_t *b, const uint16_t *b_next, int n_steps, float *c)
{
    __m512 sums[8][2];
    UNROLL
    for (int i = 0; i < 8; i++)
        sums[i][0] = sums[i][1] = _mm512_setzero_ps();
    for (int64_t step = 0; step < (int64_t)n_steps * TILE_ELEMENTS; step += TILE_ELEMENTS)
        for (int pair = 0; pair < 16; pair++) {
            const __m512bh first = (__m512bh)_mm512_loadu_si512(b + step + 32 * pair);
            const __m512bh second = (__m512bh)_mm512_loadu_si512(b_next + step + 32 * pair);
            UNROLL
            for (int i = 0; i < 8; i++) {
                int32_t word;
                memcpy(&word, a + step + 32 * i + 2 * pair, sizeof word);
                const __m512bh factor = (__m512bh)_mm512_set1_epi32(word);
                sums[i][0] = _mm512_dpbf16_ps(sums[i][0], factor, first);
                sums[i][1] = _mm512_dpbf16_ps(sums[i][1], factor, second);
            }
        }
    UNROLL
    for (int i = 0; i < 8; i++) {
        _mm512_storeu_ps(c + 16 * i, sums[i][0]);
        _mm512_storeu_ps(c + 16 * i + TILE_FLOATS, sums[i][1]);
    }
}

INLINE void gemm_tiles(tile_lists a, tile_lists b, int n_steps, int two_rows, float *c, int64_t c_next)
{
    for (int tile = 0; tile <= two_rows; tile++)
        for (int half = 0; half < 2; half++)
            gemm_half(a.first + tile * a.next + half * TILE_ELEMENTS / 2, b.first, b.first + b.next, n_steps,
                      c + tile * c_next + half * TILE_FLOATS / 2);
}

#endif

#endif

#endif

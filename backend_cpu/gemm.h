/* The GEMM kernel of linear and attention: a block of rows times a panel of columns, accumulated in registers. Only kernel files include
   this. Every element of c is summed by multiply-adds in the order of k, whatever the block's shape and however k is split, so the
   result of a row does not depend on its neighbours. */
#ifndef RVIT_CPU_GEMM_H
#define RVIT_CPU_GEMM_H

#include "backend_cpu/vector.h"

/* A register tile has TILE_ROWS x TILE_VECS accumulators, which take most of the registers that the operands leave. With 32 registers it
   is wide rather than tall, which needs fewer loads for the same number of multiply-adds: every number of a takes its own load. */
#define TILE_ROWS 6
#if VL == 16 || defined(__aarch64__)
#define TILE_VECS 4
#else
#define TILE_VECS 2
#endif
#define PANEL (TILE_VECS * VL)

#if defined(NEON)
/* sums += four steps of k. A row's four numbers of a take one load, because NEON multiplies by a lane of a register; with the
   accumulators these fill the registers. */
INLINE void gemm_steps(int rows, int n_vecs, const float *a, int64_t a_stride, const float *b, int64_t b_stride,
                       vec sums[TILE_ROWS][TILE_VECS])
{
    vec factors[TILE_ROWS];
    UNROLL
    for (int i = 0; i < rows; i++)
        factors[i] = vec_load(a + i * a_stride);
#define STEP(lane)                                                                                           \
    UNROLL                                                                                                   \
    for (int j = 0; j < n_vecs; j++) {                                                                       \
        const float32x4_t line = (float32x4_t)vec_load(b + lane * b_stride + j * VL);                        \
        UNROLL                                                                                               \
        for (int i = 0; i < rows; i++)                                                                       \
            sums[i][j] = (vec)vfmaq_laneq_f32((float32x4_t)sums[i][j], line, (float32x4_t)factors[i], lane); \
    }
    STEP(0)
    STEP(1)
    STEP(2)
    STEP(3)
#undef STEP
}
#endif

/* c[rows, n_vecs * VL] (+)= a[rows, k] b[k, n_vecs * VL]. b_stride: floats between rows of b. */
INLINE void gemm_tile(int rows, int n_vecs, const float *a, int64_t a_stride, const float *b, int64_t b_stride, int64_t k, float *c,
                      int64_t c_stride, int accumulate)
{
    vec sums[TILE_ROWS][TILE_VECS];
    UNROLL
    for (int i = 0; i < rows; i++) {
        UNROLL
        for (int j = 0; j < n_vecs; j++)
            sums[i][j] = accumulate ? vec_load(c + i * c_stride + j * VL) : (vec){0};
    }
    int64_t p = 0;
#if defined(NEON)
    for (const int64_t whole = k & ~(int64_t)3; p < whole; p += 4)
        gemm_steps(rows, n_vecs, a + p, a_stride, b + p * b_stride, b_stride, sums);
#endif
    for (; p < k; p++) {
        vec line[TILE_VECS];
        UNROLL
        for (int j = 0; j < n_vecs; j++)
            line[j] = vec_load(b + p * b_stride + j * VL);
        UNROLL
        for (int i = 0; i < rows; i++) {
            const float factor = a[i * a_stride + p];
            UNROLL
            for (int j = 0; j < n_vecs; j++)
                sums[i][j] += factor * line[j];
        }
    }
    UNROLL
    for (int i = 0; i < rows; i++) {
        UNROLL
        for (int j = 0; j < n_vecs; j++)
            vec_store(c + i * c_stride + j * VL, sums[i][j]);
    }
}

typedef void (*gemm_fn)(const float *a, int64_t a_stride, const float *b, int64_t b_stride, int64_t k, float *c, int64_t c_stride,
                        int accumulate);

#define GEMM(rows, n_vecs)                                                                                                         \
    static void product_##rows##_##n_vecs(const float *a, int64_t a_stride, const float *b, int64_t b_stride, int64_t k, float *c, \
                                          int64_t c_stride, int accumulate)                                                        \
    {                                                                                                                              \
        gemm_tile(rows, n_vecs, a, a_stride, b, b_stride, k, c, c_stride, accumulate);                                             \
    }
#if TILE_VECS == 4
#define GEMMS(rows) GEMM(rows, 1) GEMM(rows, 2) GEMM(rows, 3) GEMM(rows, 4)
#define GEMM_NAMES(rows)                                                               \
    {                                                                                  \
        product_##rows##_1, product_##rows##_2, product_##rows##_3, product_##rows##_4 \
    }
#else
#define GEMMS(rows) GEMM(rows, 1) GEMM(rows, 2)
#define GEMM_NAMES(rows)                       \
    {                                          \
        product_##rows##_1, product_##rows##_2 \
    }
#endif

GEMMS(1)
GEMMS(2)
GEMMS(3)
GEMMS(4)
GEMMS(5)
GEMMS(6)

static const gemm_fn gemms[TILE_ROWS][TILE_VECS] = {GEMM_NAMES(1), GEMM_NAMES(2), GEMM_NAMES(3),
                                                    GEMM_NAMES(4), GEMM_NAMES(5), GEMM_NAMES(6)};

/* The kernel for this many rows and columns, at most a register tile. */
INLINE gemm_fn gemm_of(int rows, int64_t columns)
{
    return gemms[rows - 1][columns < PANEL ? (columns + VL - 1) / VL - 1 : TILE_VECS - 1];
}

/* Transposes n rows (n <= PANEL) of [n, k] with the given stride into panel [k, PANEL]. Columns past n are 0. */
INLINE void pack_panel(const void *rows, int64_t stride, int n, int64_t k, float *panel, rvit_dtype dtype)
{
    for (int first = 0; first < PANEL; first += VL) {
        const int here = n - first < VL ? n - first : VL;
        for (int64_t p = 0; p < k; p += VL) {
            const int64_t width = k - p < VL ? k - p : VL;
            vec lines[VL];
            if (here == VL && width == VL) {
                UNROLL
                for (int i = 0; i < VL; i++)
                    lines[i] = any_load(rows, (first + i) * stride + p, VL, dtype);
            } else {
                for (int i = 0; i < VL; i++)
                    lines[i] = i < here ? any_load(rows, (first + i) * stride + p, width, dtype) : (vec){0};
            }
            vec_transpose(lines);
            if (width == VL) {
                UNROLL
                for (int i = 0; i < VL; i++)
                    vec_store(panel + (p + i) * PANEL + first, lines[i]);
            } else {
                for (int i = 0; i < width; i++)
                    vec_store(panel + (p + i) * PANEL + first, lines[i]);
            }
        }
    }
}

#endif

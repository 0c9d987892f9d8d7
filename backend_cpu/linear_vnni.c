/* Linear on packed dot-product instructions, which multiply and add two bf16 or four int8 per 32-bit lane: a block of rows and columns,
   accumulated in registers. The weight is in panels (panel.h). Compiled for each instruction set that has them:
     bf16  vdpbf16ps                        every element is summed in the order of k
     int8  vpdpbusd, on 512 or 256 bits     x must be unsigned: 128 is added to it, and 128 times the sum of the weights subtracted
           vpmaddwd, on 256 bits (AVX2)     on values widened to 16 bits; vpmaddubsw would saturate */
#include "backend_cpu/isa.h"
#include "backend_cpu/panel.h"

#if VL == 16
#define ROWS 12
#else
#define ROWS 6
#endif
#define BLOCK (2 * VL)
#define BLOCK_AT(j) ((j) / 16 * TILE)
#define N_STEPS(bytes) ((bytes) / 4)

/* Vectors of packed int8, and sum + dot(a, b), where all lanes of a are equal. */
#if VL == 16
typedef __m512i vnni_vec;
#define vnni_load(p) _mm512_loadu_si512(p)
#define vnni_set(packed) _mm512_set1_epi32(packed)
#else
typedef __m256i vnni_vec;
#define vnni_load(p) _mm256_loadu_si256((const __m256i *)(p))
#define vnni_set(packed) _mm256_set1_epi32(packed)
#endif
#if defined(__AVX512VNNI__)
#define WIDENS 0
#define vnni_dot(sum, a, b) _mm512_dpbusd_epi32(sum, a, b)
#elif defined(__AVXVNNI__)
#define WIDENS 0
#define vnni_dot(sum, a, b) _mm256_dpbusd_avx_epi32(sum, a, b)
#else
#define WIDENS 1 /* to 16 bits: the even and the odd values of each lane separately */
#if VL == 16
#define vnni_dot(sum, a, b) _mm512_add_epi32(sum, _mm512_madd_epi16(a, b))
#define vnni_even(b) _mm512_srai_epi16(_mm512_slli_epi16(b, 8), 8)
#define vnni_odd(b) _mm512_srai_epi16(b, 8)
#else
#define vnni_dot(sum, a, b) _mm256_add_epi32(sum, _mm256_madd_epi16(a, b))
#define vnni_even(b) _mm256_srai_epi16(_mm256_slli_epi16(b, 8), 8)
#define vnni_odd(b) _mm256_srai_epi16(b, 8)
#endif
#endif
#define X_BYTES(bytes) ((bytes) * (WIDENS ? 2 : 1))
#define OFFSETS 1
typedef int32_t packed __attribute__((aligned(1), may_alias));

typedef struct panel_scratch {
    float sums[ROWS * COLUMNS];
    int32_t offsets[CHUNK / 64 + COLUMNS]; /* 128 times the sum of the weights of each column of a chunk */
    char panel[RVIT_CPU_PANEL_BYTES];
    char x[ROWS * 2 * RVIT_CPU_PANEL_DEPTH];
} panel_scratch;
_Static_assert(sizeof(panel_scratch) <= RVIT_CPU_SCRATCH_FLOATS * sizeof(float), "a task must fit the scratch memory");

/* The line of group w of a panel, and the offset of the second half of a block's columns. */
INLINE const char *line_of(const char *panel, int64_t w)
{
    return panel + (w >> 4) * PAIR + (w & 15) * 64;
}
#define SECOND (VL == 16 ? TILE : 32)

/* sums[rows, BLOCK] += rows of x, one packed group each, times two vectors of weights. */
INLINE void add_lines(int rows, vnni_vec sum[ROWS][2], const char *x, int64_t stride, vnni_vec left, vnni_vec right)
{
    UNROLL
    for (int i = 0; i < rows; i++) {
        const vnni_vec factor = vnni_set(*(const packed *)(x + i * stride));
        sum[i][0] = vnni_dot(sum[i][0], factor, left);
        sum[i][1] = vnni_dot(sum[i][1], factor, right);
    }
}

/* sums[rows, BLOCK] = rows of x times a block of a panel. n: packed groups of a row. */
INLINE void gemm_i8(int rows, const char *x, int64_t stride, const char *panel, int64_t n, float *sums)
{
    vnni_vec sum[ROWS][2];
    UNROLL
    for (int i = 0; i < rows; i++)
        sum[i][0] = sum[i][1] = vnni_set(0);
    for (int64_t w = 0; w < n; w++) {
        const char *line = line_of(panel, w);
        const vnni_vec left = vnni_load(line), right = vnni_load(line + SECOND);
#if WIDENS
        add_lines(rows, sum, x + 8 * w, stride, vnni_even(left), vnni_even(right));
        add_lines(rows, sum, x + 8 * w + 4, stride, vnni_odd(left), vnni_odd(right));
#else
        add_lines(rows, sum, x + 4 * w, stride, left, right);
#endif
    }
    UNROLL
    for (int i = 0; i < rows; i++) {
        memcpy(sums + i * COLUMNS, &sum[i][0], sizeof sum[i][0]);
        memcpy(sums + i * COLUMNS + VL, &sum[i][1], sizeof sum[i][1]);
    }
}

#if defined(RVIT_CPU_DOTS)
INLINE void gemm_bf16(int rows, const char *x, int64_t stride, const char *panel, int64_t n, float *sums)
{
    __m512 sum[ROWS][2];
    UNROLL
    for (int i = 0; i < rows; i++)
        sum[i][0] = sum[i][1] = _mm512_setzero_ps();
    for (int64_t w = 0; w < n; w++) {
        const char *line = line_of(panel, w);
        const __m512bh left = (__m512bh)vnni_load(line), right = (__m512bh)vnni_load(line + SECOND);
        UNROLL
        for (int i = 0; i < rows; i++) {
            const __m512bh factor = (__m512bh)vnni_set(*(const packed *)(x + i * stride + 4 * w));
            sum[i][0] = _mm512_dpbf16_ps(sum[i][0], factor, left);
            sum[i][1] = _mm512_dpbf16_ps(sum[i][1], factor, right);
        }
    }
    UNROLL
    for (int i = 0; i < rows; i++) {
        _mm512_storeu_ps(sums + i * COLUMNS, sum[i][0]);
        _mm512_storeu_ps(sums + i * COLUMNS + VL, sum[i][1]);
    }
}
#endif

typedef void (*gemm_fn)(const char *x, int64_t stride, const char *panel, int64_t n, float *sums);
#define GEMM(type, rows)                                                                                \
    static void type##_##rows(const char *x, int64_t stride, const char *panel, int64_t n, float *sums) \
    {                                                                                                   \
        gemm_##type(rows, x, stride, panel, n, sums);                                                   \
    }
#define GEMMS_6(type) \
    GEMM(type, 1)     \
    GEMM(type, 2)     \
    GEMM(type, 3)     \
    GEMM(type, 4)     \
    GEMM(type, 5)     \
    GEMM(type, 6)
#define NAMES_6(type) type##_1, type##_2, type##_3, type##_4, type##_5, type##_6
#if VL == 16
#define GEMMS(type) \
    GEMMS_6(type)   \
    GEMM(type, 7)   \
    GEMM(type, 8)   \
    GEMM(type, 9)   \
    GEMM(type, 10)  \
    GEMM(type, 11)  \
    GEMM(type, 12)
#define NAMES(type) NAMES_6(type), type##_7, type##_8, type##_9, type##_10, type##_11, type##_12
#else
#define GEMMS GEMMS_6
#define NAMES NAMES_6
#endif

GEMMS(i8)
static const gemm_fn gemms_i8[ROWS] = {NAMES(i8)};
#if defined(RVIT_CPU_DOTS)
GEMMS(bf16)
static const gemm_fn gemms_bf16[ROWS] = {NAMES(bf16)};
#endif

/* Converts rows of int8 to the operand that vnni_dot expects. */
static void convert_rows(const char *x, int64_t row_bytes, int rows, char *out)
{
    for (int i = 0; i < rows; i++) {
        const int8_t *row = (const int8_t *)(const void *)(x + i * row_bytes);
#if WIDENS
        int16_t *to = (int16_t *)(void *)(out + 2 * i * row_bytes);
        for (int64_t k = 0; k < row_bytes; k += 4) {
            to[k] = row[k];
            to[k + 1] = row[k + 2];
            to[k + 2] = row[k + 1];
            to[k + 3] = row[k + 3];
        }
#else
        uint8_t *to = (uint8_t *)(void *)(out + i * row_bytes);
        for (int64_t k = 0; k < row_bytes; k++)
            to[k] = (uint8_t)(row[k] + 128);
#endif
    }
}

INLINE const char *prepare_rows(const char *x, int64_t row_bytes, int rows, int integers, char *out)
{
    if (!integers)
        return x;
    convert_rows(x, row_bytes, rows, out);
    return out;
}

/* For each column of a panel, the sum that x = 128 everywhere would give. */
static void column_offsets(const char *panel, int64_t n, int32_t *offsets)
{
    for (int j = 0; j < COLUMNS; j++)
        offsets[j] = 0;
#if !WIDENS
    const vnni_vec factor = vnni_set((int32_t)0x80808080u);
    vnni_vec sum[COLUMNS / VL];
    for (int j = 0; j < COLUMNS / VL; j++)
        sum[j] = vnni_set(0);
    for (int64_t w = 0; w < n; w++)
        for (int j = 0; j < COLUMNS / VL; j++)
            sum[j] = vnni_dot(sum[j], factor, vnni_load(panel + (w >> 4) * PAIR + j * VL / 16 * TILE + (w & 15) * 64 + j * VL % 16 * 4));
    memcpy(offsets, sum, sizeof sum);
#else
    (void)panel;
    (void)n;
#endif
}

#include "backend_cpu/panel_linear.h"

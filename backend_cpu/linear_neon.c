/* Linear on NEON's dot products (dotprod), or with RVIT_CPU_MMLA on its multiplications of small matrices (i8mm, and bf16 with
   RVIT_CPU_DOTS). The weight is in panels (panel.h). Compiled for each instruction set that has them, and for tests with emulated
   instructions. Both operands are signed, and rows may be read in place or packed. */
#if defined(RVIT_CPU_MMLA)
#define PANEL_GROUP 8
#endif
#include "backend_cpu/isa.h"
#include "backend_cpu/panel.h"
#include "backend_cpu/neon_dots.h"

/* The 24 accumulators of a block and its operands fill the 32 registers. */
#if defined(RVIT_CPU_MMLA)
#define ROWS 12
#define BLOCK 8
#define X_BYTES(bytes) (bytes)
#define N_STEPS(bytes) (((bytes) + 7) / 8)
#else
#define ROWS 6
#define BLOCK 16
#define X_BYTES(bytes) (bytes)
#define N_STEPS(bytes) ((bytes) / 16)
#endif
#define BLOCK_AT(j) ((j) / 16 * TILE + (j) % 16 * PANEL_GROUP)
#define OFFSETS 0

typedef struct panel_scratch {
    float sums[ROWS * COLUMNS];
    char panel[RVIT_CPU_PANEL_BYTES];
    char x[ROWS * 2 * RVIT_CPU_PANEL_DEPTH];
} panel_scratch;
_Static_assert(sizeof(panel_scratch) <= RVIT_CPU_SCRATCH_FLOATS * sizeof(float), "a task must fit the scratch memory");

typedef void (*gemm_fn)(const char *x, int64_t stride, const char *panel, int64_t n, float *sums);
#define GEMM(type, rows)                                                                                \
    static void type##_##rows(const char *x, int64_t stride, const char *panel, int64_t n, float *sums) \
    {                                                                                                   \
        gemm_##type(rows, x, stride, panel, n, sums);                                                   \
    }

#if defined(RVIT_CPU_MMLA)

/* Packs rows for gemm_type: for every 8 bytes, the pairs of rows; a missing row of the last pair, and bytes past the end, are zero. */
static const char *prepare_rows(const char *x, int64_t row_bytes, int rows, int integers, char *out)
{
    const int even = (rows + 1) / 2 * 2;
    (void)integers;
    for (int i = 0; i < even; i++)
        for (int64_t s = 0; s < N_STEPS(row_bytes); s++) {
            const int64_t left = i < rows ? row_bytes - 8 * s : 0;
            char *to = out + (s * even + i) * 8;
            if (left >= 8) {
                memcpy(to, x + i * row_bytes + 8 * s, 8);
            } else {
                memset(to, 0, 8);
                if (left > 0)
                    memcpy(to, x + i * row_bytes + 8 * s, (size_t)left);
            }
        }
    return out;
}

/* sums[2 pairs, BLOCK] = packed rows of x times a block of a panel. n: groups of 8 bytes. */
#define GEMM_OF(type, lanes)                                                                                     \
    INLINE void gemm_##type(int pairs, const char *x, int64_t stride, const char *panel, int64_t n, float *sums) \
    {                                                                                                            \
        lanes sum[ROWS / 2][BLOCK / 2];                                                                          \
        (void)stride;                                                                                            \
        UNROLL                                                                                                   \
        for (int i = 0; i < pairs; i++) {                                                                        \
            UNROLL                                                                                               \
            for (int j = 0; j < BLOCK / 2; j++)                                                                  \
                sum[i][j] = (lanes){0};                                                                          \
        }                                                                                                        \
        for (int64_t s = 0; s < n; s++) {                                                                        \
            const char *line = panel + (s >> 3) * PAIR + (s & 7) * 128;                                          \
            neon_s8 b[BLOCK / 2];                                                                                \
            UNROLL                                                                                               \
            for (int j = 0; j < BLOCK / 2; j++)                                                                  \
                b[j] = neon_load(line + 16 * j);                                                                 \
            UNROLL                                                                                               \
            for (int i = 0; i < pairs; i++) {                                                                    \
                const neon_s8 a = neon_load(x + (s * pairs + i) * 16);                                           \
                UNROLL                                                                                           \
                for (int j = 0; j < BLOCK / 2; j++)                                                              \
                    sum[i][j] = mmla_##type(sum[i][j], a, b[j]);                                                 \
            }                                                                                                    \
        }                                                                                                        \
        UNROLL                                                                                                   \
        for (int i = 0; i < pairs; i++) {                                                                        \
            UNROLL                                                                                               \
            for (int j = 0; j < BLOCK / 2; j += 2) {                                                             \
                neon_store(sums + 2 * i * COLUMNS + 2 * j, neon_low(sum[i][j], sum[i][j + 1]));                  \
                neon_store(sums + (2 * i + 1) * COLUMNS + 2 * j, neon_high(sum[i][j], sum[i][j + 1]));           \
            }                                                                                                    \
        }                                                                                                        \
    }

#define GEMMS(type) GEMM(type, 1) GEMM(type, 2) GEMM(type, 3) GEMM(type, 4) GEMM(type, 5) GEMM(type, 6)
/* Of 1 to 12 rows. */
#define NAMES(type) type##_1, type##_1, type##_2, type##_2, type##_3, type##_3, type##_4, type##_4, type##_5, type##_5, type##_6, type##_6
GEMM_OF(s8, neon_s32)
#if defined(RVIT_CPU_DOTS)
GEMM_OF(bf16, neon_f32)
GEMMS(bf16)
static const gemm_fn gemms_bf16[ROWS] = {NAMES(bf16)};
#endif

#else

static const char *prepare_rows(const char *x, int64_t row_bytes, int rows, int integers, char *out)
{
    (void)row_bytes;
    (void)rows;
    (void)integers;
    (void)out;
    return x;
}

/* sums[rows, BLOCK] = rows of x times a block of a panel. n: groups of 16 bytes. */
INLINE void gemm_s8(int rows, const char *x, int64_t stride, const char *panel, int64_t n, float *sums)
{
    neon_s32 sum[ROWS][BLOCK / 4];
    UNROLL
    for (int i = 0; i < rows; i++) {
        UNROLL
        for (int j = 0; j < BLOCK / 4; j++)
            sum[i][j] = (neon_s32){0};
    }
    for (int64_t s = 0; s < n; s++) {
        const char *lines = panel + (s >> 2) * PAIR + (s & 3) * 256;
        neon_s8 a[ROWS];
        UNROLL
        for (int i = 0; i < rows; i++)
            a[i] = neon_load(x + i * stride + 16 * s);
#define STEP(lane)                                               \
    UNROLL                                                       \
    for (int j = 0; j < BLOCK / 4; j++) {                        \
        const neon_s8 b = neon_load(lines + 64 * lane + 16 * j); \
        UNROLL                                                   \
        for (int i = 0; i < rows; i++)                           \
            sum[i][j] = dot_s8(sum[i][j], b, a[i], lane);        \
    }
        STEP(0)
        STEP(1)
        STEP(2)
        STEP(3)
    }
    UNROLL
    for (int i = 0; i < rows; i++) {
        UNROLL
        for (int j = 0; j < BLOCK / 4; j++)
            neon_store(sums + i * COLUMNS + 4 * j, (neon_s8)sum[i][j]);
    }
}

#define GEMMS(type) GEMM(type, 1) GEMM(type, 2) GEMM(type, 3) GEMM(type, 4) GEMM(type, 5) GEMM(type, 6)
#define NAMES(type) type##_1, type##_2, type##_3, type##_4, type##_5, type##_6

#endif

GEMMS(s8)
static const gemm_fn gemms_i8[ROWS] = {NAMES(s8)};

#include "backend_cpu/panel_linear.h"

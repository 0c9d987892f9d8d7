/* Linear through a CBLAS. Only builds with RVIT_CBLAS contain it: on x86-64 with AVX2 or AVX-512 the built-in kernels are faster. It is
   used only if the result of a row does not depend on the row's position in the tile, which not every library guarantees (OpenBLAS's
   Haswell and Zen kernels differ in the last bit).

   The backend calls the CBLAS from its own threads, one tile each, so the CBLAS itself must not start threads. Creating a device that
   uses an OpenBLAS therefore sets it to one thread. This affects the whole process, including the application's own calls. */
#include <stdio.h>
#include <string.h>

#include "backend_cpu/cpu.h"

#if defined(RVIT_CPU_CBLAS)
#include <cblas.h>

/* only OpenBLAS has it */
extern char *openblas_get_config(void) __attribute__((weak));
extern char *openblas_get_corename(void) __attribute__((weak));
extern void openblas_set_num_threads(int n) __attribute__((weak));

#define DEPTH RVIT_CPU_LINEAR_DEPTH
#define STRIDE (RVIT_CPU_LINEAR_COLUMNS + 16) /* row stride of the tile's accumulators; not a power of two */

const char *rvit_cpu_cblas_name(char *text, size_t size)
{
    if (openblas_get_config == NULL || openblas_get_corename == NULL)
        return "CBLAS";
    const char *config = openblas_get_config(); /* "OpenBLAS 0.3.21 NO_LAPACKE ..." */
    const size_t name = strcspn(config, " ");
    const size_t version = config[name] == ' ' ? 1 + strcspn(config + name + 1, " ") : 0;
    snprintf(text, size, "%.*s %s", (int)(name + version), config, openblas_get_corename());
    return text;
}

/* c[RVIT_CPU_CBLAS_ROWS, columns] (+)= a b^T */
static void gemm(int64_t columns, int64_t depth, const float *a, int64_t a_stride, const float *b, int64_t b_stride, float *c,
                 int64_t c_stride, int accumulate)
{
    cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasTrans, RVIT_CPU_CBLAS_ROWS, (int)columns, (int)depth, 1.0f, a, (int)a_stride, b,
                (int)b_stride, accumulate ? 1.0f : 0.0f, c, (int)c_stride);
}

int rvit_cpu_cblas_is_usable(void)
{
    /* All rows of a are equal, so all rows of the result must be equal. */
    enum { COLUMNS = 100, LENGTH = 64, WIDTH = 112 };
    float a[RVIT_CPU_CBLAS_ROWS * LENGTH], b[COLUMNS * LENGTH], c[RVIT_CPU_CBLAS_ROWS * WIDTH];
    uint32_t random = 1;
    for (int i = 0; i < COLUMNS * LENGTH; i++) {
        random = random * 1664525u + 1013904223u;
        b[i] = (float)(random >> 8) * 0x1p-23f - 1.0f;
    }
    for (int i = 0; i < RVIT_CPU_CBLAS_ROWS; i++)
        memcpy(a + i * LENGTH, b + 7 * LENGTH, LENGTH * sizeof *a);
    gemm(COLUMNS, LENGTH, a, LENGTH, b, LENGTH, c, WIDTH, 0);
    gemm(COLUMNS, LENGTH - 4, a, LENGTH, b, LENGTH, c, WIDTH, 1);
    for (int i = 1; i < RVIT_CPU_CBLAS_ROWS; i++)
        if (memcmp(c, c + i * WIDTH, COLUMNS * sizeof *c) != 0)
            return 0;
    return 1;
}

void rvit_cpu_cblas_open(void)
{
    if (openblas_set_num_threads != NULL)
        openblas_set_num_threads(1);
}

/* Copies n rows of a tile's operand, depth floats each, to rows of DEPTH floats. */
static void copy_lines(const rvit_cpu_kernels *kernels, const void *from, int64_t stride, int64_t n, int64_t depth, rvit_dtype dtype,
                       float *out)
{
    for (int64_t i = 0; i < n; i++) {
        if (dtype != RVIT_F32)
            kernels->widen((const uint16_t *)from + i * stride, dtype, out + i * DEPTH, depth);
        else
            memcpy(out + i * DEPTH, (const float *)from + i * stride, (size_t)depth * sizeof *out);
    }
}

void rvit_cpu_cblas_linear(const rvit_cpu_kernels *kernels, const rvit_cpu_linear_tile *t, float *scratch)
{
    float *sums = scratch;
    float *x_lines = sums + RVIT_CPU_CBLAS_ROWS * STRIDE;
    float *weight_lines = x_lines + RVIT_CPU_CBLAS_ROWS * DEPTH;
    const int64_t size = rvit_cpu_size(t->dtype);
    for (int64_t p = 0; p < t->in_features; p += DEPTH) {
        const int64_t depth = t->in_features - p < DEPTH ? t->in_features - p : DEPTH;
        const void *x = (const char *)t->x + p * size, *weight = (const char *)t->weight + p * size;
        int64_t x_stride = t->in_features, weight_stride = t->in_features;
        if (t->dtype != RVIT_F32 || t->rows < RVIT_CPU_CBLAS_ROWS) {
            copy_lines(kernels, x, x_stride, t->rows, depth, t->dtype, x_lines);
            memset(x_lines + t->rows * DEPTH, 0, (size_t)(RVIT_CPU_CBLAS_ROWS - t->rows) * DEPTH * sizeof *x_lines);
            x = x_lines;
            x_stride = DEPTH;
        }
        if (t->dtype != RVIT_F32) {
            copy_lines(kernels, weight, weight_stride, t->columns, depth, t->dtype, weight_lines);
            weight = weight_lines;
            weight_stride = DEPTH;
        }
        gemm(t->columns, depth, x, x_stride, weight, weight_stride, sums, STRIDE, p > 0);
    }
    kernels->linear_finish(t, sums, STRIDE);
}

#else

const char *rvit_cpu_cblas_name(char *text, size_t size)
{
    (void)text;
    (void)size;
    return NULL;
}

int rvit_cpu_cblas_is_usable(void)
{
    return 0;
}

void rvit_cpu_cblas_open(void)
{
}

void rvit_cpu_cblas_linear(const rvit_cpu_kernels *kernels, const rvit_cpu_linear_tile *tile, float *scratch)
{
    kernels->linear(tile, scratch);
}

#endif

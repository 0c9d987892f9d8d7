/* The norm of a row. Only kernel files include this. */
#ifndef RVIT_CPU_NORM_H
#define RVIT_CPU_NORM_H

#include <math.h>
#include <stddef.h>

#include "backend_cpu/vector.h"

/* Rows whose moments are computed in one go. Each row is one long dependency chain, so out-of-order execution overlaps them. */
#define ROWS_TOGETHER 4

/* Mean and 1 / sqrt(variance + eps) of a row, in two passes (mean, then deviations), so that a large mean costs no precision. */
INLINE void moments(const void *x, int64_t first, int64_t dim, float eps, rvit_dtype dtype, float *out_mean, float *out_scale)
{
    vec sum[4] = {{0}, {0}, {0}, {0}};
    int64_t i = 0;
    for (; i + 4 * VL <= dim; i += 4 * VL) {
        UNROLL
        for (int j = 0; j < 4; j++)
            sum[j] += any_load(x, first + i + j * VL, VL, dtype);
    }
    for (; i < dim; i += VL)
        sum[0] += any_load(x, first + i, dim - i < VL ? dim - i : VL, dtype);
    const float mean = vec_sum((sum[0] + sum[1]) + (sum[2] + sum[3])) / (float)dim;

    vec square[4] = {{0}, {0}, {0}, {0}};
    for (i = 0; i + 4 * VL <= dim; i += 4 * VL) {
        UNROLL
        for (int j = 0; j < 4; j++) {
            const vec difference = any_load(x, first + i + j * VL, VL, dtype) - mean;
            square[j] += difference * difference;
        }
    }
    for (; i < dim; i += VL) {
        const int64_t width = dim - i < VL ? dim - i : VL;
        vec difference = any_load(x, first + i, width, dtype) - mean;
        if (width < VL) {
            float lanes[VL];
            vec_store(lanes, difference);
            difference = vec_load_part(lanes, width);
        }
        square[0] += difference * difference;
    }
    const float variance = vec_sum((square[0] + square[1]) + (square[2] + square[3])) / (float)dim;
    *out_mean = mean;
    *out_scale = 1.0f / sqrtf(variance + eps);
}

typedef struct row_norm {
    const float *gamma, *beta; /* gamma NULL: no norm; beta may be NULL */
    int64_t features;
    float eps;
    int rms;
} row_norm;

typedef struct row_moments {
    float mean, scale;
} row_moments;

/* The moments of the row that begins at element `first`. */
INLINE row_moments moments_of(const row_norm *norm, const void *x, int64_t first, rvit_dtype dtype)
{
    row_moments m = {0.0f, 1.0f};
    if (norm->gamma != NULL && !norm->rms) {
        moments(x, first, norm->features, norm->eps, dtype, &m.mean, &m.scale);
    } else if (norm->gamma != NULL) {
        vec square[4] = {{0}, {0}, {0}, {0}};
        int64_t i = 0;
        for (; i + 4 * VL <= norm->features; i += 4 * VL) {
            UNROLL
            for (int j = 0; j < 4; j++) {
                const vec v = any_load(x, first + i + j * VL, VL, dtype);
                square[j] += v * v;
            }
        }
        for (; i < norm->features; i += VL) {
            const vec v = any_load(x, first + i, norm->features - i < VL ? norm->features - i : VL, dtype);
            square[0] += v * v;
        }
        m.scale = 1.0f / sqrtf(vec_sum((square[0] + square[1]) + (square[2] + square[3])) / (float)norm->features + norm->eps);
    }
    return m;
}

/* Columns i .. i + n - 1 of that row, normalised. */
INLINE vec normal(const row_norm *norm, const row_moments *m, const void *x, int64_t first, int64_t i, int64_t n, rvit_dtype dtype)
{
    const vec v = any_load(x, first + i, n, dtype);
    if (norm->gamma == NULL)
        return v;
    const vec scaled = (v - m->mean) * m->scale;
    if (norm->beta == NULL)
        return scaled * any_load(norm->gamma, i, n, RVIT_F32);
    return scaled * any_load(norm->gamma, i, n, RVIT_F32) + any_load(norm->beta, i, n, RVIT_F32);
}

#endif

/* Mean: replaces columns of an image by their mean over its rows. A CTA takes 128 columns, its warps every WARPS-th row. */
#ifndef RVIT_MEAN_CUH
#define RVIT_MEAN_CUH

#include "elements.cuh"

#include "../tile.h"

enum { MEAN_COLUMNS = RVIT_CU_MEAN_COLUMNS, MEAN_WARPS = 8 };

template <typename T> RVIT_DEVICE void mean_columns(const rvit_cu_mean_params &params)
{
    RVIT_SHARED float4 sums[MEAN_WARPS][MEAN_COLUMNS / 4];
    const int image = (int)blockIdx.x / params.tiles, warp = threadIdx.x / 32, lane = threadIdx.x & 31;
    const int column = params.first_column + (int)blockIdx.x % params.tiles * MEAN_COLUMNS + lane * 4;
    const image_rows rows = rows_of_image(params.cu_seqlens, image, params.rows, params.max_len);
    const int prefix = min(params.n_prefix, rows.len);
    T *x = static_cast<T *>(params.x) + (long long)rows.begin * params.dim + column;
    float4 sum = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
    if (column < params.dim) {
#pragma unroll 8
        for (int row = prefix + warp; row < rows.len; row += MEAN_WARPS) {
            const float4 value = load_4(x + (long long)row * params.dim);
            sum.x += value.x, sum.y += value.y, sum.z += value.z, sum.w += value.w;
        }
    }
    sums[warp][lane] = sum;
    block_sync();
    sum = sums[0][lane];
    for (int w = 1; w < MEAN_WARPS; w++) {
        const float4 other = sums[w][lane];
        sum.x += other.x, sum.y += other.y, sum.z += other.z, sum.w += other.w;
    }
    const float n = (float)max(rows.len - prefix, 1);
    sum = make_float4(sum.x / n, sum.y / n, sum.z / n, sum.w / n);
    if (column < params.dim)
        for (int row = warp; row < rows.len; row += MEAN_WARPS)
            store_4(x + (long long)row * params.dim, sum);
}

#endif

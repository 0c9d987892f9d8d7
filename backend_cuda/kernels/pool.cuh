/* Pool: the mean of an image's rows, or its first row, with an optional norm. A CTA takes PIECES * 128 columns of an image, its warps
   every WARPS-th row. */
#ifndef RVIT_POOL_CUH
#define RVIT_POOL_CUH

#include "elements.cuh"

#include "../tile.h"

struct pool_norm {
    float mean, scale;
};

RVIT_DEVICE float sum_of(float4 x)
{
    return x.x + x.y + (x.z + x.w);
}

RVIT_DEVICE float square_of(float4 x, float mean)
{
    const float a = x.x - mean, b = x.y - mean, c = x.z - mean, d = x.w - mean;
    return a * a + b * b + (c * c + d * d);
}

/* Called by a warp. The row is in `value` if a tile has all its columns; otherwise it is read again. */
template <typename T, int PIECES>
RVIT_DEVICE pool_norm norm_of_pooled(const rvit_cu_pool_params &params, const T *x, const float4 (&value)[PIECES])
{
    const int dim = params.dim, lane_column = (int)(threadIdx.x & 31) * 4;
    const bool is_whole = dim <= PIECES * 128;
    const float inverse_dim = 1.0f / (float)dim;
    float sum = 0.0f, squares = 0.0f;
    if (is_whole && !params.rms) {
#pragma unroll
        for (int p = 0; p < PIECES; p++)
            sum += sum_of(value[p]);
    } else if (!params.rms) {
        for (int i = lane_column; i < dim; i += 128)
            sum += sum_of(load_4(x + i));
    }
    const float mean = warp_sum(sum) * inverse_dim;
    if (is_whole) {
#pragma unroll
        for (int p = 0; p < PIECES; p++)
            squares += p * 128 + lane_column < dim ? square_of(value[p], mean) : 0.0f;
    } else {
        for (int i = lane_column; i < dim; i += 128)
            squares += square_of(load_4(x + i), mean);
    }
    return {mean, inverse_sqrt(warp_sum(squares) * inverse_dim + params.eps)};
}

/* Adds a row to the sums. */
template <typename T, int PIECES>
RVIT_DEVICE void add_row(const rvit_cu_pool_params &params, const T *x, int first_column, float size, float4 (&sum)[PIECES])
{
    float4 value[PIECES];
#pragma unroll
    for (int p = 0; p < PIECES; p++)
        value[p] = first_column + p * 128 < params.dim ? load_4(x + first_column + p * 128) : make_float4(0.0f, 0.0f, 0.0f, 0.0f);
    pool_norm norm = {0.0f, 1.0f};
    if constexpr (PIECES > 1)
        norm = norm_of_pooled(params, x, value);
    const float factor = norm.scale * size;
#pragma unroll
    for (int p = 0; p < PIECES; p++) {
        sum[p].x += (value[p].x - norm.mean) * factor, sum[p].y += (value[p].y - norm.mean) * factor;
        sum[p].z += (value[p].z - norm.mean) * factor, sum[p].w += (value[p].w - norm.mean) * factor;
    }
}

RVIT_DEVICE float4 finished(const rvit_cu_pool_params &params, int column, float4 sum, float total)
{
    float4 mean = make_float4(sum.x / total, sum.y / total, sum.z / total, sum.w / total);
    if (params.gamma != nullptr) {
        const float4 gamma = load_4(params.gamma + column);
        mean = make_float4(mean.x * gamma.x, mean.y * gamma.y, mean.z * gamma.z, mean.w * gamma.w);
    }
    if (params.beta != nullptr) {
        const float4 beta = load_4(params.beta + column);
        mean = make_float4(mean.x + beta.x, mean.y + beta.y, mean.z + beta.z, mean.w + beta.w);
    }
    return mean;
}

/* PIECES 1: no norm. */
template <typename T, int PIECES, int WARPS> RVIT_DEVICE void pool_columns(const rvit_cu_pool_params &params)
{
    RVIT_SHARED float4 sums[WARPS][32];
    RVIT_SHARED float totals[WARPS];
    const int image = (int)blockIdx.x / params.tiles, warp = threadIdx.x / 32, lane = threadIdx.x & 31;
    const int first_column = (int)blockIdx.x % params.tiles * PIECES * 128 + lane * 4;
    const image_rows rows = rows_of_image(params.cu_seqlens, image, params.rows, params.max_len);
    const int prefix = params.first ? 0 : min(params.n_prefix, rows.len), end = params.first ? min(rows.len, 1) : rows.len;
    const T *x = static_cast<const T *>(params.x) + (long long)rows.begin * params.dim;
    float4 sum[PIECES];
#pragma unroll
    for (int p = 0; p < PIECES; p++)
        sum[p] = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
    float total = 0.0f;
#pragma unroll(PIECES == 1 ? 8 : 1)
    for (int row = prefix + warp; row < end; row += WARPS) {
        const float size = params.sizes == nullptr ? 1.0f : params.sizes[rows.begin + row];
        total += size;
        add_row(params, x + (long long)row * params.dim, first_column, size, sum);
    }
    if (lane == 0)
        totals[warp] = total;
#pragma unroll
    for (int p = 0; p < PIECES; p++) {
        sums[warp][lane] = sum[p];
        block_sync();
        const int column = first_column + p * 128;
        if (warp == p % WARPS && column < params.dim) {
            float4 all = sums[0][lane];
            float weight = totals[0];
            for (int w = 1; w < WARPS; w++) {
                const float4 other = sums[w][lane];
                all.x += other.x, all.y += other.y, all.z += other.z, all.w += other.w;
                weight += totals[w];
            }
            const float4 out = prefix < end ? finished(params, column, all, weight) : make_float4(0.0f, 0.0f, 0.0f, 0.0f);
            store_4_as(params.out_dtype, params.out, image * params.out_stride + column, out);
        }
        block_sync();
    }
}

#endif

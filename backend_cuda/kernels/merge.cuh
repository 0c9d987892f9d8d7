/* Merge: the weighted mean of each list of rows that match has made. A warp a row. */
#ifndef RVIT_MERGE_CUH
#define RVIT_MERGE_CUH

#include "elements.cuh"

/* The row after `row` in the list that begins at `first`, or -1. Lists ascend behind their first row, so a walk ends whatever next_rows
   holds. */
RVIT_DEVICE int next_in_list(const rvit_cu_merge_params &params, int first, int row)
{
    const int next = params.next_rows[row];
    return next >= 0 && next < params.x_rows && next != first && (row == first || next > row) ? next : -1;
}

RVIT_DEVICE float size_of_row(const rvit_cu_merge_params &params, int row)
{
    return params.sizes == nullptr ? 1.0f : params.sizes[row];
}

template <typename T> RVIT_DEVICE void merge_list(const rvit_cu_merge_params &params, int first, T *out, float total, int lane)
{
    const T *x = static_cast<const T *>(params.x);
    for (int i = lane * 4; i < params.dim; i += 128) {
        float4 sum = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
        for (int row = first; row >= 0; row = next_in_list(params, first, row)) {
            const float size = size_of_row(params, row);
            const float4 value = load_4(x + (long long)row * params.dim + i);
            sum.x += size * value.x, sum.y += size * value.y, sum.z += size * value.z, sum.w += size * value.w;
        }
        store_4(out + i, make_float4(sum.x / total, sum.y / total, sum.z / total, sum.w / total));
    }
}

template <typename T> RVIT_DEVICE void copy_row(const T *x, T *out, int dim, int lane)
{
    /* Four elements of either size are one or two of these. */
    const uint2 *from = reinterpret_cast<const uint2 *>(x);
    uint2 *to = reinterpret_cast<uint2 *>(out);
#pragma unroll 4
    for (int i = lane; i < dim * (int)sizeof(T) / 8; i += 32)
        to[i] = from[i];
}

template <typename T> RVIT_DEVICE void merge_rows(const rvit_cu_merge_params &params)
{
    const int lane = threadIdx.x & 31, warps = (int)blockDim.x / 32, rows = params.x_rows > 0 ? live_rows(params.rows) : 0;
    const long long step = (long long)gridDim.x * warps;
    for (long long row = (long long)blockIdx.x * warps + (int)threadIdx.x / 32; row < rows; row += step) {
        const int first = min(max(params.src_rows[row], 0), params.x_rows - 1);
        T *out = static_cast<T *>(params.out_x) + row * params.dim;
        float total = size_of_row(params, first);
        const int second = next_in_list(params, first, first);
        for (int next = second; next >= 0; next = next_in_list(params, first, next))
            total += size_of_row(params, next);
        if (second < 0)
            copy_row(static_cast<const T *>(params.x) + (long long)first * params.dim, out, params.dim, lane);
        else
            merge_list(params, first, out, total, lane);
        if (lane == 0) {
            params.out_sizes[row] = total;
            params.out_key_bias[row] = logf(total);
        }
    }
}

#endif

/* Merge: the weighted mean of each list of rows from bipartite_match. One warp per row. */
#ifndef RVIT_MERGE_CUH
#define RVIT_MERGE_CUH

#include "elements.cuh"

/* The row after `row` in the list that starts at `first`, or -1. After the first row lists must ascend, so a walk ends whatever
   next_rows holds. */
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
    enum { GROUPS = 2 }; /* of four columns, summed in one walk through the list */
    const T *x = static_cast<const T *>(params.x);
    for (int column = lane * 4; column < params.dim; column += 128 * GROUPS) {
        float4 sum[GROUPS];
#pragma unroll
        for (int g = 0; g < GROUPS; g++)
            sum[g] = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
        for (int row = first; row >= 0; row = next_in_list(params, first, row)) {
            const float size = size_of_row(params, row);
#pragma unroll
            for (int g = 0; g < GROUPS; g++) {
                if (column + g * 128 >= params.dim)
                    break;
                const float4 value = load_4(x + (long long)row * params.dim + column + g * 128);
                sum[g].x += size * value.x, sum[g].y += size * value.y, sum[g].z += size * value.z, sum[g].w += size * value.w;
            }
        }
#pragma unroll
        for (int g = 0; g < GROUPS; g++)
            if (column + g * 128 < params.dim)
                store_4(out + column + g * 128, make_float4(sum[g].x / total, sum[g].y / total, sum[g].z / total, sum[g].w / total));
    }
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
            copy_pieces(reinterpret_cast<typename raw_4<T>::type *>(out),
                        static_cast<const typename raw_4<T>::type *>(params.x) + (long long)first * (params.dim / 4), params.dim / 4);
        else
            merge_list(params, first, out, total, lane);
        if (lane == 0) {
            params.out_sizes[row] = total;
            params.out_key_bias[row] = logf(total);
        }
    }
}

#endif

/* The merge groups and windows after a selection. */
#ifndef RVIT_GRID_RELAYOUT_CUH
#define RVIT_GRID_RELAYOUT_CUH

#include "elements.cuh"

/* The number of kept rows before this one. */
RVIT_DEVICE int left_before(const rvit_cu_grid_relayout_params &params, int row)
{
    int begin = 0, end = min(max(params.out_cu_seqlens[params.n_images], 0), params.rows);
    while (begin < end) {
        const int middle = begin + (end - begin) / 2;
        if (params.src_rows[middle] < row)
            begin = middle + 1;
        else
            end = middle;
    }
    return begin;
}

/* Lists the kept merge groups of an image, in order, one per thread at a time. */
RVIT_DEVICE void list_groups(const rvit_cu_grid_relayout_params &params, int image)
{
    RVIT_SHARED int counts[8];
    const int lane = threadIdx.x & 31, warp = threadIdx.x / 32, group_rows = params.group_size, groups = params.rows / group_rows;
    const image_rows rows = rows_of_image(params.cu_seqlens, image, params.rows, params.max_len);
    const image_rows after = rows_of_image(params.out_cu_seqlens, image, params.rows, params.max_len);
    const int past = (rows.begin + rows.len) / group_rows, out_past = (after.begin + after.len) / group_rows;
    int out = after.begin / group_rows;
    for (int first = rows.begin / group_rows; first < past; first += blockDim.x) {
        const int group = first + (int)threadIdx.x;
        const int row = group < past ? min(max(params.group_rows[group], 0), groups - 1) * group_rows : 0;
        const bool left = group < past && params.keep[row] != 0;
        const unsigned ballot = warp_ballot(left);
        if (lane == 0)
            counts[warp] = bit_count(ballot);
        block_sync();
        int before = bit_count(ballot & ((1u << lane) - 1)), total = 0;
        for (int w = 0; w < 8; w++) {
            before += w < warp ? counts[w] : 0;
            total += counts[w];
        }
        if (left && out + before < out_past)
            params.out_group_rows[out + before] = left_before(params, row) / group_rows;
        out += total;
        block_sync();
    }
}

RVIT_DEVICE void grid_relayout_all(const rvit_cu_grid_relayout_params &params)
{
    const int thread = blockIdx.x * blockDim.x + threadIdx.x, step = gridDim.x * blockDim.x;
    for (int i = thread; i <= params.n_images; i += step)
        params.group_cu_seqlens[i] = min(max(params.out_cu_seqlens[i], 0), params.rows) / params.group_size;
    if (params.window_cu_seqlens != nullptr)
        for (int i = thread; i <= params.n_windows; i += step)
            params.out_window_cu_seqlens[i] = left_before(params, params.window_cu_seqlens[i]);
    if (params.group_rows != nullptr)
        for (int image = blockIdx.x; image < params.n_images; image += gridDim.x)
            list_groups(params, image);
}

#endif

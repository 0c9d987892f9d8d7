/* Moves rows: copy, pack (gather) and unpack (scatter with a fill). One warp per row. */
#ifndef RVIT_PACK_CUH
#define RVIT_PACK_CUH

#include "elements.cuh"

template <typename V> RVIT_DEVICE void copy_row_as(void *to, const void *from, int size)
{
    copy_pieces(static_cast<V *>(to), static_cast<const V *>(from), size / (int)sizeof(V));
}

RVIT_DEVICE void copy_bytes(const rvit_cu_copy_params &params)
{
    const long long step = (long long)gridDim.x * blockDim.x, first = (long long)blockIdx.x * blockDim.x + threadIdx.x;
    if (params.wide)
        for (long long i = first; i < params.size / 16; i += step)
            static_cast<uint4 *>(params.destination)[i] = static_cast<const uint4 *>(params.source)[i];
    else
        for (long long i = first; i < params.size / 4; i += step)
            static_cast<uint32_t *>(params.destination)[i] = static_cast<const uint32_t *>(params.source)[i];
}

RVIT_DEVICE void pack_rows(const rvit_cu_pack_params &params)
{
    const int warps = (int)blockDim.x / 32, rows = params.source_rows > 0 ? live_rows(params.rows) : 0;
    const long long step = (long long)gridDim.x * warps, size = params.row_size;
    for (long long row = (long long)blockIdx.x * warps + (int)threadIdx.x / 32; row < rows; row += step) {
        const char *from = static_cast<const char *>(params.source) + min(max(params.src_rows[row], 0), params.source_rows - 1) * size;
        char *to = static_cast<char *>(params.destination) + row * size;
        if (size % 16 == 0)
            copy_row_as<uint4>(to, from, params.row_size);
        else
            copy_row_as<uint32_t>(to, from, params.row_size);
    }
}

/* The first index of the ascending rows[0 .. n) that is not below row, or n. Each round splits the range into 33. */
RVIT_DEVICE int find_row(const int32_t *rows, int n, int row, int lane)
{
    int low = 0, left = n; /* the result is in low .. low + left */
    while (left > 0) {
        const int part = left / 33 + 1, at = (lane + 1) * part - 1;
        const unsigned below = warp_ballot(at < left && rows[low + at] < row);
        const int skipped = bit_count(below) * part;
        low += skipped;
        left = min(left - skipped, part - 1);
    }
    return low;
}

RVIT_DEVICE void unpack_rows(const rvit_cu_unpack_params &params)
{
    const int lane = threadIdx.x & 31, warps = (int)blockDim.x / 32;
    const int rows = live_rows(params.rows), n = live_rows(params.destination_rows);
    const long long step = (long long)gridDim.x * warps, size = params.row_size;
    for (long long row = (long long)blockIdx.x * warps + (int)threadIdx.x / 32; row < n; row += step) {
        const int at = find_row(params.src_rows, rows, (int)row, lane);
        char *to = static_cast<char *>(params.destination) + row * size;
        const char *from = nullptr;
        if (at < rows && params.src_rows[at] == row)
            from = static_cast<const char *>(params.source) + at * size;
        else if (params.base != nullptr)
            from = static_cast<const char *>(params.base) + row * size;
        if (from == to)
            continue;
        if (from == nullptr) {
            for (int i = lane; i < params.row_size / 4; i += 32)
                reinterpret_cast<uint32_t *>(to)[i] = params.fill;
        } else if (size % 16 == 0) {
            copy_row_as<uint4>(to, from, params.row_size);
        } else {
            copy_row_as<uint2>(to, from, params.row_size);
        }
    }
}

#endif

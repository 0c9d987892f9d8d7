/* Rotary position embedding, and the positions for it. */
#ifndef RVIT_ROPE_CUH
#define RVIT_ROPE_CUH

#include "elements.cuh"

/* A row's heads are those of its queries, followed by those of its keys. */
template <typename T> RVIT_DEVICE T *head_of_row(const rvit_cu_rope_params &params, long long row, int head)
{
    if (head < params.n_heads)
        return static_cast<T *>(params.q) + row * params.q_stride + (long long)head * params.head_dim;
    return static_cast<T *>(params.k) + row * params.k_stride + (long long)(head - params.n_heads) * params.head_dim;
}

/* A warp has a row. A team has one lane per four pairs of a head, and takes head after head, so each lane has the same angles in all
   heads. */
template <typename T> RVIT_DEVICE void rotate_row(const rvit_cu_rope_params &params, long long row, int position)
{
    enum { AHEAD = 8 / sizeof(T) }; /* heads in flight */
    typedef typename raw_4<T>::type raw;
    const int pairs = params.head_dim / 2, lanes = pairs / 4, teams = 32 / lanes;
    const int lane = threadIdx.x & 31, team = lane / lanes, j = (lane - team * lanes) * 4, heads = 2 * params.n_heads;
    if (team >= teams)
        return;
    const float *angles = params.table + (long long)position * params.head_dim + j;
    const float4 cosine = load_4(angles), sine = load_4(angles + pairs);
    for (int first = team; first < heads; first += teams * AHEAD) {
        raw low[AHEAD], high[AHEAD];
#pragma unroll
        for (int i = 0; i < AHEAD; i++)
            if (first + i * teams < heads) {
                const T *from = head_of_row<T>(params, row, first + i * teams) + j;
                low[i] = load_raw_4(from), high[i] = load_raw_4(from + pairs);
            }
#pragma unroll
        for (int i = 0; i < AHEAD; i++)
            if (first + i * teams < heads) {
                T *to = head_of_row<T>(params, row, first + i * teams) + j;
                const float4 x = raw_4<T>::floats(low[i]), y = raw_4<T>::floats(high[i]);
                store_4(to, make_float4(x.x * cosine.x - y.x * sine.x, x.y * cosine.y - y.y * sine.y, x.z * cosine.z - y.z * sine.z,
                                        x.w * cosine.w - y.w * sine.w));
                store_4(to + pairs, make_float4(y.x * cosine.x + x.x * sine.x, y.y * cosine.y + x.y * sine.y, y.z * cosine.z + x.z * sine.z,
                                                y.w * cosine.w + x.w * sine.w));
            }
    }
}

template <typename T> RVIT_DEVICE void rope_rows(const rvit_cu_rope_params &params)
{
    const int warps = (int)blockDim.x / 32, rows = live_rows(params.rows);
    const long long step = (long long)gridDim.x * warps;
    for (long long row = (long long)blockIdx.x * warps + (int)threadIdx.x / 32; row < rows; row += step) {
        const int position = params.positions != nullptr ? params.positions[row] : (int)row % params.n_positions;
        if (position >= params.n_prefix && position < params.n_positions)
            rotate_row<T>(params, row, position);
    }
}

RVIT_DEVICE void find_positions(const rvit_cu_positions_params &params)
{
    const int rows = params.source_rows > 0 ? live_rows(params.rows) : 0;
    const long long step = (long long)gridDim.x * blockDim.x;
    for (long long row = (long long)blockIdx.x * blockDim.x + threadIdx.x; row < rows; row += step) {
        const int source = min(params.src_rows[row], params.source_rows - 1);
        int position = -1;
        if (source >= 0 && (params.keep == nullptr || params.keep[source] != 0))
            position = params.positions != nullptr ? params.positions[source] : source % params.n_positions;
        params.out[row] = position;
    }
}

#endif

/* out = activation(x weight^T + bias) + residual on tensor cores. Persistent: a CTA takes tile after tile of the rows that are there. A
   row's result does not depend on its place: every tile adds the same products in the same order. */
#ifndef RVIT_LINEAR_CUH
#define RVIT_LINEAR_CUH

#include "gelu.cuh"

/* BM x BN outputs in steps of BK channels; warps of WM x WN outputs each; STAGES tiles of x and weight in shared memory. */
template <typename T, int BM, int BN, int BK, int WM, int WN, int STAGES> struct linear_tile {
    static const int WARPS_N = BN / WN, THREADS = BM / WM * WARPS_N * 32;
    static const int CHUNKS = BK / 8;
    static const int X_BYTES = BM * BK * 2, STAGE_BYTES = (BM + BN) * BK * 2;
    static const int TILES_M = WM / 16, TILES_N = WN / 8;

    /* Where a 16-byte chunk of a row lies: the 8 rows of an ldmatrix in different banks. */
    static __device__ __forceinline__ uint32_t at(int row, int chunk)
    {
        return (uint32_t)(row * CHUNKS + (chunk ^ (row / (8 / CHUNKS) & (CHUNKS - 1)))) * 16;
    }

    /* Starts the copy of channels k .. k + BK - 1 of ROWS rows; zeroes past n_rows and past width. source is where this thread's first
       chunk would lie for k 0. */
    template <int ROWS> static __device__ __forceinline__ void fetch(uint32_t shared, const T *source, int n_rows, int k, int width)
    {
        const int row = (int)threadIdx.x / CHUNKS, chunk = (int)threadIdx.x % CHUNKS;
        const int left = width - k - chunk * 8;
#pragma unroll
        for (int i = 0; i < ROWS * CHUNKS / THREADS; i++) {
            const int r = row + i * (THREADS / CHUNKS);
            const T *from = source + (long long)(i * (THREADS / CHUNKS)) * width + k;
            const bool there = r < n_rows && left > 0;
            if (width % 8 == 0) {
                copy_async_16(shared + at(r, chunk), from, there);
            } else {
                /* Rows are 8-byte aligned only, and the last chunk is half full. */
                copy_async_8(shared + at(r, chunk), from, there);
                copy_async_8(shared + at(r, chunk) + 8, from + 4, there && left > 4);
            }
        }
    }

    /* Adds the products of one stage. */
    static __device__ __forceinline__ void multiply(float (&sum)[TILES_M][TILES_N][4], uint32_t stage)
    {
        const int lane = threadIdx.x & 31, warp = threadIdx.x / 32;
        const int row = warp / WARPS_N * WM, column = warp % WARPS_N * WN;
        const uint32_t x_lane = stage + at(row + (lane & 15), lane >> 4);
        const uint32_t weight_lane = stage + X_BYTES + at(column + (lane & 7) + ((lane >> 4) << 3), (lane >> 3) & 1);
#pragma unroll
        for (int step = 0; step < BK / 16; step++) {
            uint32_t a[TILES_M][4], b[TILES_N / 2][4];
#pragma unroll
            for (int m = 0; m < TILES_M; m++)
                load_matrix_x4(a[m], (x_lane ^ (uint32_t)(step * 32)) + m * 16 * CHUNKS * 16);
#pragma unroll
            for (int n = 0; n < TILES_N / 2; n++)
                load_matrix_x4(b[n], (weight_lane ^ (uint32_t)(step * 32)) + n * 16 * CHUNKS * 16);
#pragma unroll
            for (int m = 0; m < TILES_M; m++)
#pragma unroll
                for (int n = 0; n < TILES_N; n++)
                    element<T>::mma(sum[m][n], a[m], b[n / 2][n % 2 * 2], b[n / 2][n % 2 * 2 + 1]);
        }
    }

    /* Four neighbouring 8-column pieces of a row in 16-bit elements: the four lanes of a group hold 2 columns of each piece and trade
       them so that a lane writes one piece. */
    static __device__ __forceinline__ void store_pieces(T *out, const rvit_cu_linear_params &params, int column, bool there,
                                                        uint32_t (&piece)[4])
    {
        const int c = threadIdx.x & 3;
        if (params.out_features % 8 != 0) {
#pragma unroll
            for (int i = 0; i < 4; i++)
                if (there && column + i * 8 + c * 2 < params.out_features)
                    *reinterpret_cast<uint32_t *>(out + column + i * 8 + c * 2) = piece[i];
            return;
        }
        uint32_t a0 = c & 1 ? piece[0] : piece[1], a1 = c & 1 ? piece[2] : piece[3];
        a0 = shuffle_xor(a0, 1), a1 = shuffle_xor(a1, 1);
        if (c & 1)
            piece[0] = a0, piece[2] = a1;
        else
            piece[1] = a0, piece[3] = a1;
        uint32_t b0 = c & 2 ? piece[0] : piece[2], b1 = c & 2 ? piece[1] : piece[3];
        b0 = shuffle_xor(b0, 2), b1 = shuffle_xor(b1, 2);
        if (c & 2)
            piece[0] = b0, piece[1] = b1;
        else
            piece[2] = b0, piece[3] = b1;
        if (there && column + c * 8 < params.out_features)
            *reinterpret_cast<uint4 *>(out + column + c * 8) = make_uint4(piece[0], piece[1], piece[2], piece[3]);
    }

    static __device__ __forceinline__ float2 activate(const rvit_cu_linear_params &params, float x, float y)
    {
        return params.gelu ? make_float2(gelu(x), gelu(y)) : make_float2(x, y);
    }

    static __device__ __forceinline__ void finish(const rvit_cu_linear_params &params, float (&sum)[TILES_M][TILES_N][4], int first_row,
                                                  int first_column, int rows)
    {
        const int lane = threadIdx.x & 31, warp = threadIdx.x / 32, c = (lane & 3) * 2;
        const int row = first_row + warp / WARPS_N * WM + (lane >> 2), column = first_column + warp % WARPS_N * WN;
        const int n = params.out_features;
        if (params.bias != nullptr) {
#pragma unroll
            for (int t = 0; t < TILES_N; t++) {
                float2 bias = make_float2(0.0f, 0.0f);
                if (column + t * 8 + c < n)
                    bias = *reinterpret_cast<const float2 *>(params.bias + column + t * 8 + c);
#pragma unroll
                for (int m = 0; m < TILES_M; m++) {
                    sum[m][t][0] += bias.x, sum[m][t][1] += bias.y;
                    sum[m][t][2] += bias.x, sum[m][t][3] += bias.y;
                }
            }
        }
#pragma unroll
        for (int m = 0; m < TILES_M; m++)
#pragma unroll
            for (int h = 0; h < 2; h++) {
                const int r = row + m * 16 + h * 8;
                const bool there = r < rows;
                const long long at = (long long)r * n;
                const long long residual_at = params.residual_period == 0 ? at : (long long)(r % params.residual_period) * n;
                if (params.out_f32) {
                    float *out = static_cast<float *>(params.out) + at;
                    const float *residual = static_cast<const float *>(params.residual) + residual_at;
#pragma unroll
                    for (int t = 0; t < TILES_N; t++) {
                        const int to = column + t * 8 + c;
                        if (!there || to >= n)
                            continue;
                        float2 value = activate(params, sum[m][t][2 * h], sum[m][t][2 * h + 1]);
                        if (params.residual != nullptr) {
                            const float2 more = *reinterpret_cast<const float2 *>(residual + to);
                            value.x += more.x, value.y += more.y;
                        }
                        *reinterpret_cast<float2 *>(out + to) = value;
                    }
                    continue;
                }
                T *out = static_cast<T *>(params.out) + at;
                const T *residual = static_cast<const T *>(params.residual) + residual_at;
#pragma unroll
                for (int t = 0; t < TILES_N; t += 4) {
                    uint32_t piece[4];
#pragma unroll
                    for (int i = 0; i < 4; i++) {
                        const int to = column + (t + i) * 8 + c;
                        float2 value = activate(params, sum[m][t + i][2 * h], sum[m][t + i][2 * h + 1]);
                        if (params.residual != nullptr && there && to < n) {
                            const float2 more = element<T>::unpack(*reinterpret_cast<const uint32_t *>(residual + to));
                            value.x += more.x, value.y += more.y;
                        }
                        piece[i] = element<T>::pack(value.x, value.y);
                    }
                    store_pieces(out, params, column + t * 8, there, piece);
                }
            }
    }

    static __device__ __forceinline__ void run(const rvit_cu_linear_params &params)
    {
        RVIT_DYNAMIC_SHARED(memory);
        const uint32_t shared = shared_address(memory);
        const int rows = live_rows(params.rows);
        const int width = params.in_features, steps = (width + BK - 1) / BK, columns = (params.out_features + BN - 1) / BN;
        const long long n_tiles = (long long)((rows + BM - 1) / BM) * columns;
        for (long long tile = blockIdx.x; tile < n_tiles; tile += gridDim.x) {
            const int row = (int)(tile / columns) * BM, column = (int)(tile % columns) * BN;
            const long long thread_row = threadIdx.x / CHUNKS, thread_k = threadIdx.x % CHUNKS * 8;
            const T *x = static_cast<const T *>(params.x) + (row + thread_row) * width + thread_k;
            const T *weight = static_cast<const T *>(params.weight) + (column + thread_row) * width + thread_k;
#pragma unroll
            for (int s = 0; s < STAGES - 1; s++) {
                if (s < steps) {
                    fetch<BM>(shared + s * STAGE_BYTES, x, rows - row, s * BK, width);
                    fetch<BN>(shared + s * STAGE_BYTES + X_BYTES, weight, params.out_features - column, s * BK, width);
                }
                copy_commit();
            }
            float sum[TILES_M][TILES_N][4];
#pragma unroll
            for (int m = 0; m < TILES_M; m++)
#pragma unroll
                for (int t = 0; t < TILES_N; t++)
#pragma unroll
                    for (int i = 0; i < 4; i++)
                        sum[m][t][i] = 0.0f;
            int stage = 0, next = STAGES - 1;
            for (int step = 0; step < steps; step++) {
                copy_wait<STAGES - 2>();
                block_sync(); /* this step's tiles are there, and the last step's have been read */
                if (step + STAGES - 1 < steps) {
                    const int k = (step + STAGES - 1) * BK;
                    fetch<BM>(shared + next * STAGE_BYTES, x, rows - row, k, width);
                    fetch<BN>(shared + next * STAGE_BYTES + X_BYTES, weight, params.out_features - column, k, width);
                }
                copy_commit();
                multiply(sum, shared + stage * STAGE_BYTES);
                stage = stage + 1 == STAGES ? 0 : stage + 1;
                next = next + 1 == STAGES ? 0 : next + 1;
            }
            block_sync();
            finish(params, sum, row, column, rows);
        }
    }
};

#endif

/* Persistent GEMM on tensor cores: out = activation(x weight^T + bias) + residual. A CTA loops over tiles of the live rows. Every tile
   sums along K in the same order, so a row's result does not depend on its position. */
#ifndef RVIT_LINEAR_CUH
#define RVIT_LINEAR_CUH

#include "activation.cuh"
#include "e4m3.cuh"

/* Whether the sums are multiplied by the scales of x and weight. */
template <typename T> struct has_scales {
    static const bool VALUE = false;
};
template <> struct has_scales<e4m3x2> {
    static const bool VALUE = true;
};

/* A CTA tile of BM x BN outputs, a warp tile of WM x WN, a k step of BK channels, STAGES pipeline stages. CHUNK: elements per
   asynchronous copy, 8, or 4 for rows with 8-byte alignment only. EPILOGUE: activation.cuh. */
template <typename T, int BM, int BN, int WM, int WN, int BK, int STAGES, int CHUNK, epilogue_kind EPILOGUE> struct linear_tile {
    static const int WARPS_N = BN / WN, THREADS = BM / WM * WARPS_N * 32;
    static const int X_BYTES = BM * BK * 2, STAGE_BYTES = (BM + BN) * BK * 2;
    static const int TILES_M = WM / 16, TILES_N = WN / 8, PARTS = BK / 16;
    static const bool SCALED = has_scales<T>::VALUE;
    /* A thread copies the same chunk of every COPY_ROWS-th row. */
    static const int COPY_ROWS = THREADS / (BK / CHUNK), X_COPIES = BM / COPY_ROWS, COPIES = (BM + BN) / COPY_ROWS;
    static_assert(BM % COPY_ROWS == 0 && BN % COPY_ROWS == 0 && COPY_ROWS % 8 == 0 && (COPY_ROWS & (COPY_ROWS - 1)) == 0 && WN % 32 == 0 &&
                      COPIES <= 32,
                  "every thread copies as much");

    /* The next copies: BK channels of a tile's rows of x and weight. */
    struct cursor {
        const T *from[COPIES];
        unsigned in_bounds; /* bit i: copy i is in bounds */
        int left;           /* channels from this thread's first on; 0 past the last tile */
        int tile, steps;
    };

    /* A and B fragments of 16 channels (one mma k step). */
    struct fragments {
        uint32_t x[TILES_M][4], weight[TILES_N / 2][4];
    };

    /* The swizzled offset of 8 channels of a row, so that the 8 rows of an ldmatrix are in different banks. Rows 8 apart are 8 * BK * 2
       bytes apart. */
    static __device__ __forceinline__ uint32_t swizzled(int row, int channels)
    {
        return (uint32_t)(row * (BK / 8) + (channels ^ (row / (64 / BK) & (BK / 8 - 1)))) * 16;
    }

    /* Adjacent outputs of a lane out of 32: 16 bytes, 8 16-bit values or 4 of float32. */
    static __device__ __forceinline__ int lane_step(const rvit_cu_linear_params &params)
    {
        return EPILOGUE != SIGMOID && params.out_f32 ? 4 : 8;
    }

    /* The first of a lane's four outputs in tiles t and t + 1. */
    static __device__ __forceinline__ int output_of_tile(int t, int lane_step)
    {
        return t / 4 * 32 + t % 4 / 2 * (lane_step == 4 ? 16 : 4);
    }

    /* The output whose weights are in a row of a stage. */
    static __device__ __forceinline__ int output_of_row(int row, int lane_step)
    {
        return output_of_tile(row / 8, lane_step) + row / 2 % 4 * lane_step + row / 8 % 2 * 2 + row % 2;
    }

    static __device__ __forceinline__ void go_to(cursor &c, const rvit_cu_linear_params &params, int rows, int n_tiles, int tile)
    {
        const unsigned columns = (params.out_features + BN - 1) / BN;
        const int thread_row = (int)threadIdx.x / (BK / CHUNK), first = (int)threadIdx.x % (BK / CHUNK) * CHUNK, width = params.in_features;
        const int step = lane_step(params), row = (int)((unsigned)tile / columns) * BM + thread_row;
        const int column = (int)((unsigned)tile % columns) * BN + output_of_row(thread_row, step);
        const T *x = static_cast<const T *>(params.x) + (long long)row * width + first;
        const T *weight = static_cast<const T *>(params.weight) + (long long)column * width + first;
        c.left = tile < n_tiles ? width - first : 0;
        c.in_bounds = 0;
#pragma unroll
        for (int i = 0; i < COPIES; i++) {
            const bool is_x = i < X_COPIES;
            const int offset = is_x ? i * COPY_ROWS : output_of_row((i - X_COPIES) * COPY_ROWS, step);
            c.from[i] = (is_x ? x : weight) + (long long)offset * width;
            if (offset < (is_x ? rows - row : params.out_features - column) && c.left > 0)
                c.in_bounds |= 1u << i;
        }
        c.tile = tile;
        c.steps = (width + BK - 1) / BK;
    }

    static __device__ __forceinline__ void advance(cursor &c, const rvit_cu_linear_params &params, int rows, int n_tiles)
    {
#pragma unroll
        for (int i = 0; i < COPIES; i++)
            c.from[i] += BK;
        c.left -= BK, c.steps--;
        if (c.left <= 0)
            c.in_bounds = 0;
        while (c.steps == 0) /* rare: a loop is branched over, an if would be predicated */
            go_to(c, params, rows, n_tiles, c.tile + (int)gridDim.x);
    }

    /* Starts some of a thread's copies; zeros if out of bounds. */
    template <int FIRST, int END> static __device__ __forceinline__ void copy(const cursor &c, uint32_t stage)
    {
        const int first = (int)threadIdx.x % (BK / CHUNK) * CHUNK;
        const uint32_t to = stage + swizzled((int)threadIdx.x / (BK / CHUNK), first / 8) + first % 8 * 2;
#pragma unroll
        for (int i = FIRST; i < END; i++) {
            if (CHUNK == 8)
                copy_async_16(to + i * COPY_ROWS * BK * 2, c.from[i], c.in_bounds >> i & 1);
            else
                copy_async_8(to + i * COPY_ROWS * BK * 2, c.from[i], c.in_bounds >> i & 1);
        }
    }

    static __device__ __forceinline__ void load(fragments &f, uint32_t stage, int part)
    {
        const int lane = threadIdx.x & 31, warp = threadIdx.x / 32;
        const int row = warp / WARPS_N * WM, column = warp % WARPS_N * WN;
        const uint32_t x_lane = stage + swizzled(row + (lane & 15), lane >> 4);
        const uint32_t weight_lane = stage + X_BYTES + swizzled(column + (lane & 7) + ((lane >> 4) << 3), (lane >> 3) & 1);
        load_matrix_x4(f.x[0], x_lane ^ (uint32_t)(part * 32));
#pragma unroll
        for (int n = 0; n < TILES_N / 2; n++)
            load_matrix_x4(f.weight[n], (weight_lane ^ (uint32_t)(part * 32)) + n * 16 * BK * 2);
#pragma unroll
        for (int m = 1; m < TILES_M; m++)
            load_matrix_x4(f.x[m], (x_lane ^ (uint32_t)(part * 32)) + m * 16 * BK * 2);
    }

    static __device__ __forceinline__ void multiply(float (&sum)[TILES_M][TILES_N][4], const fragments &f)
    {
#pragma unroll
        for (int m = 0; m < TILES_M; m++)
#pragma unroll
            for (int n = 0; n < TILES_N; n++)
                element<T>::mma(sum[m][n], f.x[m], f.weight[n / 2][n % 2 * 2], f.weight[n / 2][n % 2 * 2 + 1]);
    }

    /* The k loop over one stage, from PART on. While 16 channels are multiplied, the fragments of the next 16 are loaded and another
       stage is copied. */
    template <int PART>
    static __device__ __forceinline__ void do_parts(float (&sum)[TILES_M][TILES_N][4], fragments (&f)[2], uint32_t &stage,
                                                    uint32_t &free_stage, uint32_t shared, const cursor &next)
    {
        if (PART == PARTS - 1) {
            free_stage = stage;
            stage = stage == shared + (STAGES - 1) * STAGE_BYTES ? shared : stage + STAGE_BYTES;
            copy_wait<STAGES - 2>();
            block_sync(); /* the next stage has arrived, and this one has been read */
        }
        load(f[(PART + 1) % 2], stage, (PART + 1) % PARTS);
        multiply(sum, f[PART % 2]);
        if (PART < PARTS - 1)
            copy<COPIES * PART / (PARTS - 1), COPIES *(PART + 1) / (PARTS - 1)>(next, free_stage);
        if (PART == PARTS - 2)
            copy_commit();
        if constexpr (PART < PARTS - 1)
            do_parts<PART + 1>(sum, f, stage, free_stage, shared, next);
    }

    static __device__ __forceinline__ void load_bias(float2 (&bias)[TILES_N], const rvit_cu_linear_params &params, int column)
    {
#pragma unroll
        for (int t = 0; t < TILES_N; t += 2) {
            const int to = column + output_of_tile(t, lane_step(params));
            float4 value = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
            if (params.bias != nullptr && to < params.out_features)
                value = load_4(params.bias + to);
            bias[t] = make_float2(value.x, value.y), bias[t + 1] = make_float2(value.z, value.w);
        }
    }

    static __device__ __forceinline__ void scale(const rvit_cu_linear_params &params, float (&sum)[TILES_M][TILES_N][4], int row,
                                                 int column, int rows)
    {
        float row_scales[TILES_M][2];
#pragma unroll
        for (int m = 0; m < TILES_M; m++)
#pragma unroll
            for (int h = 0; h < 2; h++) {
                const int r = row + m * 16 + h * 8;
                row_scales[m][h] = r < rows ? params.x_scales[r] : 0.0f;
            }
#pragma unroll
        for (int t = 0; t < TILES_N; t += 2) {
            const int to = column + output_of_tile(t, lane_step(params));
            const float4 w = to < params.out_features ? load_4(params.weight_scales + to) : make_float4(0.0f, 0.0f, 0.0f, 0.0f);
#pragma unroll
            for (int m = 0; m < TILES_M; m++)
#pragma unroll
                for (int h = 0; h < 2; h++) {
                    sum[m][t][2 * h] *= row_scales[m][h] * w.x, sum[m][t][2 * h + 1] *= row_scales[m][h] * w.y;
                    sum[m][t + 1][2 * h] *= row_scales[m][h] * w.z, sum[m][t + 1][2 * h + 1] *= row_scales[m][h] * w.w;
                }
        }
    }

    /* Adds to rows `row` and row + 8. All loads precede the first addition. */
    template <typename U>
    static __device__ __forceinline__ void add_residual(const rvit_cu_linear_params &params, float (&sum)[TILES_N][4], int row, int column,
                                                        int rows)
    {
        float4 addend[2][TILES_N / 2];
#pragma unroll
        for (int h = 0; h < 2; h++) {
            const int r = row + h * 8;
            const int from_row = params.residual_period == 0 ? r : r % params.residual_period;
            const U *from = static_cast<const U *>(params.residual) + (long long)from_row * params.out_features;
#pragma unroll
            for (int t = 0; t < TILES_N; t += 2) {
                const int to = column + output_of_tile(t, sizeof(U) == 4 ? 4 : 8);
                addend[h][t / 2] = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
                if (r < rows && to < params.out_features)
                    addend[h][t / 2] = load_4(from + to);
            }
        }
#pragma unroll
        for (int h = 0; h < 2; h++)
#pragma unroll
            for (int t = 0; t < TILES_N; t += 2) {
                sum[t][2 * h] += addend[h][t / 2].x, sum[t][2 * h + 1] += addend[h][t / 2].y;
                sum[t + 1][2 * h] += addend[h][t / 2].z, sum[t + 1][2 * h + 1] += addend[h][t / 2].w;
            }
    }

    /* Four outputs of a row from tiles t and t + 1. */
    static __device__ __forceinline__ float4 four_outputs(const float (&sum)[TILES_N][4], int t, int h)
    {
        return make_float4(sum[t][2 * h], sum[t][2 * h + 1], sum[t + 1][2 * h], sum[t + 1][2 * h + 1]);
    }

    static __device__ __forceinline__ void store_row(float *out, const float (&sum)[TILES_N][4], int h, int column, int n)
    {
#pragma unroll
        for (int t = 0; t < TILES_N; t += 2) {
            const int to = column + output_of_tile(t, 4);
            if (to < n)
                store_4(out + to, four_outputs(sum, t, h));
        }
    }

    template <typename U> static __device__ __forceinline__ void store_row(U *out, const float (&sum)[TILES_N][4], int h, int column, int n)
    {
#pragma unroll
        for (int t = 0; t < TILES_N; t += 4) {
            const int to = column + output_of_tile(t, 8);
            const float4 low = four_outputs(sum, t, h), high = four_outputs(sum, t + 2, h);
            if (to >= n)
                continue;
            if (n % 8 == 0) {
                *reinterpret_cast<uint4 *>(out + to) = make_uint4(element<U>::pack(low.x, low.y), element<U>::pack(low.z, low.w),
                                                                  element<U>::pack(high.x, high.y), element<U>::pack(high.z, high.w));
            } else {
                store_4(out + to, low);
                if (to + 4 < n)
                    store_4(out + to + 4, high);
            }
        }
    }

    template <typename U>
    static __device__ __forceinline__ void epilogue(const rvit_cu_linear_params &params, float (&sum)[TILES_M][TILES_N][4], int row,
                                                    int column, int rows)
    {
        if (EPILOGUE != SIGMOID && params.residual != nullptr) {
#pragma unroll
            for (int m = 0; m < TILES_M; m++)
                add_residual<U>(params, sum[m], row + m * 16, column, rows);
        }
#pragma unroll
        for (int m = 0; m < TILES_M; m++)
#pragma unroll
            for (int h = 0; h < 2; h++) {
                const int r = row + m * 16 + h * 8;
                if (r < rows)
                    store_row(static_cast<U *>(params.out) + (long long)r * params.out_features, sum[m], h, column, params.out_features);
            }
    }

    static __device__ __forceinline__ void activate(const rvit_cu_linear_params &params, float (&sum)[TILES_M][TILES_N][4],
                                                    const float2 (&bias)[TILES_N])
    {
#pragma unroll
        for (int m = 0; m < TILES_M; m++)
#pragma unroll
            for (int t = 0; t < TILES_N; t++) {
                sum[m][t][0] += bias[t].x, sum[m][t][1] += bias[t].y;
                sum[m][t][2] += bias[t].x, sum[m][t][3] += bias[t].y;
            }
        activate_sums<EPILOGUE>(params, sum);
    }

    /* Gated: two outputs are in tiles t and t + 1, half as many as columns. */
    template <typename U>
    static __device__ __forceinline__ void gated_epilogue(const rvit_cu_linear_params &params, float (&sum)[TILES_M][TILES_N][4], int row,
                                                          int column, int rows)
    {
        const int n = params.out_features;
#pragma unroll
        for (int m = 0; m < TILES_M; m++)
#pragma unroll
            for (int h = 0; h < 2; h++) {
                const int r = row + m * 16 + h * 8;
                if (r >= rows)
                    continue;
                const int from_row = params.residual_period == 0 ? r : r % params.residual_period;
                const U *residual = static_cast<const U *>(params.residual) + (long long)from_row * (n / 2);
                U *out = static_cast<U *>(params.out) + (long long)r * (n / 2);
#pragma unroll
                for (int t = 0; t < TILES_N; t += 4) {
                    const int to = (column + output_of_tile(t, sizeof(U) == 4 ? 4 : 8)) / 2;
                    store_gated(out, residual, to, n / 2, EPILOGUE != SIGMOID && params.residual != nullptr,
                                make_float4(sum[m][t][2 * h], sum[m][t + 1][2 * h], sum[m][t + 2][2 * h], sum[m][t + 3][2 * h]));
                }
            }
    }

    /* The outputs of tiles t to t + 3, which are 8 apart for float32. */
    static __device__ __forceinline__ void store_gated(float *out, const float *residual, int to, int n, bool has_residual, float4 x)
    {
        const float2 pairs[2] = {make_float2(x.x, x.y), make_float2(x.z, x.w)};
#pragma unroll
        for (int i = 0; i < 2; i++) {
            if (to + i * 8 >= n)
                continue;
            const float2 addend = has_residual ? load_2(residual + to + i * 8) : make_float2(0.0f, 0.0f);
            store_2(out + to + i * 8, make_float2(pairs[i].x + addend.x, pairs[i].y + addend.y));
        }
    }

    template <typename U>
    static __device__ __forceinline__ void store_gated(U *out, const U *residual, int to, int n, bool has_residual, float4 x)
    {
        if (to >= n)
            return;
        const float4 addend = has_residual ? load_4(residual + to) : make_float4(0.0f, 0.0f, 0.0f, 0.0f);
        store_4(out + to, make_float4(x.x + addend.x, x.y + addend.y, x.z + addend.z, x.w + addend.w));
    }

    template <typename U>
    static __device__ __forceinline__ void finish(const rvit_cu_linear_params &params, float (&sum)[TILES_M][TILES_N][4], int row,
                                                  int column, int rows)
    {
        if (EPILOGUE != PLAIN && params.gated)
            gated_epilogue<U>(params, sum, row, column, rows);
        else
            epilogue<U>(params, sum, row, column, rows);
    }

    template <typename U>
    static __device__ __forceinline__ void finish_16(const rvit_cu_linear_params &params, float (&sum)[TILES_M][TILES_N][4], int row,
                                                     int column, int rows, const U *)
    {
        finish<U>(params, sum, row, column, rows);
    }

    static __device__ __forceinline__ void finish_16(const rvit_cu_linear_params &params, float (&sum)[TILES_M][TILES_N][4], int row,
                                                     int column, int rows, const e4m3x2 *)
    {
        if (params.out_bf16)
            finish<bf16>(params, sum, row, column, rows);
        else
            finish<f16>(params, sum, row, column, rows);
    }

    /* The first output of a lane in a tile. */
    static __device__ __forceinline__ int row_of(int tile, int columns)
    {
        return (int)((unsigned)tile / columns) * BM + (int)threadIdx.x / 32 / WARPS_N * WM + (threadIdx.x & 31) / 4;
    }

    static __device__ __forceinline__ int column_of(const rvit_cu_linear_params &params, int tile, int columns)
    {
        return (int)((unsigned)tile % columns) * BN + (int)threadIdx.x / 32 % WARPS_N * WN + (threadIdx.x & 3) * lane_step(params);
    }

    static __device__ __forceinline__ void run(const rvit_cu_linear_params &params)
    {
        RVIT_DYNAMIC_SHARED(memory);
        const uint32_t shared = shared_address(memory);
        const int rows = live_rows(params.rows), width = params.in_features;
        const int steps = (width + BK - 1) / BK, columns = (params.out_features + BN - 1) / BN;
        const int n_tiles = (rows + BM - 1) / BM * columns;
        cursor next;
        go_to(next, params, rows, n_tiles, (int)blockIdx.x);
#pragma unroll 1
        for (int s = 0; s < STAGES - 1; s++) {
            copy<0, COPIES>(next, shared + s * STAGE_BYTES);
            copy_commit();
            advance(next, params, rows, n_tiles);
        }
        copy_wait<STAGES - 2>();
        block_sync();
        fragments f[2];
        load(f[0], shared, 0);
        uint32_t stage = shared, free_stage = shared + (STAGES - 1) * STAGE_BYTES;
        for (int tile = (int)blockIdx.x; tile < n_tiles; tile += gridDim.x) {
            int row = row_of(tile, columns), column = column_of(params, tile, columns);
            float2 bias[TILES_N];
            load_bias(bias, params, column);
            float sum[TILES_M][TILES_N][4];
#pragma unroll
            for (int m = 0; m < TILES_M; m++)
#pragma unroll
                for (int t = 0; t < TILES_N; t++)
#pragma unroll
                    for (int i = 0; i < 4; i++)
                        sum[m][t][i] = 0.0f;
            for (int step = 0; step < steps; step++) {
                do_parts<0>(sum, f, stage, free_stage, shared, next);
                advance(next, params, rows, n_tiles);
            }
            if (SCALED)
                scale(params, sum, row, column, rows);
            activate(params, sum, bias);
            if (EPILOGUE == SIGMOID) { /* recomputed: some architectures lack the registers to keep it through the k loop */
                const int same = recompute(tile);
                row = row_of(same, columns), column = column_of(params, same, columns);
            }
            if (EPILOGUE != SIGMOID && params.out_f32)
                finish<float>(params, sum, row, column, rows);
            else
                finish_16(params, sum, row, column, rows, static_cast<const T *>(nullptr));
        }
    }
};

#endif

/* The GEMM of linear.cuh for small problems: a CTA computes one tile with specialised producer and consumer warps, because on a partly
   filled device, warps that do both stall. Sums along K are in the order of linear.cuh. */
#ifndef RVIT_LINEAR_NONPERSISTENT_CUH
#define RVIT_LINEAR_NONPERSISTENT_CUH

#include "activation.cuh"

#include "../tile.h"

/* A CTA tile of BM x BN outputs, consumer warps with WM x WN outputs each, RVIT_CU_NONPERSISTENT_PRODUCERS producer warps, STAGES stages
   of 64 channels in shared memory. EPILOGUE: activation.cuh. */
template <typename T, int BM, int BN, int WM, int WN, int STAGES, epilogue_kind EPILOGUE> struct linear_nonpersistent {
    static const int BK = 64, WARPS_N = BN / WN, WARPS = BM / WM * WARPS_N;
    static const int X_BYTES = BM * BK * 2, STAGE_BYTES = (BM + BN) * BK * 2;
    static const int TILES_M = WM / 16, TILES_N = WN / 8, PARTS = BK / 16;
    /* A thread copies the same 8 channels of every COPY_ROWS-th row. */
    static const int COPY_ROWS = RVIT_CU_NONPERSISTENT_PRODUCERS * 32 / (BK / 8), X_COPIES = BM / COPY_ROWS, W_COPIES = BN / COPY_ROWS;
    static const int EARLY = 2; /* stages whose weights are loaded before x, which the previous kernel writes */
    static_assert(BM % COPY_ROWS == 0 && BN % COPY_ROWS == 0 && COPY_ROWS % 8 == 0 && X_COPIES <= 16 && W_COPIES <= 16,
                  "every copying thread copies as much");
    static_assert(WM % 16 == 0 && WN % 16 == 0 && EARLY < STAGES, "operands are loaded 16 rows at a time");

    struct source {
        const T *x[X_COPIES], *weight[W_COPIES];
        unsigned in_bounds; /* bit i: row i of x is in bounds; bit 16 + i: row i of weight */
        uint32_t to;
    };

    /* A and B fragments of 16 channels, and groups of them; registers hold two groups. */
    struct fragments {
        uint32_t x[TILES_M][4], weight[TILES_N / 2][4];
    };
    static const int OPERANDS = 4 * TILES_M + 2 * TILES_N, SUMS = 4 * TILES_M * TILES_N;
    static const int GROUP = 8 * OPERANDS + SUMS <= 190 ? 4 : 2, GROUPS = PARTS / GROUP;
    struct group {
        fragments part[GROUP];
    };

    /* Offsets of a lane's rows of x and weight in a stage, for each 16 channels. */
    struct lanes {
        uint32_t x[PARTS], weight[PARTS];
    };

    /* The swizzled offset of 8 channels of a row, so that the 8 rows of an ldmatrix are in different banks. */
    static __device__ __forceinline__ uint32_t swizzled(int row, int channels)
    {
        return (uint32_t)(row * (BK / 8) + (channels ^ (row & 7))) * 16;
    }

    /* The output whose weights are in a row of a stage: a lane has four adjacent outputs of each 16. */
    static __device__ __forceinline__ int output_of_row(int row)
    {
        return row / 16 * 16 + row / 2 % 4 * 4 + row / 8 % 2 * 2 + row % 2;
    }

    static __device__ __forceinline__ uint32_t next_stage(uint32_t stage, uint32_t shared)
    {
        return stage == shared + (STAGES - 1) * STAGE_BYTES ? shared : stage + STAGE_BYTES;
    }

    /* Start the copies of a stage; zeros if out of bounds. */
    static __device__ __forceinline__ void copy_x(source &s, uint32_t stage, unsigned in_bounds)
    {
#pragma unroll
        for (int i = 0; i < X_COPIES; i++) {
            copy_async_16(stage + s.to + i * COPY_ROWS * BK * 2, s.x[i], in_bounds >> i & 1);
            s.x[i] += BK;
        }
    }

    static __device__ __forceinline__ void copy_weight(source &s, uint32_t stage, unsigned in_bounds)
    {
#pragma unroll
        for (int i = 0; i < W_COPIES; i++) {
            copy_async_16(stage + X_BYTES + s.to + i * COPY_ROWS * BK * 2, s.weight[i], in_bounds >> (16 + i) & 1);
            s.weight[i] += BK;
        }
    }

    static __device__ __forceinline__ void copy_all(const rvit_cu_linear_params &params, uint32_t shared, int row, int column, int steps)
    {
        const int thread = (int)threadIdx.x - WARPS * 32, thread_row = thread / (BK / 8), first = thread % (BK / 8) * 8;
        const int width = params.in_features, mine = (width - first + BK - 1) / BK; /* steps with channels for this thread */
        source s;
        s.in_bounds = 0;
        s.to = swizzled(thread_row, first / 8);
#pragma unroll
        for (int i = 0; i < W_COPIES; i++) {
            const int output = column + output_of_row(thread_row + i * COPY_ROWS);
            s.weight[i] = static_cast<const T *>(params.weight) + (long long)output * width + first;
            if (output < params.out_features)
                s.in_bounds |= 0x10000u << i;
        }
#pragma unroll
        for (int i = 0; i < X_COPIES; i++)
            s.x[i] = static_cast<const T *>(params.x) + (long long)(row + thread_row + i * COPY_ROWS) * width + first;
        if (!params.constant_weights)
            wait_for_previous();
#pragma unroll 1
        for (int i = 0; i < EARLY; i++)
            copy_weight(s, shared + i * STAGE_BYTES, i < mine ? s.in_bounds : 0);
        wait_for_previous();
        const int rows = live_rows(params.rows);
#pragma unroll
        for (int i = 0; i < X_COPIES; i++)
            if (row + thread_row + i * COPY_ROWS < rows)
                s.in_bounds |= 1u << i;
        if (row >= rows) {
            copy_commit();
            copy_wait<0>();
            return;
        }
#pragma unroll 1
        for (int i = 0; i < STAGES - 1; i++) {
            if (i < steps) {
                const unsigned in_bounds = i < mine ? s.in_bounds : 0;
                copy_x(s, shared + i * STAGE_BYTES, in_bounds);
                if (i >= EARLY)
                    copy_weight(s, shared + i * STAGE_BYTES, in_bounds);
            }
            copy_commit();
        }
        uint32_t stage = shared + (STAGES - 1) * STAGE_BYTES;
        copy_wait<STAGES - 2>();
        block_sync();
#pragma unroll 1
        for (int step = 1; step < steps; step++) {
            const int ahead = step + STAGES - 2; /* reuses the stage of step - 2, which has been read */
            if (ahead < steps) {
                const unsigned in_bounds = ahead < mine ? s.in_bounds : 0;
                copy_x(s, stage, in_bounds);
                copy_weight(s, stage, in_bounds);
                stage = next_stage(stage, shared);
            }
            copy_commit();
            copy_wait<STAGES - 2>();
            block_sync();
        }
    }

    static __device__ __forceinline__ lanes find_lanes()
    {
        const int lane = threadIdx.x & 31, warp = threadIdx.x / 32;
        const int row = warp / WARPS_N * WM, column = warp % WARPS_N * WN;
        lanes l;
#pragma unroll
        for (int p = 0; p < PARTS; p++) {
            /* Computed once, not between the mma of the k loop. */
            l.x[p] = (uint32_t)recompute((int)swizzled(row + (lane & 15), (lane >> 4) + 2 * p));
            l.weight[p] =
                (uint32_t)recompute((int)(X_BYTES + swizzled(column + (lane & 7) + ((lane >> 4) << 3), ((lane >> 3) & 1) + 2 * p)));
        }
        return l;
    }

    static __device__ __forceinline__ void load(group &g, const lanes &l, uint32_t stage, int index)
    {
#pragma unroll
        for (int p = 0; p < GROUP; p++) {
#pragma unroll
            for (int m = 0; m < TILES_M; m++)
                load_matrix_x4(g.part[p].x[m], stage + l.x[index * GROUP + p] + m * 16 * BK * 2);
#pragma unroll
            for (int n = 0; n < TILES_N / 2; n++)
                load_matrix_x4(g.part[p].weight[n], stage + l.weight[index * GROUP + p] + n * 16 * BK * 2);
        }
    }

    static __device__ __forceinline__ void multiply(float (&sum)[TILES_M][TILES_N][4], const group &g)
    {
#pragma unroll
        for (int p = 0; p < GROUP; p++)
#pragma unroll
            for (int m = 0; m < TILES_M; m++)
#pragma unroll
                for (int n = 0; n < TILES_N; n++)
                    element<T>::mma(sum[m][n], g.part[p].x[m], g.part[p].weight[n / 2][n % 2 * 2], g.part[p].weight[n / 2][n % 2 * 2 + 1]);
    }

    /* The k loop over one stage, whose first fragments are loaded: each group is multiplied while the next is loaded. */
    static __device__ __forceinline__ void do_step(float (&sum)[TILES_M][TILES_N][4], group &now, group &next, const lanes &l,
                                                   uint32_t &stage, uint32_t shared, bool more)
    {
#pragma unroll
        for (int i = 0; i < GROUPS; i++) {
            group &mine = i % 2 ? next : now, &other = i % 2 ? now : next;
            if (i < GROUPS - 1) {
                load(other, l, stage, i + 1);
            } else if (more) {
                stage = next_stage(stage, shared);
                block_sync();
                load(other, l, stage, 0);
            }
            multiply(sum, mine);
        }
    }

    static __device__ __forceinline__ void activate(const rvit_cu_linear_params &params, float (&sum)[TILES_M][TILES_N][4],
                                                    const float4 (&bias)[TILES_N / 2])
    {
#pragma unroll
        for (int m = 0; m < TILES_M; m++)
#pragma unroll
            for (int t = 0; t < TILES_N; t++) {
                const float first = t % 2 ? bias[t / 2].z : bias[t / 2].x, second = t % 2 ? bias[t / 2].w : bias[t / 2].y;
                sum[m][t][0] += first, sum[m][t][1] += second;
                sum[m][t][2] += first, sum[m][t][3] += second;
            }
        activate_sums<EPILOGUE>(params, sum);
    }

    /* All loads of the residual precede the first addition. */
    template <typename U>
    static __device__ __forceinline__ void add_residual(const rvit_cu_linear_params &params, float (&sum)[TILES_M][TILES_N][4], int row,
                                                        int column, int rows)
    {
        float4 addend[TILES_M][2][TILES_N / 2];
#pragma unroll
        for (int m = 0; m < TILES_M; m++)
#pragma unroll
            for (int h = 0; h < 2; h++) {
                const int r = row + m * 16 + h * 8;
                const int from_row = params.residual_period == 0 ? r : r % params.residual_period;
                const U *from = static_cast<const U *>(params.residual) + (long long)from_row * params.out_features;
#pragma unroll
                for (int t = 0; t < TILES_N / 2; t++) {
                    const int to = column + t * 16;
                    addend[m][h][t] = r < rows && to < params.out_features ? load_4(from + to) : make_float4(0.0f, 0.0f, 0.0f, 0.0f);
                }
            }
#pragma unroll
        for (int m = 0; m < TILES_M; m++)
#pragma unroll
            for (int h = 0; h < 2; h++)
#pragma unroll
                for (int t = 0; t < TILES_N; t += 2) {
                    sum[m][t][2 * h] += addend[m][h][t / 2].x, sum[m][t][2 * h + 1] += addend[m][h][t / 2].y;
                    sum[m][t + 1][2 * h] += addend[m][h][t / 2].z, sum[m][t + 1][2 * h + 1] += addend[m][h][t / 2].w;
                }
    }

    template <typename U>
    static __device__ __forceinline__ void epilogue(const rvit_cu_linear_params &params, float (&sum)[TILES_M][TILES_N][4], int row,
                                                    int column, int rows)
    {
        if (EPILOGUE != SIGMOID && params.residual != nullptr)
            add_residual<U>(params, sum, row, column, rows);
#pragma unroll
        for (int m = 0; m < TILES_M; m++)
#pragma unroll
            for (int h = 0; h < 2; h++) {
                const int r = row + m * 16 + h * 8;
                U *out = static_cast<U *>(params.out) + (long long)r * params.out_features;
#pragma unroll
                for (int t = 0; t < TILES_N; t += 2) {
                    const int to = column + t * 8;
                    if (r < rows && to < params.out_features)
                        store_4(out + to,
                                make_float4(sum[m][t][2 * h], sum[m][t][2 * h + 1], sum[m][t + 1][2 * h], sum[m][t + 1][2 * h + 1]));
                }
            }
    }

    /* Gated: two outputs are in tiles t and t + 1, half as many as columns. */
    template <typename U>
    static __device__ __forceinline__ void gated_epilogue(const rvit_cu_linear_params &params, float (&sum)[TILES_M][TILES_N][4], int row,
                                                          int column, int rows)
    {
        const int n = params.out_features / 2;
#pragma unroll
        for (int m = 0; m < TILES_M; m++)
#pragma unroll
            for (int h = 0; h < 2; h++) {
                const int r = row + m * 16 + h * 8;
                const int from_row = params.residual_period == 0 ? r : r % params.residual_period;
                const U *residual = static_cast<const U *>(params.residual) + (long long)from_row * n;
                U *out = static_cast<U *>(params.out) + (long long)r * n;
#pragma unroll
                for (int t = 0; t < TILES_N; t += 2) {
                    const int to = column / 2 + t * 4;
                    if (r >= rows || to >= n)
                        continue;
                    const float2 addend =
                        EPILOGUE != SIGMOID && params.residual != nullptr ? load_2(residual + to) : make_float2(0.0f, 0.0f);
                    store_2(out + to, make_float2(sum[m][t][2 * h] + addend.x, sum[m][t + 1][2 * h] + addend.y));
                }
            }
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

    static __device__ __forceinline__ void run(const rvit_cu_linear_params &params)
    {
        RVIT_DYNAMIC_SHARED(memory);
        const uint32_t shared = shared_address(memory);
        const int columns = (params.out_features + BN - 1) / BN, steps = (params.in_features + BK - 1) / BK;
        const int tile_row = (int)((unsigned)blockIdx.x / columns) * BM, tile_column = (int)((unsigned)blockIdx.x % columns) * BN;
        if (threadIdx.x >= WARPS * 32) {
            copy_all(params, shared, tile_row, tile_column, steps);
            return;
        }
        const int lane = threadIdx.x & 31, warp = threadIdx.x / 32;
        const int row = tile_row + warp / WARPS_N * WM + lane / 4, column = tile_column + warp % WARPS_N * WN + (lane & 3) * 4;
        if (!params.constant_weights)
            wait_for_previous();
        float4 bias[TILES_N / 2];
#pragma unroll
        for (int t = 0; t < TILES_N / 2; t++)
            bias[t] = params.bias != nullptr && column + t * 16 < params.out_features ? load_4(params.bias + column + t * 16)
                                                                                      : make_float4(0.0f, 0.0f, 0.0f, 0.0f);
        const lanes l = find_lanes();
        float sum[TILES_M][TILES_N][4];
#pragma unroll
        for (int m = 0; m < TILES_M; m++)
#pragma unroll
            for (int t = 0; t < TILES_N; t++)
#pragma unroll
                for (int i = 0; i < 4; i++)
                    sum[m][t][i] = 0.0f;
        wait_for_previous();
        const int rows = live_rows(params.rows);
        if (tile_row >= rows)
            return;
        uint32_t stage = shared;
        group g[2];
        block_sync();
        load(g[0], l, stage, 0);
        int step = 1;
        if (GROUPS > 1) {
            for (; step <= steps; step++)
                do_step(sum, g[0], g[1], l, stage, shared, step < steps);
        } else {
            for (; step < steps; step += 2) {
                do_step(sum, g[0], g[1], l, stage, shared, true);
                do_step(sum, g[1], g[0], l, stage, shared, step + 1 < steps);
            }
            if (step == steps)
                do_step(sum, g[0], g[1], l, stage, shared, false);
        }
        activate(params, sum, bias);
        if (EPILOGUE != SIGMOID && params.out_f32)
            finish<float>(params, sum, row, column, rows);
        else
            finish<T>(params, sum, row, column, rows);
    }
};

#endif

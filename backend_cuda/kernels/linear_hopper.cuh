/* GEMM on sm_90a: out = activation(x weight^T + bias) + residual, by products of warpgroups (wgmma) on copies by tensor maps (TMA).
   The kernel is persistent. A warp copies; two groups of four warps multiply, each a tile of its own: while one adds bias, activation and
   residual and stores, the other has the tensor cores. A row's result does not depend on its place or on the tile, because sums run along
   k in the same order everywhere. */
#ifndef RVIT_LINEAR_HOPPER_CUH
#define RVIT_LINEAR_HOPPER_CUH

#include "activation.cuh"
#include "hopper.cuh"

#include "../tile.h"

/* A tile has BM rows and BN columns. A stage of the ring has 128 bytes of each row of x and weight. CLUSTER CTAs have tiles side by side, of
   the same rows: each copies its part of them for all. U: of out. SERVES: activation.cuh, PLAIN or SIGMOID, without gates. */
template <typename T, typename U, int BN, int STAGES, int CLUSTER, serves SERVES> struct linear_hopper {
    static const int BM = RVIT_CU_HOPPER_ROWS, BOX = RVIT_CU_HOPPER_BOX, DEPTH = 128 / (int)sizeof(T), K_STEPS = 128 / 32;
    static const int X_BYTES = BM * 128, STAGE_BYTES = X_BYTES + BN * 128;
    static const int STEP = 16 / (int)sizeof(U), UNIT = 4 * STEP, UNITS = BN / UNIT;
    static const int GROUPS = 2, COPIER_REGISTERS = 40, REGISTERS = 232;
    enum { TURNS = 8 }; /* barriers of group_sync: it is a group's turn to multiply */

#ifdef RVIT_HOPPER

    /* Shared addresses. Of each stage there is a barrier for rows that have come, and that all have left. */
    struct ring {
        uint32_t barriers, stages;

        __device__ __forceinline__ ring(const unsigned char *memory)
        {
            barriers = (shared_address(memory) + 1023) & ~1023u; /* the swizzle is one of addresses */
            stages = barriers + 1024;
        }
        __device__ __forceinline__ uint32_t came(int stage) const
        {
            return barriers + stage * 16;
        }
        __device__ __forceinline__ uint32_t left(int stage) const
        {
            return barriers + stage * 16 + 8;
        }
        __device__ __forceinline__ uint32_t x(int stage) const
        {
            return stages + stage * STAGE_BYTES;
        }
        __device__ __forceinline__ uint32_t weight(int stage) const
        {
            return x(stage) + X_BYTES;
        }
    };

    struct place {
        int stage, parity;

        __device__ __forceinline__ void skip(int n)
        {
            const unsigned to = (unsigned)(stage + n);
            stage = (int)(to % STAGES);
            parity ^= (int)(to / STAGES) & 1;
        }
        __device__ __forceinline__ void next()
        {
            if (++stage == STAGES)
                stage = 0, parity ^= 1;
        }
    };

    struct tile {
        int row, column, blocks; /* of 64 rows */
    };

    /* Tiles of the live rows, CLUSTER of them at a time, columns first; of these the clusters of the grid take one after the other. If the
       last round of whole tiles has work for no more than half of the clusters, they are halved. */
    struct tiles {
        int rows, columns, whole, n, steps, first, step;

        __device__ __forceinline__ tiles(const rvit_cu_linear_params &params)
        {
            first = (int)blockIdx.x / CLUSTER, step = (int)gridDim.x / CLUSTER;
            rows = live_rows(params.rows);
            columns = (params.out_features + BN * CLUSTER - 1) / (BN * CLUSTER);
            const int all = (rows + BM - 1) / BM * columns, last = all % step;
            whole = 2 * last <= step ? all - last : all;
            n = whole + (all - whole) * 2;
            steps = (params.in_features + DEPTH - 1) / DEPTH;
        }
        __device__ __forceinline__ tile at(int i) const
        {
            const int half = i < whole ? 0 : (i - whole) % 2;
            const unsigned number = (unsigned)(i < whole ? i : whole + (i - whole) / 2);
            tile t;
            t.row = (int)(number / (unsigned)columns) * BM + half * (BM / 2);
            t.column = ((int)(number % (unsigned)columns) * CLUSTER + (CLUSTER > 1 ? cluster_rank() : 0)) * BN;
            t.blocks = BM / 64 >> (i < whole ? 0 : 1);
            return t;
        }
    };

    /* By one thread. The map of weight brings the rows of a stage in the order in which a lane's sums are neighbours in a row of out. */
    static __device__ __forceinline__ void copy(const rvit_cu_linear_hopper_params &params, const tiles &all, const ring &m)
    {
        const int rank = CLUSTER > 1 ? cluster_rank() : 0;
        place at = {0, 1};
        for (int i = all.first; i < all.n; i += all.step) {
            const tile t = all.at(i);
            const int share = t.blocks * 64 / CLUSTER, bytes = (t.blocks * 64 + BN) * 128;
#pragma unroll 1
            for (int step = 0; step < all.steps; step++, at.next()) {
                barrier_wait(m.left(at.stage), at.parity);
                barrier_announce(m.came(at.stage), bytes);
#pragma unroll 1
                for (int row = rank * share; row < (rank + 1) * share; row += BOX) {
                    const uint32_t to = m.x(at.stage) + row * 128;
                    if (CLUSTER > 1)
                        copy_box_to(to, &params.x, step * DEPTH, t.row + row, m.came(at.stage), (1 << CLUSTER) - 1);
                    else
                        copy_box(to, &params.x, step * DEPTH, t.row + row, m.came(at.stage));
                }
                copy_folded_box(m.weight(at.stage), &params.weight, step * DEPTH, t.column / UNIT, m.came(at.stage));
            }
        }
    }

    /* The warp no longer reads the stage. */
    static __device__ __forceinline__ void leave(const ring &m, int stage)
    {
        const int lane = threadIdx.x & 31;
        if (CLUSTER > 1 && lane < CLUSTER)
            barrier_arrive_in(m.left(stage), lane);
        if (CLUSTER == 1 && lane == 0)
            barrier_arrive(m.left(stage));
    }

    template <bool FIRST, int BLOCKS>
    static __device__ __forceinline__ void multiply(float (&sum)[BLOCKS][BN / 2], const ring &m, int stage)
    {
        const uint32_t x = m.x(stage), weight = m.weight(stage);
#pragma unroll
        for (int k = 0; k < K_STEPS; k++)
#pragma unroll
            for (int b = 0; b < BLOCKS; b++) {
                const uint64_t rows = matrix_at(x + b * 64 * 128 + k * 32, 16), columns = matrix_at(weight + k * 32, 16);
                if (FIRST && k == 0)
                    product<T, BN>::rows_columns_first(sum[b], rows, columns);
                else
                    product<T, BN>::rows_columns(sum[b], rows, columns);
            }
        products_commit();
    }

    /* Where a lane's sums lie in a row of out: 16 bytes in each unit of four lanes. SUM: of its i-th output of a unit. */
    static __device__ __forceinline__ constexpr int sum_of(int unit, int i, int half)
    {
        return (unit * STEP / 2 + i / 2) * 4 + half * 2 + i % 2;
    }

    static __device__ __forceinline__ void load_bias(float (&bias)[UNITS][STEP], const rvit_cu_linear_params &params, int column)
    {
#pragma unroll
        for (int u = 0; u < UNITS; u++)
#pragma unroll
            for (int i = 0; i < STEP; i += 4) {
                const int to = column + u * UNIT + i;
                float4 v = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
                if (params.bias != nullptr && to < params.out_features)
                    v = load_4(params.bias + to);
                bias[u][i] = v.x, bias[u][i + 1] = v.y, bias[u][i + 2] = v.z, bias[u][i + 3] = v.w;
            }
    }

    static __device__ __forceinline__ void add_bias(float (&sum)[BN / 2], const float (&bias)[UNITS][STEP])
    {
#pragma unroll
        for (int u = 0; u < UNITS; u++)
#pragma unroll
            for (int i = 0; i < STEP; i++) {
                sum[sum_of(u, i, 0)] += bias[u][i];
                sum[sum_of(u, i, 1)] += bias[u][i];
            }
    }

    static __device__ __forceinline__ void activate(float (&sum)[BN / 2], const rvit_cu_linear_params &params)
    {
        if (SERVES == SIGMOID) {
#pragma unroll
            for (int i = 0; i < BN / 2; i++)
                sum[i] = sigmoid_product_fast(sum[i], params.slope, params.cubic);
        } else if (params.gelu) {
#pragma unroll
            for (int i = 0; i < BN / 2; i++)
                sum[i] = gelu_fast(sum[i]);
        }
    }

    /* Of 16 bits: an activation, and no residual. */
    static __device__ __forceinline__ void finish_row(T *out, const rvit_cu_linear_params &params, const float (&sum)[BN / 2], int half,
                                                      int row, int column, int rows)
    {
        T *to = out + (long long)row * params.out_features + column;
#pragma unroll
        for (int u = 0; u < UNITS; u++)
            if (row < rows && column + u * UNIT < params.out_features) {
                uint32_t pairs[4];
#pragma unroll
                for (int i = 0; i < 4; i++)
                    pairs[i] = element<T>::pack(sum[sum_of(u, i * 2, half)], sum[sum_of(u, i * 2 + 1, half)]);
                *reinterpret_cast<uint4 *>(to + u * UNIT) = make_uint4(pairs[0], pairs[1], pairs[2], pairs[3]);
            }
    }

    /* Of float32: a residual. All of a row's is on its way before the first sum. */
    static __device__ __forceinline__ void finish_row(float *out, const rvit_cu_linear_params &params, const float (&sum)[BN / 2], int half,
                                                      int row, int column, int rows)
    {
        const int from_row = params.residual_period == 0 ? row : row % params.residual_period;
        const float *from = static_cast<const float *>(params.residual) + (long long)from_row * params.out_features + column;
        float *to = out + (long long)row * params.out_features + column;
        float4 more[UNITS];
#pragma unroll
        for (int u = 0; u < UNITS; u++) {
            more[u] = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
            if (params.residual != nullptr && row < rows && column + u * UNIT < params.out_features)
                more[u] = load_4(from + u * UNIT);
        }
#pragma unroll
        for (int u = 0; u < UNITS; u++)
            if (row < rows && column + u * UNIT < params.out_features)
                store_4(to + u * UNIT, make_float4(sum[sum_of(u, 0, half)] + more[u].x, sum[sum_of(u, 1, half)] + more[u].y,
                                                   sum[sum_of(u, 2, half)] + more[u].z, sum[sum_of(u, 3, half)] + more[u].w));
    }

    /* The group's rows from `row` on, once their last products are there. */
    template <int BLOCKS>
    static __device__ __forceinline__ void finish(const rvit_cu_linear_params &params, float (&sum)[BLOCKS][BN / 2], int row, int column,
                                                  int rows, const ring &m, int last)
    {
        float bias[UNITS][STEP];
        row += (int)(threadIdx.x & 127) / 32 * 16 + (int)(threadIdx.x & 31) / 4;
        column += (int)(threadIdx.x & 3) * STEP;
        load_bias(bias, params, column);
        products_wait<0>();
#pragma unroll
        for (int b = 0; b < BLOCKS; b++)
            keep_here(sum[b]);
        leave(m, last);
#pragma unroll
        for (int b = 0; b < BLOCKS; b++)
            add_bias(sum[b], bias);
#pragma unroll
        for (int b = 0; b < BLOCKS; b++) {
            if (sizeof(U) != sizeof(float))
                activate(sum[b], params);
#pragma unroll
            for (int half = 0; half < 2; half++)
                finish_row(static_cast<U *>(params.out), params, sum[b], half, row + b * 64 + half * 8, column, rows);
        }
    }

    /* A tile of the group's, in its turn. `at`: its first stage, then that behind it. */
    template <int BLOCKS>
    static __device__ __forceinline__ void make(const rvit_cu_linear_params &params, const tiles &all, const ring &m, int group, int i,
                                                place &at)
    {
        float sum[BLOCKS][BN / 2];
        if (i != all.first)
            group_sync(TURNS + group, GROUPS * 128);
        barrier_wait(m.came(at.stage), at.parity);
        products_begin();
        multiply<true>(sum, m, at.stage);
#pragma unroll 1
        for (int step = 1; step < all.steps; step++) {
            const int before = at.stage;
            at.next();
            barrier_wait(m.came(at.stage), at.parity);
            products_begin();
            multiply<false>(sum, m, at.stage);
            products_wait<1>();
            leave(m, before);
        }
        if (i + all.step < all.n)
            group_arrive(TURNS + (group ^ 1), GROUPS * 128);
        const int last = at.stage;
        at.next();
        const tile t = all.at(i);
        finish(params, sum, t.row, t.column, all.rows, m, last);
    }

    static __device__ __forceinline__ void work(const rvit_cu_linear_params &params, const tiles &all, const ring &m, int group)
    {
        place at = {0, 0};
        for (int i = all.first + group * all.step; i < all.n; i += GROUPS * all.step) {
            if (group == 1 || i != all.first) /* the other group's */
                at.skip(all.steps);
            if (i < all.whole)
                make<BM / 64>(params, all, m, group, i, at);
            else
                make<BM / 128>(params, all, m, group, i, at);
        }
    }

    static __device__ __forceinline__ void run(const rvit_cu_linear_hopper_params &params)
    {
        RVIT_DYNAMIC_SHARED(memory);
        const ring m(memory);
        if (threadIdx.x == 0) {
            for (int i = 0; i < STAGES; i++) {
                barrier_init(m.came(i), 1);
                barrier_init(m.left(i), 4 * CLUSTER);
            }
            barrier_init_fence();
        }
        if (CLUSTER > 1)
            cluster_sync();
        else
            block_sync();
        const tiles all(params.args);
        const int group = shuffle((int)(threadIdx.x / 128), 0);
        if (group == GROUPS) {
            release_registers<COPIER_REGISTERS>();
            if (threadIdx.x == GROUPS * 128)
                copy(params, all, m);
        } else {
            take_registers<REGISTERS>();
            work(params.args, all, m, group);
        }
        if (CLUSTER > 1) /* its shared memory is there until the others have filled it */
            cluster_sync();
    }

#else

    /* Other devices run other kernels. */
    static __device__ __forceinline__ void run(const rvit_cu_linear_hopper_params &params)
    {
        (void)params;
    }

#endif
};

#endif

/* GEMM on sm_90a: out = activation(x weight^T + bias) + residual, by products of warpgroups (wgmma) on copies by tensor maps (TMA); of
   f16, bf16 or e4m3, which has scales and may become e4m3 again.
   The kernel is persistent. A warp copies; two groups of four warps multiply, each a tile of its own: while one adds bias, activation and
   residual and stores, the other has the tensor cores. A row's result does not depend on its place or on the tile, because sums run along
   k in the same order everywhere. */
#ifndef RVIT_LINEAR_HOPPER_CUH
#define RVIT_LINEAR_HOPPER_CUH

#include "lane_scaled.cuh"
#include "ring.cuh"

#include "../tile.h"

/* A tile has BM rows and BN columns; half a tile half of the rows. A stage of the ring has 128 bytes of each row of x and weight. CLUSTER
   CTAs have tiles above each other, of the same columns: each copies its share of their weights for all. U: of out. SERVES: activation.cuh,
   PLAIN or SIGMOID, without gates. */
template <typename T, typename U, int BN, int STAGES, int CLUSTER, serves SERVES> struct linear_hopper {
    static const int BM = RVIT_CU_HOPPER_ROWS, DEPTH = 128 / (int)sizeof(T), K_STEPS = 128 / 32;
    static const int X_BOX = RVIT_CU_HOPPER_X_BOX, WEIGHT_BOX = RVIT_CU_HOPPER_WEIGHT_BOX(BN); /* rows of a copy */
    static const int X_BYTES = BM * 128, STAGE_BYTES = X_BYTES + BN * 128;
    static const bool HAS_SCALES = sizeof(T) == 1;
    typedef
        typename choose_type<HAS_SCALES, lane_scaled<U, BN, SERVES, 8, SERVES == PLAIN ? 2 : 1>, lane_sums<U, BN, SERVES, 8>>::type lane_of;
    static const int STEP = lane_of::STEP, UNIT = lane_of::UNIT;
    static const int GROUPS = 2, COPIER_REGISTERS = 24, REGISTERS = 240;
    enum { TURNS = 8 }; /* barriers of group_sync: it is a group's turn to multiply */

#ifdef RVIT_HOPPER

    struct ring : ring_of_stages<X_BYTES, STAGE_BYTES> {
        using ring_of_stages<X_BYTES, STAGE_BYTES>::ring_of_stages;

        /* A group's next tile; barriers: it is named there, all its warps know it. */
        __device__ __forceinline__ uint32_t slot(int group) const
        {
            return this->barriers + 512 + group * 16;
        }
        __device__ __forceinline__ uint32_t named(int group) const
        {
            return this->barriers + 544 + group * 16;
        }
        __device__ __forceinline__ uint32_t known(int group) const
        {
            return this->barriers + 552 + group * 16;
        }
    };

    struct ring_position {
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

    /* blocks: of 64 rows. ahead: of the cluster's tiles after this one, 2 for more. */
    struct tile {
        int row, column, blocks, ahead;

        __device__ __forceinline__ void put(uint32_t slot) const
        {
            store_shared_16(slot, make_uint4((unsigned)row, (unsigned)column, (unsigned)blocks, (unsigned)ahead));
        }
        __device__ __forceinline__ static tile get(uint32_t slot)
        {
            const uint4 w = load_shared_16(slot);
            return {(int)w.x, (int)w.y, (int)w.z, (int)w.w};
        }
    };

    /* Tiles of the live rows, CLUSTER of them at a time, columns first. The clusters of the grid take them in turn. If the last round has
       whole tiles for no more than half of the clusters, these are halved; and the last rows may fill but half a tile. Clusters without a
       whole tile in the last round begin with the halves. */
    struct tiles {
        int rows, columns, steps, clusters, cluster, n_whole, n; /* tiles of the cluster */
        int whole, pairs, first_half, half_step;                 /* tiles of all: left whole, to be halved or not */

        __device__ __forceinline__ tiles(const rvit_cu_linear_params &params)
        {
            cluster = (int)blockIdx.x / CLUSTER, clusters = (int)gridDim.x / CLUSTER;
            rows = live_rows(params.rows);
            columns = (params.out_features + BN - 1) / BN;
            steps = (params.in_features + DEPTH - 1) / DEPTH;
            const int halves = (rows + BM / 2 * CLUSTER - 1) / (BM / 2 * CLUSTER);
            pairs = halves / 2 * columns;
            int last = pairs % clusters; /* whole tiles of the last round */
            last = 2 * last > clusters ? last : 0;
            whole = last > 0 ? pairs : pairs - pairs % clusters;
            const int n_halves = 2 * (pairs - whole) + halves % 2 * columns, idle = clusters - last;
            half_step = n_halves <= 2 * idle ? idle : clusters;
            first_half = cluster < last ? cluster + idle : cluster - last;
            n_whole = cluster < whole ? (whole - cluster - 1) / clusters + 1 : 0;
            n = n_whole + (first_half < half_step && first_half < n_halves ? (n_halves - first_half - 1) / half_step + 1 : 0);
        }
        /* The cluster's i-th: this CTA's part of it. */
        __device__ __forceinline__ tile at(int i) const
        {
            const bool is_whole = i < n_whole;
            const int half = first_half + (i - n_whole) * half_step, of_pairs = 2 * (pairs - whole);
            const unsigned pair = (unsigned)(is_whole ? cluster + i * clusters : whole + half / 2);
            unsigned unit = pair / (unsigned)columns * 2, column = pair % (unsigned)columns;
            if (!is_whole && half < of_pairs)
                unit += half % 2;
            if (!is_whole && half >= of_pairs)
                unit = (unsigned)(pairs / columns * 2), column = (unsigned)(half - of_pairs);
            tile t;
            t.blocks = BM / 64 >> (is_whole ? 0 : 1);
            t.row = (int)unit * (BM / 2 * CLUSTER) + (CLUSTER > 1 ? cluster_rank() * t.blocks * 64 : 0);
            t.column = (int)column * BN;
            t.ahead = min(n - 1 - i, 2);
            return t;
        }
    };

    /* By one thread. The map of weight brings the rows of a stage in the order in which a lane's sums are neighbours in a row of out. */
    static __device__ __forceinline__ void copy(const rvit_cu_linear_hopper_params &params, const tiles &all, const ring &m)
    {
        const int first = CLUSTER > 1 ? cluster_rank() * (BN / CLUSTER) : 0;
        ring_position at = {0, 1};
        for (int i = 0; i < all.n; i++) {
            const tile t = all.at(i);
            const int group = i % GROUPS;
            barrier_wait(m.known(group), i / GROUPS % 2 ^ 1);
            t.put(m.slot(group));
            barrier_arrive(m.named(group));
#pragma unroll 1
            for (int step = 0; step < all.steps; step++, at.next()) {
                const uint32_t came = m.came(at.stage);
                barrier_wait(m.left(at.stage), at.parity);
                barrier_announce(came, (t.blocks * 64 + BN) * 128);
#pragma unroll 1
                for (int row = 0; row < t.blocks * 64; row += X_BOX)
                    copy_box(m.x(at.stage) + row * 128, &params.x, step * DEPTH, t.row + row, came);
#pragma unroll 1
                for (int row = first; row < first + BN / CLUSTER; row += WEIGHT_BOX) {
                    if (CLUSTER > 1)
                        copy_folded_box_to(m.weight(at.stage) + row * 128, &params.weight, step * DEPTH, (t.column + row) / UNIT, came,
                                           (1 << CLUSTER) - 1);
                    else
                        copy_folded_box(m.weight(at.stage) + row * 128, &params.weight, step * DEPTH, (t.column + row) / UNIT, came);
                }
            }
        }
    }

    /* The warp no longer reads what the barrier stands for. */
    static __device__ __forceinline__ void leave(uint32_t barrier)
    {
        if ((threadIdx.x & 31) == 0)
            barrier_arrive(barrier);
    }

    /* Nor the stage, whose weights each CTA of the cluster has a share of. */
    static __device__ __forceinline__ void leave(const ring &m, int stage)
    {
        const int lane = threadIdx.x & 31;
        if (CLUSTER == 1)
            leave(m.left(stage));
        else if (lane < CLUSTER)
            barrier_arrive_in(m.left(stage), lane);
    }

    template <int BLOCKS, int MOST> static __device__ __forceinline__ void multiply(float (&sum)[MOST][BN / 2], const ring &m, int stage)
    {
        const uint32_t x = m.x(stage), weight = m.weight(stage);
#pragma unroll
        for (int k = 0; k < K_STEPS; k++)
#pragma unroll
            for (int b = 0; b < BLOCKS; b++)
                wgmma<T, BN>::smem_smem(sum[b], matrix_at(x + b * 64 * 128 + k * 32, 16), matrix_at(weight + k * 32, 16));
        wgmma_commit();
    }

    /* All products of so many blocks of a tile. The other group's turn is when its last ones have begun. */
    template <int BLOCKS, int MOST>
    static __device__ __forceinline__ void multiply_all(float (&sum)[MOST][BN / 2], const tile &t, const ring &m, int group, int steps,
                                                        ring_position &at)
    {
        barrier_wait(m.came(at.stage), at.parity);
        wgmma_fence();
        multiply<BLOCKS>(sum, m, at.stage);
#pragma unroll 1
        for (int step = 1; step < steps; step++) {
            const int before = at.stage;
            at.next();
            barrier_wait(m.came(at.stage), at.parity);
            wgmma_fence();
            multiply<BLOCKS>(sum, m, at.stage);
            wgmma_wait<1>();
            leave(m, before);
        }
        if (t.ahead > 0)
            group_arrive(TURNS + (group ^ 1), GROUPS * 128);
        wgmma_wait<0>();
#pragma unroll
        for (int b = 0; b < BLOCKS; b++)
            keep_here(sum[b]);
    }

    /* The lane's first: the next ones are STEP together, UNIT apart. */
    static __device__ __forceinline__ int column_of(const tile &t, int lane)
    {
        return t.column + (lane & 3) * STEP;
    }

    /* A tile of the group's, in its turn. at: its first stage, then that behind it. With scales MOST blocks or fewer, else MOST. */
    template <int MOST>
    static __device__ __forceinline__ void make(const rvit_cu_linear_params &params, const tile &t, const ring &m, int group, int steps,
                                                int rows, bool is_first, ring_position &at)
    {
        const int blocks = HAS_SCALES ? t.blocks : MOST;
        float sum[MOST][BN / 2];
        lane_of::begin(sum, params, column_of(t, (int)threadIdx.x));
#pragma unroll
        for (int b = 0; b < MOST; b++)
            keep_here(sum[b]);
        if (!is_first)
            group_sync(TURNS + group, GROUPS * 128);
        if (blocks == MOST)
            multiply_all<MOST>(sum, t, m, group, steps, at);
        else
            multiply_all<1>(sum, t, m, group, steps, at);
        leave(m, at.stage);
        at.next();
        const int lane = recompute((int)threadIdx.x); /* not kept while the products are made */
        const int row = t.row + (lane & 127) / 32 * 16 + (lane & 31) / 4;
        lane_of::finish(sum, params, blocks, row, column_of(t, lane), rows);
    }

    static __device__ __forceinline__ void work(const rvit_cu_linear_params &params, const ring &m, int group, int steps, int rows)
    {
        ring_position at = {0, 0};
        if (group == 1)
            at.skip(steps);
        for (int i = 0;; i++) {
            barrier_wait(m.named(group), i % 2);
            const tile t = tile::get(m.slot(group));
            warp_sync();
            leave(m.known(group));
            const bool is_first = group == 0 && i == 0;
            if (HAS_SCALES || t.blocks == BM / 64)
                make<BM / 64>(params, t, m, group, steps, rows, is_first, at);
            else
                make<BM / 128>(params, t, m, group, steps, rows, is_first, at);
            if (t.ahead < 2)
                return;
            at.skip(steps); /* the other group's */
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
            for (int i = 0; i < GROUPS; i++) {
                barrier_init(m.named(i), 1);
                barrier_init(m.known(i), 4);
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
            if (group < all.n)
                work(params.args, m, group, all.steps, all.rows);
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

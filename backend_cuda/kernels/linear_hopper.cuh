/* Persistent GEMM on sm_90a for large M, with wgmma and TMA: out = activation(x weight^T + bias) + residual, for f16, bf16 or e4m3. e4m3
   has scales, and its output may be e4m3, too. One warp is the producer. Two consumer warpgroups work on separate tiles (ping-pong):
   while one runs its epilogue, the other uses the tensor cores. Every tile sums along K in the same order, so a row's result does not
   depend on its position or tile. */
#ifndef RVIT_LINEAR_HOPPER_CUH
#define RVIT_LINEAR_HOPPER_CUH

#include "lane_scaled.cuh"
#include "ring.cuh"

#include "../tile.h"

/* A tile has BM rows and BN columns; a half tile has half the rows. A stage has 128 bytes of each row of x and weight. The CLUSTER CTAs
   have tiles of the same columns; each multicasts its share of the weights. U: type of out. EPILOGUE: activation.cuh, PLAIN or SIGMOID,
   not gated. */
template <typename T, typename U, int BN, int STAGES, int CLUSTER, epilogue_kind EPILOGUE> struct linear_hopper {
    static const int BM = RVIT_CU_HOPPER_ROWS, DEPTH = 128 / (int)sizeof(T), K_STEPS = 128 / 32;
    static const int X_BOX = RVIT_CU_HOPPER_X_BOX, WEIGHT_BOX = RVIT_CU_HOPPER_WEIGHT_BOX(BN); /* rows per TMA box */
    static const int X_BYTES = BM * 128, STAGE_BYTES = X_BYTES + BN * 128;
    static const bool HAS_SCALES = sizeof(T) == 1;
    typedef
        typename choose_type<HAS_SCALES, lane_scaled<U, BN, EPILOGUE, 8, EPILOGUE == PLAIN ? 2 : 1>, lane_sums<U, BN, EPILOGUE, 8>>::type
            lane_of;
    static const int STEP = lane_of::STEP, UNIT = lane_of::UNIT;
    static const int GROUPS = 2, PRODUCER_REGISTERS = 24, REGISTERS = 240;
    enum { TURNS = 8 }; /* barriers of group_sync: a warpgroup's turn to multiply */

#ifdef RVIT_HOPPER

    struct ring : ring_of_stages<X_BYTES, STAGE_BYTES> {
        using ring_of_stages<X_BYTES, STAGE_BYTES>::ring_of_stages;

        /* A warpgroup's next tile, and its full and empty barriers. */
        __device__ __forceinline__ uint32_t slot(int group) const
        {
            return this->barriers + 512 + group * 16;
        }
        __device__ __forceinline__ uint32_t tile_full(int group) const
        {
            return this->barriers + 544 + group * 16;
        }
        __device__ __forceinline__ uint32_t tile_empty(int group) const
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

    /* blocks: of 64 rows. ahead: the cluster's tiles after this one, at most 2. */
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

    /* The tile scheduler. Tiles of the live rows are numbered columns first, CLUSTER row tiles at a time, and assigned to clusters
       round-robin. If the last wave would occupy no more than half of the clusters, its tiles are split in half; the last rows may also
       need only half a tile. Clusters without a whole tile in the last wave start with the halves. */
    struct tiles {
        int rows, columns, steps, clusters, cluster, n_whole, n; /* n_whole, n: of this cluster */
        int whole, pairs, first_half, half_step;                 /* whole: full tiles that are not split; pairs: all full tiles */

        __device__ __forceinline__ tiles(const rvit_cu_linear_params &params)
        {
            cluster = (int)blockIdx.x / CLUSTER, clusters = (int)gridDim.x / CLUSTER;
            rows = live_rows(params.rows);
            columns = (params.out_features + BN - 1) / BN;
            steps = (params.in_features + DEPTH - 1) / DEPTH;
            const int halves = (rows + BM / 2 * CLUSTER - 1) / (BM / 2 * CLUSTER);
            pairs = halves / 2 * columns;
            int last = pairs % clusters; /* whole tiles of the last wave */
            last = 2 * last > clusters ? last : 0;
            whole = last > 0 ? pairs : pairs - pairs % clusters;
            const int n_halves = 2 * (pairs - whole) + halves % 2 * columns, idle = clusters - last;
            half_step = n_halves <= 2 * idle ? idle : clusters;
            first_half = cluster < last ? cluster + idle : cluster - last;
            n_whole = cluster < whole ? (whole - cluster - 1) / clusters + 1 : 0;
            n = n_whole + (first_half < half_step && first_half < n_halves ? (n_halves - first_half - 1) / half_step + 1 : 0);
        }
        /* This CTA's part of the cluster's i-th tile. */
        __device__ __forceinline__ tile at(int i) const
        {
            const bool is_whole = i < n_whole;
            const int half = first_half + (i - n_whole) * half_step, of_pairs = 2 * (pairs - whole);
            const unsigned pair = (unsigned)(is_whole ? cluster + i * clusters : whole + half / 2);
            unsigned half_row = pair / (unsigned)columns * 2, column = pair % (unsigned)columns;
            if (!is_whole && half < of_pairs)
                half_row += half % 2;
            if (!is_whole && half >= of_pairs)
                half_row = (unsigned)(pairs / columns * 2), column = (unsigned)(half - of_pairs);
            tile t;
            t.blocks = BM / 64 >> (is_whole ? 0 : 1);
            t.row = (int)half_row * (BM / 2 * CLUSTER) + (CLUSTER > 1 ? cluster_rank() * t.blocks * 64 : 0);
            t.column = (int)column * BN;
            t.ahead = min(n - 1 - i, 2);
            return t;
        }
    };

    /* Called by one thread. The tensor map permutes rows of weight so that a lane's sums are adjacent in a row of out. */
    static __device__ __forceinline__ void copy(const rvit_cu_linear_hopper_params &params, const tiles &all, const ring &m)
    {
        const int first = CLUSTER > 1 ? cluster_rank() * (BN / CLUSTER) : 0;
        ring_position at = {0, 1};
        for (int i = 0; i < all.n; i++) {
            const tile t = all.at(i);
            const int group = i % GROUPS;
            barrier_wait(m.tile_empty(group), i / GROUPS % 2 ^ 1);
            t.put(m.slot(group));
            barrier_arrive(m.tile_full(group));
#pragma unroll 1
            for (int step = 0; step < all.steps; step++, at.next()) {
                const uint32_t full = m.full(at.stage);
                barrier_wait(m.empty(at.stage), at.parity);
                barrier_arrive_expect(full, (t.blocks * 64 + BN) * 128);
#pragma unroll 1
                for (int row = 0; row < t.blocks * 64; row += X_BOX)
                    copy_box(m.x(at.stage) + row * 128, &params.x, step * DEPTH, t.row + row, full);
#pragma unroll 1
                for (int row = first; row < first + BN / CLUSTER; row += WEIGHT_BOX) {
                    if (CLUSTER > 1)
                        copy_folded_box_to(m.weight(at.stage) + row * 128, &params.weight, step * DEPTH, (t.column + row) / UNIT, full,
                                           (1 << CLUSTER) - 1);
                    else
                        copy_folded_box(m.weight(at.stage) + row * 128, &params.weight, step * DEPTH, (t.column + row) / UNIT, full);
                }
            }
        }
    }

    /* The warp signals that it no longer reads what the barrier protects. */
    static __device__ __forceinline__ void release(uint32_t barrier)
    {
        if ((threadIdx.x & 31) == 0)
            barrier_arrive(barrier);
    }

    /* The same for a stage, which every CTA of the cluster fills in part. */
    static __device__ __forceinline__ void release(const ring &m, int stage)
    {
        const int lane = threadIdx.x & 31;
        if (CLUSTER == 1)
            release(m.empty(stage));
        else if (lane < CLUSTER)
            barrier_arrive_in(m.empty(stage), lane);
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

    /* Multiplies BLOCKS blocks of a tile over all of K. Passes the turn to the other warpgroup once the last wgmma has been issued. */
    template <int BLOCKS, int MOST>
    static __device__ __forceinline__ void multiply_all(float (&sum)[MOST][BN / 2], const tile &t, const ring &m, int group, int steps,
                                                        ring_position &at)
    {
        barrier_wait(m.full(at.stage), at.parity);
        wgmma_fence();
        multiply<BLOCKS>(sum, m, at.stage);
#pragma unroll 1
        for (int step = 1; step < steps; step++) {
            const int before = at.stage;
            at.next();
            barrier_wait(m.full(at.stage), at.parity);
            wgmma_fence();
            multiply<BLOCKS>(sum, m, at.stage);
            wgmma_wait<1>();
            release(m, before);
        }
        if (t.ahead > 0)
            group_arrive(TURNS + (group ^ 1), GROUPS * 128);
        wgmma_wait<0>();
#pragma unroll
        for (int b = 0; b < BLOCKS; b++)
            keep_here(sum[b]);
    }

    /* The lane's first column. STEP columns are adjacent, then UNIT columns further. */
    static __device__ __forceinline__ int column_of(const tile &t, int lane)
    {
        return t.column + (lane & 3) * STEP;
    }

    /* Computes a tile of the warpgroup in its turn. at: its first stage; on return, the stage after its last. Only e4m3 uses fewer
       blocks than MOST. */
    template <int MOST>
    static __device__ __forceinline__ void compute_tile(const rvit_cu_linear_params &params, const tile &t, const ring &m, int group,
                                                        int steps, int rows, bool is_first, ring_position &at)
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
        release(m, at.stage);
        at.next();
        const int lane = recompute((int)threadIdx.x); /* recomputed, not kept during the multiplications */
        const int row = t.row + (lane & 127) / 32 * 16 + (lane & 31) / 4;
        lane_of::finish(sum, params, blocks, row, column_of(t, lane), rows);
    }

    static __device__ __forceinline__ void consume(const rvit_cu_linear_params &params, const ring &m, int group, int steps, int rows)
    {
        ring_position at = {0, 0};
        if (group == 1)
            at.skip(steps);
        for (int i = 0;; i++) {
            barrier_wait(m.tile_full(group), i % 2);
            const tile t = tile::get(m.slot(group));
            warp_sync();
            release(m.tile_empty(group));
            const bool is_first = group == 0 && i == 0;
            if (HAS_SCALES || t.blocks == BM / 64)
                compute_tile<BM / 64>(params, t, m, group, steps, rows, is_first, at);
            else
                compute_tile<BM / 128>(params, t, m, group, steps, rows, is_first, at);
            if (t.ahead < 2)
                return;
            at.skip(steps); /* the stages of the other warpgroup */
        }
    }

    static __device__ __forceinline__ void run(const rvit_cu_linear_hopper_params &params)
    {
        RVIT_DYNAMIC_SHARED(memory);
        const ring m(memory);
        if (threadIdx.x == 0) {
            for (int i = 0; i < STAGES; i++) {
                barrier_init(m.full(i), 1);
                barrier_init(m.empty(i), 4 * CLUSTER);
            }
            for (int i = 0; i < GROUPS; i++) {
                barrier_init(m.tile_full(i), 1);
                barrier_init(m.tile_empty(i), 4);
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
            release_registers<PRODUCER_REGISTERS>();
            if (threadIdx.x == GROUPS * 128)
                copy(params, all, m);
        } else {
            take_registers<REGISTERS>();
            if (group < all.n)
                consume(params.args, m, group, all.steps, all.rows);
        }
        if (CLUSTER > 1) /* shared memory must stay until the other CTAs have filled it */
            cluster_sync();
    }

#else

    /* Empty on other architectures, which run other kernels. */
    static __device__ __forceinline__ void run(const rvit_cu_linear_hopper_params &params)
    {
        (void)params;
    }

#endif
};

#endif

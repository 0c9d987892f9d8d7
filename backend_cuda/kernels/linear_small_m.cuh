/* GEMM on sm_90a for small M: out = activation(x weight^T + bias) + residual. A CTA computes one tile, or its partial sums over a range
   of K (split-K). The CTAs of a cluster share their loads by multicast and reduce split-K in order through distributed shared memory.
   Weights are loaded before the previous kernel ends. Without split-K, the bits are those of linear_hopper.cuh, the kernel for large M.
   Also e4m3 to e4m3, without split-K. */
#ifndef RVIT_LINEAR_SMALL_M_CUH
#define RVIT_LINEAR_SMALL_M_CUH

#include "lane_scaled.cuh"
#include "ring.cuh"

#include "../tile.h"

/* A tile has GROUPS x 64 rows, one warpgroup each, and BN columns; one more warp is the producer. A stage has 128 bytes of each row of x
   and weight. U: type of out. EPILOGUE: activation.cuh, PLAIN or SIGMOID, not gated. */
template <typename T, typename U, int GROUPS, int BN, epilogue_kind EPILOGUE> struct linear_small_m {
    static const bool HAS_SCALES = sizeof(T) == 1;
    typedef typename choose_type<HAS_SCALES, lane_scaled<U, BN, EPILOGUE, 1, 1>,
                                 lane_sums<U, BN, EPILOGUE,
                                           BN == 128      ? 2
                                           : BN % 64 == 0 ? 4
                                                          : 3>>::type lane_of;
    static const int BM = GROUPS * 64, DEPTH = 128 / (int)sizeof(T), K_STEPS = 128 / 32;
    static const int X_BYTES = BM * 128, STAGE_BYTES = X_BYTES + BN * 128;
    static const int STEP = lane_of::STEP, UNIT = lane_of::UNIT, UNITS = lane_of::UNITS;
    /* A piece is a lane's sums of one row and unit: once or twice 16 bytes. MOST: 16-byte quads that a CTA reduces at most, with split_k
       of two or more. */
    static const int PIECES = 2 * UNITS, QUADS = STEP / 4, MOST = PIECES * QUADS / 2;

#ifdef RVIT_HOPPER

    /* Each warp also has a barrier for the partial sums. */
    struct ring : ring_of_stages<X_BYTES, STAGE_BYTES> {
        using ring_of_stages<X_BYTES, STAGE_BYTES>::ring_of_stages;

        __device__ __forceinline__ uint32_t partial_sums(int warp) const
        {
            return this->barriers + 512 + warp * 8;
        }
    };

    struct ring_position {
        int stage, parity;

        __device__ __forceinline__ void next(int stages)
        {
            if (++stage == stages)
                stage = 0, parity ^= 1;
        }
    };

    /* The work of this CTA. The rank in the cluster counts along N first (CTAs that share x), then M (CTAs that share weight), then K. */
    struct task {
        int rank, rank_n, rank_m, rank_k;
        int row, column, first_row; /* first_row: of the cluster */
        int first, steps;           /* stages along K */

        __device__ __forceinline__ task(const rvit_cu_linear_small_m_params &params)
        {
            const int size = params.cluster_n * params.cluster_m * params.split_k, cluster = (int)blockIdx.x / size;
            const int columns = (params.args.out_features + BN * params.cluster_n - 1) / (BN * params.cluster_n);
            const int all = (params.args.in_features + DEPTH - 1) / DEPTH;
            rank = (int)blockIdx.x % size;
            rank_n = rank % params.cluster_n;
            rank_m = rank / params.cluster_n % params.cluster_m;
            rank_k = rank / (params.cluster_n * params.cluster_m);
            first_row = cluster / columns * params.cluster_m * BM;
            row = first_row + rank_m * BM;
            column = (cluster % columns * params.cluster_n + rank_n) * BN;
            first = rank_k * all / params.split_k;
            steps = (rank_k + 1) * all / params.split_k - first;
        }
    };

    static __device__ __forceinline__ bool is_clustered(const rvit_cu_linear_small_m_params &params)
    {
        return params.cluster_n * params.cluster_m * params.split_k > 1;
    }

    /* Copies a stage's rows of x, or this CTA's share of them with multicast. */
    static __device__ __forceinline__ void copy_x(const rvit_cu_linear_small_m_params &params, const task &t, const ring &m, int stage,
                                                  int step)
    {
        const int rows = BM / params.cluster_n, mine = t.rank_n * rows;
        const uint32_t to = m.x(stage) + mine * 128, full = m.full(stage);
        if (params.cluster_n > 1)
            copy_box_to(to, &params.x, (t.first + step) * DEPTH, t.row + mine, full, ((1 << params.cluster_n) - 1) << (t.rank - t.rank_n));
        else
            copy_box(to, &params.x, (t.first + step) * DEPTH, t.row, full);
    }

    /* The tensor map permutes rows of weight so that a lane's sums are adjacent in a row of out. */
    static __device__ __forceinline__ void copy_weight(const rvit_cu_linear_small_m_params &params, const task &t, const ring &m, int stage,
                                                       int step)
    {
        const int rows = BN / params.cluster_m, mine = t.rank_m * rows;
        const uint32_t to = m.weight(stage) + mine * 128, full = m.full(stage);
        const int from = (t.column + mine) / UNIT;
        if (params.cluster_m > 1) {
            int mask = 0;
            for (int i = 0; i < params.cluster_m; i++)
                mask |= 1 << (t.rank + (i - t.rank_m) * params.cluster_n);
            copy_folded_box_to(to, &params.weight, (t.first + step) * DEPTH, from, full, mask);
        } else {
            copy_folded_box(to, &params.weight, (t.first + step) * DEPTH, from, full);
        }
    }

    /* Called by one thread. */
    static __device__ __forceinline__ void copy(const rvit_cu_linear_small_m_params &params, const task &t, const ring &m)
    {
        if (!params.args.constant_weights)
            wait_for_previous();
        const int ahead = min(params.stages, t.steps);
#pragma unroll 1
        for (int i = 0; i < ahead; i++) {
            barrier_expect(m.full(i), BN * 128);
            copy_weight(params, t, m, i, i);
        }
        wait_for_previous();
        if (t.first_row >= live_rows(params.args.rows)) { /* shared memory must not be released while copies are in flight */
#pragma unroll 1
            for (int i = 0; i < ahead; i++) {
                barrier_arrive(m.full(i));
                barrier_wait(m.full(i), 0);
            }
            return;
        }
#pragma unroll 1
        for (int i = 0; i < ahead; i++) {
            barrier_arrive_expect(m.full(i), X_BYTES);
            copy_x(params, t, m, i, i);
        }
        ring_position at = {0, 0};
#pragma unroll 1
        for (int step = params.stages; step < t.steps; step++, at.next(params.stages)) {
            barrier_wait(m.empty(at.stage), at.parity);
            barrier_arrive_expect(m.full(at.stage), STAGE_BYTES);
            copy_weight(params, t, m, at.stage, step);
            copy_x(params, t, m, at.stage, step);
        }
    }

    /* The CTA whose producer this lane notifies when its warp has read a stage; -1: none. */
    static __device__ __forceinline__ int producer_of(const rvit_cu_linear_small_m_params &params, const task &t, int lane)
    {
        if (lane < params.cluster_n)
            return t.rank - t.rank_n + lane;
        const int i = lane - params.cluster_n, other = i < t.rank_m ? i : i + 1;
        return other < params.cluster_m ? t.rank + (other - t.rank_m) * params.cluster_n : -1;
    }

    static __device__ __forceinline__ void multiply(float (&sum)[BN / 2], const ring &m, int stage, int group)
    {
        const uint64_t x = matrix_at(m.x(stage) + group * 64 * 128, 16), weight = matrix_at(m.weight(stage), 16);
#pragma unroll
        for (int k = 0; k < K_STEPS; k++) /* descriptors advance by 16 channels: few instructions between narrow wgmma */
            wgmma<T, BN>::smem_smem(sum, x + k * 32 / 16, weight + k * 32 / 16);
        wgmma_commit();
    }

    static __device__ __forceinline__ void multiply_all(float (&sum)[BN / 2], const rvit_cu_linear_small_m_params &params, const task &t,
                                                        const ring &m, int group, int producer)
    {
        ring_position at = {0, 0};
        barrier_wait(m.full(0), 0);
        wgmma_fence();
        multiply(sum, m, 0, group);
#pragma unroll 1
        for (int step = 1; step < t.steps; step++) {
            const int before = at.stage;
            at.next(params.stages);
            barrier_wait(m.full(at.stage), at.parity);
            wgmma_fence();
            multiply(sum, m, at.stage, group);
            wgmma_wait<1>();
            if (step - 1 + params.stages < t.steps && producer >= 0) { /* otherwise no producer waits for it */
                if (is_clustered(params))
                    barrier_arrive_in(m.empty(before), producer);
                else
                    barrier_arrive(m.empty(before));
            }
        }
        wgmma_wait<0>();
        keep_here(sum);
    }

    /* The address of a rank's pieces for this lane. Each piece has 16 bytes per lane, contiguous. */
    static __device__ __forceinline__ uint32_t piece_at(const rvit_cu_linear_small_m_params &params, const ring &m, int warp, int part,
                                                        int piece)
    {
        const int n = PIECES / params.split_k;
        return m.x(params.stages) + ((((warp * params.split_k + part) * n + piece) * QUADS) * 32 + (threadIdx.x & 31)) * 16;
    }

    /* Sends each CTA the sums of its pieces. */
    static __device__ __forceinline__ void send(const float (&sum)[BN / 2], const rvit_cu_linear_small_m_params &params, const task &t,
                                                const ring &m, int warp)
    {
        const int n = PIECES / params.split_k, rank_stride = params.cluster_n * params.cluster_m;
        int to = t.rank - t.rank_k * rank_stride, piece = 0;
#pragma unroll
        for (int p = 0; p < PIECES; p++, piece++) {
            if (piece == n)
                piece = 0, to += rank_stride;
            const uint32_t remote = cluster_address(piece_at(params, m, warp, t.rank_k, piece), to),
                           barrier = cluster_address(m.partial_sums(warp), to);
#pragma unroll
            for (int q = 0; q < QUADS; q++) {
                const int u = p % UNITS, half = p / UNITS;
                store_async_cluster(remote + q * 512,
                                    make_float4(sum[lane_of::sum_of(u, q * 4, half)], sum[lane_of::sum_of(u, q * 4 + 1, half)],
                                                sum[lane_of::sum_of(u, q * 4 + 2, half)], sum[lane_of::sum_of(u, q * 4 + 3, half)]),
                                    barrier);
            }
        }
    }

    /* Reduces the sums of this CTA's pieces over all ranks, in order. */
    static __device__ __forceinline__ void add_parts(float4 (&sum)[MOST], uint32_t from, int n, int parts)
    {
#pragma unroll
        for (int i = 0; i < MOST; i++)
            sum[i] = load_shared_4(from + (i < n ? i : 0) * 512);
#pragma unroll 1
        for (int part = 1; part < parts; part++) {
            from += n * 512;
#pragma unroll
            for (int i = 0; i < MOST; i++) {
                const float4 x = load_shared_4(from + (i < n ? i : 0) * 512);
                sum[i].x += x.x, sum[i].y += x.y, sum[i].z += x.z, sum[i].w += x.w;
            }
        }
    }

    /* 16-bit output: activation, no residual. */
    static __device__ __forceinline__ void finish(T *to, const rvit_cu_linear_params &params, const float4 (&sum)[MOST],
                                                  const float4 (&)[MOST], int n, int width)
    {
#pragma unroll
        for (int i = 0; i < MOST; i += 2) {
            const float4 a = sum[i], b = sum[i + 1];
            float x[8] = {a.x, a.y, a.z, a.w, b.x, b.y, b.z, b.w};
            lane_of::activate(params, x);
            if (i < n && i / 2 * UNIT < width)
                *reinterpret_cast<uint4 *>(to + i / 2 * UNIT) = make_uint4(element<T>::pack(x[0], x[1]), element<T>::pack(x[2], x[3]),
                                                                           element<T>::pack(x[4], x[5]), element<T>::pack(x[6], x[7]));
        }
    }

    static __device__ __forceinline__ void finish(float *to, const rvit_cu_linear_params &, const float4 (&sum)[MOST],
                                                  const float4 (&addend)[MOST], int n, int width)
    {
#pragma unroll
        for (int i = 0; i < MOST; i++)
            if (i < n && i * UNIT < width)
                store_4(to + i * UNIT,
                        make_float4(sum[i].x + addend[i].x, sum[i].y + addend[i].y, sum[i].z + addend[i].z, sum[i].w + addend[i].w));
    }

    /* This CTA's pieces are in one of a lane's two rows, because split_k is even. The residual is loaded while partial sums arrive. */
    static __device__ __forceinline__ void receive(const rvit_cu_linear_small_m_params &params, const task &t, const ring &m, int warp,
                                                   int row, int column, int rows)
    {
        const rvit_cu_linear_params &args = params.args;
        const int n = PIECES / params.split_k, first = t.rank_k * n;
        row += first / UNITS * 8;
        column += first % UNITS * UNIT;
        const int width = row < rows ? args.out_features - column : 0;
        float4 addend[MOST];
        if (sizeof(U) == 4) {
            const int from_row = args.residual_period == 0 ? row : row % args.residual_period;
            const float *from = static_cast<const float *>(args.residual) + (long long)from_row * args.out_features + column;
#pragma unroll
            for (int i = 0; i < MOST; i++) {
                addend[i] = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
                if (i < n && args.residual != nullptr && i * UNIT < width)
                    addend[i] = load_4(from + i * UNIT);
            }
        }
        barrier_wait_for_cluster(m.partial_sums(warp), 0);
        cluster_arrive();
        float4 sum[MOST];
        add_parts(sum, piece_at(params, m, warp, 0, 0), n * QUADS, params.split_k);
        finish(static_cast<U *>(args.out) + (long long)row * args.out_features + column, args, sum, addend, n * QUADS, width);
    }

    /* e4m3 kernels run the epilogue once for no rows while the previous kernel ends, because fetching its instructions after the
       multiplications would take longer than running it. */
    static __device__ __forceinline__ void consume(const rvit_cu_linear_small_m_params &params, const task &t, const ring &m, int warp)
    {
        const rvit_cu_linear_params &args = params.args;
        if (!args.constant_weights)
            wait_for_previous();
        float sum[1][BN / 2];
        lane_of::begin(sum, args, t.rank_k == 0 ? t.column + (int)(threadIdx.x & 3) * STEP : args.out_features);
        keep_here(sum[0]);
        const int producer = producer_of(params, t, threadIdx.x & 31);
#pragma unroll 1
        for (bool is_warm_up = HAS_SCALES && args.constant_weights;; is_warm_up = false) {
            int rows = 0;
            if (!is_warm_up) {
                wait_for_previous();
                rows = live_rows(args.rows);
                if (t.first_row >= rows) {
                    if (is_clustered(params))
                        cluster_arrive();
                    return;
                }
                if (!HAS_SCALES && params.split_k > 1 && (threadIdx.x & 31) == 0)
                    barrier_arrive_expect(m.partial_sums(warp), PIECES * QUADS * 512);
                multiply_all(sum[0], params, t, m, warp / 4, producer);
            }
            const int lane = recompute((int)threadIdx.x); /* recomputed, not kept during the multiplications */
            const int row = t.row + lane / 32 * 16 + (lane & 31) / 4, column = t.column + (lane & 3) * STEP;
            if (!HAS_SCALES && params.split_k > 1) {
                if constexpr (!HAS_SCALES) {
                    send(sum[0], params, t, m, warp);
                    receive(params, t, m, warp, row, column, rows);
                }
            } else {
                if (!is_warm_up && is_clustered(params))
                    cluster_arrive();
                lane_of::finish(sum, args, 1, row, column, rows);
            }
            if (!is_warm_up)
                return;
        }
    }

    static __device__ __forceinline__ void run(const rvit_cu_linear_small_m_params &params)
    {
        RVIT_DYNAMIC_SHARED(memory);
        const ring m(memory);
        if (threadIdx.x == 0) {
            prefetch_map(&params.weight);
            prefetch_map(&params.x);
            for (int i = 0; i < params.stages; i++) {
                barrier_init(m.full(i), 1);
                barrier_init(m.empty(i), GROUPS * 4 * (params.cluster_n + params.cluster_m - 1));
            }
            for (int i = 0; i < GROUPS * 4; i++)
                barrier_init(m.partial_sums(i), 1);
            barrier_init_fence();
        }
        if (is_clustered(params)) /* the barriers of all CTAs must be initialised */
            cluster_sync();
        else
            block_sync();
        const task t(params);
        const int warp = shuffle((int)(threadIdx.x / 32), 0);
        if (warp == GROUPS * 4) {
            if (threadIdx.x == GROUPS * 128)
                copy(params, t, m);
            if (is_clustered(params))
                cluster_arrive();
        } else {
            consume(params, t, m, warp);
        }
        if (is_clustered(params)) /* shared memory must stay until the other CTAs have finished with it */
            cluster_wait();
    }

#else

    /* Empty on other architectures, which run other kernels. */
    static __device__ __forceinline__ void run(const rvit_cu_linear_small_m_params &params)
    {
        (void)params;
    }

#endif
};

#endif

/* GEMM on sm_90a: out = activation(x weight^T + bias) + residual, by products of warpgroups (wgmma) on copies by tensor maps (TMA); of
   f16, bf16 or e4m3, which has scales and may become e4m3 again.
   The kernel is persistent. A warp copies; two groups of four warps multiply, each a tile of its own: while one adds bias, activation and
   residual and stores, the other has the tensor cores. A row's result does not depend on its place or on the tile, because sums run along
   k in the same order everywhere. */
#ifndef RVIT_LINEAR_HOPPER_CUH
#define RVIT_LINEAR_HOPPER_CUH

#include "activation.cuh"
#include "e4m3.cuh"
#include "hopper.cuh"

#include "../tile.h"

/* A tile has BM rows and BN columns; half a tile half of the rows. A stage of the ring has 128 bytes of each row of x and weight. CLUSTER
   CTAs have tiles above each other, of the same columns: each copies its share of their weights for all. U: of out. SERVES: activation.cuh,
   PLAIN or SIGMOID, without gates. */
template <typename T, typename U, int BN, int STAGES, int CLUSTER, serves SERVES> struct linear_hopper {
    static const int BM = RVIT_CU_HOPPER_ROWS, DEPTH = 128 / (int)sizeof(T), K_STEPS = 128 / 32;
    static const int X_BOX = RVIT_CU_HOPPER_X_BOX, WEIGHT_BOX = RVIT_CU_HOPPER_WEIGHT_BOX(BN); /* rows of a copy */
    static const int X_BYTES = BM * 128, STAGE_BYTES = X_BYTES + BN * 128;
    static const int STEP = sizeof(U) == 4 ? 4 : 8, UNIT = 4 * STEP, UNITS = BN / UNIT; /* neighbours that a lane has, four lanes have */
    static const bool HAS_SCALES = sizeof(T) == 1;
    static const int GROUPS = 2, COPIER_REGISTERS = 24, REGISTERS = 240;
    enum { TURNS = 8 }; /* barriers of group_sync: it is a group's turn to multiply */

#ifdef RVIT_HOPPER

    /* Shared addresses. Of each stage there is a barrier for rows that have come, and that all have left. */
    struct ring {
        uint32_t barriers;

        __device__ __forceinline__ ring(const unsigned char *memory)
        {
            barriers = (shared_address(memory) + 1023) & ~1023u; /* the swizzle is one of addresses */
        }
        __device__ __forceinline__ uint32_t came(int stage) const
        {
            return barriers + stage * 16;
        }
        __device__ __forceinline__ uint32_t left(int stage) const
        {
            return barriers + stage * 16 + 8;
        }
        /* A group's next tile; barriers: it is named there, all its warps know it. */
        __device__ __forceinline__ uint32_t slot(int group) const
        {
            return barriers + 512 + group * 16;
        }
        __device__ __forceinline__ uint32_t named(int group) const
        {
            return barriers + 544 + group * 16;
        }
        __device__ __forceinline__ uint32_t known(int group) const
        {
            return barriers + 552 + group * 16;
        }
        __device__ __forceinline__ uint32_t x(int stage) const
        {
            return barriers + 1024 + stage * STAGE_BYTES;
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
        place at = {0, 1};
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

    template <int BLOCKS> static __device__ __forceinline__ void multiply(float (&sum)[BLOCKS][BN / 2], const ring &m, int stage)
    {
        const uint32_t x = m.x(stage), weight = m.weight(stage);
#pragma unroll
        for (int k = 0; k < K_STEPS; k++)
#pragma unroll
            for (int b = 0; b < BLOCKS; b++)
                product<T, BN>::rows_columns(sum[b], matrix_at(x + b * 64 * 128 + k * 32, 16), matrix_at(weight + k * 32, 16));
        products_commit();
    }

    /* Where a lane's sums lie in a row of out: STEP of them in each unit of four lanes, of which this is the i-th. */
    static __device__ __forceinline__ constexpr int sum_of(int unit, int i, int half)
    {
        return (unit * STEP / 2 + i / 2) * 4 + half * 2 + i % 2;
    }

    /* Sums begin with the bias, or where they are to be scaled with zero. column: the lane's first. */
    template <int BLOCKS>
    static __device__ __forceinline__ void begin(float (&sum)[BLOCKS][BN / 2], const rvit_cu_linear_params &params, int column)
    {
#pragma unroll
        for (int u = 0; u < UNITS; u++)
#pragma unroll
            for (int i = 0; i < STEP; i += 4) {
                const int to = column + u * UNIT + i;
                float4 v = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
                if (!HAS_SCALES && params.bias != nullptr && to < params.out_features)
                    v = load_4(params.bias + to);
#pragma unroll
                for (int b = 0; b < BLOCKS; b++)
#pragma unroll
                    for (int half = 0; half < 2; half++) {
                        sum[b][sum_of(u, i, half)] = v.x, sum[b][sum_of(u, i + 1, half)] = v.y;
                        sum[b][sum_of(u, i + 2, half)] = v.z, sum[b][sum_of(u, i + 3, half)] = v.w;
                    }
            }
    }

    /* The sums of each four neighbouring columns, by change(sums of one row, its place among those of the lane, numbers of the columns). */
    template <int BLOCKS, typename F>
    static __device__ __forceinline__ void for_columns(float (&sum)[BLOCKS][BN / 2], const float *of_columns, int column, int n, F change)
    {
#pragma unroll
        for (int u = 0; u < UNITS; u++)
#pragma unroll
            for (int i = 0; i < STEP; i += 4) {
                const int from = column + u * UNIT + i;
                float4 v = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
                if (of_columns != nullptr && from < n)
                    v = load_4(of_columns + from);
#pragma unroll
                for (int b = 0; b < BLOCKS; b++)
#pragma unroll
                    for (int half = 0; half < 2; half++) {
                        change(sum[b][sum_of(u, i, half)], b * 2 + half, v.x), change(sum[b][sum_of(u, i + 1, half)], b * 2 + half, v.y);
                        change(sum[b][sum_of(u, i + 2, half)], b * 2 + half, v.z),
                            change(sum[b][sum_of(u, i + 3, half)], b * 2 + half, v.w);
                    }
            }
    }

    /* Scales, and the bias. With one scale for all both are one operation. */
    template <int BLOCKS>
    static __device__ __forceinline__ void settle(float (&sum)[BLOCKS][BN / 2], const rvit_cu_linear_hopper_params &all, int row,
                                                  int column, int rows)
    {
        const rvit_cu_linear_params &params = all.args;
        float scale = 1.0f;
        if (all.one_scale != nullptr) {
            scale = *all.one_scale * *params.weight_scales;
        } else {
            float of_row[BLOCKS * 2];
#pragma unroll
            for (int i = 0; i < BLOCKS * 2; i++) {
                const int r = row + i / 2 * 64 + i % 2 * 8;
                of_row[i] = r < rows ? params.x_scales[r] : 0.0f;
            }
            for_columns(sum, params.weight_scales, column, params.out_features,
                        [&](float &x, int i, float of_column) { x = mul_rn(x, mul_rn(of_row[i], of_column)); });
        }
        for_columns(sum, params.bias, column, params.out_features, [=](float &x, int, float bias) { x = fmaf(x, scale, bias); });
    }

    /* Rows of the lane from `row` on. Of 16 bits: an activation, and no residual. A unit's registers are free for the next once it is
       stored, so that several chains of operations run beside each other. */
    template <int AT_ONCE, int BLOCKS, typename V, typename F>
    static __device__ __forceinline__ void store(V *out, const float (&sum)[BLOCKS][BN / 2], int width, int row, int column, int rows,
                                                 F activate)
    {
#pragma unroll
        for (int b = 0; b < BLOCKS; b++)
#pragma unroll
            for (int half = 0; half < 2; half++) {
                const int r = row + b * 64 + half * 8;
                V *to = out + (long long)r * width + column;
#pragma unroll
                for (int u = 0; u < UNITS; u++) {
                    uint32_t pairs[4];
#pragma unroll
                    for (int i = 0; i < 4; i += AT_ONCE / 2) {
                        float x[AT_ONCE];
#pragma unroll
                        for (int j = 0; j < AT_ONCE; j++)
                            x[j] = sum[b][sum_of(u, i * 2 + j, half)];
                        activate(x);
#pragma unroll
                        for (int j = 0; j < AT_ONCE / 2; j++)
                            pairs[i + j] = element<V>::pack(x[j * 2], x[j * 2 + 1]);
                    }
                    if (r < rows && column + u * UNIT < width)
                        *reinterpret_cast<uint4 *>(to + u * UNIT) = make_uint4(pairs[0], pairs[1], pairs[2], pairs[3]);
                }
            }
    }

    /* Of e4m3, by a static scale. COUNTS: what is cut off, if that is asked for. */
    template <bool COUNTS, int BLOCKS, typename F>
    static __device__ __forceinline__ void store_bytes(const rvit_cu_linear_hopper_params &all, const float (&sum)[BLOCKS][BN / 2], int row,
                                                       int column, int rows, F activate)
    {
        const float scale = *all.static_scale, factor = factor_of(scale);
        const int width = all.args.out_features;
        int n_cut_off = 0;
#pragma unroll
        for (int b = 0; b < BLOCKS; b++)
#pragma unroll
            for (int half = 0; half < 2; half++) {
                const int r = row + b * 64 + half * 8;
                unsigned char *to = static_cast<unsigned char *>(all.args.out) + (long long)r * width + column;
                if (column == 0 && r < rows)
                    all.out_scales[r] = isnan(factor) ? factor : scale;
#pragma unroll
                for (int u = 0; u < UNITS; u++) {
                    float x[STEP];
#pragma unroll
                    for (int i = 0; i < STEP; i++)
                        x[i] = sum[b][sum_of(u, i, half)];
                    activate(x);
#pragma unroll
                    for (int i = 0; i < STEP; i++)
                        x[i] = scaled(x[i], factor);
                    const uint2 bytes = make_uint2(pack_e4m3(x[0], x[1], x[2], x[3]), pack_e4m3(x[4], x[5], x[6], x[7]));
                    const bool is_there = r < rows && column + u * UNIT < width;
                    if (is_there)
                        *reinterpret_cast<uint2 *>(to + u * UNIT) = bytes;
                    if (COUNTS && is_there)
#pragma unroll
                        for (int i = 0; i < STEP; i++)
                            n_cut_off += fabsf(x[i]) > RVIT_E4M3_LARGEST;
                }
            }
        if (COUNTS && all.saturated != nullptr)
            add_cut_off(all.saturated, n_cut_off);
    }

    template <int BLOCKS>
    static __device__ __forceinline__ void finish(e4m3 *, const rvit_cu_linear_hopper_params &all, float (&sum)[BLOCKS][BN / 2], int row,
                                                  int column, int rows)
    {
        const rvit_cu_linear_params &params = all.args;
        const auto sigmoid = [&](float(&x)[8]) {
#pragma unroll
            for (int i = 0; i < 8; i++)
                x[i] = sigmoid_product_fast(x[i], params.slope, params.cubic);
        };
        if (SERVES == SIGMOID && all.saturated == nullptr)
            store_bytes<false>(all, sum, row, column, rows, sigmoid);
        else if (SERVES == SIGMOID)
            store_bytes<true>(all, sum, row, column, rows, sigmoid);
        else if (params.gelu && all.saturated == nullptr)
            store_bytes<false>(all, sum, row, column, rows, [](float(&x)[8]) { gelu_fast(x); });
        else /* all else, which models do not ask for */
            store_bytes<true>(all, sum, row, column, rows, [&](float(&x)[8]) {
                if (params.gelu)
                    gelu_fast(x);
            });
    }

    template <int BLOCKS, typename V>
    static __device__ __forceinline__ void finish(V *out, const rvit_cu_linear_hopper_params &all, float (&sum)[BLOCKS][BN / 2], int row,
                                                  int column, int rows)
    {
        const rvit_cu_linear_params &params = all.args;
        if (SERVES == SIGMOID)
            store<4>(out, sum, params.out_features, row, column, rows, [&](float(&x)[4]) {
#pragma unroll
                for (int i = 0; i < 4; i++)
                    x[i] = sigmoid_product_fast(x[i], params.slope, params.cubic);
            });
        else if (params.gelu)
            store<8>(out, sum, params.out_features, row, column, rows, [](float(&x)[8]) { gelu_fast(x); });
        else
            store<8>(out, sum, params.out_features, row, column, rows, [](float(&)[8]) {});
    }

    /* Units of a row of float32 whose residual is loaded together. */
    static const int PIECE = 8, PIECES = UNITS / PIECE;

    static __device__ __forceinline__ void load_residual(float4 (&more)[PIECE], const rvit_cu_linear_params &params, int piece, int row,
                                                         int column, int rows)
    {
        const int r = row + piece / PIECES / 2 * 64 + piece / PIECES % 2 * 8, c = column + piece % PIECES * PIECE * UNIT;
        const int from_row = params.residual_period == 0 ? r : r % params.residual_period;
        const float *from = static_cast<const float *>(params.residual) + (long long)from_row * params.out_features + c;
#pragma unroll
        for (int u = 0; u < PIECE; u++) {
            more[u] = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
            if (params.residual != nullptr && r < rows && c + u * UNIT < params.out_features)
                more[u] = load_4(from + u * UNIT);
        }
    }

    /* Of float32: a residual. Two pieces of it are on their way, as soon as the first has left its registers free. */
    template <int BLOCKS>
    static __device__ __forceinline__ void finish(float *out, const rvit_cu_linear_hopper_params &all, float (&sum)[BLOCKS][BN / 2],
                                                  int row, int column, int rows)
    {
        const rvit_cu_linear_params &params = all.args;
        const int N = BLOCKS * 2 * PIECES;
        float4 more[3][PIECE];
        load_residual(more[0], params, 0, row, column, rows);
#pragma unroll
        for (int piece = 0; piece < N; piece++) {
            const int b = piece / PIECES / 2, half = piece / PIECES % 2;
            const int r = row + b * 64 + half * 8, c = column + piece % PIECES * PIECE * UNIT;
            float *to = out + (long long)r * params.out_features + c;
#pragma unroll
            for (int u = 0; u < PIECE; u++) {
                const float4 &x = more[piece % 3][u];
                const int at = piece % PIECES * PIECE + u;
                if (r < rows && c + u * UNIT < params.out_features)
                    store_4(to + u * UNIT, make_float4(sum[b][sum_of(at, 0, half)] + x.x, sum[b][sum_of(at, 1, half)] + x.y,
                                                       sum[b][sum_of(at, 2, half)] + x.z, sum[b][sum_of(at, 3, half)] + x.w));
            }
            if (piece == 0 && N > 1)
                load_residual(more[1], params, 1, row, column, rows);
            if (piece + 2 < N)
                load_residual(more[(piece + 2) % 3], params, piece + 2, row, column, rows);
        }
    }

    /* A tile of the group's, in its turn. at: its first stage, then that behind it. */
    template <int BLOCKS>
    static __device__ __forceinline__ void make(const rvit_cu_linear_hopper_params &all, const tile &t, const ring &m, int group, int steps,
                                                int rows, bool is_first, place &at)
    {
        const rvit_cu_linear_params &params = all.args;
        float sum[BLOCKS][BN / 2];
        begin(sum, params, t.column + (int)(threadIdx.x & 3) * STEP);
#pragma unroll
        for (int b = 0; b < BLOCKS; b++)
            keep_here(sum[b]);
        if (!is_first)
            group_sync(TURNS + group, GROUPS * 128);
        barrier_wait(m.came(at.stage), at.parity);
        products_begin();
        multiply(sum, m, at.stage);
#pragma unroll 1
        for (int step = 1; step < steps; step++) {
            const int before = at.stage;
            at.next();
            barrier_wait(m.came(at.stage), at.parity);
            products_begin();
            multiply(sum, m, at.stage);
            products_wait<1>();
            leave(m, before);
        }
        if (t.ahead > 0)
            group_arrive(TURNS + (group ^ 1), GROUPS * 128);
        products_wait<0>();
#pragma unroll
        for (int b = 0; b < BLOCKS; b++)
            keep_here(sum[b]);
        leave(m, at.stage);
        at.next();
        const int lane = recompute((int)threadIdx.x); /* not kept while the products are made */
        const int row = t.row + (lane & 127) / 32 * 16 + (lane & 31) / 4, column = t.column + (lane & 3) * STEP;
        if (HAS_SCALES)
            settle(sum, all, row, column, rows);
        finish(static_cast<U *>(params.out), all, sum, row, column, rows);
    }

    static __device__ __forceinline__ void work(const rvit_cu_linear_hopper_params &params, const ring &m, int group, int steps, int rows)
    {
        place at = {0, 0};
        if (group == 1)
            at.skip(steps);
        for (int i = 0;; i++) {
            barrier_wait(m.named(group), i % 2);
            const tile t = tile::get(m.slot(group));
            warp_sync();
            leave(m.known(group));
            const bool is_first = group == 0 && i == 0;
            if (t.blocks == BM / 64)
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
                work(params, m, group, all.steps, all.rows);
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

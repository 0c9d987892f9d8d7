/* The same as lane_sums.cuh for products of e4m3, whose sums are to be scaled, and may become e4m3 again. In a loop over columns, because
   a kernel's first instructions come from memory, for all SMs at once: 40 KB of code for all that a lane has to do took longer to come than
   to run (bench/notes/cuda-hopper-products.md). */
#ifndef RVIT_LANE_SCALED_CUH
#define RVIT_LANE_SCALED_CUH

#include "e4m3.cuh"
#include "lane_sums.cuh"

template <typename U, int BN, serves SERVES, int PIECE> struct lane_scaled : lane_sums<U, BN, SERVES, PIECE> {
    typedef lane_sums<U, BN, SERVES, PIECE> base;
    using base::load_residual;
    using base::PIECES;
    using base::STEP;
    using base::sum_of;
    using base::UNIT;
    using base::UNITS;
    static const bool MAKES_BYTES = sizeof(U) == 1;
    static const int AT_ONCE = UNITS % 2 == 0 && SERVES == PLAIN ? 2 : 1; /* units in a turn of the loop over narrow sums */

    template <int BLOCKS> static __device__ __forceinline__ void begin(float (&sum)[BLOCKS][BN / 2], const rvit_cu_linear_params &, int)
    {
#pragma unroll
        for (int b = 0; b < BLOCKS; b++)
#pragma unroll
            for (int i = 0; i < BN / 2; i++)
                sum[b][i] = 0.0f;
    }

    /* What all sums share. */
    struct shared_by_all {
        float scale, factor; /* of x and weight, if there is one for all; of what becomes e4m3 */

        __device__ __forceinline__ shared_by_all(const rvit_cu_linear_params &params)
        {
            scale = params.one_scale != nullptr ? *params.one_scale * *params.weight_scales : 1.0f;
            factor = MAKES_BYTES ? factor_of(*params.static_scale) : 1.0f;
        }
    };

    static __device__ __forceinline__ float4 of_columns(const float *values, int column, int n)
    {
        return values != nullptr && column < n ? load_4(values + column) : make_float4(0.0f, 0.0f, 0.0f, 0.0f);
    }

    template <int N>
    static __device__ __forceinline__ void load_bias(float4 (&bias)[N][STEP / 4], const rvit_cu_linear_params &params, int column)
    {
#pragma unroll
        for (int u = 0; u < N; u++)
#pragma unroll
            for (int i = 0; i < STEP; i += 4)
                bias[u][i / 4] = of_columns(params.bias, column + u * UNIT + i, params.out_features);
    }

    /* Scales, and the bias, of the lane's part of a unit: rows as they lie in blocks. With one scale for all both are one operation. */
    template <int ROWS>
    static __device__ __forceinline__ void settle(float (&x)[ROWS][STEP], const rvit_cu_linear_params &params,
                                                  const float4 (&biases)[STEP / 4], float scale, int row, int column, int rows)
    {
#pragma unroll
        for (int i = 0; i < STEP; i += 4) {
            const float4 bias = biases[i / 4];
            if (params.one_scale == nullptr) {
                const float4 of = of_columns(params.weight_scales, column + i, params.out_features);
#pragma unroll
                for (int r = 0; r < ROWS; r++) {
                    const int at = row + r / 2 * 64 + r % 2 * 8;
                    const float of_row = at < rows ? params.x_scales[at] : 0.0f;
                    x[r][i] = mul_rn(x[r][i], mul_rn(of_row, of.x)), x[r][i + 1] = mul_rn(x[r][i + 1], mul_rn(of_row, of.y));
                    x[r][i + 2] = mul_rn(x[r][i + 2], mul_rn(of_row, of.z)), x[r][i + 3] = mul_rn(x[r][i + 3], mul_rn(of_row, of.w));
                }
            }
#pragma unroll
            for (int r = 0; r < ROWS; r++) {
                x[r][i] = fmaf(x[r][i], scale, bias.x), x[r][i + 1] = fmaf(x[r][i + 1], scale, bias.y);
                x[r][i + 2] = fmaf(x[r][i + 2], scale, bias.z), x[r][i + 3] = fmaf(x[r][i + 3], scale, bias.w);
            }
        }
    }

    /* Chains of operations run beside each other. What is to become e4m3 is multiplied by the factor, NaN if it is not finite. */
    template <int N>
    static __device__ __forceinline__ void activate(const rvit_cu_linear_params &params, float (&x)[N], float factor = 1.0f)
    {
        if (SERVES == SIGMOID) {
#pragma unroll
            for (int i = 0; i < N; i++)
                x[i] = sigmoid_product_fast(x[i], params.slope, params.cubic);
        } else if (params.gelu && !MAKES_BYTES) {
            gelu_fast(x);
        }
        if (MAKES_BYTES && SERVES == PLAIN && params.gelu) {
            gelu_for_bytes(x);
#pragma unroll
            for (int i = 0; i < N; i++)
                x[i] *= factor;
        } else if (MAKES_BYTES) {
#pragma unroll
            for (int i = 0; i < N; i++)
                x[i] = scaled(x[i], factor);
        }
    }

    /* Of 16 bits. */
    template <typename V>
    static __device__ __forceinline__ void store(V *out, const float (&x)[STEP], long long at, bool is_there, bool, int &)
    {
        store_16_where(is_there, out + at,
                       make_uint4(element<V>::pack(x[0], x[1]), element<V>::pack(x[2], x[3]), element<V>::pack(x[4], x[5]),
                                  element<V>::pack(x[6], x[7])));
    }

    /* Of e4m3, by a static scale. */
    static __device__ __forceinline__ void store(e4m3 *out, const float (&x)[STEP], long long at, bool is_there, bool counts,
                                                 int &n_cut_off)
    {
        store_8_where(is_there, out + at, make_uint2(pack_e4m3(x[0], x[1], x[2], x[3]), pack_e4m3(x[4], x[5], x[6], x[7])));
        if (counts)
#pragma unroll
            for (int i = 0; i < STEP; i++)
                n_cut_off += is_there && fabsf(x[i]) > RVIT_E4M3_LARGEST;
    }

    static __device__ __forceinline__ void store_scales(const rvit_cu_linear_params &params, float factor, int blocks, int row, int rows)
    {
        for (int r = row; r < row + blocks * 64; r += r % 16 < 8 ? 8 : 56)
            if (r < rows)
                params.out_scales[r] = isnan(factor) ? factor : *params.static_scale;
    }

    /* The lane's sums of AT_ONCE units of a block. */
    template <int BLOCKS>
    static __device__ __forceinline__ void take(float (&x)[AT_ONCE][2][STEP], const float (&sum)[BLOCKS][BN / 2], int unit, int block)
    {
#pragma unroll
        for (int u = 0; u < AT_ONCE; u++)
#pragma unroll
            for (int half = 0; half < 2; half++) {
#pragma unroll
                for (int i = 0; i < STEP; i++)
                    x[u][half][i] = sum[block][sum_of(unit + u, i, half)];
                keep_here(x[u][half]);
            }
    }

    /* Rows of 16 bits and less that have scales, of so many blocks: an activation, and no residual. In a loop, because a kernel's first
       instructions come from memory, for all SMs at once: 40 KB of code for all that a lane has to do took longer to come than to run
       (bench/notes/cuda-hopper-products.md). */
    template <int BLOCKS, typename V>
    static __device__ __forceinline__ void put(V *out, const rvit_cu_linear_params &params, const float (&sum)[BLOCKS][BN / 2], int blocks,
                                               int row, int column, int rows)
    {
        const int TURNS = UNITS / AT_ONCE * BLOCKS, width = params.out_features;
        const shared_by_all all(params);
        const bool counts = MAKES_BYTES && params.saturated != nullptr;
        int n_cut_off = 0;
        if (MAKES_BYTES && column == 0)
            store_scales(params, all.factor, blocks, row, rows);
        float x[AT_ONCE][2][STEP];
        float4 bias[AT_ONCE][STEP / 4];
        take(x, sum, 0, 0);
        load_bias(bias, params, column);
#pragma unroll 1
        for (int turn = 0;;) {
            const int r = row + turn % BLOCKS * 64, c = column + turn / BLOCKS * AT_ONCE * UNIT;
            turn += blocks == BLOCKS ? 1 : BLOCKS;
#pragma unroll
            for (int u = 0; u < AT_ONCE; u++)
                settle(x[u], params, bias[u], all.scale, r, c + u * UNIT, rows);
            load_bias(bias, params, column + turn / BLOCKS * AT_ONCE * UNIT);
            activate(params, *reinterpret_cast<float(*)[AT_ONCE * 2 * STEP]>(x), all.factor);
#pragma unroll
            for (int u = 0; u < AT_ONCE; u++)
#pragma unroll
                for (int half = 0; half < 2; half++)
                    store(out, x[u][half], (long long)(r + half * 8) * width + c + u * UNIT, r + half * 8 < rows && c + u * UNIT < width,
                          counts, n_cut_off);
            if (turn >= TURNS)
                break;
#pragma unroll
            for (int next = 1; next < TURNS; next++)
                if (turn == next)
                    take(x, sum, next / BLOCKS * AT_ONCE, next % BLOCKS);
        }
        if (counts)
            add_cut_off(params.saturated, n_cut_off);
    }

    /* Of float32: a residual. The next piece of it is on its way. */
    template <int BLOCKS>
    static __device__ __forceinline__ void put(float *out, const rvit_cu_linear_params &params, const float (&sum)[BLOCKS][BN / 2],
                                               int blocks, int row, int column, int rows)
    {
        const int N = BLOCKS * 2 * PIECES;
        const shared_by_all all(params);
        float4 more[2][PIECE];
        rows = min(rows, row + blocks * 64); /* those of other blocks are not stored */
        load_residual(more[0], params, 0, row, column, rows);
#pragma unroll
        for (int piece = 0; piece < N; piece++) {
            const int b = piece / PIECES / 2, half = piece / PIECES % 2;
            const int r = row + b * 64 + half * 8, c = column + piece % PIECES * PIECE * UNIT;
            float *to = out + (long long)r * params.out_features + c;
            if (piece + 1 < N)
                load_residual(more[(piece + 1) % 2], params, piece + 1, row, column, rows);
#pragma unroll
            for (int u = 0; u < PIECE; u++) {
                const float4 &y = more[piece % 2][u];
                const int at = piece % PIECES * PIECE + u;
                float x[1][STEP];
#pragma unroll
                for (int i = 0; i < STEP; i++)
                    x[0][i] = sum[b][sum_of(at, i, half)];
                float4 bias[1][STEP / 4];
                load_bias(bias, params, c + u * UNIT);
                settle(x, params, bias[0], all.scale, r, c + u * UNIT, rows);
                if (r < rows && c + u * UNIT < params.out_features)
                    store_4(to + u * UNIT, make_float4(x[0][0] + y.x, x[0][1] + y.y, x[0][2] + y.z, x[0][3] + y.w));
            }
        }
    }

    /* From the sums of so many blocks to rows of out. */
    template <int BLOCKS>
    static __device__ __forceinline__ void finish(float (&sum)[BLOCKS][BN / 2], const rvit_cu_linear_params &params, int blocks, int row,
                                                  int column, int rows)
    {
        put(static_cast<U *>(params.out), params, sum, blocks, row, column, rows);
    }
};

#endif

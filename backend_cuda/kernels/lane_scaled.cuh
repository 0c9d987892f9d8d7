/* lane_sums.cuh for e4m3, whose sums are scaled and may be converted to e4m3 again. It loops over columns, because at the start of a
   kernel all SMs fetch its instructions from memory: 40 KB of unrolled code took longer to fetch than to run (bench/notes/cuda-fp8.md). */
#ifndef RVIT_LANE_SCALED_CUH
#define RVIT_LANE_SCALED_CUH

#include "e4m3.cuh"
#include "lane_sums.cuh"

/* AT_ONCE: units per iteration of the loop, for outputs up to 16 bits. */
template <typename U, int BN, epilogue_kind EPILOGUE, int PIECE, int AT_ONCE> struct lane_scaled : lane_sums<U, BN, EPILOGUE, PIECE> {
    typedef lane_sums<U, BN, EPILOGUE, PIECE> base;
    using base::load_residual;
    using base::PIECES;
    using base::STEP;
    using base::sum_of;
    using base::UNIT;
    using base::UNITS;
    static const bool MAKES_E4M3 = sizeof(U) == 1;
    static const int ITERATIONS = UNITS / AT_ONCE; /* per block */

    template <int BLOCKS> static __device__ __forceinline__ void begin(float (&sum)[BLOCKS][BN / 2], const rvit_cu_linear_params &, int)
    {
#pragma unroll
        for (int b = 0; b < BLOCKS; b++)
#pragma unroll
            for (int i = 0; i < BN / 2; i++)
                sum[b][i] = 0.0f;
    }

    /* Values that all sums share. */
    struct common_values {
        float scale, factor; /* of x and weight, if they have one scale; of the e4m3 output */
        bool in_f16;         /* GELU in 16-bit arithmetic, which saturates large values and flushes tiny ones to 0 */
        const float *bias;   /* added together with the single scale; otherwise apply_scales adds it */

        __device__ __forceinline__ common_values(const rvit_cu_linear_params &params)
        {
            bias = params.one_scale != nullptr ? params.bias : nullptr;
            scale = params.one_scale != nullptr ? nan_if_infinite(*params.one_scale * *params.weight_scales) : 1.0f;
            factor = MAKES_E4M3 ? factor_of(*params.static_scale) : 1.0f;
            in_f16 = params.gelu && factor >= RVIT_E4M3_LARGEST / RVIT_F16_LARGEST && factor <= 4096.0f;
        }
    };

    /* An e4m3 output of a non-finite value is NaN, which saturating 16-bit arithmetic would not give. */
    static __device__ __forceinline__ float nan_if_infinite(float x)
    {
        return MAKES_E4M3 ? fmaf(0.0f, x, x) : x;
    }

    static __device__ __forceinline__ float4 load_columns(const float *values, int column, int n)
    {
        return values != nullptr && column < n ? load_4(values + column) : make_float4(0.0f, 0.0f, 0.0f, 0.0f);
    }

    static __device__ __forceinline__ void load_bias(float4 (&bias)[AT_ONCE][STEP / 4], const float *values, int column, int n)
    {
#pragma unroll
        for (int u = 0; u < AT_ONCE; u++)
#pragma unroll
            for (int i = 0; i < STEP; i += 4)
                bias[u][i / 4] = load_columns(values, column + u * UNIT + i, n);
    }

    /* Separate from the loads, so that they are not waited for immediately. */
    static __device__ __forceinline__ void finish_bias(float4 (&bias)[AT_ONCE][STEP / 4])
    {
#pragma unroll
        for (int u = 0; u < AT_ONCE; u++)
#pragma unroll
            for (int i = 0; i < STEP / 4; i++) {
                float4 &b = bias[u][i];
                b = make_float4(nan_if_infinite(b.x), nan_if_infinite(b.y), nan_if_infinite(b.z), nan_if_infinite(b.w));
            }
    }

    /* The lane's sums of AT_ONCE units of a block, with the single scale and the bias. */
    template <int BLOCKS>
    static __device__ __forceinline__ void scale_sums(float (&x)[AT_ONCE][2][STEP], const float (&sum)[BLOCKS][BN / 2], int unit, int block,
                                                      float scale, const float4 (&bias)[AT_ONCE][STEP / 4])
    {
#pragma unroll
        for (int u = 0; u < AT_ONCE; u++)
#pragma unroll
            for (int half = 0; half < 2; half++) {
#pragma unroll
                for (int i = 0; i < STEP; i += 4) {
                    const float4 b = bias[u][i / 4];
                    x[u][half][i] = fmaf(sum[block][sum_of(unit + u, i, half)], scale, b.x);
                    x[u][half][i + 1] = fmaf(sum[block][sum_of(unit + u, i + 1, half)], scale, b.y);
                    x[u][half][i + 2] = fmaf(sum[block][sum_of(unit + u, i + 2, half)], scale, b.z);
                    x[u][half][i + 3] = fmaf(sum[block][sum_of(unit + u, i + 3, half)], scale, b.w);
                }
                keep_here(x[u][half]);
            }
    }

    /* Applies the scales of rows and columns and the bias, for rows 8 apart. */
    template <int ROWS>
    static __device__ __forceinline__ void apply_scales(float (&x)[ROWS][STEP], const rvit_cu_linear_params &params, int row, int column,
                                                        int rows)
    {
#pragma unroll
        for (int i = 0; i < STEP; i += 4) {
            const float4 scales = load_columns(params.weight_scales, column + i, params.out_features);
            const float4 bias = load_columns(params.bias, column + i, params.out_features);
#pragma unroll
            for (int r = 0; r < ROWS; r++) {
                const float row_scale = row + r * 8 < rows ? params.x_scales[row + r * 8] : 0.0f;
                x[r][i] = nan_if_infinite(add_rn(mul_rn(x[r][i], mul_rn(row_scale, scales.x)), bias.x));
                x[r][i + 1] = nan_if_infinite(add_rn(mul_rn(x[r][i + 1], mul_rn(row_scale, scales.y)), bias.y));
                x[r][i + 2] = nan_if_infinite(add_rn(mul_rn(x[r][i + 2], mul_rn(row_scale, scales.z)), bias.z));
                x[r][i + 3] = nan_if_infinite(add_rn(mul_rn(x[r][i + 3], mul_rn(row_scale, scales.w)), bias.w));
            }
        }
    }

    /* Independent operations overlap. An e4m3 output is multiplied by the factor; non-finite values become NaN. */
    template <int N> static __device__ __forceinline__ void activate(const rvit_cu_linear_params &params, float (&x)[N], float factor)
    {
        if (EPILOGUE == SIGMOID) {
#pragma unroll
            for (int i = 0; i < N; i++)
                x[i] = sigmoid_product_fast(x[i], params.slope, params.cubic);
        } else if (params.gelu) {
            gelu_fast(x);
        }
        if (MAKES_E4M3)
#pragma unroll
            for (int i = 0; i < N; i++)
                x[i] = scaled(x[i], factor);
    }

    /* 16-bit output. */
    static __device__ __forceinline__ void finish_units(uint4 (&bits)[AT_ONCE][2], float (&x)[AT_ONCE][2][STEP],
                                                        const rvit_cu_linear_params &params, const common_values &,
                                                        const bool (&)[AT_ONCE][2], int &)
    {
#pragma unroll
        for (int u = 0; u < AT_ONCE; u++)
#pragma unroll
            for (int half = 0; half < 2; half++) {
                float(&v)[STEP] = x[u][half];
                activate(params, v, 1.0f);
                bits[u][half] = make_uint4(element<U>::pack(v[0], v[1]), element<U>::pack(v[2], v[3]), element<U>::pack(v[4], v[5]),
                                           element<U>::pack(v[6], v[7]));
            }
    }

    /* e4m3 output with a static scale; counts saturated values. */
    static __device__ __forceinline__ void finish_units(uint2 (&bits)[AT_ONCE][2], float (&x)[AT_ONCE][2][STEP],
                                                        const rvit_cu_linear_params &params, const common_values &common,
                                                        const bool (&in_bounds)[AT_ONCE][2], int &n_saturated)
    {
        const bool counts = params.saturated != nullptr;
        if (EPILOGUE == PLAIN && common.in_f16) {
            uint32_t pairs[AT_ONCE * STEP];
#pragma unroll
            for (int i = 0; i < AT_ONCE * STEP; i++)
                pairs[i] = pack_f16_finite(x[i / STEP][i / 4 % 2][i % 4 * 2], x[i / STEP][i / 4 % 2][i % 4 * 2 + 1]);
            gelu_of_halves(pairs, pair_of_halves(common.factor));
            if (counts)
#pragma unroll
                for (int i = 0; i < AT_ONCE * STEP; i++)
                    n_saturated += in_bounds[i / STEP][i / 4 % 2] ? halves_beyond(pairs[i], RVIT_E4M3_LARGEST) : 0;
#pragma unroll
            for (int i = 0; i < AT_ONCE * STEP; i += 4)
                bits[i / STEP][i / 4 % 2] =
                    make_uint2(pack_e4m3_of_halves(pairs[i], pairs[i + 1]), pack_e4m3_of_halves(pairs[i + 2], pairs[i + 3]));
            return;
        }
#pragma unroll
        for (int u = 0; u < AT_ONCE; u++)
#pragma unroll
            for (int half = 0; half < 2; half++) {
                float(&v)[STEP] = x[u][half];
                activate(params, v, common.factor);
                if (counts)
#pragma unroll
                    for (int i = 0; i < STEP; i++)
                        n_saturated += in_bounds[u][half] && fabsf(v[i]) > RVIT_E4M3_LARGEST;
                bits[u][half] = make_uint2(pack_e4m3(v[0], v[1], v[2], v[3]), pack_e4m3(v[4], v[5], v[6], v[7]));
            }
    }

    static __device__ __forceinline__ void store_where(bool in_bounds, void *to, uint4 bits)
    {
        store_16_where(in_bounds, to, bits);
    }

    static __device__ __forceinline__ void store_where(bool in_bounds, void *to, uint2 bits)
    {
        store_8_where(in_bounds, to, bits);
    }

    static __device__ __forceinline__ void store_scales(const rvit_cu_linear_params &params, float factor, int blocks, int row, int rows)
    {
        for (int r = row; r < row + blocks * 64; r += r % 16 < 8 ? 8 : 56)
            if (r < rows)
                params.out_scales[r] = isnan(factor) ? factor : *params.static_scale;
    }

    /* Stores outputs up to 16 bits: activation, no residual. */
    template <int BLOCKS, typename V>
    static __device__ __forceinline__ void store_outputs(V *out, const rvit_cu_linear_params &params, const float (&sum)[BLOCKS][BN / 2],
                                                         int blocks, int row, int column, int rows)
    {
        const int width = params.out_features;
        const common_values common(params);
        int n_saturated = 0;
        if (MAKES_E4M3 && column == 0)
            store_scales(params, common.factor, blocks, row, rows);
        float x[AT_ONCE][2][STEP];
        float4 bias[AT_ONCE][STEP / 4];
        typename choose_type<MAKES_E4M3, uint2, uint4>::type bits[AT_ONCE][2];
        load_bias(bias, common.bias, column, width);
        finish_bias(bias);
        scale_sums(x, sum, 0, 0, common.scale, bias);
        V *to = out + (long long)row * width + column;
#pragma unroll 1
        for (int iteration = 1;; iteration++) {
            if (params.one_scale == nullptr)
#pragma unroll
                for (int u = 0; u < AT_ONCE; u++)
                    apply_scales(x[u], params, row, column + u * UNIT, rows);
            const bool ends = iteration % ITERATIONS == 0; /* of a block */
            const int step = ends ? AT_ONCE * UNIT - BN : AT_ONCE * UNIT;
            load_bias(bias, common.bias, column + step, width);
            bool in_bounds[AT_ONCE][2];
#pragma unroll
            for (int u = 0; u < AT_ONCE; u++)
#pragma unroll
                for (int half = 0; half < 2; half++)
                    in_bounds[u][half] = row + half * 8 < rows && column + u * UNIT < width;
            finish_units(bits, x, params, common, in_bounds, n_saturated);
#pragma unroll
            for (int half = 0; half < 2; half++)
#pragma unroll
                for (int u = 0; u < AT_ONCE; u++)
                    store_where(in_bounds[u][half], to + half * 8ll * width + u * UNIT, bits[u][half]);
            if (iteration == blocks * ITERATIONS)
                break;
            to += ends ? 64ll * width + step : step;
            row += ends ? 64 : 0;
            column += step;
            finish_bias(bias);
#pragma unroll
            for (int next = 1; next < ITERATIONS * BLOCKS; next++)
                if (iteration == next)
                    scale_sums(x, sum, next % ITERATIONS * AT_ONCE, next / ITERATIONS, common.scale, bias);
        }
        if (MAKES_E4M3 && params.saturated != nullptr)
            add_saturated(params.saturated, n_saturated);
    }

    /* Stores float32 outputs with a residual, whose next piece is loaded in advance. */
    template <int BLOCKS>
    static __device__ __forceinline__ void store_outputs(float *out, const rvit_cu_linear_params &params,
                                                         const float (&sum)[BLOCKS][BN / 2], int blocks, int row, int column, int rows)
    {
        const int N = BLOCKS * 2 * PIECES;
        const common_values common(params);
        float4 addend[2][PIECE];
        rows = min(rows, row + blocks * 64); /* only `blocks` blocks are stored */
        load_residual(addend[0], params, 0, row, column, rows);
#pragma unroll
        for (int piece = 0; piece < N; piece++) {
            const int b = piece / PIECES / 2, half = piece / PIECES % 2;
            const int r = row + b * 64 + half * 8, c = column + piece % PIECES * PIECE * UNIT;
            float *to = out + (long long)r * params.out_features + c;
            if (piece + 1 < N)
                load_residual(addend[(piece + 1) % 2], params, piece + 1, row, column, rows);
#pragma unroll
            for (int u = 0; u < PIECE; u++) {
                const float4 &y = addend[piece % 2][u];
                const int at = piece % PIECES * PIECE + u;
                const float4 bias = load_columns(common.bias, c + u * UNIT, params.out_features);
                float x[1][STEP] = {
                    {fmaf(sum[b][sum_of(at, 0, half)], common.scale, bias.x), fmaf(sum[b][sum_of(at, 1, half)], common.scale, bias.y),
                     fmaf(sum[b][sum_of(at, 2, half)], common.scale, bias.z), fmaf(sum[b][sum_of(at, 3, half)], common.scale, bias.w)}};
                if (params.one_scale == nullptr)
                    apply_scales(x, params, r, c + u * UNIT, rows);
                if (r < rows && c + u * UNIT < params.out_features)
                    store_4(to + u * UNIT, make_float4(x[0][0] + y.x, x[0][1] + y.y, x[0][2] + y.z, x[0][3] + y.w));
            }
        }
    }

    /* Stores the sums of `blocks` blocks. */
    template <int BLOCKS>
    static __device__ __forceinline__ void finish(float (&sum)[BLOCKS][BN / 2], const rvit_cu_linear_params &params, int blocks, int row,
                                                  int column, int rows)
    {
        store_outputs(static_cast<U *>(params.out), params, sum, blocks, row, column, rows);
    }
};

#endif

/* A lane's accumulators of a wgmma, from their initial values to the stored outputs: bias, activation, residual. */
#ifndef RVIT_LANE_SUMS_CUH
#define RVIT_LANE_SUMS_CUH

#include "activation.cuh"

template <bool FIRST, typename A, typename B> struct choose_type {
    typedef A type;
};
template <typename A, typename B> struct choose_type<false, A, B> {
    typedef B type;
};

/* For BN columns and outputs of type U. The tensor map permutes rows of weight so that a lane's sums are adjacent in a row of out.
   EPILOGUE: activation.cuh, PLAIN or SIGMOID, not gated. PIECE: units of a float32 row whose residual is loaded together. */
template <typename U, int BN, epilogue_kind EPILOGUE, int PIECE> struct lane_sums {
    static const int STEP = sizeof(U) == 4 ? 4 : 8, UNIT = 4 * STEP; /* adjacent outputs of one lane, of four lanes */
    static const int UNITS = BN / UNIT, PIECES = UNITS / PIECE;

    /* The index of the i-th of the STEP adjacent sums that a lane has in a unit. */
    static __device__ __forceinline__ constexpr int sum_of(int unit, int i, int half)
    {
        return (unit * STEP / 2 + i / 2) * 4 + half * 2 + i % 2;
    }

    /* Sums start with the bias. column: the lane's first. */
    template <int BLOCKS>
    static __device__ __forceinline__ void begin(float (&sum)[BLOCKS][BN / 2], const rvit_cu_linear_params &params, int column)
    {
#pragma unroll
        for (int u = 0; u < UNITS; u++)
#pragma unroll
            for (int i = 0; i < STEP; i += 4) {
                const int to = column + u * UNIT + i;
                float4 v = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
                if (params.bias != nullptr && to < params.out_features)
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

    /* Stores the lane's rows from `row` on, 16-bit outputs: activation, no residual. Works unit by unit, so that registers become free
       and independent operations overlap. */
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

    static __device__ __forceinline__ void activate(const rvit_cu_linear_params &params, float (&x)[8])
    {
        if (EPILOGUE == SIGMOID) {
#pragma unroll
            for (int i = 0; i < 8; i++)
                x[i] = sigmoid_product_fast(x[i], params.slope, params.cubic);
        } else if (params.gelu) {
            gelu_fast(x);
        }
    }

    template <int BLOCKS, typename V>
    static __device__ __forceinline__ void store_outputs(V *out, const rvit_cu_linear_params &params, const float (&sum)[BLOCKS][BN / 2],
                                                         int row, int column, int rows)
    {
        if (EPILOGUE == SIGMOID)
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

    static __device__ __forceinline__ void load_residual(float4 (&addend)[PIECE], const rvit_cu_linear_params &params, int piece, int row,
                                                         int column, int rows)
    {
        const int r = row + piece / PIECES / 2 * 64 + piece / PIECES % 2 * 8, c = column + piece % PIECES * PIECE * UNIT;
        const int from_row = params.residual_period == 0 ? r : r % params.residual_period;
        const float *from = static_cast<const float *>(params.residual) + (long long)from_row * params.out_features + c;
#pragma unroll
        for (int u = 0; u < PIECE; u++) {
            addend[u] = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
            if (params.residual != nullptr && r < rows && c + u * UNIT < params.out_features)
                addend[u] = load_4(from + u * UNIT);
        }
    }

    /* Stores float32 outputs with a residual. Once the first piece has freed its registers, the loads of two pieces are in flight. */
    template <int BLOCKS>
    static __device__ __forceinline__ void store_outputs(float *out, const rvit_cu_linear_params &params,
                                                         const float (&sum)[BLOCKS][BN / 2], int row, int column, int rows)
    {
        const int N = BLOCKS * 2 * PIECES;
        float4 addend[3][PIECE];
        load_residual(addend[0], params, 0, row, column, rows);
#pragma unroll
        for (int piece = 0; piece < N; piece++) {
            const int b = piece / PIECES / 2, half = piece / PIECES % 2;
            const int r = row + b * 64 + half * 8, c = column + piece % PIECES * PIECE * UNIT;
            float *to = out + (long long)r * params.out_features + c;
#pragma unroll
            for (int u = 0; u < PIECE; u++) {
                const float4 &x = addend[piece % 3][u];
                const int at = piece % PIECES * PIECE + u;
                if (r < rows && c + u * UNIT < params.out_features)
                    store_4(to + u * UNIT, make_float4(sum[b][sum_of(at, 0, half)] + x.x, sum[b][sum_of(at, 1, half)] + x.y,
                                                       sum[b][sum_of(at, 2, half)] + x.z, sum[b][sum_of(at, 3, half)] + x.w));
            }
            if (piece == 0 && N > 1)
                load_residual(addend[1], params, 1, row, column, rows);
            if (piece + 2 < N)
                load_residual(addend[(piece + 2) % 3], params, piece + 2, row, column, rows);
        }
    }

    /* Stores the sums of all blocks. */
    template <int BLOCKS>
    static __device__ __forceinline__ void finish(float (&sum)[BLOCKS][BN / 2], const rvit_cu_linear_params &params, int, int row,
                                                  int column, int rows)
    {
        store_outputs(static_cast<U *>(params.out), params, sum, row, column, rows);
    }
};

#endif

/* The activation functions of linear. */
#ifndef RVIT_ACTIVATION_CUH
#define RVIT_ACTIVATION_CUH

#include "elements.cuh"

/* The exact GELU. */
RVIT_DEVICE float gelu(float x)
{
    return 0.5f * x * (1.0f + erff(x * 0.70710678118654752f));
}

/* GELU for 16-bit outputs: x Phi(x) = (x + |x|) / 2 - |x| Phi(-|x|), with the last factor as 2^p, where p is fitted to its logarithm.
   The error is at most 8e-7, and 5e-6 of the result. */
RVIT_DEVICE float gelu_fast(float x)
{
    const float u = fminf(fabsf(x), 13.0f); /* where 2^p is zero */
    float p = -1.7577845e-6f;
    p = fmaf(p, u, 5.993678e-5f);
    p = fmaf(p, u, -9.163649e-4f);
    p = fmaf(p, u, 8.4473956e-3f);
    p = fmaf(p, u, -5.3824533e-2f);
    p = fmaf(p, u, -4.5861566e-1f);
    p = fmaf(p, u, -1.1511801f);
    p = fmaf(p, u, -1.0000038f);
    return fmaf(-u, exp2_fast(p), fmaf(0.5f, x, 0.5f * fabsf(x)));
}

/* The same for several numbers, interleaved to hide latency. */
template <int N> RVIT_DEVICE void gelu_fast(float (&x)[N])
{
    const float factors[7] = {5.993678e-5f, -9.163649e-4f, 8.4473956e-3f, -5.3824533e-2f, -4.5861566e-1f, -1.1511801f, -1.0000038f};
    float u[N], p[N];
#pragma unroll
    for (int i = 0; i < N; i++) {
        u[i] = fminf(fabsf(x[i]), 13.0f);
        p[i] = -1.7577845e-6f;
        x[i] = fmaf(0.5f, x[i], 0.5f * fabsf(x[i]));
    }
#pragma unroll
    for (int k = 0; k < 7; k++)
#pragma unroll
        for (int i = 0; i < N; i++)
            p[i] = fmaf(p[i], u[i], factors[k]);
#pragma unroll
    for (int i = 0; i < N; i++)
        x[i] = fmaf(-u[i], exp2_fast(p[i]), x[i]);
}

/* The same for pairs of halves, times a factor, for e4m3 outputs. The error is 0.9 % of results above 3e-3 (0.2 % for x > -1), and 4e-5
   otherwise. */
template <int N> RVIT_DEVICE void gelu_of_halves(uint32_t (&x)[N], uint32_t factor)
{
    const float factors[5] = {5.7138119e-3f, -4.7854267e-2f, -4.6464211e-1f, -1.1489314f, -1.0001389f};
    uint32_t p[N];
#pragma unroll
    for (int i = 0; i < N; i++)
        p[i] = pair_of_halves(-3.0884858e-4f); /* makes 2^p zero for all large numbers */
#pragma unroll
    for (int k = 0; k < 5; k++)
#pragma unroll
        for (int i = 0; i < N; i++)
            p[i] = fma_halves(magnitude_of_halves(x[i]), p[i], pair_of_halves(factors[k]));
#pragma unroll
    for (int i = 0; i < N; i++)
        x[i] = mul_halves(sub_product_halves(max_halves(x[i], 0), magnitude_of_halves(x[i]), exp2_halves(p[i])), factor);
}

/* x sigmoid(x (slope + cubic x^2)): tanh GELU, quick GELU, SiLU (core/contract/op.h). 0 if the exponential overflows. */
RVIT_DEVICE float sigmoid_product(float x, float slope, float cubic)
{
    return x / (1.0f + expf(-x * fmaf(cubic, fminf(x * x, RVIT_CU_SIGMOID_SQUARE), slope)));
}

RVIT_DEVICE float sigmoid_product_fast(float x, float slope, float cubic)
{
    const float z = x * fmaf(cubic, fminf(x * x, RVIT_CU_SIGMOID_SQUARE), slope);
    return x * reciprocal_fast(1.0f + exp2_fast(-1.44269504f * z));
}

/* What a GEMM kernel supports. Most have only what models use. PLAIN: no activation or GELU, not gated. SIGMOID: a sigmoid, gated or
   not, 16-bit output, no residual. ALL: everything. */
enum epilogue_kind { PLAIN, SIGMOID, ALL };

/* A warp with few tiles loops over some at a time and shifts the others up, because fetching unrolled code from L2 takes longer than
   running it. With many tiles, the shifts would cost more. */
template <int M, int N, typename F> RVIT_DEVICE void for_sums(float (&sum)[M][N][4], F replace)
{
    const int TILES = M * N, AT_ONCE = TILES > 8 ? 2 : TILES;
#pragma unroll 1
    for (int done = 0; done < TILES; done += AT_ONCE) {
        float x[AT_ONCE][4];
#pragma unroll
        for (int tile = 0; tile < AT_ONCE; tile++)
#pragma unroll
            for (int i = 0; i < 4; i++)
                x[tile][i] = replace(sum[tile / N][tile % N][i]);
#pragma unroll
        for (int tile = 0; tile < TILES; tile++)
#pragma unroll
            for (int i = 0; i < 4; i++)
                sum[tile / N][tile % N][i] = tile + AT_ONCE < TILES ? sum[(tile + AT_ONCE) % TILES / N][(tile + AT_ONCE) % TILES % N][i]
                                                                    : x[(tile + AT_ONCE) % TILES % AT_ONCE][i];
    }
}

/* Gates and values are adjacent in a row of an mma tile. Their product replaces the gate. */
template <int M, int N, typename F> RVIT_DEVICE void gate_sums(float (&sum)[M][N][4], F activate)
{
#pragma unroll
    for (int m = 0; m < M; m++)
#pragma unroll
        for (int t = 0; t < N; t++)
#pragma unroll
            for (int i = 0; i < 4; i += 2)
                sum[m][t][i] = activate(sum[m][t][i]) * sum[m][t][i + 1];
}

/* For the sums of mma tiles, with the bias added. */
template <epilogue_kind EPILOGUE, int M, int N> RVIT_DEVICE void activate_sums(const rvit_cu_linear_params &params, float (&sum)[M][N][4])
{
    const float slope = params.slope, cubic = params.cubic;
    const auto sigmoid = [=](float x) { return sigmoid_product_fast(x, slope, cubic); };
    if (EPILOGUE == SIGMOID || (EPILOGUE == ALL && slope != 0.0f)) {
        if (params.gated)
            gate_sums(sum, sigmoid);
        else
            for_sums(sum, sigmoid);
    } else if (EPILOGUE == ALL && params.gated) {
        if (params.gelu)
            gate_sums(sum, [](float x) { return gelu_fast(x); });
        else
            gate_sums(sum, [](float x) { return x; });
    } else if (params.gelu) {
        for_sums(sum, [](float x) { return gelu_fast(x); });
    }
}

#endif

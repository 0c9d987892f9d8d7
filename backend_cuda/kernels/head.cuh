/* The classifier: layernorm of an image's first rows, then their product with the weights, a warp to a class. */
#ifndef RVIT_HEAD_CUH
#define RVIT_HEAD_CUH

#include "elements.cuh"

#include "../tile.h"

enum { HEAD_WARPS = 8 };

/* The sum over the CTA, the same bits in every thread. */
RVIT_DEVICE float block_sum(float x, float *sums)
{
    x = warp_sum(x);
    block_sync();
    if ((threadIdx.x & 31) == 0)
        sums[threadIdx.x / 32] = x;
    block_sync();
    float total = sums[0];
    for (int i = 1; i < HEAD_WARPS; i++)
        total += sums[i];
    return total;
}

RVIT_DEVICE float4 normal_4(const rvit_cu_head_params &params, float4 x, float mean, float scale, int i)
{
    const float4 gamma = load_4(params.gamma + i), beta = load_4(params.beta + i);
    return make_float4((x.x - mean) * scale * gamma.x + beta.x, (x.y - mean) * scale * gamma.y + beta.y,
                       (x.z - mean) * scale * gamma.z + beta.z, (x.w - mean) * scale * gamma.w + beta.w);
}

template <typename W> RVIT_DEVICE void classify(const rvit_cu_head_params &params)
{
    RVIT_DYNAMIC_SHARED(memory);
    RVIT_SHARED float sums[HEAD_WARPS];
    float *normal = reinterpret_cast<float *>(memory);
    const int image = (int)blockIdx.x / params.class_tiles, first_class = (int)blockIdx.x % params.class_tiles * RVIT_CU_HEAD_CLASSES;
    const int end_class = min(first_class + RVIT_CU_HEAD_CLASSES, params.n_classes), dim = params.dim;
    const int warp = threadIdx.x / 32, lane = threadIdx.x & 31;
    float *logits = params.logits + (long long)image * params.n_classes;
    const image_rows rows = rows_of_image(params.cu_seqlens, image, params.rows, params.rows);
    if (rows.len < params.n_tokens) {
        for (int c = first_class + (int)threadIdx.x; c < end_class; c += HEAD_WARPS * 32)
            logits[c] = 0.0f;
        return;
    }
    float mean[2] = {0.0f, 0.0f}, scale[2] = {0.0f, 0.0f};
#pragma unroll
    for (int token = 0; token < 2; token++) {
        if (token >= params.n_tokens)
            continue;
        const long long at = (long long)(rows.begin + token) * dim;
        float sum = 0.0f, squares = 0.0f;
        for (int i = threadIdx.x * 4; i < dim; i += HEAD_WARPS * 128) {
            const float4 x = load_4_as(params.x_dtype, params.x, at + i);
            sum += x.x + x.y + (x.z + x.w);
        }
        mean[token] = block_sum(sum, sums) / (float)dim;
        for (int i = threadIdx.x * 4; i < dim; i += HEAD_WARPS * 128) {
            const float4 x = load_4_as(params.x_dtype, params.x, at + i);
            const float a = x.x - mean[token], b = x.y - mean[token], c = x.z - mean[token], d = x.w - mean[token];
            squares += a * a + b * b + (c * c + d * d);
        }
        scale[token] = 1.0f / sqrtf(block_sum(squares, sums) / (float)dim + params.eps);
        if (params.held)
            for (int i = threadIdx.x * 4; i < dim; i += HEAD_WARPS * 128)
                store_4(normal + token * dim + i,
                        normal_4(params, load_4_as(params.x_dtype, params.x, at + i), mean[token], scale[token], i));
    }
    block_sync();
    for (int c = first_class + warp; c < end_class; c += HEAD_WARPS) {
        const W *weight = static_cast<const W *>(params.weight) + (long long)c * params.n_tokens * dim;
        float sum = 0.0f;
#pragma unroll
        for (int token = 0; token < 2; token++) {
            if (token >= params.n_tokens)
                continue;
            const long long at = (long long)(rows.begin + token) * dim;
#pragma unroll 4
            for (int i = lane * 4; i < dim; i += 128) {
                const float4 w = load_4(weight + (long long)token * dim + i);
                const float4 x = params.held ? load_4(normal + token * dim + i)
                                             : normal_4(params, load_4_as(params.x_dtype, params.x, at + i), mean[token], scale[token], i);
                sum = fmaf(w.w, x.w, fmaf(w.z, x.z, fmaf(w.y, x.y, fmaf(w.x, x.x, sum))));
            }
        }
        sum = warp_sum(sum);
        if (lane == 0)
            logits[c] = params.bias == nullptr ? sum : sum + params.bias[c];
    }
}

#endif

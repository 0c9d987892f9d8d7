/* The classifier: layernorm of the first rows of a CTA's images, one warp per image, then a GEMM with the weights of its classes. A lane
   takes every 32nd group of four channels whatever the tile, so an image's logits do not depend on it. */
#ifndef RVIT_HEAD_CUH
#define RVIT_HEAD_CUH

#include "elements.cuh"

#include "../tile.h"

enum { HEAD_WARPS = RVIT_CU_HEAD_WARPS, HEAD_CHUNK = 1024 /* channels held in shared memory */ };

struct head_norm {
    float mean, scale;
};

/* Calls body(channel, x) for the lane's groups of four, out of n channels from element `at` on, with several loads in flight. */
template <typename F> RVIT_DEVICE void for_groups(const rvit_cu_head_params &params, long long at, int n, F body)
{
    enum { AHEAD = 4 };
    for (int first = (int)(threadIdx.x & 31) * 4; first < n; first += AHEAD * 128) {
        float4 value[AHEAD];
#pragma unroll
        for (int a = 0; a < AHEAD; a++)
            if (first + a * 128 < n)
                value[a] = load_4_as(params.x_dtype, params.x, at + first + a * 128);
#pragma unroll
        for (int a = 0; a < AHEAD; a++)
            if (first + a * 128 < n)
                body(first + a * 128, value[a]);
    }
}

RVIT_DEVICE image_rows rows_of_head(const rvit_cu_head_params &params, int image)
{
    if (params.cu_seqlens == nullptr)
        return {image * params.n_tokens, params.n_tokens};
    return rows_of_image(params.cu_seqlens, image, params.rows, params.rows);
}

/* Called by a warp. */
RVIT_DEVICE head_norm norm_of_row(const rvit_cu_head_params &params, long long at)
{
    const int dim = params.dim;
    const float inverse_dim = 1.0f / (float)dim;
    float sum = 0.0f, squares = 0.0f;
    if (params.gamma == nullptr)
        return {0.0f, 1.0f};
    if (!params.rms)
        for_groups(params, at, dim, [&](int, float4 x) { sum += x.x + x.y + (x.z + x.w); });
    const float mean = warp_sum(sum) * inverse_dim;
    for_groups(params, at, dim, [&](int, float4 x) {
        const float a = x.x - mean, b = x.y - mean, c = x.z - mean, d = x.w - mean;
        squares += a * a + b * b + (c * c + d * d);
    });
    return {mean, inverse_sqrt(warp_sum(squares) * inverse_dim + params.eps)};
}

/* A warp stores n <= HEAD_CHUNK normalised channels of a row, from `first` on. */
RVIT_DEVICE void store_normalised(const rvit_cu_head_params &params, long long at, int first, int n, head_norm norm, float *normal)
{
    for_groups(params, at + first, n, [&](int i, float4 x) {
        if (params.gamma == nullptr) {
            store_4(normal + i, x);
            return;
        }
        const float4 zero = make_float4(0.0f, 0.0f, 0.0f, 0.0f), gamma = load_4(params.gamma + first + i),
                     beta = params.beta == nullptr ? zero : load_4(params.beta + first + i);
        store_4(normal + i,
                make_float4((x.x - norm.mean) * norm.scale * gamma.x + beta.x, (x.y - norm.mean) * norm.scale * gamma.y + beta.y,
                            (x.z - norm.mean) * norm.scale * gamma.z + beta.z, (x.w - norm.mean) * norm.scale * gamma.w + beta.w));
    });
}

/* value[0] of lane l becomes the sum over all lanes of value[l % N], in the order of warp_sum. */
template <int N, int MASK = 16> RVIT_DEVICE void sum_over_lanes(float *value)
{
    const bool upper = (threadIdx.x & MASK) != 0;
#pragma unroll
    for (int i = 0; i < (N > MASK ? MASK : N); i++) {
        if constexpr (N > MASK) {
            const float kept = upper ? value[i + MASK] : value[i], sent = upper ? value[i] : value[i + MASK];
            value[i] = kept + shuffle_xor(sent, MASK);
        } else {
            value[i] += shuffle_xor(value[i], MASK);
        }
    }
    if constexpr (MASK > 1)
        sum_over_lanes<(N > MASK ? MASK : N), MASK / 2>(value);
}

/* IMAGES per CTA, CLASSES per warp. */
template <typename W, int IMAGES, int CLASSES>
RVIT_DEVICE void classify_tile(const rvit_cu_head_params &params, int first_image, int first_class)
{
    enum { AHEAD = IMAGES == 1 ? 6 : 1 }; /* groups of weights in flight */
    alignas(16) RVIT_SHARED float normal[IMAGES][HEAD_CHUNK];
    RVIT_SHARED int has_tokens[IMAGES];
    const int dim = params.dim, warp = threadIdx.x / 32, lane = threadIdx.x & 31;
    first_class += warp * CLASSES;
    const W *weight[CLASSES];
#pragma unroll
    for (int c = 0; c < CLASSES; c++)
        weight[c] = static_cast<const W *>(params.weight) + (long long)min(first_class + c, params.n_classes - 1) * params.n_tokens * dim +
                    lane * 4;
    typename raw_4<W>::type raw[AHEAD][CLASSES];
    const auto load = [&](int at) {
#pragma unroll
        for (int a = 0; a < AHEAD; a++)
#pragma unroll
            for (int c = 0; c < CLASSES; c++)
                if (at + a * 128 + lane * 4 < params.n_tokens * dim)
                    raw[a][c] = load_raw_4(weight[c] + at + a * 128);
    };
    load(0);

    image_rows rows = {0, 0};
    if (warp < IMAGES && first_image + warp < params.n_images)
        rows = rows_of_head(params, first_image + warp);
    const bool is_whole = rows.len >= params.n_tokens;
    if (warp < IMAGES && lane == 0)
        has_tokens[warp] = is_whole;
    float sum[IMAGES * CLASSES];
#pragma unroll
    for (int i = 0; i < IMAGES * CLASSES; i++)
        sum[i] = 0.0f;
#pragma unroll 1
    for (int token = 0; token < params.n_tokens; token++) {
        const long long at = (long long)(rows.begin + token) * dim;
        head_norm norm = {0.0f, 0.0f};
        if (warp < IMAGES && is_whole)
            norm = norm_of_row(params, at);
        for (int first = 0; first < dim; first += HEAD_CHUNK) {
            const int n = min(dim - first, (int)HEAD_CHUNK);
            if (token + first > 0)
                block_sync();
            if (warp < IMAGES && is_whole)
                store_normalised(params, at, first, n, norm, normal[warp]);
            block_sync();
#pragma unroll 1
            for (int base = 0; base < n; base += AHEAD * 128) {
                float4 w[AHEAD][CLASSES];
#pragma unroll
                for (int a = 0; a < AHEAD; a++)
#pragma unroll
                    for (int c = 0; c < CLASSES; c++)
                        w[a][c] = raw_4<W>::floats(raw[a][c]);
                load(token * dim + first + min(base + AHEAD * 128, n));
#pragma unroll
                for (int a = 0; a < AHEAD; a++) {
                    const int i = base + a * 128 + lane * 4;
                    if (i >= n)
                        break;
#pragma unroll
                    for (int image = 0; image < IMAGES; image++) {
                        const float4 x = load_4(normal[image] + i);
#pragma unroll
                        for (int c = 0; c < CLASSES; c++) {
                            float &s = sum[c * IMAGES + image];
                            s = fmaf(w[a][c].w, x.w, fmaf(w[a][c].z, x.z, fmaf(w[a][c].y, x.y, fmaf(w[a][c].x, x.x, s))));
                        }
                    }
                }
            }
        }
    }

    sum_over_lanes<IMAGES * CLASSES>(sum);
    const int image = lane % IMAGES, c = first_class + lane / IMAGES;
    if (lane < IMAGES * CLASSES && first_image + image < params.n_images && c < params.n_classes) {
        const float bias = params.bias == nullptr ? 0.0f : params.bias[c];
        params.logits[(long long)(first_image + image) * params.n_classes + c] = has_tokens[image] ? sum[0] + bias : 0.0f;
    }
}

template <typename W> RVIT_DEVICE void classify(const rvit_cu_head_params &params)
{
    const int tile = (int)blockIdx.x / params.class_tiles, part = (int)blockIdx.x % params.class_tiles;
    if (params.images == 1)
        classify_tile<W, 1, 1>(params, tile, part * HEAD_WARPS);
    else
        classify_tile<W, RVIT_CU_HEAD_IMAGES, RVIT_CU_HEAD_CLASSES>(params, tile * RVIT_CU_HEAD_IMAGES,
                                                                    part * HEAD_WARPS * RVIT_CU_HEAD_CLASSES);
}

#endif

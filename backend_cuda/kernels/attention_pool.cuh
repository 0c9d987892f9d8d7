/* Attention pooling: a CTA computes one head of one image. It takes the softmax over the image's rows, sums the rows with these
   weights, and multiplies the sum by the head's weights. */
#ifndef RVIT_ATTENTION_POOL_CUH
#define RVIT_ATTENTION_POOL_CUH

#include "elements.cuh"

#include "../tile.h"

enum {
    ATTENTION_POOL_WARPS = RVIT_CU_ATTENTION_POOL_WARPS,
    ATTENTION_POOL_THREADS = ATTENTION_POOL_WARPS * 32,
    ATTENTION_POOL_PIECES = RVIT_CU_ATTENTION_POOL_PIECES,
    ATTENTION_POOL_SHARED_ROWS = 1024, /* rows whose softmax weights stay in shared memory; others are recomputed */
    ATTENTION_POOL_MAX_HEAD_DIM = 192
};

struct pooled_rows {
    const float *logits, *sizes; /* of the image's first row and this head; sizes may be null */
    long long stride;
    int len;
    float largest;
};

RVIT_DEVICE float pooled_logit(const pooled_rows &rows, int row)
{
    const float logit = rows.logits[row * rows.stride];
    return rows.sizes == nullptr ? logit : logit + logf(rows.sizes[row]);
}

/* The softmax weight, not yet normalised. */
RVIT_DEVICE float pooled_weight(const pooled_rows &rows, int row)
{
    return expf(pooled_logit(rows, row) - rows.largest);
}

/* Called by all threads: the largest logit, or 0 if that is -infinity. */
RVIT_DEVICE float largest_logit(const pooled_rows &rows, float *values)
{
    float largest = -INFINITY;
    for (int row = threadIdx.x; row < rows.len; row += ATTENTION_POOL_THREADS)
        largest = fmaxf(largest, pooled_logit(rows, row));
    for (int mask = 16; mask > 0; mask /= 2)
        largest = fmaxf(largest, shuffle_xor(largest, mask));
    if ((threadIdx.x & 31) == 0)
        values[threadIdx.x / 32] = largest;
    block_sync();
    for (int w = 0; w < ATTENTION_POOL_WARPS; w++)
        largest = fmaxf(largest, values[w]);
    block_sync();
    return largest == -INFINITY ? 0.0f : largest;
}

/* Called by all threads: 1 / the sum of the weights. The first weights are stored in `stored`. */
RVIT_DEVICE float inverse_sum(const pooled_rows &rows, float *stored, float *values)
{
    float sum = 0.0f;
    for (int row = threadIdx.x; row < rows.len; row += ATTENTION_POOL_THREADS) {
        const float weight = pooled_weight(rows, row);
        if (row < ATTENTION_POOL_SHARED_ROWS)
            stored[row] = weight;
        sum += weight;
    }
    sum = warp_sum(sum);
    if ((threadIdx.x & 31) == 0)
        values[threadIdx.x / 32] = sum;
    block_sync();
    sum = values[0];
    for (int w = 1; w < ATTENTION_POOL_WARPS; w++)
        sum += values[w];
    return sum > 0.0f ? 1.0f / sum : 0.0f;
}

/* A warp adds every ATTENTION_POOL_WARPS-th row, weighted, to the lane's columns. */
template <typename T>
RVIT_DEVICE void sum_rows(const rvit_cu_attention_pool_params &params, const pooled_rows &rows, const T *x, const float *stored, int column,
                          float4 (&sum)[ATTENTION_POOL_PIECES])
{
    for (int row = threadIdx.x / 32; row < rows.len; row += ATTENTION_POOL_WARPS) {
        const T *from = x + (long long)row * params.dim + column;
        typename raw_4<T>::type raw[ATTENTION_POOL_PIECES];
#pragma unroll
        for (int p = 0; p < ATTENTION_POOL_PIECES; p++)
            if (column + p * 128 < params.dim)
                raw[p] = load_raw_4(from + p * 128);
        const float weight = row < ATTENTION_POOL_SHARED_ROWS ? stored[row] : pooled_weight(rows, row);
#pragma unroll
        for (int p = 0; p < ATTENTION_POOL_PIECES; p++)
            if (column + p * 128 < params.dim) {
                const float4 value = raw_4<T>::floats(raw[p]);
                sum[p].x += weight * value.x, sum[p].y += weight * value.y, sum[p].z += weight * value.z, sum[p].w += weight * value.w;
            }
    }
}

/* Called by all threads: sums the warps' results, scaled, into z. */
RVIT_DEVICE void add_warps(const float4 (&sum)[ATTENTION_POOL_PIECES], float scale, float4 (*sums)[32], float4 *z)
{
    const int warp = threadIdx.x / 32, lane = threadIdx.x & 31;
#pragma unroll
    for (int p = 0; p < ATTENTION_POOL_PIECES; p++) {
        sums[warp][lane] = sum[p];
        block_sync();
        if (warp == p % ATTENTION_POOL_WARPS) {
            float4 all = sums[0][lane];
            for (int w = 1; w < ATTENTION_POOL_WARPS; w++) {
                const float4 other = sums[w][lane];
                all.x += other.x, all.y += other.y, all.z += other.z, all.w += other.w;
            }
            z[p * 32 + lane] = make_float4(all.x * scale, all.y * scale, all.z * scale, all.w * scale);
        }
        block_sync();
    }
}

/* The dot product of a row of weights with z, by a warp. */
template <typename T> RVIT_DEVICE float dot_with_weights(const T *weight, const float4 *z, int left)
{
    typename raw_4<T>::type raw[ATTENTION_POOL_PIECES];
    const int lane = threadIdx.x & 31;
#pragma unroll
    for (int p = 0; p < ATTENTION_POOL_PIECES; p++)
        if (p * 128 + lane * 4 < left)
            raw[p] = load_raw_4(weight + p * 128 + lane * 4);
    float sum = 0.0f;
#pragma unroll
    for (int p = 0; p < ATTENTION_POOL_PIECES; p++)
        if (p * 128 + lane * 4 < left) {
            const float4 w = raw_4<T>::floats(raw[p]), value = z[p * 32 + lane];
            sum = fmaf(w.w, value.w, fmaf(w.z, value.z, fmaf(w.y, value.y, fmaf(w.x, value.x, sum))));
        }
    return warp_sum(sum);
}

RVIT_DEVICE void store_one(int dtype, void *out, long long at, float value)
{
    if (dtype == RVIT_CU_F32)
        static_cast<float *>(out)[at] = value;
    else
        static_cast<uint16_t *>(out)[at] = dtype == RVIT_CU_F16 ? float_f16(value) : float_bf16(value);
}

template <typename T> RVIT_DEVICE void attention_pool_head(const rvit_cu_attention_pool_params &params)
{
    RVIT_SHARED float4 sums[ATTENTION_POOL_WARPS][32];
    RVIT_SHARED float4 z[ATTENTION_POOL_PIECES * 32];
    RVIT_SHARED float stored[ATTENTION_POOL_SHARED_ROWS];
    RVIT_SHARED float values[ATTENTION_POOL_MAX_HEAD_DIM];
    RVIT_SHARED float parts[ATTENTION_POOL_WARPS];
    const int image = (int)blockIdx.x / params.n_heads, head = (int)blockIdx.x % params.n_heads;
    const int warp = threadIdx.x / 32, lane = threadIdx.x & 31, dim = params.dim, head_dim = params.head_dim;
    const image_rows span = rows_of_image(params.cu_seqlens, image, params.rows, params.max_len);
    const T *x = static_cast<const T *>(params.x) + (long long)span.begin * dim;
    const T *weight = static_cast<const T *>(params.weight) + (long long)head * head_dim * dim;
    pooled_rows rows = {params.logits + span.begin * params.logits_stride + head,
                        params.sizes == nullptr ? nullptr : params.sizes + span.begin, params.logits_stride, span.len, 0.0f};
    rows.largest = largest_logit(rows, parts);
    const float scale = inverse_sum(rows, stored, parts);
    if (params.probs != nullptr)
        for (int row = threadIdx.x; row < rows.len; row += ATTENTION_POOL_THREADS)
            params.probs[(long long)(span.begin + row) * params.n_heads + head] =
                (row < ATTENTION_POOL_SHARED_ROWS ? stored[row] : pooled_weight(rows, row)) * scale;
    for (int j = threadIdx.x; j < head_dim; j += ATTENTION_POOL_THREADS)
        values[j] = rows.len > 0 && params.bias != nullptr ? params.bias[head * head_dim + j] : 0.0f;
    for (int first = 0; first < dim && rows.len > 0; first += ATTENTION_POOL_PIECES * 128) {
        float4 sum[ATTENTION_POOL_PIECES];
#pragma unroll
        for (int p = 0; p < ATTENTION_POOL_PIECES; p++)
            sum[p] = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
        sum_rows(params, rows, x, stored, first + lane * 4, sum);
        add_warps(sum, scale, sums, z);
        for (int j = warp; j < head_dim; j += ATTENTION_POOL_WARPS) {
            const float part = dot_with_weights(weight + (long long)j * dim + first, z, dim - first);
            if (lane == 0)
                values[j] += part;
        }
    }
    block_sync();
    for (int j = threadIdx.x; j < head_dim; j += ATTENTION_POOL_THREADS)
        store_one(params.out_dtype, params.out, ((long long)image * params.n_heads + head) * head_dim + j, values[j]);
}

#endif

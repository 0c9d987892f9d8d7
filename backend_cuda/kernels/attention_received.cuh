/* Received attention on tensor cores: the sum of the weights that each key gets from all queries of the image. A warp has 16 * MT keys
   in registers; queries come in stages. The float32 kernels use no tensor cores: a CTA has 32 keys and takes blocks of 32 queries,
   shared as in attention_f32.cuh. */
#ifndef RVIT_ATTENTION_RECEIVED_CUH
#define RVIT_ATTENTION_RECEIVED_CUH

#include "attention_backward.cuh"
#include "attention_f32.cuh"

/* The term that a query adds to its logits; -infinity without weights or past the image. */
RVIT_DEVICE float query_logit(const rvit_cu_attention_received_params &params, const attention_work &work, int row)
{
    const float lse = row < work.length ? first_value(params.lse, work, params)[(long long)row * params.n_heads] : -INFINITY;
    return lse == -INFINITY ? -INFINITY : mul_rn(-lse, params.lse_factor);
}

/* Two stages of queries, ROWS each, and their numbers. */
template <typename T, int D, int ROWS> struct received_stages {
    static const int CHUNKS = D / 8, PITCH = tile_rows<D>::PITCH, ARRAY = ROWS * PITCH, SIZE = ARRAY + ROWS * 4;
    const rvit_cu_attention_received_params &params;
    const attention_work &work;

    __device__ __forceinline__ void fetch(int stage, int begin)
    {
        RVIT_DYNAMIC_SHARED(memory);
        const uint32_t to = shared_address(memory) + stage * SIZE;
        const int thread = recompute(threadIdx.x), step = recompute(blockDim.x); /* not kept in registers */
        const int chunk = thread % CHUNKS, left = work.length - begin, n = min(ROWS, (left + 15) & ~15), rows = step / CHUNKS;
        const T *q = first_row(static_cast<const T *>(params.q), params.q_stride, work, params) + begin * params.q_stride + chunk * 8;
        for (int row = thread / CHUNKS; row < n && thread < rows * CHUNKS; row += rows)
            copy_async_16(to + (uint32_t)tile_rows<D>::swizzled(row, chunk), q + row * params.q_stride,
                          chunk * 8 < params.head_dim && row < left);
        float *numbers = reinterpret_cast<float *>(memory + stage * SIZE + ARRAY);
        for (int row = thread; row < n; row += step)
            numbers[row] = query_logit(params, work, begin + row);
        copy_commit();
    }
};

/* Adds the weights of 16 queries to the sums of the warp's keys. at: the lane's chunk of the first query. */
template <typename T, int D, int MT>
RVIT_DEVICE void receive_step(float (&sum)[MT][2], const uint32_t (&keys)[MT][D / 16][4], const float (&bias)[MT][2], float scale, int at,
                              uint32_t numbers)
{
    float s[MT][2][4];
    backward_rows<T, D, MT, true, false>::multiply(s, keys, at);
#pragma unroll
    for (int n = 0; n < 2; n++) {
        const uint2 pair = load_shared_8(numbers + (n * 8 + ((int)threadIdx.x & 3) * 2) * 4);
#pragma unroll
        for (int i = 0; i < 2 * MT; i++) {
            const float *logits = &s[i / 2][n][i % 2 * 2], b = bias[i / 2][i % 2];
            const float first = exp2_fast(fmaf(logits[0], scale, add_rn(bits_float(pair.x), b)));
            const float second = exp2_fast(fmaf(logits[1], scale, add_rn(bits_float(pair.y), b)));
            sum[i / 2][i % 2] = add_rn(sum[i / 2][i % 2], add_rn(first, second));
        }
    }
}

/* A CTA has 16 * MT keys per warp. */
template <typename T, int D, int MT, int ROWS> RVIT_DEVICE void receive(const rvit_cu_attention_received_params &params)
{
    RVIT_DYNAMIC_SHARED(memory);
    typedef received_stages<T, D, ROWS> stages;
    const attention_work work = find_work(params);
    const int length = work.length, warps = (int)blockDim.x / 32, lane = threadIdx.x & 31;
    if (work.row_block * warps * (16 * MT) >= length)
        return;
    const int row = (work.row_block * warps + (int)threadIdx.x / 32) * (16 * MT);
    const bool live = row < length;
    stages s = {params, work};
    s.fetch(0, 0);
    uint32_t keys[MT][D / 16][4];
    float bias[MT][2], sum[MT][2];
    backward_rows<T, D, MT, true, false>::load_global(keys, first_row(static_cast<const T *>(params.k), params.k_stride, work, params),
                                                      params.k_stride, params.head_dim, row, length);
#pragma unroll
    for (int m = 0; m < MT; m++) {
#pragma unroll
        for (int i = 0; i < D / 4; i++)
            keys[m][i / 4][i % 4] ^= params.zero; /* see backward_rows::begin */
#pragma unroll
        for (int h = 0; h < 2; h++)
            bias[m][h] = key_logit(params, work, row + m * 16 + h * 8 + (lane >> 2)), sum[m][h] = 0.0f;
    }
    int stage = 0;
    const int chunk = tile_rows<D>::swizzled(lane >> 2, lane & 3);
#pragma unroll 1
    for (int first = 0; first < length; first += ROWS, stage ^= 1) {
        next_backward_stage(s, stage, first + ROWS, length);
        uint32_t at = shared_address(memory) + stage * stages::SIZE, numbers = at + stages::ARRAY;
#pragma unroll 1
        for (int query = first; live && query < length && query < first + ROWS; query += 16) {
            receive_step<T, D, MT>(sum, keys, bias, params.scale, (int)at + chunk, numbers);
            at += 16 * stages::PITCH, numbers += 16 * 4;
        }
    }
    float *out = first_value(params.out, work, params);
#pragma unroll
    for (int i = 0; i < 2 * MT; i++) {
        float total = sum[i / 2][i % 2];
        total = add_rn(total, shuffle_xor(total, 1));
        total = add_rn(total, shuffle_xor(total, 2));
        const int key = row + (lane >> 2) + 8 * i;
        if ((lane & 3) == 0 && key < length)
            out[(long long)key * params.n_heads] = total / (float)length;
    }
}

RVIT_DEVICE void receive_f32(const rvit_cu_attention_received_params &params)
{
    RVIT_DYNAMIC_SHARED(memory);
    const attention_work work = find_work(params);
    const int length = work.length, first_key = work.row_block * TILE_F32, dim = params.head_dim, pitch = dim + 4;
    if (first_key >= length)
        return;
    const int tx = threadIdx.x % 8, ty = threadIdx.x / 8, row = first_key + 2 * ty;
    float *keys = reinterpret_cast<float *>(memory), *queries = keys + TILE_F32 * pitch;
    const float *q = first_row(static_cast<const float *>(params.q), params.q_stride, work, params);
    const float bias[2] = {key_logit(params, work, row), key_logit(params, work, row + 1)};
    float sum[2] = {0.0f, 0.0f};
    fetch_f32(keys, pitch, first_row(static_cast<const float *>(params.k), params.k_stride, work, params), params.k_stride, dim, first_key,
              length);
    for (int first = 0; first < length; first += TILE_F32) {
        block_sync();
        fetch_f32(queries, pitch, q, params.q_stride, dim, first, length);
        block_sync();
        float s[2][4];
        multiply_keys_f32(s, keys, queries, pitch, dim, tx, ty);
#pragma unroll
        for (int j = 0; j < 4; j++) {
            const float logit = query_logit(params, work, first + tx + 8 * j);
#pragma unroll
            for (int r = 0; r < 2; r++)
                sum[r] = add_rn(sum[r], expf(fmaf(s[r][j], params.scale, add_rn(logit, bias[r]))));
        }
    }
    for (int r = 0; r < 2; r++) {
        for (int mask = 4; mask > 0; mask /= 2)
            sum[r] = add_rn(sum[r], shuffle_xor(sum[r], mask));
        if (tx == 0 && row + r < length)
            first_value(params.out, work, params)[(long long)(row + r) * params.n_heads] = sum[r] / (float)length;
    }
}

#endif

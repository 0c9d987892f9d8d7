/* Attention in float32, without tensor cores: 32 query rows per CTA, blocks of 32 keys, any head dimension up to 128. */
#ifndef RVIT_ATTENTION_F32_CUH
#define RVIT_ATTENTION_F32_CUH

#include "attention.cuh"

enum { TILE_F32 = 32, THREADS_F32 = 128, P_PITCH = TILE_F32 + 4 };

/* Loads rows [first, first + TILE_F32) of one head into shared memory, zeros for missing rows. */
RVIT_DEVICE void fetch_f32(float *shared, int pitch, const float *source, int stride, int head_dim, int first, int length)
{
    const int chunks = head_dim / 4;
    for (int i = threadIdx.x; i < TILE_F32 * chunks; i += THREADS_F32) {
        const int row = i / chunks, c = i % chunks * 4;
        float4 x = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
        if (first + row < length)
            x = load_4(source + (first + row) * stride + c);
        store_4(shared + row * pitch + c, x);
    }
}

/* Eight threads share two query rows: thread tx takes keys tx, tx + 8, ... and channels 4 tx, 4 tx + 32, ... It has accumulators of the
   output, and the running maximum and sum of weights of both rows. They are three arrays, because nvcc allocates registers differently
   for a struct. */
RVIT_DEVICE void begin_f32(float (&out)[2][4][4], float (&maximum)[2], float (&sum)[2])
{
#pragma unroll
    for (int r = 0; r < 2; r++) {
        maximum[r] = -INFINITY, sum[r] = 0.0f;
#pragma unroll
        for (int i = 0; i < 4; i++)
#pragma unroll
            for (int j = 0; j < 4; j++)
                out[r][i][j] = 0.0f;
    }
}

/* s = q k^T for the thread's two rows and four keys of a block. */
RVIT_DEVICE void multiply_keys_f32(float (&s)[2][4], const float *q, const float *k, int pitch, int dim, int tx, int ty)
{
#pragma unroll
    for (int r = 0; r < 2; r++)
#pragma unroll
        for (int j = 0; j < 4; j++)
            s[r][j] = 0.0f;
    for (int c = 0; c < dim; c += 4) {
        const float4 q0 = load_4(q + (2 * ty) * pitch + c), q1 = load_4(q + (2 * ty + 1) * pitch + c);
#pragma unroll
        for (int j = 0; j < 4; j++) {
            const float4 key = load_4(k + (tx + 8 * j) * pitch + c);
            s[0][j] = fmaf(q0.w, key.w, fmaf(q0.z, key.z, fmaf(q0.y, key.y, fmaf(q0.x, key.x, s[0][j]))));
            s[1][j] = fmaf(q1.w, key.w, fmaf(q1.z, key.z, fmaf(q1.y, key.y, fmaf(q1.x, key.x, s[1][j]))));
        }
    }
}

/* One step of the online softmax: scores become weights p, and output and sum are rescaled to the new maximum. */
RVIT_DEVICE void compute_weights_f32(float (&out)[2][4][4], float (&maximum)[2], float (&sum)[2], const float (&s)[2][4], float *p, int tx,
                                     int ty)
{
#pragma unroll
    for (int r = 0; r < 2; r++) {
        float m = fmaxf(fmaxf(s[r][0], s[r][1]), fmaxf(s[r][2], s[r][3]));
        for (int mask = 4; mask > 0; mask /= 2)
            m = fmaxf(m, shuffle_xor(m, mask));
        m = fmaxf(maximum[r], m);
        const float shift = m == -INFINITY ? 0.0f : m;
        const float factor = expf(maximum[r] - shift);
        maximum[r] = m;
        sum[r] *= factor;
#pragma unroll
        for (int j = 0; j < 4; j++) {
            const float weight = expf(s[r][j] - shift);
            sum[r] += weight;
            p[(2 * ty + r) * P_PITCH + tx + 8 * j] = weight;
        }
#pragma unroll
        for (int i = 0; i < 4; i++)
#pragma unroll
            for (int j = 0; j < 4; j++)
                out[r][i][j] *= factor;
    }
}

/* out += p v for the keys of a block. */
RVIT_DEVICE void multiply_values_f32(float (&out)[2][4][4], const float *p, const float *v, int pitch, int dim, int tx, int ty)
{
    for (int key = 0; key < TILE_F32; key++) {
        const float p0 = p[(2 * ty) * P_PITCH + key], p1 = p[(2 * ty + 1) * P_PITCH + key];
#pragma unroll
        for (int i = 0; i < 4; i++) {
            const int c = (tx + 8 * i) * 4;
            if (c >= dim)
                continue;
            const float4 value = load_4(v + key * pitch + c);
            out[0][i][0] = fmaf(p0, value.x, out[0][i][0]), out[0][i][1] = fmaf(p0, value.y, out[0][i][1]);
            out[0][i][2] = fmaf(p0, value.z, out[0][i][2]), out[0][i][3] = fmaf(p0, value.w, out[0][i][3]);
            out[1][i][0] = fmaf(p1, value.x, out[1][i][0]), out[1][i][1] = fmaf(p1, value.y, out[1][i][1]);
            out[1][i][2] = fmaf(p1, value.z, out[1][i][2]), out[1][i][3] = fmaf(p1, value.w, out[1][i][3]);
        }
    }
}

/* Stores the output, divided by the sum of weights, and lse. */
RVIT_DEVICE void store_rows_f32(float (&out)[2][4][4], float (&maximum)[2], float (&sum)[2], const rvit_cu_attention_params &params,
                                const attention_work &work, float *all_out, int first_query, int tx, int ty)
{
    const int length = work.length, dim = params.head_dim;
#pragma unroll
    for (int r = 0; r < 2; r++) {
        for (int mask = 4; mask > 0; mask /= 2)
            sum[r] += shuffle_xor(sum[r], mask);
        const int row = first_query + 2 * ty + r;
        if (row >= length)
            continue;
#pragma unroll
        for (int i = 0; i < 4; i++) {
            const int c = (tx + 8 * i) * 4;
            if (c >= dim)
                continue;
            const bool empty = sum[r] == 0.0f;
            store_4(all_out + row * params.out_stride + c,
                    make_float4(empty ? 0.0f : out[r][i][0] / sum[r], empty ? 0.0f : out[r][i][1] / sum[r],
                                empty ? 0.0f : out[r][i][2] / sum[r], empty ? 0.0f : out[r][i][3] / sum[r]));
        }
        if (params.lse != nullptr && tx == 0)
            first_value(params.lse, work, params)[(long long)row * params.n_heads] = maximum[r] + logf(sum[r]);
    }
}

RVIT_DEVICE void attend_f32(const rvit_cu_attention_params &params)
{
    RVIT_DYNAMIC_SHARED(memory);
    const attention_work work = find_work(params);
    const int length = work.length, first_query = work.row_block * TILE_F32, dim = params.head_dim;
    if (first_query >= length)
        return;
    const float *bias = params.key_bias == nullptr ? nullptr : params.key_bias + work.begin;
    float *cls = first_query == 0 && params.cls_probs != nullptr ? first_value(params.cls_probs, work, params) : nullptr;
    const float *all_q = first_row(static_cast<const float *>(params.q), params.q_stride, work, params);
    const float *all_k = first_row(static_cast<const float *>(params.k), params.k_stride, work, params);
    const float *all_v = first_row(static_cast<const float *>(params.v), params.v_stride, work, params);
    float *all_out = first_row(static_cast<float *>(params.out), params.out_stride, work, params);
    const int tx = threadIdx.x % 8, ty = threadIdx.x / 8, pitch = dim + 4;
    float *q = reinterpret_cast<float *>(memory), *k = q + TILE_F32 * pitch, *v = k + TILE_F32 * pitch, *p = v + TILE_F32 * pitch;
    float out[2][4][4], maximum[2], sum[2];
    begin_f32(out, maximum, sum);
    fetch_f32(q, pitch, all_q, params.q_stride, dim, first_query, length);
    for (int first = 0; first < length; first += TILE_F32) {
        block_sync();
        fetch_f32(k, pitch, all_k, params.k_stride, dim, first, length);
        fetch_f32(v, pitch, all_v, params.v_stride, dim, first, length);
        block_sync();
        float s[2][4];
        multiply_keys_f32(s, q, k, pitch, dim, tx, ty);
#pragma unroll
        for (int j = 0; j < 4; j++) {
            const int key = first + tx + 8 * j;
            const float more = bias != nullptr && key < length ? bias[key] : 0.0f;
#pragma unroll
            for (int r = 0; r < 2; r++)
                s[r][j] = key < length ? add_rn(mul_rn(s[r][j], params.scale), more) : -INFINITY;
            if (cls != nullptr && ty == 0 && key < length)
                cls[(long long)key * params.n_heads] = s[0][j];
        }
        warp_sync(); /* the previous block's weights have been read */
        compute_weights_f32(out, maximum, sum, s, p, tx, ty);
        warp_sync();
        multiply_values_f32(out, p, v, pitch, dim, tx, ty);
    }
    store_rows_f32(out, maximum, sum, params, work, all_out, first_query, tx, ty);
    if (cls != nullptr && threadIdx.x < 32) {
        warp_sync();
        const float m = shuffle(maximum[0], 0), total = shuffle(sum[0], 0), shift = m == -INFINITY ? 0.0f : m;
        for (int j = threadIdx.x; j < length; j += 32) {
            float *probability = cls + (long long)j * params.n_heads;
            *probability = total == 0.0f ? 0.0f : expf(*probability - shift) / total;
        }
    }
}

#endif

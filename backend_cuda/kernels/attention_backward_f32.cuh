/* The gradient of attention in float32, without tensor cores. A CTA has 32 keys or 32 queries and takes blocks of 32 other rows, like a
   warp with 16 in attention_backward.cuh. Any head dimension up to 128. Threads share a tile as in attention_f32.cuh. */
#ifndef RVIT_ATTENTION_BACKWARD_F32_CUH
#define RVIT_ATTENTION_BACKWARD_F32_CUH

#include "attention_backward.cuh"
#include "attention_f32.cuh"

RVIT_DEVICE void store_gradient_f32(const float (&rows)[2][4][4], float *out, int stride, int dim, int row, int length, float factor,
                                    int tx)
{
#pragma unroll
    for (int r = 0; r < 2; r++)
#pragma unroll
        for (int i = 0; i < 4; i++) {
            const int c = (tx + 8 * i) * 4;
            if (row + r < length && c < dim)
                store_4(out + (row + r) * stride + c,
                        make_float4(rows[r][i][0] * factor, rows[r][i][1] * factor, rows[r][i][2] * factor, rows[r][i][3] * factor));
        }
}

/* Weights p and gradients g of the logits, for the thread's two own rows and four other rows. */
template <bool OWN_KEYS>
RVIT_DEVICE void weigh_gradient_f32(const rvit_cu_attention_backward_params &params, const attention_work &work, const float (&s)[2][4],
                                    float (&v)[2][4], const float (&logit)[2], const float (&delta)[2], float (&share)[2], int row,
                                    int first, float *p, float *g, int tx, int ty)
{
#pragma unroll
    for (int j = 0; j < 4; j++) {
        const int other = first + tx + 8 * j;
        float2 column = make_float2(-INFINITY, 0.0f);
        if (OWN_KEYS && other < work.length)
            column = head_numbers(params, work)[other];
        if (!OWN_KEYS)
            column.x = key_logit(params, work, other);
#pragma unroll
        for (int r = 0; r < 2; r++) {
            const int query = OWN_KEYS ? other : row + r, key = OWN_KEYS ? row + r : other;
            if (params.d_cls_probs != nullptr && query == 0 && key < work.length)
                v[r][j] = add_rn(v[r][j], first_value(params.d_cls_probs, work, params)[(long long)key * params.n_heads]);
            const float weight = expf(fmaf(s[r][j], params.scale, add_rn(column.x, logit[r])));
            const float gradient = mul_rn(weight, add_rn(v[r][j], -(OWN_KEYS ? column.y : delta[r])));
            share[r] = add_rn(share[r], gradient);
            p[(2 * ty + r) * P_PITCH + tx + 8 * j] = weight;
            g[(2 * ty + r) * P_PITCH + tx + 8 * j] = gradient;
        }
    }
}

RVIT_DEVICE void clear_f32(float (&rows)[2][4][4])
{
#pragma unroll
    for (int r = 0; r < 2; r++)
#pragma unroll
        for (int i = 0; i < 4; i++)
#pragma unroll
            for (int j = 0; j < 4; j++)
                rows[r][i][j] = 0.0f;
}

template <bool OWN_KEYS>
RVIT_DEVICE void backward_block_f32(const rvit_cu_attention_backward_params &params, const attention_work &work, unsigned char *memory)
{
    const int length = work.length, first_own = work.row_block * TILE_F32, dim = params.head_dim, pitch = dim + 4;
    const int tx = threadIdx.x % 8, ty = threadIdx.x / 8, row = first_own + 2 * ty;
    float *x = reinterpret_cast<float *>(memory), *y = x + TILE_F32 * pitch, *other_x = y + TILE_F32 * pitch;
    float *other_y = other_x + TILE_F32 * pitch, *p = other_y + TILE_F32 * pitch, *g = p + TILE_F32 * P_PITCH;
    const float *q = first_row(static_cast<const float *>(params.q), params.q_stride, work, params);
    const float *k = first_row(static_cast<const float *>(params.k), params.k_stride, work, params);
    const float *v = first_row(static_cast<const float *>(params.v), params.v_stride, work, params);
    const float *d_out = first_row(static_cast<const float *>(params.d_out), params.d_out_stride, work, params);
    float d_x[2][4][4], d_y[2][4][4], logit[2], delta[2], share[2] = {0.0f, 0.0f};
    clear_f32(d_x), clear_f32(d_y);
#pragma unroll
    for (int r = 0; r < 2; r++) {
        const float2 query = OWN_KEYS || row + r >= length ? make_float2(-INFINITY, 0.0f) : head_numbers(params, work)[row + r];
        logit[r] = OWN_KEYS ? key_logit(params, work, row + r) : query.x;
        delta[r] = query.y;
    }
    fetch_f32(x, pitch, OWN_KEYS ? k : q, OWN_KEYS ? params.k_stride : params.q_stride, dim, first_own, length);
    fetch_f32(y, pitch, OWN_KEYS ? v : d_out, OWN_KEYS ? params.v_stride : params.d_out_stride, dim, first_own, length);
    for (int first = 0; first < length; first += TILE_F32) {
        block_sync();
        fetch_f32(other_x, pitch, OWN_KEYS ? q : k, OWN_KEYS ? params.q_stride : params.k_stride, dim, first, length);
        fetch_f32(other_y, pitch, OWN_KEYS ? d_out : v, OWN_KEYS ? params.d_out_stride : params.v_stride, dim, first, length);
        block_sync();
        float s[2][4], dots[2][4];
        multiply_keys_f32(s, x, other_x, pitch, dim, tx, ty);
        multiply_keys_f32(dots, y, other_y, pitch, dim, tx, ty);
        warp_sync(); /* the previous block's weights have been read */
        weigh_gradient_f32<OWN_KEYS>(params, work, s, dots, logit, delta, share, row, first, p, g, tx, ty);
        warp_sync();
        if (OWN_KEYS)
            multiply_values_f32(d_y, p, other_y, pitch, dim, tx, ty);
        multiply_values_f32(d_x, g, other_x, pitch, dim, tx, ty);
    }
    const int stride = OWN_KEYS ? params.d_k_stride : params.d_q_stride;
    store_gradient_f32(d_x, first_row(static_cast<float *>(OWN_KEYS ? params.d_k : params.d_q), stride, work, params), stride, dim, row,
                       length, params.store_factor, tx);
    if (!OWN_KEYS)
        return;
    store_gradient_f32(d_y, first_row(static_cast<float *>(params.d_v), params.d_v_stride, work, params), params.d_v_stride, dim, row,
                       length, 1.0f, tx);
    for (int r = 0; r < 2; r++) {
        for (int mask = 4; mask > 0; mask /= 2)
            share[r] = add_rn(share[r], shuffle_xor(share[r], mask));
        if (params.shares != nullptr && tx == 0 && row + r < length)
            params.shares[(long long)work.head * params.rows + work.begin + row + r] = share[r];
    }
}

/* The first half of a head's CTAs take keys, the second half queries. */
RVIT_DEVICE void backward_f32(const rvit_cu_attention_backward_params &params)
{
    RVIT_DYNAMIC_SHARED(memory);
    attention_work work = find_work(params);
    const int blocks = (int)gridDim.x / 2;
    const bool own_keys = work.row_block < blocks;
    if (!own_keys)
        work.row_block -= blocks;
    if (work.row_block * TILE_F32 >= work.length)
        return;
    if (own_keys)
        backward_block_f32<true>(params, work, memory);
    else
        backward_block_f32<false>(params, work, memory);
}

#endif

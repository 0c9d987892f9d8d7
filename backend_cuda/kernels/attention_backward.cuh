/* The gradient of attention on tensor cores, in two halves: a warp with some keys sums their d_k and d_v over all queries of the image,
   and a warp with some queries sums their d_q over all keys. Both recompute the weights. That takes 7 matrix multiplications instead of
   5, but warps exchange no sums, so results do not depend on how the work is split. */
#ifndef RVIT_ATTENTION_BACKWARD_CUH
#define RVIT_ATTENTION_BACKWARD_CUH

#include "attention.cuh"

/* The dot product of 8 channels, in order. */
RVIT_DEVICE float dot_8(float4 a0, float4 a1, float4 b0, float4 b1)
{
    float sum = mul_rn(a0.x, b0.x);
    sum = fmaf(a0.w, b0.w, fmaf(a0.z, b0.z, fmaf(a0.y, b0.y, sum)));
    return fmaf(a1.w, b1.w, fmaf(a1.z, b1.z, fmaf(a1.y, b1.y, fmaf(a1.x, b1.x, sum))));
}

/* For 16-bit elements. */
template <typename T> RVIT_DEVICE float dot_8(uint4 a, uint4 b)
{
    return dot_8(raw_4<T>::floats(make_uint2(a.x, a.y)), raw_4<T>::floats(make_uint2(a.z, a.w)), raw_4<T>::floats(make_uint2(b.x, b.y)),
                 raw_4<T>::floats(make_uint2(b.z, b.w)));
}

/* The term that d_cls_probs adds to D of the first query. Called by a whole warp. */
RVIT_DEVICE float cls_share(const rvit_cu_attention_backward_params &params, const attention_work &work)
{
    const float *probs = first_value(params.cls_probs, work, params), *gradients = first_value(params.d_cls_probs, work, params);
    float sum = 0.0f;
    for (int j = threadIdx.x & 31; j < work.length; j += 32)
        sum = fmaf(probs[(long long)j * params.n_heads], gradients[(long long)j * params.n_heads], sum);
    return warp_sum(sum);
}

/* A query's two numbers: the term that it adds to its logits, -lse, and D, from the dot products of 8 channels in each of `lanes` adjacent
   lanes. Queries without weights or past the image get -infinity. All lanes of a warp must call this. */
RVIT_DEVICE float2 query_numbers(const rvit_cu_attention_backward_params &params, float lse, float d_lse, float dot, int lanes, float cls,
                                 bool live, bool first)
{
    for (int mask = 1; mask < lanes; mask *= 2)
        dot = add_rn(dot, shuffle_xor(dot, mask));
    float2 numbers = make_float2(-INFINITY, 0.0f);
    if (live) {
        numbers.x = lse == -INFINITY ? -INFINITY : mul_rn(-lse, params.lse_factor);
        numbers.y = add_rn(dot, -d_lse);
        if (first)
            numbers.y = add_rn(numbers.y, cls);
    }
    return numbers;
}

RVIT_DEVICE float value_or_0(const float *array, const rvit_cu_attention_backward_params &params, const attention_work &work, int row)
{
    return array == nullptr ? 0.0f : first_value(array, work, params)[(long long)row * params.n_heads];
}

/* The term that a key adds to its logits; -infinity past the image. */
template <typename P> RVIT_DEVICE float key_logit(const P &params, const attention_work &work, int row)
{
    if (row >= work.length)
        return -INFINITY;
    return params.key_bias == nullptr ? 0.0f : mul_rn(params.key_bias[work.begin + row], params.lse_factor);
}

RVIT_DEVICE float2 *head_numbers(const rvit_cu_attention_backward_params &params, const attention_work &work)
{
    return reinterpret_cast<float2 *>(params.numbers) + ((long long)work.head * params.rows + work.begin);
}

/* Computes the numbers of all queries, for kernels that do not hold an image. */
template <typename T> RVIT_DEVICE void backward_numbers(const rvit_cu_attention_backward_params &params)
{
    const attention_work work = find_work(params);
    const int lanes = params.head_dim <= 32 ? 4 : params.head_dim <= 64 ? 8 : 16;
    const int first = work.row_block * (RVIT_CU_BACKWARD_NUMBERS_THREADS / lanes), row = first + (int)threadIdx.x / lanes;
    if (first >= work.length)
        return;
    const float cls = params.d_cls_probs != nullptr && first == 0 && threadIdx.x < 32 ? cls_share(params, work) : 0.0f;
    const int lane = (int)threadIdx.x % lanes;
    const bool live = row < work.length;
    float dot = 0.0f;
    if (live && lane * 8 < params.head_dim) {
        const T *out = first_row(static_cast<const T *>(params.out), params.out_stride, work, params) + row * params.out_stride + lane * 8;
        const T *d_out =
            first_row(static_cast<const T *>(params.d_out), params.d_out_stride, work, params) + row * params.d_out_stride + lane * 8;
        dot = dot_8(load_4(out), load_4(out + 4), load_4(d_out), load_4(d_out + 4));
    }
    const float lse = live ? value_or_0(params.lse, params, work, row) : 0.0f;
    const float d_lse = live ? value_or_0(params.d_lse, params, work, row) : 0.0f;
    const float2 numbers = query_numbers(params, lse, d_lse, dot, lanes, cls, live, row == 0);
    if (lane == 0 && live)
        head_numbers(params, work)[row] = numbers;
}

/* Sums the heads' shares of d_key_bias, in order. */
RVIT_DEVICE void backward_bias(const rvit_cu_attention_backward_params &params)
{
    const attention_work work = find_work(params);
    const int row = work.row_block * RVIT_CU_BACKWARD_BIAS_THREADS + (int)threadIdx.x;
    if (row >= work.length)
        return;
    const float *share = params.shares + work.begin + row;
    float sum = 0.0f;
    for (int head = 0; head < params.n_heads; head++)
        sum = add_rn(sum, share[(long long)head * params.rows]);
    params.d_key_bias[work.begin + row] = sum;
}

/* Stores 16 rows of a head, multiplied by factor, like store_rows in attention.cuh. */
template <typename T, int D>
RVIT_DEVICE void store_gradient(const float (&tiles)[D / 8][4], T *out, int stride, int head_dim, int row, int length, float factor)
{
    const int lane = threadIdx.x & 31;
    const bool odd = (lane & 1) != 0;
#pragma unroll
    for (int h = 0; h < 2; h++) {
        const int r = row + (lane >> 2) + 8 * h, channel = (lane & 1) * 8 + (lane & 2) * 2;
        T *p = out + r * stride + channel;
#pragma unroll
        for (int t = 0; t < D / 8; t += 2) {
            const uint32_t first = element<T>::pack(tiles[t][2 * h] * factor, tiles[t][2 * h + 1] * factor);
            const uint32_t second = element<T>::pack(tiles[t + 1][2 * h] * factor, tiles[t + 1][2 * h + 1] * factor);
            const uint32_t other = shuffle_xor(odd ? first : second, 1);
            if (r < length && t * 8 + channel < head_dim)
                *reinterpret_cast<uint2 *>(p + t * 8) = odd ? make_uint2(other, second) : make_uint2(first, other);
        }
    }
}

/* A warp's own rows, MT tiles of 16. If they are keys, x and y are k and v; if queries, q and d_out. The other rows come from shared
   memory, 16 at a time, with x and y the other way round. Row g = lane / 4 of a tile is in the even halves of each accumulator, row g +
   8 in the odd halves. BIAS_STATS: supports key bias, its gradient and that of cls_probs. Without it, the same results have the same
   bits. */
template <typename T, int D, int MT, bool OWN_KEYS, bool BIAS_STATS> struct backward_rows {
    static const int STEPS = D / 16, TILES = D / 8, PITCH = tile_rows<D>::PITCH;
    uint32_t x[MT][STEPS][4], y[MT][STEPS][4];
    float d_x[MT][TILES][4], d_y[MT][TILES][4]; /* d_k and d_v, or d_q and unused */
    float logit[MT][2], delta[MT][2];           /* the rows' numbers; keys have them only with BIAS_STATS */
    float share[MT][2];                         /* of d_key_bias */

    static __device__ __forceinline__ void arrange(uint32_t (&a)[STEPS][4], const uint4 &low, const uint4 &high, int group)
    {
        a[group * 2][0] = low.x, a[group * 2][1] = high.x, a[group * 2][2] = low.y, a[group * 2][3] = high.y;
        a[group * 2 + 1][0] = low.z, a[group * 2 + 1][1] = high.z, a[group * 2 + 1][2] = low.w, a[group * 2 + 1][3] = high.w;
    }
    /* The dot products may take the channels in any order that both rows share: a lane takes whole chunks. */
    static __device__ __forceinline__ void load_shared(uint32_t (&a)[MT][STEPS][4], uint32_t memory, int row, int rows)
    {
        const int lane = threadIdx.x & 31;
#pragma unroll
        for (int m = 0; m < MT; m++) {
            const int tile = min(row + m * 16, rows - 16); /* past the image, repeats the last tile, whose results are not stored */
            const int at = (int)memory + tile * PITCH + tile_rows<D>::swizzled(lane >> 2, lane & 3);
#pragma unroll
            for (int group = 0; group < D / 32; group++) {
                const uint32_t from = (uint32_t)tile_rows<D>::advance(at, group * 4);
                arrange(a[m], load_shared_16(from), load_shared_16(from + 8 * PITCH), group);
            }
        }
    }
    /* Rows past the length repeat the last one; their results are not stored. Channels past head_dim repeat the first; they are
       multiplied by zeros. */
    static __device__ __forceinline__ void load_global(uint32_t (&a)[MT][STEPS][4], const T *rows, int stride, int head_dim, int row,
                                                       int length)
    {
        const int lane = threadIdx.x & 31;
#pragma unroll
        for (int m = 0; m < MT; m++) {
            const int first = row + m * 16 + (lane >> 2);
            const T *low = rows + min(first, length - 1) * stride, *high = rows + min(first + 8, length - 1) * stride;
#pragma unroll
            for (int group = 0; group < D / 32; group++) {
                const int channel = (group * 4 + (lane & 3)) * 8, inside = channel < head_dim ? channel : 0;
                arrange(a[m], *reinterpret_cast<const uint4 *>(low + inside), *reinterpret_cast<const uint4 *>(high + inside), group);
            }
        }
    }

    /* zero: an opaque operation on x and y. Without it, nvcc copies them to the operand registers before each mma. */
    __device__ __forceinline__ void begin(uint32_t zero)
    {
#pragma unroll
        for (int m = 0; m < MT; m++) {
#pragma unroll
            for (int s = 0; s < STEPS; s++)
#pragma unroll
                for (int i = 0; i < 4; i++)
                    x[m][s][i] ^= zero, y[m][s][i] ^= zero;
#pragma unroll
            for (int t = 0; t < TILES; t++)
#pragma unroll
                for (int i = 0; i < 4; i++)
                    d_x[m][t][i] = d_y[m][t][i] = 0.0f;
            share[m][0] = share[m][1] = 0.0f;
        }
    }

    /* s = a b^T for 16 rows in shared memory; at: the lane's chunk of the first row. */
    static __device__ __forceinline__ void multiply(float (&s)[MT][2][4], const uint32_t (&a)[MT][STEPS][4], int at)
    {
#pragma unroll
        for (int m = 0; m < MT; m++)
#pragma unroll
            for (int n = 0; n < 2; n++)
#pragma unroll
                for (int i = 0; i < 4; i++)
                    s[m][n][i] = 0.0f;
#pragma unroll
        for (int group = 0; group < D / 32; group++)
#pragma unroll
            for (int n = 0; n < 2; n++) {
                const uint4 b = load_shared_16((uint32_t)tile_rows<D>::advance(at, group * 4) + n * 8 * PITCH);
#pragma unroll
                for (int m = 0; m < MT; m++) {
                    element<T>::mma(s[m][n], a[m][group * 2], b.x, b.y);
                    element<T>::mma(s[m][n], a[m][group * 2 + 1], b.z, b.w);
                }
            }
    }

    /* out += p b for 16 rows in shared memory. */
    static __device__ __forceinline__ void add(float (&out)[MT][TILES][4], const float (&p)[MT][2][4], int at)
    {
        uint32_t a[MT][4];
#pragma unroll
        for (int m = 0; m < MT; m++)
#pragma unroll
            for (int i = 0; i < 4; i++)
                a[m][i] = element<T>::pack(p[m][i / 2][i % 2 * 2], p[m][i / 2][i % 2 * 2 + 1]);
#pragma unroll
        for (int step = 0; step < STEPS; step++) {
            uint32_t b[4];
            load_matrix_x4_transposed(b, (uint32_t)tile_rows<D>::advance(at, step * 2));
#pragma unroll
            for (int m = 0; m < MT; m++) {
                element<T>::mma(out[m][step * 2], a[m], b[0], b[1]);
                element<T>::mma(out[m][step * 2 + 1], a[m], b[2], b[3]);
            }
        }
    }

    /* Adds the gradient of cls_probs for the first query. own: the first own row; other: the first other row. */
    __device__ __forceinline__ void add_cls(float (&g)[MT][2][4], const rvit_cu_attention_backward_params &params,
                                            const attention_work &work, int own, int other)
    {
        const int lane = threadIdx.x & 31;
        const float *gradients = first_value(params.d_cls_probs, work, params);
        if (OWN_KEYS && other == 0 && (lane & 3) == 0) {
#pragma unroll
            for (int i = 0; i < 2 * MT; i++) {
                const int key = own + (lane >> 2) + 8 * i;
                if (key < work.length)
                    g[i / 2][0][i % 2 * 2] = add_rn(g[i / 2][0][i % 2 * 2], gradients[(long long)key * params.n_heads]);
            }
        }
        if (!OWN_KEYS && own == 0 && lane < 4) {
#pragma unroll
            for (int i = 0; i < 4; i++) {
                const int key = other + i / 2 * 8 + lane * 2 + i % 2;
                if (key < work.length)
                    g[0][i / 2][i % 2] = add_rn(g[0][i / 2][i % 2], gradients[(long long)key * params.n_heads]);
            }
        }
    }

    /* Loads the terms that column pair n of the 16 other rows adds to the logits, and its deltas. */
    static __device__ __forceinline__ void load_numbers(float (&logits)[2], float (&deltas)[2], uint32_t numbers, int n)
    {
        const int column = n * 8 + ((int)threadIdx.x & 3) * 2;
        if (OWN_KEYS) {
            const uint4 pairs = load_shared_16(numbers + column * 8);
            logits[0] = bits_float(pairs.x), deltas[0] = bits_float(pairs.y);
            logits[1] = bits_float(pairs.z), deltas[1] = bits_float(pairs.w);
        } else if (BIAS_STATS) {
            const uint2 pair = load_shared_8(numbers + column * 4);
            logits[0] = bits_float(pair.x), logits[1] = bits_float(pair.y);
        }
    }

    /* Turns logits into weights. left: the image's other rows from these on. */
    __device__ __forceinline__ void compute_weights(float (&s)[MT][2][4], const float (&logits)[2][2], float scale, int left)
    {
#pragma unroll
        for (int n = 0; n < 2; n++)
#pragma unroll
            for (int m = 0; m < MT; m++)
#pragma unroll
                for (int i = 0; i < 4; i++) {
                    const float both = BIAS_STATS ? add_rn(logits[n][i % 2], logit[m][i / 2])
                                       : OWN_KEYS ? logits[n][i % 2]
                                                  : logit[m][i / 2];
                    s[m][n][i] = exp2_fast(fmaf(s[m][n][i], scale, both));
                }
        if (!OWN_KEYS && !BIAS_STATS && left < 16) /* missing keys, whose numbers would be -infinity */
#pragma unroll
            for (int m = 0; m < MT; m++)
#pragma unroll
                for (int i = 0; i < 8; i++)
                    if (i / 4 * 8 + ((int)threadIdx.x & 3) * 2 + i % 2 >= left)
                        s[m][i / 4][i % 4] = 0.0f;
    }

    /* Processes 16 other rows; x_at, y_at and numbers are those of the first. */
    __device__ __forceinline__ void step(const rvit_cu_attention_backward_params &params, const attention_work &work, uint32_t x_at,
                                         uint32_t y_at, uint32_t numbers, int own, int other)
    {
        const int lane = threadIdx.x & 31;
        const int chunk = tile_rows<D>::swizzled(lane >> 2, lane & 3), transposed = tile_rows<D>::swizzled(lane & 15, lane >> 4);
        float s[MT][2][4], g[MT][2][4], logits[2][2], deltas[2][2];
        multiply(s, x, (int)x_at + chunk);
        load_numbers(logits[0], deltas[0], numbers, 0);
        load_numbers(logits[1], deltas[1], numbers, 1);
        compute_weights(s, logits, params.scale, work.length - other);
        if (OWN_KEYS && MT > 1)
            add(d_y, s, (int)y_at + transposed);
        multiply(g, y, (int)y_at + chunk);
        if (BIAS_STATS && params.d_cls_probs != nullptr)
            add_cls(g, params, work, own, other);
        if (OWN_KEYS && MT == 1)
            add(d_y, s, (int)y_at + transposed);
#pragma unroll
        for (int m = 0; m < MT; m++)
#pragma unroll
            for (int i = 0; i < 8; i++) {
                float &gradient = g[m][i / 4][i % 4];
                gradient = mul_rn(s[m][i / 4][i % 4], add_rn(gradient, -(OWN_KEYS ? deltas[i / 4][i % 2] : delta[m][i % 4 / 2])));
            }
        if (OWN_KEYS && BIAS_STATS && params.shares != nullptr)
#pragma unroll
            for (int i = 0; i < 2 * MT; i++) {
                const float *n0 = &g[i / 2][0][i % 2 * 2], *n1 = &g[i / 2][1][i % 2 * 2];
                share[i / 2][i % 2] = add_rn(share[i / 2][i % 2], add_rn(add_rn(n0[0], n0[1]), add_rn(n1[0], n1[1])));
            }
        add(d_x, g, (int)x_at + transposed);
    }

    /* Recomputes the image's offsets, to save registers. */
    __device__ __forceinline__ void finish(const rvit_cu_attention_backward_params &params, int row)
    {
        const attention_work work = find_work(params);
        T *to_x = OWN_KEYS ? first_row(static_cast<T *>(params.d_k), params.d_k_stride, work, params)
                           : first_row(static_cast<T *>(params.d_q), params.d_q_stride, work, params);
        const int x_stride = OWN_KEYS ? params.d_k_stride : params.d_q_stride;
#pragma unroll
        for (int m = 0; m < MT; m++)
            store_gradient<T, D>(d_x[m], to_x, x_stride, params.head_dim, row + m * 16, work.length, params.store_factor);
        if (!OWN_KEYS)
            return;
        T *to_y = first_row(static_cast<T *>(params.d_v), params.d_v_stride, work, params);
#pragma unroll
        for (int m = 0; m < MT; m++)
            store_gradient<T, D>(d_y[m], to_y, params.d_v_stride, params.head_dim, row + m * 16, work.length, 1.0f);
        if (!BIAS_STATS || params.shares == nullptr)
            return;
        const int lane = threadIdx.x & 31;
        float *shares = params.shares + ((long long)work.head * params.rows + work.begin);
#pragma unroll
        for (int i = 0; i < 2 * MT; i++) {
            float sum = share[i / 2][i % 2];
            sum = add_rn(sum, shuffle_xor(sum, 1));
            sum = add_rn(sum, shuffle_xor(sum, 2));
            const int key = row + (lane >> 2) + 8 * i;
            if ((lane & 3) == 0 && key < work.length)
                shares[key] = sum;
        }
    }
};

/* Shared memory of a kernel that holds a head of an image: q, k, v and d_out, then the numbers of queries and of keys. */
template <typename T, int D, int MT, bool BIAS_STATS> struct backward_image {
    static const int CHUNKS = D / 8, PITCH = tile_rows<D>::PITCH, AHEAD = 8;
    const rvit_cu_attention_backward_params &params;
    const attention_work work;
    const int rows; /* of the image, rounded up to 16 */
    const int size; /* bytes of an array */

    __device__ __forceinline__ backward_image(const rvit_cu_attention_backward_params &p)
        : params(p), work(find_work(p)), rows((work.length + 15) & ~15), size(p.held_rows * PITCH)
    {
    }
    __device__ __forceinline__ float *queries()
    {
        RVIT_DYNAMIC_SHARED(memory);
        return reinterpret_cast<float *>(memory + 4 * size);
    }
    __device__ __forceinline__ float *keys()
    {
        return queries() + 2 * params.held_rows;
    }

    /* For rows first, first + step, ...: loads all before the first use. */
    __device__ __forceinline__ void load_numbers(int first, int step, int chunk, float cls)
    {
        const T *out = first_row(static_cast<const T *>(params.out), params.out_stride, work, params) + chunk * 8;
        const T *gradient = first_row(static_cast<const T *>(params.d_out), params.d_out_stride, work, params) + chunk * 8;
        uint4 a[AHEAD], b[AHEAD];
        float lse[AHEAD], d_lse[AHEAD];
#pragma unroll
        for (int i = 0; i < AHEAD; i++) {
            const int row = first + i * step;
            a[i] = b[i] = make_uint4(0, 0, 0, 0), lse[i] = d_lse[i] = 0.0f;
            if (row < work.length && chunk * 8 < params.head_dim) {
                a[i] = *reinterpret_cast<const uint4 *>(out + row * params.out_stride);
                b[i] = *reinterpret_cast<const uint4 *>(gradient + row * params.d_out_stride);
            }
            if (row < work.length && chunk == 0)
                lse[i] = value_or_0(params.lse, params, work, row), d_lse[i] = value_or_0(params.d_lse, params, work, row);
        }
#pragma unroll
        for (int i = 0; i < AHEAD; i++) {
            const int row = first + i * step;
            const float2 numbers = query_numbers(params, lse[i], d_lse[i], dot_8<T>(a[i], b[i]), CHUNKS, cls, row < work.length, row == 0);
            if (chunk == 0 && row < rows)
                reinterpret_cast<float2 *>(queries())[row] = numbers;
        }
    }

    __device__ __forceinline__ void load()
    {
        RVIT_DYNAMIC_SHARED(memory);
        const int chunk = (int)threadIdx.x % CHUNKS, step = (int)blockDim.x / CHUNKS, first = (int)threadIdx.x / CHUNKS;
        const T *from_q = first_row(static_cast<const T *>(params.q), params.q_stride, work, params) + chunk * 8;
        const T *from_k = first_row(static_cast<const T *>(params.k), params.k_stride, work, params) + chunk * 8;
        const T *from_v = first_row(static_cast<const T *>(params.v), params.v_stride, work, params) + chunk * 8;
        const T *from_d_out = first_row(static_cast<const T *>(params.d_out), params.d_out_stride, work, params) + chunk * 8;
        for (int row = first; row < rows; row += step) {
            const bool live = chunk * 8 < params.head_dim && row < work.length;
            const uint32_t to = shared_address(memory) + (uint32_t)tile_rows<D>::swizzled(row, chunk);
            copy_async_16(to, from_q + row * params.q_stride, live);
            copy_async_16(to + size, from_k + row * params.k_stride, live);
            copy_async_16(to + 2 * size, from_v + row * params.v_stride, live);
            copy_async_16(to + 3 * size, from_d_out + row * params.d_out_stride, live);
        }
        copy_commit();
        const float cls = BIAS_STATS && params.d_cls_probs != nullptr && threadIdx.x < 32 ? cls_share(params, work) : 0.0f;
        for (int above = first; above - first < rows; above += AHEAD * step)
            load_numbers(above, step, chunk, cls);
        for (int row = threadIdx.x; BIAS_STATS && row < rows; row += (int)blockDim.x)
            keys()[row] = key_logit(params, work, row);
        copy_wait<0>();
        block_sync();
    }

    /* `row` is a multiple of 16 * MT and within the image. */
    template <bool OWN_KEYS> __device__ __forceinline__ void own(int row)
    {
        RVIT_DYNAMIC_SHARED(memory);
        backward_rows<T, D, MT, OWN_KEYS, BIAS_STATS> own;
        const int g = (threadIdx.x & 31) >> 2;
        uint32_t x = shared_address(memory) + (OWN_KEYS ? 0 : size), y = x + (OWN_KEYS ? 3 : 1) * size; /* of the other rows */
        own.load_shared(own.x, OWN_KEYS ? x + size : x - size, row, rows);
        own.load_shared(own.y, OWN_KEYS ? y - size : y + size, row, rows);
#pragma unroll
        for (int i = 0; i < 2 * MT; i++) {
            const int r = min(row + g + 8 * i, rows - 1);
            own.logit[i / 2][i % 2] = !OWN_KEYS ? queries()[2 * r] : BIAS_STATS ? keys()[r] : 0.0f;
            own.delta[i / 2][i % 2] = OWN_KEYS ? 0.0f : queries()[2 * r + 1];
        }
        own.begin(params.zero);
        uint32_t numbers = shared_address(OWN_KEYS ? queries() : keys());
#pragma unroll 1
        for (int other = 0; other < rows; other += 16) {
            own.step(params, work, x, y, numbers, row, other);
            x += 16 * PITCH, y += 16 * PITCH, numbers += 16 * (OWN_KEYS ? 8 : 4);
        }
        own.finish(params, row);
    }
};

/* A CTA has a head of an image. Its warps take 16 * MT keys or queries at a time. Keys take longer and come first. */
template <typename T, int D, int MT, bool BIAS_STATS> RVIT_DEVICE void backward_held(const rvit_cu_attention_backward_params &params)
{
    backward_image<T, D, MT, BIAS_STATS> image(params);
    if (image.work.length == 0)
        return;
    image.load();
    for (int task = (int)threadIdx.x / 32;; task += (int)blockDim.x / 32) {
        const int tiles = (recompute(image.rows) + 16 * MT - 1) / (16 * MT);
        if (task < tiles)
            image.template own<true>(task * (16 * MT));
        else if (task < 2 * tiles)
            image.template own<false>((task - tiles) * (16 * MT));
        else
            break;
    }
}

/* Two stages of other rows: ROWS of x, of y, and their numbers. */
template <typename T, int D, int ROWS, bool OWN_KEYS, bool BIAS_STATS> struct backward_stages {
    static const int CHUNKS = D / 8, PITCH = tile_rows<D>::PITCH, ARRAY = ROWS * PITCH, SIZE = 2 * ARRAY + ROWS * 8;
    const rvit_cu_attention_backward_params &params;
    const attention_work &work;

    __device__ __forceinline__ void fetch(int stage, int begin)
    {
        RVIT_DYNAMIC_SHARED(memory);
        const uint32_t to = shared_address(memory) + stage * SIZE;
        const int thread = recompute(threadIdx.x), step = recompute(blockDim.x); /* not kept in registers */
        const int chunk = thread % CHUNKS, left = work.length - begin, n = min(ROWS, (left + 15) & ~15);
        const int x_stride = OWN_KEYS ? params.q_stride : params.k_stride, y_stride = OWN_KEYS ? params.d_out_stride : params.v_stride;
        const T *x = first_row(static_cast<const T *>(OWN_KEYS ? params.q : params.k), x_stride, work, params);
        const T *y = first_row(static_cast<const T *>(OWN_KEYS ? params.d_out : params.v), y_stride, work, params);
        x += begin * x_stride + chunk * 8, y += begin * y_stride + chunk * 8;
        for (int row = thread / CHUNKS; row < n; row += step / CHUNKS) {
            const bool live = chunk * 8 < params.head_dim && row < left;
            const uint32_t at = to + (uint32_t)tile_rows<D>::swizzled(row, chunk);
            copy_async_16(at, x + row * x_stride, live);
            copy_async_16(at + ARRAY, y + row * y_stride, live);
        }
        float *numbers = reinterpret_cast<float *>(memory + stage * SIZE + 2 * ARRAY);
        for (int row = thread; row < n; row += step)
            if (!OWN_KEYS && BIAS_STATS)
                numbers[row] = key_logit(params, work, begin + row);
            else if (!OWN_KEYS)
                break;
            else if (row < left)
                copy_async_8(to + 2 * ARRAY + row * 8, head_numbers(params, work) + begin + row, true);
            else
                numbers[2 * row] = -INFINITY, numbers[2 * row + 1] = 0.0f;
        copy_commit();
    }
};

/* The first row of the warp. Recomputing it is cheaper than keeping it. */
template <int MT, bool OWN_KEYS> RVIT_DEVICE int backward_row()
{
    const int block = recompute(blockIdx.x) - (OWN_KEYS ? 0 : (int)gridDim.x / 2);
    return (block * ((int)blockDim.x / 32) + recompute(threadIdx.x) / 32) * (16 * MT);
}

/* Waits until a stage has arrived and the previous one is no longer needed, and refills that. */
template <typename S> RVIT_DEVICE void next_backward_stage(S &stages, int stage, int begin, int length)
{
    copy_wait<0>();
    block_sync();
    if (begin < length)
        stages.fetch(stage ^ 1, begin);
}

/* A CTA has 16 * MT keys or queries per warp. */
template <typename T, int D, int MT, int ROWS, bool OWN_KEYS, bool BIAS_STATS>
RVIT_DEVICE void backward_block(const rvit_cu_attention_backward_params &params, const attention_work &work)
{
    RVIT_DYNAMIC_SHARED(memory);
    typedef backward_stages<T, D, ROWS, OWN_KEYS, BIAS_STATS> stages;
    stages s = {params, work};
    const int length = work.length, row = backward_row<MT, OWN_KEYS>();
    int stage = 0;
    s.fetch(stage, 0);
    if (row >= length) {
#pragma unroll 1
        for (int first = 0; first < length; first += ROWS, stage ^= 1)
            next_backward_stage(s, stage, first + ROWS, length);
        return;
    }
    backward_rows<T, D, MT, OWN_KEYS, BIAS_STATS> own;
    const int g = (threadIdx.x & 31) >> 2;
    const int x_stride = OWN_KEYS ? params.k_stride : params.q_stride, y_stride = OWN_KEYS ? params.v_stride : params.d_out_stride;
    own.load_global(own.x, first_row(static_cast<const T *>(OWN_KEYS ? params.k : params.q), x_stride, work, params), x_stride,
                    params.head_dim, row, length);
    own.load_global(own.y, first_row(static_cast<const T *>(OWN_KEYS ? params.v : params.d_out), y_stride, work, params), y_stride,
                    params.head_dim, row, length);
#pragma unroll
    for (int i = 0; i < 2 * MT; i++) {
        const int r = row + g + 8 * i;
        const float2 query = OWN_KEYS || r >= length ? make_float2(-INFINITY, 0.0f) : head_numbers(params, work)[r];
        own.logit[i / 2][i % 2] = !OWN_KEYS ? query.x : BIAS_STATS ? key_logit(params, work, r) : 0.0f;
        own.delta[i / 2][i % 2] = query.y;
    }
    own.begin(params.zero);
#pragma unroll 1
    for (int first = 0; first < length; first += ROWS, stage ^= 1) {
        next_backward_stage(s, stage, first + ROWS, length);
        uint32_t at = shared_address(memory) + stage * stages::SIZE, numbers = at + 2 * stages::ARRAY;
#pragma unroll 1
        for (int other = first; other < length && other < first + ROWS; other += 16) {
            own.step(params, work, at, at + stages::ARRAY, numbers, BIAS_STATS ? row : 0, other);
            at += 16 * stages::PITCH, numbers += 16 * (OWN_KEYS ? 8 : 4);
        }
    }
    own.finish(params, backward_row<MT, OWN_KEYS>());
}

/* The first half of a head's CTAs take keys, the second half queries. */
template <typename T, int D, int MT, int ROWS, bool BIAS_STATS>
RVIT_DEVICE void backward_split(const rvit_cu_attention_backward_params &params)
{
    attention_work work = find_work(params);
    const int blocks = (int)gridDim.x / 2;
    const bool own_keys = work.row_block < blocks;
    if (!own_keys)
        work.row_block -= blocks;
    if (work.row_block * ((int)blockDim.x / 32 * 16 * MT) >= work.length)
        return;
    if (own_keys)
        backward_block<T, D, MT, ROWS, true, BIAS_STATS>(params, work);
    else
        backward_block<T, D, MT, ROWS, false, BIAS_STATS>(params, work);
}

/* ROWS: per stage; 0: holds an image. */
template <typename T, int D, int MT, int ROWS, bool BIAS_STATS> struct backward {
    static __device__ __forceinline__ void run(const rvit_cu_attention_backward_params &params)
    {
        backward_split<T, D, MT, ROWS, BIAS_STATS>(params);
    }
};

template <typename T, int D, int MT, bool BIAS_STATS> struct backward<T, D, MT, 0, BIAS_STATS> {
    static __device__ __forceinline__ void run(const rvit_cu_attention_backward_params &params)
    {
        backward_held<T, D, MT, BIAS_STATS>(params);
    }
};

#endif

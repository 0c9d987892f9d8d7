/* The gradient of attention on tensor cores. It has two halves: a warp with 16 keys adds up their d_k and d_v over all queries of the
   image, and a warp with 16 queries their d_q over all keys. Both compute the weights anew. That is 7 matrix products for the least possible
   5, but no sum passes from one warp to another: results do not depend on how the work is divided. */
#ifndef RVIT_ATTENTION_BACKWARD_CUH
#define RVIT_ATTENTION_BACKWARD_CUH

#include "attention.cuh"

template <typename T> RVIT_DEVICE float dot_8(const T *a, const T *b)
{
    const float4 a0 = load_4(a), a1 = load_4(a + 4), b0 = load_4(b), b1 = load_4(b + 4);
    float sum = mul_rn(a0.x, b0.x);
    sum = fmaf(a0.w, b0.w, fmaf(a0.z, b0.z, fmaf(a0.y, b0.y, sum)));
    return fmaf(a1.w, b1.w, fmaf(a1.z, b1.z, fmaf(a1.y, b1.y, fmaf(a1.x, b1.x, sum))));
}

/* What cls_probs adds to the first query's D. By a whole warp. */
RVIT_DEVICE float cls_share(const rvit_cu_attention_backward_params &params, const attention_work &work)
{
    const float *probs = first_number(params.cls_probs, work, params), *gradients = first_number(params.d_cls_probs, work, params);
    float sum = 0.0f;
    for (int j = threadIdx.x & 31; j < work.length; j += 32)
        sum = fmaf(probs[(long long)j * params.n_heads], gradients[(long long)j * params.n_heads], sum);
    return warp_sum(sum);
}

/* A query's numbers: what it adds to its logits, -lse, and its D. Of a query without weight, or past the image, the first is -infinity.
   `lanes` neighbouring lanes have 8 channels of it each. All lanes of a warp call this. */
template <typename T>
RVIT_DEVICE float2 query_numbers(const rvit_cu_attention_backward_params &params, const attention_work &work, int row, int lane, int lanes,
                                 float cls)
{
    const bool live = row < work.length;
    float sum = 0.0f;
    if (live && lane * 8 < params.head_dim)
        sum = dot_8(first_row(static_cast<const T *>(params.out), params.out_stride, work, params) + row * params.out_stride + lane * 8,
                    first_row(static_cast<const T *>(params.d_out), params.d_out_stride, work, params) + row * params.d_out_stride +
                        lane * 8);
    for (int mask = 1; mask < lanes; mask *= 2)
        sum = add_rn(sum, shuffle_xor(sum, mask));
    float2 numbers = make_float2(-INFINITY, 0.0f);
    if (live) {
        const long long number = (long long)row * params.n_heads;
        const float lse = first_number(params.lse, work, params)[number];
        numbers.x = lse == -INFINITY ? -INFINITY : mul_rn(-lse, params.lse_factor);
        numbers.y = params.d_lse == nullptr ? sum : add_rn(sum, -first_number(params.d_lse, work, params)[number]);
        if (row == 0)
            numbers.y = add_rn(numbers.y, cls);
    }
    return numbers;
}

/* What a key adds to its logits. */
RVIT_DEVICE float key_number(const rvit_cu_attention_backward_params &params, const attention_work &work, int row)
{
    if (row >= work.length)
        return -INFINITY;
    return params.key_bias == nullptr ? 0.0f : mul_rn(params.key_bias[work.begin + row], params.lse_factor);
}

RVIT_DEVICE float2 *head_numbers(const rvit_cu_attention_backward_params &params, const attention_work &work)
{
    return reinterpret_cast<float2 *>(params.numbers) + ((long long)work.head * params.rows + work.begin);
}

/* The numbers of all queries, for the kernels that do not hold an image. */
template <typename T> RVIT_DEVICE void backward_numbers(const rvit_cu_attention_backward_params &params)
{
    const attention_work work = find_work(params);
    const int lanes = params.head_dim <= 32 ? 4 : params.head_dim <= 64 ? 8 : 16;
    const int first = work.row_block * (RVIT_CU_BACKWARD_NUMBERS_THREADS / lanes), row = first + (int)threadIdx.x / lanes;
    if (first >= work.length)
        return;
    const float cls = params.d_cls_probs != nullptr && first == 0 && threadIdx.x < 32 ? cls_share(params, work) : 0.0f;
    const int lane = (int)threadIdx.x % lanes;
    const float2 numbers = query_numbers<T>(params, work, row, lane, lanes, cls);
    if (lane == 0 && row < work.length)
        head_numbers(params, work)[row] = numbers;
}

/* d_key_bias: the shares of the heads, in their order. */
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

/* 16 rows of a head, times factor: as store_rows of attention.cuh. */
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

/* A warp's 16 own rows: keys, of which x and y are k and v; or queries, of which they are q and d_out. Of the other rows, which come 16 at a
   time from shared memory, x and y are q and d_out, or k and v. Row g = lane / 4 is in the even halves of each accumulator, row g + 8 in the
   odd ones. */
template <typename T, int D, bool OWN_KEYS> struct backward_rows {
    static const int STEPS = D / 16, TILES = D / 8, PITCH = tile_rows<D>::PITCH;
    uint32_t x[STEPS][4], y[STEPS][4];
    float d_x[TILES][4], d_y[TILES][4]; /* d_k and d_v, or d_q and nothing */
    float logit[2], delta[2];           /* the rows' numbers */
    float share[2];                     /* of d_key_bias */

    static __device__ __forceinline__ void place(uint32_t (&a)[STEPS][4], const uint4 &low, const uint4 &high, int group)
    {
        a[group * 2][0] = low.x, a[group * 2][1] = high.x, a[group * 2][2] = low.y, a[group * 2][3] = high.y;
        a[group * 2 + 1][0] = low.z, a[group * 2 + 1][1] = high.z, a[group * 2 + 1][2] = low.w, a[group * 2 + 1][3] = high.w;
    }
    /* The dot products may take the channels in any order that both rows share: a lane takes whole chunks. */
    static __device__ __forceinline__ void load_shared(uint32_t (&a)[STEPS][4], uint32_t rows)
    {
        const int lane = threadIdx.x & 31, at = (int)rows + tile_rows<D>::swizzled(lane >> 2, lane & 3);
#pragma unroll
        for (int group = 0; group < D / 32; group++) {
            const uint32_t from = (uint32_t)tile_rows<D>::advance(at, group * 4);
            place(a, load_shared_16(from), load_shared_16(from + 8 * PITCH), group);
        }
    }
    /* Rows past the length repeat the last one: their results are not stored. Channels past head_dim repeat the first: they meet zeros. */
    static __device__ __forceinline__ void load_global(uint32_t (&a)[STEPS][4], const T *rows, int stride, int head_dim, int row, int length)
    {
        const int lane = threadIdx.x & 31;
        const T *low = rows + min(row + (lane >> 2), length - 1) * stride, *high = rows + min(row + 8 + (lane >> 2), length - 1) * stride;
#pragma unroll
        for (int group = 0; group < D / 32; group++) {
            const int channel = (group * 4 + (lane & 3)) * 8, inside = channel < head_dim ? channel : 0;
            place(a, *reinterpret_cast<const uint4 *>(low + inside), *reinterpret_cast<const uint4 *>(high + inside), group);
        }
    }

    __device__ __forceinline__ void begin()
    {
#pragma unroll
        for (int t = 0; t < TILES; t++)
#pragma unroll
            for (int i = 0; i < 4; i++)
                d_x[t][i] = d_y[t][i] = 0.0f;
        share[0] = share[1] = 0.0f;
    }

    /* s = a b^T for 16 rows of shared memory; at: the lane's chunk of the first. */
    static __device__ __forceinline__ void multiply(float (&s)[2][4], const uint32_t (&a)[STEPS][4], int at)
    {
#pragma unroll
        for (int n = 0; n < 2; n++)
#pragma unroll
            for (int i = 0; i < 4; i++)
                s[n][i] = 0.0f;
#pragma unroll
        for (int group = 0; group < D / 32; group++) {
            uint4 b[2];
#pragma unroll
            for (int n = 0; n < 2; n++)
                b[n] = load_shared_16((uint32_t)tile_rows<D>::advance(at, group * 4) + n * 8 * PITCH);
#pragma unroll
            for (int n = 0; n < 2; n++)
                element<T>::mma(s[n], a[group * 2], b[n].x, b[n].y);
#pragma unroll
            for (int n = 0; n < 2; n++)
                element<T>::mma(s[n], a[group * 2 + 1], b[n].z, b[n].w);
        }
    }

    /* out += p b for 16 rows of shared memory. */
    static __device__ __forceinline__ void add(float (&out)[TILES][4], const float (&p)[2][4], int at)
    {
        uint32_t a[4];
#pragma unroll
        for (int i = 0; i < 4; i++)
            a[i] = element<T>::pack(p[i / 2][i % 2 * 2], p[i / 2][i % 2 * 2 + 1]);
#pragma unroll
        for (int step = 0; step < STEPS; step++) {
            uint32_t b[4];
            load_matrix_x4_transposed(b, (uint32_t)tile_rows<D>::advance(at, step * 2));
            element<T>::mma(out[step * 2], a, b[0], b[1]);
            element<T>::mma(out[step * 2 + 1], a, b[2], b[3]);
        }
    }

    /* Of the first query. own: the first own row; other: the first other row. */
    __device__ __forceinline__ void add_cls(float (&g)[2][4], const rvit_cu_attention_backward_params &params, const attention_work &work,
                                            int own, int other)
    {
        const int lane = threadIdx.x & 31;
        const float *gradients = first_number(params.d_cls_probs, work, params);
        if (OWN_KEYS && other == 0 && (lane & 3) == 0) {
#pragma unroll
            for (int h = 0; h < 2; h++) {
                const int key = own + (lane >> 2) + 8 * h;
                if (key < work.length)
                    g[0][2 * h] = add_rn(g[0][2 * h], gradients[(long long)key * params.n_heads]);
            }
        }
        if (!OWN_KEYS && own == 0 && lane < 4) {
#pragma unroll
            for (int i = 0; i < 4; i++) {
                const int key = other + i / 2 * 8 + lane * 2 + i % 2;
                if (key < work.length)
                    g[i / 2][i % 2] = add_rn(g[i / 2][i % 2], gradients[(long long)key * params.n_heads]);
            }
        }
    }

    /* 16 other rows: x_at, y_at and numbers are those of the first. numbers: a pair for a query, one for a key. */
    __device__ __forceinline__ void step(const rvit_cu_attention_backward_params &params, const attention_work &work, uint32_t x_at,
                                         uint32_t y_at, const float *numbers, int own, int other)
    {
        const int lane = threadIdx.x & 31;
        const int chunk = tile_rows<D>::swizzled(lane >> 2, lane & 3), transposed = tile_rows<D>::swizzled(lane & 15, lane >> 4);
        float s[2][4], g[2][4];
        multiply(s, x, (int)x_at + chunk);
        multiply(g, y, (int)y_at + chunk);
        if (params.d_cls_probs != nullptr)
            add_cls(g, params, work, own, other);
#pragma unroll
        for (int n = 0; n < 2; n++) {
            float column[2], column_delta[2] = {0.0f, 0.0f};
            if (OWN_KEYS) {
                const float4 pair = load_4(numbers + (n * 8 + (lane & 3) * 2) * 2);
                column[0] = pair.x, column_delta[0] = pair.y, column[1] = pair.z, column_delta[1] = pair.w;
            } else {
                const float2 pair = *reinterpret_cast<const float2 *>(numbers + n * 8 + (lane & 3) * 2);
                column[0] = pair.x, column[1] = pair.y;
            }
#pragma unroll
            for (int i = 0; i < 4; i++) {
                s[n][i] = exp2_fast(fmaf(s[n][i], params.scale, add_rn(column[i % 2], logit[i / 2])));
                g[n][i] = mul_rn(s[n][i], add_rn(g[n][i], -(OWN_KEYS ? column_delta[i % 2] : delta[i / 2])));
            }
        }
        if (OWN_KEYS) {
            add(d_y, s, (int)y_at + transposed);
            if (params.shares != nullptr)
#pragma unroll
                for (int h = 0; h < 2; h++)
                    share[h] = add_rn(share[h], add_rn(add_rn(g[0][2 * h], g[0][2 * h + 1]), add_rn(g[1][2 * h], g[1][2 * h + 1])));
        }
        add(d_x, g, (int)x_at + transposed);
    }

    __device__ __forceinline__ void finish(const rvit_cu_attention_backward_params &params, const attention_work &work, int row)
    {
        T *to_x = OWN_KEYS ? first_row(static_cast<T *>(params.d_k), params.d_k_stride, work, params)
                           : first_row(static_cast<T *>(params.d_q), params.d_q_stride, work, params);
        store_gradient<T, D>(d_x, to_x, OWN_KEYS ? params.d_k_stride : params.d_q_stride, params.head_dim, row, work.length,
                             params.store_factor);
        if (!OWN_KEYS)
            return;
        store_gradient<T, D>(d_y, first_row(static_cast<T *>(params.d_v), params.d_v_stride, work, params), params.d_v_stride,
                             params.head_dim, row, work.length, 1.0f);
        if (params.shares == nullptr)
            return;
        const int lane = threadIdx.x & 31;
        float *shares = params.shares + ((long long)work.head * params.rows + work.begin);
#pragma unroll
        for (int h = 0; h < 2; h++) {
            share[h] = add_rn(share[h], shuffle_xor(share[h], 1));
            share[h] = add_rn(share[h], shuffle_xor(share[h], 2));
            const int key = row + (lane >> 2) + 8 * h;
            if ((lane & 3) == 0 && key < work.length)
                shares[key] = share[h];
        }
    }
};

/* Shared memory of the kernel that holds a head of an image: q, k, v and d_out, then the numbers of the queries and of the keys. */
template <typename T, int D> struct backward_image {
    static const int CHUNKS = D / 8, PITCH = tile_rows<D>::PITCH;
    const rvit_cu_attention_backward_params &params;
    const attention_work work;
    const int rows; /* of the image, to a multiple of 16 */
    uint32_t q, k, v, d_out;
    float *queries, *keys;

    __device__ __forceinline__ backward_image(const rvit_cu_attention_backward_params &p, unsigned char *memory)
        : params(p), work(find_work(p)), rows((work.length + 15) & ~15)
    {
        const int size = p.held_rows * PITCH;
        q = shared_address(memory), k = q + size, v = k + size, d_out = v + size;
        queries = reinterpret_cast<float *>(memory + 4 * size), keys = queries + 2 * p.held_rows;
    }

    __device__ __forceinline__ void load()
    {
        const int chunk = (int)threadIdx.x % CHUNKS, step = (int)blockDim.x / CHUNKS, first = (int)threadIdx.x / CHUNKS;
        const T *from_q = first_row(static_cast<const T *>(params.q), params.q_stride, work, params) + chunk * 8;
        const T *from_k = first_row(static_cast<const T *>(params.k), params.k_stride, work, params) + chunk * 8;
        const T *from_v = first_row(static_cast<const T *>(params.v), params.v_stride, work, params) + chunk * 8;
        const T *from_d_out = first_row(static_cast<const T *>(params.d_out), params.d_out_stride, work, params) + chunk * 8;
        for (int row = first; row < rows; row += step) {
            const bool live = chunk * 8 < params.head_dim && row < work.length;
            const uint32_t to = (uint32_t)tile_rows<D>::swizzled(row, chunk);
            copy_async_16(k + to, from_k + row * params.k_stride, live);
            copy_async_16(v + to, from_v + row * params.v_stride, live);
            copy_async_16(q + to, from_q + row * params.q_stride, live);
            copy_async_16(d_out + to, from_d_out + row * params.d_out_stride, live);
        }
        copy_commit();
        const float cls = params.d_cls_probs != nullptr && threadIdx.x < 32 ? cls_share(params, work) : 0.0f;
        for (int above = 0; above < rows; above += step) {
            const int row = above + first;
            const float2 numbers = query_numbers<T>(params, work, row, chunk, CHUNKS, cls);
            if (chunk == 0 && row < rows)
                reinterpret_cast<float2 *>(queries)[row] = numbers;
        }
        for (int row = threadIdx.x; row < rows; row += (int)blockDim.x)
            keys[row] = key_number(params, work, row);
        copy_wait<0>();
        block_sync();
    }

    template <bool OWN_KEYS> __device__ __forceinline__ void own(int row)
    {
        backward_rows<T, D, OWN_KEYS> own;
        const int g = (threadIdx.x & 31) >> 2;
        own.load_shared(own.x, (OWN_KEYS ? k : q) + row * PITCH);
        own.load_shared(own.y, (OWN_KEYS ? v : d_out) + row * PITCH);
#pragma unroll
        for (int h = 0; h < 2; h++) {
            own.logit[h] = OWN_KEYS ? keys[row + g + 8 * h] : queries[2 * (row + g + 8 * h)];
            own.delta[h] = OWN_KEYS ? 0.0f : queries[2 * (row + g + 8 * h) + 1];
        }
        own.begin();
#pragma unroll 1
        for (int other = 0; other < rows; other += 16)
            own.step(params, work, (OWN_KEYS ? q : k) + other * PITCH, (OWN_KEYS ? d_out : v) + other * PITCH,
                     OWN_KEYS ? queries + 2 * other : keys + other, row, other);
        own.finish(params, work, row);
    }
};

/* A CTA has a head of an image. Its warps take 16 keys or 16 queries at a time; keys, which take longer, first. */
template <typename T, int D> RVIT_DEVICE void backward_held(const rvit_cu_attention_backward_params &params)
{
    RVIT_DYNAMIC_SHARED(memory);
    backward_image<T, D> image(params, memory);
    if (image.work.length == 0)
        return;
    image.load();
    const int tiles = image.rows / 16, warps = (int)blockDim.x / 32;
    for (int task = (int)threadIdx.x / 32; task < 2 * tiles; task += warps)
        if (task < tiles)
            image.template own<true>(task * 16);
        else
            image.template own<false>((task - tiles) * 16);
}

/* Two stages of other rows, each ROWS of x, of y, and their numbers. */
template <typename T, int D, int ROWS, bool OWN_KEYS> struct backward_stages {
    static const int CHUNKS = D / 8, PITCH = tile_rows<D>::PITCH, ARRAY = ROWS * PITCH, SIZE = 2 * ARRAY + ROWS * 8;
    const rvit_cu_attention_backward_params &params;
    const attention_work &work;
    unsigned char *memory;

    __device__ __forceinline__ void fetch(int stage, int begin)
    {
        const int chunk = (int)threadIdx.x % CHUNKS, left = work.length - begin, n = min(ROWS, (left + 15) & ~15);
        const int x_stride = OWN_KEYS ? params.q_stride : params.k_stride, y_stride = OWN_KEYS ? params.d_out_stride : params.v_stride;
        const T *x = first_row(static_cast<const T *>(OWN_KEYS ? params.q : params.k), x_stride, work, params) + begin * x_stride + chunk * 8;
        const T *y = first_row(static_cast<const T *>(OWN_KEYS ? params.d_out : params.v), y_stride, work, params) + begin * y_stride +
                     chunk * 8;
        const uint32_t to = shared_address(memory) + stage * SIZE;
        for (int row = (int)threadIdx.x / CHUNKS; row < n; row += (int)blockDim.x / CHUNKS) {
            const bool live = chunk * 8 < params.head_dim && row < left;
            const uint32_t at = to + (uint32_t)tile_rows<D>::swizzled(row, chunk);
            copy_async_16(at, x + row * x_stride, live);
            copy_async_16(at + ARRAY, y + row * y_stride, live);
        }
        float *numbers = numbers_of(stage);
        for (int row = threadIdx.x; row < n; row += (int)blockDim.x)
            if (!OWN_KEYS)
                numbers[row] = key_number(params, work, begin + row);
            else if (row < left)
                copy_async_8(to + 2 * ARRAY + row * 8, head_numbers(params, work) + begin + row, true);
            else
                numbers[2 * row] = -INFINITY, numbers[2 * row + 1] = 0.0f;
        copy_commit();
    }
    __device__ __forceinline__ float *numbers_of(int stage)
    {
        return reinterpret_cast<float *>(memory + stage * SIZE + 2 * ARRAY);
    }
};

/* A CTA has 16 keys, or 16 queries, for each of its warps. */
template <typename T, int D, int ROWS, bool OWN_KEYS>
RVIT_DEVICE void backward_block(const rvit_cu_attention_backward_params &params, const attention_work &work, unsigned char *memory)
{
    typedef backward_stages<T, D, ROWS, OWN_KEYS> stages;
    stages s = {params, work, memory};
    const int length = work.length, row = (work.row_block * ((int)blockDim.x / 32) + (int)threadIdx.x / 32) * 16;
    s.fetch(0, 0);
    backward_rows<T, D, OWN_KEYS> own;
    if (row < length) {
        const int g = (threadIdx.x & 31) >> 2;
        const int x_stride = OWN_KEYS ? params.k_stride : params.q_stride, y_stride = OWN_KEYS ? params.v_stride : params.d_out_stride;
        own.load_global(own.x, first_row(static_cast<const T *>(OWN_KEYS ? params.k : params.q), x_stride, work, params), x_stride,
                        params.head_dim, row, length);
        own.load_global(own.y, first_row(static_cast<const T *>(OWN_KEYS ? params.v : params.d_out), y_stride, work, params), y_stride,
                        params.head_dim, row, length);
#pragma unroll
        for (int h = 0; h < 2; h++) {
            const int r = row + g + 8 * h;
            const float2 query = OWN_KEYS || r >= length ? make_float2(-INFINITY, 0.0f) : head_numbers(params, work)[r];
            own.logit[h] = OWN_KEYS ? key_number(params, work, r) : query.x;
            own.delta[h] = query.y;
        }
        own.begin();
    }
    int stage = 0;
#pragma unroll 1
    for (int first = 0; first < length; first += ROWS, stage ^= 1) {
        copy_wait<0>();
        block_sync();
        if (first + ROWS < length)
            s.fetch(stage ^ 1, first + ROWS);
        if (row >= length)
            continue;
        const uint32_t at = shared_address(memory) + stage * stages::SIZE;
        const float *numbers = s.numbers_of(stage);
#pragma unroll 1
        for (int other = 0; other < ROWS && first + other < length; other += 16)
            own.step(params, work, at + other * stages::PITCH, at + stages::ARRAY + other * stages::PITCH,
                     numbers + (OWN_KEYS ? 2 * other : other), row, first + other);
    }
    if (row < length)
        own.finish(params, work, row);
}

/* The first half of a head's CTAs have keys, the second half queries. */
template <typename T, int D, int ROWS> RVIT_DEVICE void backward_split(const rvit_cu_attention_backward_params &params)
{
    RVIT_DYNAMIC_SHARED(memory);
    attention_work work = find_work(params);
    const int blocks = (int)gridDim.x / 2;
    const bool own_keys = work.row_block < blocks;
    if (!own_keys)
        work.row_block -= blocks;
    if (work.row_block * ((int)blockDim.x / 2) >= work.length)
        return;
    if (own_keys)
        backward_block<T, D, ROWS, true>(params, work, memory);
    else
        backward_block<T, D, ROWS, false>(params, work, memory);
}

#endif

/* Attention of long images on sm_90a: 64 query rows a warpgroup, products of warpgroups (wgmma), copies by tensor maps (TMA).
   An image's own length decides whether it is long. The others of a launch get what attention.cuh has for them, in the same kernel: which
   images share a batch changes no bit. Each number of a row is made by the same operations in the same order wherever the row lies. */
#ifndef RVIT_ATTENTION_LONG_CUH
#define RVIT_ATTENTION_LONG_CUH

#include "attention.cuh"
#include "hopper.cuh"

/* D: channels, of which the last may be padding. KEYS: of a block. STAGES of the ring of blocks. COPIERS: a warpgroup of its own copies,
   else thread 0 does. Queries, keys and values lie in panels of 64 channels, rows of 128 bytes, with the 128-byte swizzle of TMA and wgmma.
 */
template <typename T_, int D_, int KEYS_, int GROUPS_, int STAGES_, bool COPIERS_> struct long_shape {
    typedef T_ T;
    static const int D = D_, KEYS = KEYS_, GROUPS = GROUPS_, STAGES = STAGES_;
    static const bool COPIERS = COPIERS_;
    static const int PANELS = (D + 63) / 64;
    static const int QUERY_PANEL = 64 * 128, PANEL = KEYS * 128, TILE = PANELS * PANEL;
    /* A column of ones behind the values sums the weights as rounded for the product (attention.cuh). With 64 channels, or 128 and two CTAs
       on an SM, it is part of the same product, else it has one of its own. The sums are the same. */
    static const bool WIDE = D == 64 || (D == 128 && !COPIERS);
    static const int ONES = WIDE ? PANEL : 256;
    static const int QUERIES = GROUPS * PANELS * QUERY_PANEL, RING = STAGES * 2 * TILE;
    static const int REGISTERS = GROUPS == 3 ? 160 : 240, COPIER_REGISTERS = GROUPS == 3 ? 32 : 24;
    /* Two CTAs of an SM leave a thread no registers for weights beside scores: a group waits for its values before it begins scores. */
    static const bool APART = D == 128 && !COPIERS;
};

#ifdef RVIT_HOPPER

/* Shared addresses of a CTA. Of each stage there is a barrier for keys and for values that have come, and that all have left. */
template <typename S> struct long_memory {
    uint32_t queries, ring, ones, barriers;

    __device__ __forceinline__ long_memory(const unsigned char *memory)
    {
        queries = (shared_address(memory) + 1023) & ~1023u; /* the swizzle is one of addresses */
        ring = queries + S::QUERIES;
        ones = ring + S::RING;
        barriers = ones + S::ONES;
    }
    /* The first panel of a stage, and from one to the next. In a product the panels of values and, where it is WIDE, that of ones lie at
       equal distances: of the two panels of 128 channels the second is half way from the first to the ones. */
    static const bool SPREAD = S::WIDE && S::PANELS == 2;
    __device__ __forceinline__ uint32_t keys(int stage) const
    {
        return SPREAD ? ring + (stage * 2 + 1) * S::PANEL : ring + stage * 2 * S::TILE;
    }
    __device__ __forceinline__ uint32_t values(int stage) const
    {
        return SPREAD ? ring + stage * 2 * S::PANEL : ring + stage * 2 * S::TILE + S::TILE;
    }
    __device__ __forceinline__ int keys_step(int stage) const
    {
        return SPREAD ? (S::STAGES * 3 - 1 - stage) * S::PANEL : S::PANEL;
    }
    __device__ __forceinline__ int values_step(int stage) const
    {
        return SPREAD || S::WIDE ? (int)(ones - values(stage)) / S::PANELS : S::PANEL;
    }
    __device__ __forceinline__ uint32_t queries_came() const
    {
        return barriers;
    }
    __device__ __forceinline__ uint32_t keys_came(int stage) const
    {
        return barriers + 8 + stage * 32;
    }
    __device__ __forceinline__ uint32_t values_came(int stage) const
    {
        return barriers + 16 + stage * 32;
    }
    __device__ __forceinline__ uint32_t keys_left(int stage) const
    {
        return barriers + 24 + stage * 32;
    }
    __device__ __forceinline__ uint32_t values_left(int stage) const
    {
        return barriers + 32 + stage * 32;
    }
};

/* Turns round the ring. */
template <typename S> struct long_stage {
    int stage, parity;

    __device__ __forceinline__ void next()
    {
        if (++stage == S::STAGES)
            stage = 0, parity ^= 1;
    }
};

/* The copies of a CTA, made by one thread. */
template <typename S> struct long_copy {
    const rvit_cu_attention_long_params &params;
    const attention_work &work;
    const long_memory<S> &m;

    __device__ __forceinline__ void queries(int groups) const
    {
        barrier_announce(m.queries_came(), groups * S::PANELS * S::QUERY_PANEL);
        for (int i = 0; i < groups * S::PANELS; i++)
            copy_box(m.queries + i * S::QUERY_PANEL, &params.q, i % S::PANELS * 64, work.head,
                     work.begin + (work.row_block * S::GROUPS + i / S::PANELS) * 64, m.queries_came());
    }
    __device__ __forceinline__ void block(uint32_t to, int step, const rvit_cu_tensor_map &map, int first, uint32_t barrier) const
    {
        barrier_announce(barrier, S::TILE);
#pragma unroll
        for (int panel = 0; panel < S::PANELS; panel++)
#pragma unroll
            for (int row = 0; row < S::KEYS; row += 64)
                copy_box(to + panel * step + row * 128, &map, panel * 64, work.head, work.begin + first + row, barrier);
    }
    __device__ __forceinline__ void keys(int stage, int first) const
    {
        block(m.keys(stage), m.keys_step(stage), params.k, first, m.keys_came(stage));
    }
    __device__ __forceinline__ void values(int stage, int first) const
    {
        block(m.values(stage), m.values_step(stage), params.v, first, m.values_came(stage));
    }
    /* Every block, as its stage becomes free. */
    __device__ __forceinline__ void all() const
    {
        long_stage<S> at = {0, 1};
        for (int first = 0; first < work.length; first += S::KEYS, at.next()) {
            barrier_wait(m.keys_left(at.stage), at.parity);
            keys(at.stage, first);
            barrier_wait(m.values_left(at.stage), at.parity);
            values(at.stage, first);
        }
    }
    __device__ __forceinline__ void first_stages() const
    {
        for (int i = 0; i < S::STAGES && i * S::KEYS < work.length; i++) {
            keys(i, i * S::KEYS);
            values(i, i * S::KEYS);
        }
    }
    /* Without copiers: thread 0 refills the stages of the block before the one at `at`, which begins with key `first`: by now the other
       groups have left it too. */
    __device__ __forceinline__ void refill(const long_stage<S> &at, int first, bool of_keys) const
    {
        const int later = first + (S::STAGES - 1) * S::KEYS;
        if (!S::COPIERS && threadIdx.x == 0 && first > 0 && later < work.length) {
            const int stage = at.stage == 0 ? S::STAGES - 1 : at.stage - 1, parity = at.stage == 0 ? at.parity ^ 1 : at.parity;
            barrier_wait(of_keys ? m.keys_left(stage) : m.values_left(stage), parity);
            if (of_keys)
                keys(stage, later);
            else
                values(stage, later);
        }
        if (!S::COPIERS)
            warp_sync();
    }
};

/* What wgmma is told of a matrix in shared memory. Rows of 128 bytes, swizzled, 8 of them are 1024 bytes; `leading` bytes from a panel to
   the next. */
RVIT_DEVICE uint64_t matrix_at(uint32_t shared, int leading)
{
    return (uint64_t)((shared & 0x3ffff) >> 4) | (uint64_t)((leading & 0x3ffff) >> 4) << 16 | (uint64_t)(1024 >> 4) << 32 | 1ull << 62;
}

/* 16 rows of 8 columns, all one: 256 bytes in any order, said to be two matrices of 8 rows without a swizzle. */
RVIT_DEVICE uint64_t ones_at(uint32_t shared)
{
    return (uint64_t)((shared & 0x3ffff) >> 4) | (uint64_t)(128 >> 4) << 16 | (uint64_t)(128 >> 4) << 32;
}

/* The registers of a group: as warp_state of attention.cuh, with 64 rows for four warps. */
template <typename S> struct long_state {
    float out[S::WIDE ? S::D / 2 + 4 : S::D / 2]; /* WIDE: the sums behind */
    float sums[4];                                /* not WIDE */
    float offset[2];
};

/* s = q k^T for the first N keys of a block. */
template <typename S, int N> RVIT_DEVICE void long_scores(float (&s)[N / 2], uint32_t queries, const long_memory<S> &m, int stage)
{
    const uint32_t keys = m.keys(stage);
    const int panel = m.keys_step(stage);
#pragma unroll
    for (int step = 0; step < S::D / 16; step++)
        product<typename S::T, N>::rows_columns(s, matrix_at(queries + step / 4 * S::QUERY_PANEL + step % 4 * 32, 16),
                                                matrix_at(keys + step / 4 * panel + step % 4 * 32, 16), step > 0);
}

/* out += p v for the first N keys of a block. */
template <typename S, int N>
RVIT_DEVICE void long_values(long_state<S> &w, const uint32_t (&p)[N / 16][4], const long_memory<S> &m, int stage)
{
    const uint32_t values = m.values(stage);
#pragma unroll
    for (int step = 0; step < N / 16; step++) {
        product<typename S::T, S::WIDE ? S::D + 8 : S::D>::registers(w.out, p[step], matrix_at(values + step * 2048, m.values_step(stage)));
        if (!S::WIDE)
            product<typename S::T, 8>::registers(w.sums, p[step], ones_at(m.ones));
    }
}

template <typename S> RVIT_DEVICE void keep_out_here(long_state<S> &w)
{
    keep_here(w.out);
    if (!S::WIDE)
        keep_here(w.sums);
}

/* Scores of what no key stands for become -infinity. */
template <int N> RVIT_DEVICE void long_mask(float (&s)[N], int live)
{
    const int c = (threadIdx.x & 3) * 2;
#pragma unroll
    for (int i = 0; i < N; i++)
        if (i / 4 * 8 + c + i % 2 >= live)
            s[i] = -INFINITY;
}

template <int N> RVIT_DEVICE float long_maximum(const float (&s)[N], int h)
{
    float m[2] = {fmaxf(s[2 * h], s[2 * h + 1]), fmaxf(s[2 * h + 4], s[2 * h + 5])};
#pragma unroll
    for (int i = 8; i < N; i += 4)
        m[i / 4 % 2] = fmaxf(m[i / 4 % 2], fmaxf(s[i + 2 * h], s[i + 2 * h + 1]));
    return fmaxf(m[0], m[1]);
}

/* A row whose maximum outgrew its offset gets a new one. Returns whether a row of the warp did; then factor is what older weights shrink
 * by. */
template <typename S, int N> RVIT_DEVICE bool long_follow_maximum(const float (&s)[N], long_state<S> &w, float scale, float (&factor)[2])
{
    const float maximum[2] = {long_maximum(s, 0), long_maximum(s, 1)};
    const bool any = warp_any(exceeds(fmaxf(fmaf(maximum[0], scale, w.offset[0]), fmaf(maximum[1], scale, w.offset[1]))));
    if (any)
#pragma unroll
        for (int h = 0; h < 2; h++) {
            const float largest = row_maximum(maximum[h]), old = w.offset[h];
            w.offset[h] = exceeds(fmaf(largest, scale, old)) ? -(largest * scale) : old;
            factor[h] = exp2_fast(w.offset[h] - old);
        }
    return any;
}

template <typename S> RVIT_DEVICE void long_rescale(long_state<S> &w, const float (&factor)[2])
{
#pragma unroll
    for (int i = 0; i < (int)(sizeof w.out / sizeof w.out[0]); i++)
        w.out[i] *= factor[i / 2 % 2];
    if (!S::WIDE)
#pragma unroll
        for (int i = 0; i < 4; i++)
            w.sums[i] *= factor[i / 2];
}

template <typename S, int N> RVIT_DEVICE void long_weigh(float (&s)[N], const long_state<S> &w, float scale)
{
#pragma unroll
    for (int i = 0; i < N; i++)
        s[i] = exp2_fast(fmaf(s[i], scale, w.offset[i / 2 % 2]));
}

template <typename T, int N> RVIT_DEVICE void long_pack(uint32_t (&p)[N / 8][4], const float (&s)[N])
{
#pragma unroll
    for (int i = 0; i < N / 2; i++)
        p[i / 4][i % 4] = element<T>::pack(s[i * 2], s[i * 2 + 1]);
}

/* The warp no longer reads what the barrier stands for. */
RVIT_DEVICE void long_leave(uint32_t barrier)
{
    if ((threadIdx.x & 31) == 0)
        barrier_arrive(barrier);
}

/* Rows live to N of a block of values become zeros: they are another image's, or of none, and a weight of 0 does not hide NaN. */
template <typename S, int N> RVIT_DEVICE void long_clear(const long_memory<S> &m, int stage, int live, int group)
{
    if (live == N)
        return;
    for (int i = threadIdx.x & 127; i < (N - live) * 8 * S::PANELS; i += 128)
        store_shared_16(m.values(stage) + i % S::PANELS * m.values_step(stage) + live * 128 + i / S::PANELS * 16, 0);
    products_fence();
    group_sync(2 + group, 128);
}

/* The values of the block whose weights are in p, and the scores and weights of the one behind, which are left in next. live: its keys, at
   most N. The other groups of the SM use the tensor units while this one makes weights. */
template <typename S, int N>
RVIT_DEVICE void long_block(uint32_t (&next)[N / 16][4], uint32_t (&p)[S::KEYS / 16][4], long_state<S> &w, const long_memory<S> &m,
                            const long_copy<S> &copy, uint32_t queries, float scale, const long_stage<S> &old, const long_stage<S> &at,
                            int first, int live)
{
    float s[N / 2], factor[2];
    barrier_wait(m.values_came(old.stage), old.parity);
    keep_here(p);
    keep_out_here(w);
    products_begin();
    long_values<S, S::KEYS>(w, p, m, old.stage);
    products_commit();
    barrier_wait(m.keys_came(at.stage), at.parity);
    if (!S::APART) {
        products_begin();
        long_scores<S, N>(s, queries, m, at.stage);
        products_commit();
    }
    products_wait<S::APART ? 0 : 1>();
    keep_out_here(w);
    keep_here(p);
    long_leave(m.values_left(old.stage));
    if (S::APART) {
        products_begin();
        long_scores<S, N>(s, queries, m, at.stage);
        products_commit();
    }
    copy.refill(old, first - S::KEYS, false);
    products_wait<0>();
    keep_here(s);
    long_leave(m.keys_left(at.stage));
    copy.refill(at, first, true);
    if (live < N)
        long_mask(s, live);
    if (long_follow_maximum(s, w, scale, factor))
        long_rescale(w, factor);
    long_weigh(s, w, scale);
    long_pack<typename S::T>(next, s);
}

/* The values of the last block. */
template <typename S, int N>
RVIT_DEVICE void long_last_values(uint32_t (&p)[N / 16][4], long_state<S> &w, const long_memory<S> &m, const long_stage<S> &at, int live,
                                  int group)
{
    barrier_wait(m.values_came(at.stage), at.parity);
    long_clear<S, N>(m, at.stage, live, group);
    keep_here(p);
    keep_out_here(w);
    products_begin();
    long_values<S, N>(w, p, m, at.stage);
    products_commit();
    products_wait<0>();
    keep_out_here(w);
}

/* The last block, of live keys, at most N, and what is left of the one before. */
template <typename S, int N>
RVIT_DEVICE void long_last_block(uint32_t (&p)[S::KEYS / 16][4], long_state<S> &w, const long_memory<S> &m, const long_copy<S> &copy,
                                 uint32_t queries, float scale, const long_stage<S> &old, const long_stage<S> &at, int first, int live,
                                 int group)
{
    uint32_t last[N / 16][4];
    long_block<S, N>(last, p, w, m, copy, queries, scale, old, at, first, live);
    long_last_values<S, N>(last, w, m, at, live, group);
}

/* A group's rows against every key of the image, which has more than a block. */
template <typename S>
RVIT_DEVICE void long_rows(long_state<S> &w, const long_memory<S> &m, const long_copy<S> &copy, uint32_t queries, float scale, int length,
                           int group)
{
    uint32_t p[S::KEYS / 16][4];
    long_stage<S> old = {0, 0}, at = {0, 0};
    {
        float s[S::KEYS / 2], unused[2];
        barrier_wait(m.keys_came(0), 0);
        products_begin();
        long_scores<S, S::KEYS>(s, queries, m, 0);
        products_commit();
        products_wait<0>();
        keep_here(s);
        long_leave(m.keys_left(0));
        long_follow_maximum(s, w, scale, unused);
        long_weigh(s, w, scale);
        long_pack<typename S::T>(p, s);
    }
    int first = S::KEYS;
    at.next();
#pragma unroll 1
    for (; first + S::KEYS <= length; first += S::KEYS) {
        long_block<S, S::KEYS>(p, p, w, m, copy, queries, scale, old, at, first, S::KEYS);
        old = at;
        at.next();
    }
    const int live = length - first;
    if (live == 0)
        long_last_values<S, S::KEYS>(p, w, m, old, S::KEYS, group);
    else if (live <= S::KEYS / 4)
        long_last_block<S, S::KEYS / 4>(p, w, m, copy, queries, scale, old, at, first, live, group);
    else if (live <= S::KEYS / 2)
        long_last_block<S, S::KEYS / 2>(p, w, m, copy, queries, scale, old, at, first, live, group);
    else
        long_last_block<S, S::KEYS>(p, w, m, copy, queries, scale, old, at, first, live, group);
}

template <typename S>
RVIT_DEVICE void long_store(const long_state<S> &w, const rvit_cu_attention_params &params, const attention_work &work, int group)
{
    float tiles[S::D / 8 + 1][4];
#pragma unroll
    for (int t = 0; t <= S::D / 8; t++)
#pragma unroll
        for (int i = 0; i < 4; i++)
            tiles[t][i] = t < S::D / 8 || S::WIDE ? w.out[t * 4 + i] : w.sums[i];
    typename S::T *out = first_row(static_cast<typename S::T *>(params.out), params.out_stride, work, params);
    store_rows<typename S::T, S::D>(tiles, out, params, (work.row_block * S::GROUPS + group) * 64 + (threadIdx.x / 32 & 3) * 16,
                                    work.length);
}

/* Barriers and the panel of ones. */
template <typename S> RVIT_DEVICE void long_prepare(const unsigned char *memory, int groups)
{
    const long_memory<S> m(memory);
    if (threadIdx.x == 0) {
        barrier_init(m.queries_came(), 1);
        for (int i = 0; i < S::STAGES; i++) {
            barrier_init(m.keys_came(i), 1);
            barrier_init(m.values_came(i), 1);
            barrier_init(m.keys_left(i), groups * 4);
            barrier_init(m.values_left(i), groups * 4);
        }
        barrier_init_fence();
    }
    /* WIDE: the first 8 columns of a panel: a chunk of each row, where the swizzle puts it. */
    for (int i = threadIdx.x; i < (S::WIDE ? S::KEYS : S::ONES / 16); i += blockDim.x)
        store_shared_16(m.ones + (S::WIDE ? i * 128 + i % 8 * 16 : i * 16), element<typename S::T>::ONES);
    products_fence();
    block_sync();
}

/* The rows of an image that is not long. With 80 channels the compiler has registers enough where it knows head_dim. */
template <typename S> RVIT_DEVICE void attend_others(const rvit_cu_attention_params &params)
{
    const int STAGES = S::D == 64 ? RVIT_CU_STAGES_D64 : S::D == 80 ? RVIT_CU_STAGES_D80 : RVIT_CU_STAGES_D128;
    rvit_cu_attention_params known = params;
    if (S::D == 80 && params.head_dim == 72) {
        known.head_dim = 72;
        attend<typename S::T, S::D, 1, S::GROUPS * 4, STAGES, false>(known);
        return;
    }
    if (S::D == 80)
        known.head_dim = 80;
    attend<typename S::T, S::D, 1, S::GROUPS * 4, STAGES, false>(known);
}

/* What the copiers do. */
template <typename S>
RVIT_DEVICE void long_copies(const rvit_cu_attention_long_params &params, const attention_work &work, const unsigned char *memory,
                             int groups)
{
    const long_memory<S> m(memory);
    const long_copy<S> copy = {params, work, m};
    if (S::COPIERS && threadIdx.x == S::GROUPS * 128) {
        copy.queries(groups);
        copy.all();
    }
}

/* What the others do. */
template <typename S>
RVIT_DEVICE void long_group(const rvit_cu_attention_long_params &params, const attention_work &work, const unsigned char *memory, int group,
                            int groups)
{
    const long_memory<S> m(memory);
    const long_copy<S> copy = {params, work, m};
    if (!S::COPIERS && threadIdx.x == 0) {
        copy.queries(groups);
        copy.first_stages();
    }
    warp_sync();
    if (group >= groups)
        return;
    long_state<S> w;
#pragma unroll
    for (int i = 0; i < (int)(sizeof w.out / sizeof w.out[0]); i++)
        w.out[i] = 0.0f;
#pragma unroll
    for (int i = 0; i < 4; i++)
        w.sums[i] = 0.0f;
    w.offset[0] = w.offset[1] = FLT_MAX;
    barrier_wait(m.queries_came(), 0);
    long_rows(w, m, copy, m.queries + group * S::PANELS * S::QUERY_PANEL, params.rows.scale, work.length, group);
    long_store(w, params.rows, work, group);
}

/* A CTA takes 64 rows of a head of an image for each of its groups. TALL: the shape for images of params.tall rows and more; of the same
   groups, and as S where the kernel has none. */
template <typename S, typename TALL> RVIT_DEVICE void attend_long(const rvit_cu_attention_long_params &params)
{
    RVIT_DYNAMIC_SHARED(memory);
    const attention_work work = find_work(params.rows);
    const int group = shuffle((int)(threadIdx.x / 128), 0);
    const bool is_long = work.length >= params.least, is_tall = TALL::KEYS != S::KEYS && work.length >= params.tall;
    const int left = work.length - work.row_block * (S::GROUPS * 64), groups = min(S::GROUPS, (left + 63) / 64);
    if (left <= 0)
        return;
    if (is_tall)
        long_prepare<TALL>(memory, groups);
    else if (is_long)
        long_prepare<S>(memory, groups);
    if (S::COPIERS && group == S::GROUPS) {
        release_registers<S::COPIER_REGISTERS>();
        if (is_tall)
            long_copies<TALL>(params, work, memory, groups);
        else if (is_long)
            long_copies<S>(params, work, memory, groups);
        return;
    }
    if (S::COPIERS)
        take_registers<S::REGISTERS>();
    if (is_tall)
        long_group<TALL>(params, work, memory, group, groups);
    else if (is_long)
        long_group<S>(params, work, memory, group, groups);
    else
        attend_others<S>(params.rows);
}

#else

/* Other devices run other kernels. */
template <typename S, typename TALL> RVIT_DEVICE void attend_long(const rvit_cu_attention_long_params &params)
{
    (void)params;
}

#endif
#endif

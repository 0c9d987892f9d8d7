/* The work of a warpgroup in attention_hopper.cuh: shapes, shared memory, copies, and 64 query rows against all keys of an image. */
#ifndef RVIT_ATTENTION_HOPPER_ROWS_CUH
#define RVIT_ATTENTION_HOPPER_ROWS_CUH

#include "attention.cuh"
#include "hopper.cuh"

/* D: channels, including padding. KEYS: per block. STAGES: pipeline stages. PERSISTENT: one CTA per SM loops over tiles and has a
   producer warpgroup. Otherwise a CTA has one tile, and thread 0 copies. Queries, keys and values are in panels of 64 channels: rows of
   128 bytes with the 128-byte swizzle of TMA and wgmma. BOX: rows of a TMA box of keys or values. */
template <typename T_, int D_, int KEYS_, int GROUPS_, int STAGES_, bool PERSISTENT_> struct hopper_shape {
    typedef T_ T;
    static const int D = D_, KEYS = KEYS_, GROUPS = GROUPS_, STAGES = STAGES_;
    static const bool PERSISTENT = PERSISTENT_;
    static const int PANELS = (D + 63) / 64, BOX = RVIT_CU_ATTENTION_HOPPER_BOX;
    static const int QUERY_PANEL = 64 * 128, PANEL = KEYS * 128, TILE = PANELS * PANEL;
    /* A column of ones next to the values sums the weights after rounding (attention.cuh). If the panels of values are full, it joins
       their wgmma; otherwise it has its own. The sums are equal. */
    static const bool JOINED_ONES = D % 64 == 0;
    static const int ONES = JOINED_ONES ? PANEL : 256;
    static const int QUERIES = GROUPS * PANELS * QUERY_PANEL, RING = STAGES * 2 * TILE;
    /* Per thread; in total no more than the CTA starts with. */
    static const int REGISTERS = GROUPS == 3 ? 160 : 232, PRODUCER_REGISTERS = GROUPS == 3 ? 32 : 40;
    /* With two CTAs per SM there are no registers for weights and scores together: the values are accumulated before the next scores
       start. */
    static const bool SEQUENTIAL = D == 128 && !PERSISTENT;
};

#ifdef RVIT_HOPPER

/* Barrier numbers of group_sync; attention.cuh uses 1. Of a warpgroup; a tile is published; all have read it; turns of warpgroups. */
enum { HOPPER_GROUP = 2, HOPPER_PUBLISHED = 6, HOPPER_READ = 7, HOPPER_TURNS = 8 };

/* Shared memory addresses of a CTA. Each stage has a full and an empty barrier for its keys and for its values. */
template <typename S> struct hopper_memory {
    uint32_t queries, ring, ones, barriers;

    __device__ __forceinline__ hopper_memory(const unsigned char *memory)
    {
        const uint32_t begin = (recompute(shared_address(memory)) + 1023) & ~1023u; /* the swizzle depends on addresses */
        barriers = begin + S::KEYS * 4;                                             /* each shape in a kernel has its own barriers */
        queries = begin + 1024;
        ring = queries + S::QUERIES;
        ones = ring + S::RING;
    }
    /* The first panel of a stage, and the distance to the next. In a wgmma, the panels of values and joined ones must be equidistant.
       With two panels of values (SPREAD), the second is halfway between the first and the ones. */
    static const bool SPREAD = S::JOINED_ONES && S::PANELS == 2;
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
        return SPREAD || S::JOINED_ONES ? (int)(ones - values(stage)) / S::PANELS : S::PANEL;
    }
    __device__ __forceinline__ uint32_t tile() const
    {
        return barriers;
    }
    __device__ __forceinline__ uint32_t queries_full() const
    {
        return barriers + 16;
    }
    __device__ __forceinline__ uint32_t queries_empty() const
    {
        return barriers + 24;
    }
    __device__ __forceinline__ uint32_t keys_full(int stage) const
    {
        return barriers + 32 + stage * 32;
    }
    __device__ __forceinline__ uint32_t values_full(int stage) const
    {
        return barriers + 40 + stage * 32;
    }
    __device__ __forceinline__ uint32_t keys_empty(int stage) const
    {
        return barriers + 48 + stage * 32;
    }
    __device__ __forceinline__ uint32_t values_empty(int stage) const
    {
        return barriers + 56 + stage * 32;
    }
};

/* A stage of the ring and its phase parity. */
template <typename S> struct hopper_stage {
    int stage, parity;

    __device__ __forceinline__ void next()
    {
        if (++stage == S::STAGES)
            stage = 0, parity ^= 1;
    }
};

/* The copies of a CTA, made by one thread. */
template <typename S> struct hopper_copy {
    const rvit_cu_attention_hopper_params &params;
    const attention_work &work;
    const hopper_memory<S> &m;

    __device__ __forceinline__ void queries(int groups) const
    {
        barrier_arrive_expect(m.queries_full(), groups * S::PANELS * S::QUERY_PANEL);
#pragma unroll 1
        for (int i = 0; i < groups * S::PANELS; i++)
            copy_box(m.queries + i * S::QUERY_PANEL, &params.q, i % S::PANELS * 64, work.head,
                     work.begin + (work.row_block * S::GROUPS + i / S::PANELS) * 64, m.queries_full());
    }
    __device__ __forceinline__ void block(uint32_t to, int step, const rvit_cu_tensor_map &map, int first, uint32_t barrier) const
    {
        barrier_arrive_expect(barrier, S::TILE);
#pragma unroll 2
        for (int panel = 0; panel < S::PANELS; panel++)
#pragma unroll 2
            for (int row = 0; row < S::KEYS; row += S::BOX)
                copy_box(to + panel * step + row * 128, &map, panel * 64, work.head, work.begin + first + row, barrier);
    }
    __device__ __forceinline__ void keys(int stage, int first) const
    {
        block(m.keys(stage), m.keys_step(stage), params.k, first, m.keys_full(stage));
    }
    __device__ __forceinline__ void values(int stage, int first) const
    {
        block(m.values(stage), m.values_step(stage), params.v, first, m.values_full(stage));
    }
    /* Copies the keys of a block once the stage's old keys are no longer needed. */
    __device__ __forceinline__ void next_keys(hopper_stage<S> &at, int first) const
    {
        barrier_wait(m.keys_empty(at.stage), at.parity);
        keys(at.stage, first);
        at.next();
    }
    /* Copies all blocks except the keys of the first, in the order in which stages become free: keys are ahead of values. */
    __device__ __forceinline__ void all(hopper_stage<S> &keys_at, hopper_stage<S> &values_at) const
    {
#pragma unroll 1
        for (int first = 0; first < work.length; first += S::KEYS, values_at.next()) {
            if (first + S::KEYS < work.length)
                next_keys(keys_at, first + S::KEYS);
            barrier_wait(m.values_empty(values_at.stage), values_at.parity);
            values(values_at.stage, first);
        }
    }
    __device__ __forceinline__ void first_stages() const
    {
        for (int i = 0; i < S::STAGES && i * S::KEYS < work.length; i++) {
            keys(i, i * S::KEYS);
            values(i, i * S::KEYS);
        }
    }
    /* Without a producer, the first thread refills the stage before `at`, which holds the block from key `first` on. By now the other
       warpgroups have finished with it, too. */
    __device__ __forceinline__ void refill(const hopper_stage<S> &at, int first, bool of_keys) const
    {
        const int later = first + (S::STAGES - 1) * S::KEYS;
        if (!S::PERSISTENT && threadIdx.x % (S::GROUPS * 128) == 0 && first > 0 && later < work.length) {
            const int stage = at.stage == 0 ? S::STAGES - 1 : at.stage - 1, parity = at.stage == 0 ? at.parity ^ 1 : at.parity;
            barrier_wait(of_keys ? m.keys_empty(stage) : m.values_empty(stage), parity);
            if (of_keys)
                keys(stage, later);
            else
                values(stage, later);
        }
        if (!S::PERSISTENT)
            warp_sync();
    }
};

/* The descriptor of 16 rows of 8 columns of ones: 256 bytes in any order, described as two unswizzled 8-row matrices. */
RVIT_DEVICE uint64_t ones_at(uint32_t shared)
{
    return (uint64_t)((shared & 0x3ffff) >> 4) | (uint64_t)(128 >> 4) << 16 | (uint64_t)(128 >> 4) << 32;
}

/* The registers of a warpgroup: like warp_state in attention.cuh, with 64 rows for four warps. */
template <typename S> struct hopper_state {
    float out[S::JOINED_ONES ? S::D / 2 + 4 : S::D / 2]; /* JOINED_ONES: followed by the sums */
    float sums[4];                                       /* without JOINED_ONES */
    float offset[2];
};

/* s = q k^T for the first N keys of a block. */
template <typename S, int N> RVIT_DEVICE void hopper_scores(float (&s)[N / 2], uint32_t queries, const hopper_memory<S> &m, int stage)
{
    const uint32_t keys = m.keys(stage);
    const int panel = m.keys_step(stage);
#pragma unroll
    for (int step = 0; step < S::D / 16; step++) {
        const uint64_t a = matrix_at(queries + step / 4 * S::QUERY_PANEL + step % 4 * 32, 16),
                       b = matrix_at(keys + step / 4 * panel + step % 4 * 32, 16);
        if (step == 0)
            wgmma<typename S::T, N>::smem_smem_first(s, a, b);
        else
            wgmma<typename S::T, N>::smem_smem(s, a, b);
    }
}

/* out += p v for the first N keys of a block. */
template <typename S, int N>
RVIT_DEVICE void hopper_values(hopper_state<S> &w, const uint32_t (&p)[N / 16][4], const hopper_memory<S> &m, int stage)
{
    const uint32_t values = m.values(stage);
#pragma unroll
    for (int step = 0; step < N / 16; step++) {
        wgmma<typename S::T, S::JOINED_ONES ? S::D + 8 : S::D>::regs_smem(w.out, p[step],
                                                                          matrix_at(values + step * 2048, m.values_step(stage)));
        if (!S::JOINED_ONES)
            wgmma<typename S::T, 8>::regs_smem(w.sums, p[step], ones_at(m.ones));
    }
}

template <typename S> RVIT_DEVICE void keep_out_here(hopper_state<S> &w)
{
    keep_here(w.out);
    if (!S::JOINED_ONES)
        keep_here(w.sums);
}

/* Scores of missing keys become -infinity. */
template <int N> RVIT_DEVICE void hopper_mask(float (&s)[N], int live)
{
    const int c = (threadIdx.x & 3) * 2;
#pragma unroll
    for (int i = 0; i < N; i++)
        if (i / 4 * 8 + c + i % 2 >= live)
            s[i] = -INFINITY;
}

template <int N> RVIT_DEVICE float hopper_maximum(const float (&s)[N], int h)
{
    float m[2] = {fmaxf(s[2 * h], s[2 * h + 1]), fmaxf(s[2 * h + 4], s[2 * h + 5])};
#pragma unroll
    for (int i = 8; i < N; i += 4)
        m[i / 4 % 2] = fmaxf(m[i / 4 % 2], fmaxf(s[i + 2 * h], s[i + 2 * h + 1]));
    return fmaxf(m[0], m[1]);
}

/* A row whose maximum exceeds its offset gets a new offset. Returns whether a row of the warp did; then factor rescales the older
   weights. */
template <typename S, int N> RVIT_DEVICE bool hopper_update_offset(const float (&s)[N], hopper_state<S> &w, float scale, float (&factor)[2])
{
    const float maximum[2] = {hopper_maximum(s, 0), hopper_maximum(s, 1)};
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

template <typename S> RVIT_DEVICE void hopper_rescale(hopper_state<S> &w, const float (&factor)[2])
{
#pragma unroll
    for (int i = 0; i < (int)(sizeof w.out / sizeof w.out[0]); i++)
        w.out[i] *= factor[i / 2 % 2];
    if (!S::JOINED_ONES)
#pragma unroll
        for (int i = 0; i < 4; i++)
            w.sums[i] *= factor[i / 2];
}

template <typename S, int N> RVIT_DEVICE void hopper_exp(float (&s)[N], const hopper_state<S> &w, float scale)
{
#pragma unroll
    for (int i = 0; i < N; i++)
        s[i] = exp2_fast(fmaf(s[i], scale, w.offset[i / 2 % 2]));
}

template <typename T, int N> RVIT_DEVICE void hopper_pack(uint32_t (&p)[N / 8][4], const float (&s)[N])
{
#pragma unroll
    for (int i = 0; i < N / 2; i++)
        p[i / 4][i % 4] = element<T>::pack(s[i * 2], s[i * 2 + 1]);
}

/* The warp signals that it no longer reads what the barrier protects. */
RVIT_DEVICE void hopper_release(uint32_t barrier)
{
    if ((threadIdx.x & 31) == 0)
        barrier_arrive(barrier);
}

/* Zeros rows live to N of a block of values. They belong to another image or to none, and a weight of 0 does not cancel NaN. */
template <typename S, int N> RVIT_DEVICE void hopper_clear(const hopper_memory<S> &m, int stage, int live, int group)
{
    if (live == N)
        return;
    for (int i = threadIdx.x & 127; i < (N - live) * 8 * S::PANELS; i += 128)
        store_shared_16(m.values(stage) + i % S::PANELS * m.values_step(stage) + live * 128 + i / S::PANELS * 16, 0u);
    async_proxy_fence();
    group_sync(HOPPER_GROUP + group, 128);
}

/* Busy warpgroups take turns: each waits for its turn and passes it on. The last one passes the first turn. */
RVIT_DEVICE void turn_wait(int group)
{
    group_sync(HOPPER_TURNS + group, 256);
}

RVIT_DEVICE void turn_pass(int group, int groups)
{
    group_arrive(HOPPER_TURNS + (group + 1 == groups ? 0 : group + 1), 256);
}

/* Accumulates the values of the block whose weights are in p, and computes the weights of the following block, in `next`. live: the
   following block's keys, at most N. There are two orders of the same operations. This one is for persistent CTAs: scores are issued
   first, and the softmax overlaps the wgmma of the values. With in_turn, warpgroups take turns to issue wgmma, so that one computes
   weights while the other multiplies. */
template <typename S, int N>
RVIT_DEVICE void hopper_block_ahead(uint32_t (&next)[N / 16][4], uint32_t (&p)[S::KEYS / 16][4], hopper_state<S> &w,
                                    const hopper_memory<S> &m, uint32_t queries, float scale, const hopper_stage<S> &old,
                                    const hopper_stage<S> &at, int live, bool is_last, int group, bool in_turn)
{
    float s[N / 2], factor[2];
    barrier_wait(m.keys_full(at.stage), at.parity);
    if (in_turn)
        turn_wait(group);
    wgmma_fence();
    hopper_scores<S, N>(s, queries, m, at.stage);
    wgmma_commit();
    barrier_wait(m.values_full(old.stage), old.parity);
    keep_here(p);
    keep_out_here(w);
    wgmma_fence();
    hopper_values<S, S::KEYS>(w, p, m, old.stage);
    wgmma_commit();
    if (in_turn)
        turn_pass(group, S::GROUPS);
    wgmma_wait<1>();
    keep_here(s);
    hopper_release(m.keys_empty(at.stage));
    if (is_last)
        hopper_release(m.queries_empty());
    if (live < N)
        hopper_mask(s, live);
    const bool any = hopper_update_offset(s, w, scale, factor);
    hopper_exp(s, w, scale);
    wgmma_wait<0>();
    keep_out_here(w);
    keep_here(p);
    hopper_release(m.values_empty(old.stage));
    if (any)
        hopper_rescale(w, factor);
    hopper_pack<typename S::T>(next, s);
}

/* With two CTAs per SM, other warpgroups use the tensor cores while this one computes weights. */
template <typename S, int N>
RVIT_DEVICE void hopper_block_plain(uint32_t (&next)[N / 16][4], uint32_t (&p)[S::KEYS / 16][4], hopper_state<S> &w,
                                    const hopper_memory<S> &m, const hopper_copy<S> &copy, uint32_t queries, float scale,
                                    const hopper_stage<S> &old, const hopper_stage<S> &at, int first, int live)
{
    float s[N / 2], factor[2];
    barrier_wait(m.values_full(old.stage), old.parity);
    keep_here(p);
    keep_out_here(w);
    wgmma_fence();
    hopper_values<S, S::KEYS>(w, p, m, old.stage);
    wgmma_commit();
    barrier_wait(m.keys_full(at.stage), at.parity);
    if (!S::SEQUENTIAL) {
        wgmma_fence();
        hopper_scores<S, N>(s, queries, m, at.stage);
        wgmma_commit();
    }
    wgmma_wait<S::SEQUENTIAL ? 0 : 1>();
    keep_out_here(w);
    keep_here(p);
    hopper_release(m.values_empty(old.stage));
    if (S::SEQUENTIAL) {
        wgmma_fence();
        hopper_scores<S, N>(s, queries, m, at.stage);
        wgmma_commit();
    }
    copy.refill(old, first - S::KEYS, false);
    wgmma_wait<0>();
    keep_here(s);
    hopper_release(m.keys_empty(at.stage));
    copy.refill(at, first, true);
    if (live < N)
        hopper_mask(s, live);
    if (hopper_update_offset(s, w, scale, factor))
        hopper_rescale(w, factor);
    hopper_exp(s, w, scale);
    hopper_pack<typename S::T>(next, s);
}

template <typename S, int N>
RVIT_DEVICE void hopper_block(uint32_t (&next)[N / 16][4], uint32_t (&p)[S::KEYS / 16][4], hopper_state<S> &w, const hopper_memory<S> &m,
                              const hopper_copy<S> &copy, uint32_t queries, float scale, const hopper_stage<S> &old,
                              const hopper_stage<S> &at, int first, int live, int group, bool in_turn)
{
    if (S::PERSISTENT)
        hopper_block_ahead<S, N>(next, p, w, m, queries, scale, old, at, live, first + N >= copy.work.length, group, in_turn);
    else
        hopper_block_plain<S, N>(next, p, w, m, copy, queries, scale, old, at, first, live);
}

/* Accumulates the values of the last block. */
template <typename S, int N>
RVIT_DEVICE void hopper_last_values(uint32_t (&p)[N / 16][4], hopper_state<S> &w, const hopper_memory<S> &m, const hopper_stage<S> &at,
                                    int live, int group)
{
    barrier_wait(m.values_full(at.stage), at.parity);
    hopper_clear<S, N>(m, at.stage, live, group);
    keep_here(p);
    keep_out_here(w);
    wgmma_fence();
    hopper_values<S, N>(w, p, m, at.stage);
    wgmma_commit();
    wgmma_wait<0>();
    keep_out_here(w);
    if (S::PERSISTENT)
        hopper_release(m.values_empty(at.stage));
}

/* The last block, with at most N live keys, and the values of the block before it. */
template <typename S, int N>
RVIT_DEVICE void hopper_last_block(uint32_t (&p)[S::KEYS / 16][4], hopper_state<S> &w, const hopper_memory<S> &m,
                                   const hopper_copy<S> &copy, uint32_t queries, float scale, const hopper_stage<S> &old,
                                   const hopper_stage<S> &at, int first, int live, int group, bool in_turn)
{
    uint32_t last[N / 16][4];
    hopper_block<S, N>(last, p, w, m, copy, queries, scale, old, at, first, live, group, in_turn);
    hopper_last_values<S, N>(last, w, m, at, live, group);
}

/* A warpgroup's rows against all keys of an image that has more than one block. at: the stage of the first block; on return, that of the
   next image. */
template <typename S>
RVIT_DEVICE void hopper_rows(hopper_state<S> &w, const hopper_memory<S> &m, const hopper_copy<S> &copy, uint32_t queries, float scale,
                             int length, int group, hopper_stage<S> &at, bool in_turn)
{
    uint32_t p[S::KEYS / 16][4];
    hopper_stage<S> old = at;
    {
        float s[S::KEYS / 2], unused[2];
        barrier_wait(m.keys_full(at.stage), at.parity);
        if (S::PERSISTENT && in_turn)
            turn_wait(group);
        wgmma_fence();
        hopper_scores<S, S::KEYS>(s, queries, m, at.stage);
        wgmma_commit();
        if (S::PERSISTENT && in_turn)
            turn_pass(group, S::GROUPS);
        wgmma_wait<0>();
        keep_here(s);
        hopper_release(m.keys_empty(at.stage));
        hopper_update_offset(s, w, scale, unused);
        hopper_exp(s, w, scale);
        hopper_pack<typename S::T>(p, s);
    }
    int first = S::KEYS;
    at.next();
#pragma unroll 1
    for (; first + S::KEYS <= length; first += S::KEYS) {
        hopper_block<S, S::KEYS>(p, p, w, m, copy, queries, scale, old, at, first, S::KEYS, group, in_turn);
        old = at;
        at.next();
    }
    const int live = length - first;
    const int PART = S::KEYS == 64 ? 16 : 32; /* granularity of the last block */
    if (live == 0) {
        hopper_last_values<S, S::KEYS>(p, w, m, old, S::KEYS, group);
        return;
    }
    if (live <= PART)
        hopper_last_block<S, PART>(p, w, m, copy, queries, scale, old, at, first, live, group, in_turn);
    else if (live <= PART * 2)
        hopper_last_block<S, PART * 2>(p, w, m, copy, queries, scale, old, at, first, live, group, in_turn);
    else if (S::KEYS == 128 && live <= PART * 3)
        hopper_last_block<S, S::KEYS == 128 ? PART * 3 : S::KEYS>(p, w, m, copy, queries, scale, old, at, first, live, group, in_turn);
    else
        hopper_last_block<S, S::KEYS>(p, w, m, copy, queries, scale, old, at, first, live, group, in_turn);
    at.next();
}

/* A warpgroup without rows only releases the stages. */
template <typename S> RVIT_DEVICE void hopper_idle(const hopper_memory<S> &m, int length, hopper_stage<S> &at)
{
    for (int first = 0; first < length; first += S::KEYS, at.next()) {
        barrier_wait(m.keys_full(at.stage), at.parity);
        hopper_release(m.keys_empty(at.stage));
        if (first + S::KEYS >= length)
            hopper_release(m.queries_empty());
        barrier_wait(m.values_full(at.stage), at.parity);
        hopper_release(m.values_empty(at.stage));
    }
}

template <typename S>
RVIT_DEVICE void hopper_store(const hopper_state<S> &w, const rvit_cu_attention_params &params, const attention_work &work, int group)
{
    float tiles[S::D / 8 + 1][4];
#pragma unroll
    for (int t = 0; t <= S::D / 8; t++)
#pragma unroll
        for (int i = 0; i < 4; i++)
            tiles[t][i] = t < S::D / 8 || S::JOINED_ONES ? w.out[t * 4 + i] : w.sums[i];
    typename S::T *out = first_row(static_cast<typename S::T *>(params.out), params.out_stride, work, params);
    store_rows<typename S::T, S::D>(tiles, out, params, (work.row_block * S::GROUPS + group) * 64 + (threadIdx.x / 32 & 3) * 16,
                                    work.length);
}

#endif
#endif

/* Attention of long images on sm_90a: 64 query rows per warpgroup, wgmma, TMA copies. An image of params.min_rows rows or more is long.
   Short images run the code of attention.cuh in the same kernel, so the images of a batch do not affect each other's bits. Each value of a
   row is computed by the same operations in the same order, wherever the row is. */
#ifndef RVIT_ATTENTION_HOPPER_CUH
#define RVIT_ATTENTION_HOPPER_CUH

#include "attention_hopper_rows.cuh"
#include "attention_tiles.cuh"

#include <limits.h>

#ifdef RVIT_HOPPER

/* Initialises the barriers and the panel of ones, with `threads` threads numbered from 0. */
template <typename S> RVIT_DEVICE void hopper_init(const unsigned char *memory, int groups, int thread, int threads)
{
    const hopper_memory<S> m(memory);
    if (thread == (S::PERSISTENT ? S::GROUPS * 128 : 0)) {
        barrier_init(m.queries_full(), 1);
        barrier_init(m.queries_empty(), groups * 4);
        for (int i = 0; i < S::STAGES; i++) {
            barrier_init(m.keys_full(i), 1);
            barrier_init(m.values_full(i), 1);
            barrier_init(m.keys_empty(i), groups * 4);
            barrier_init(m.values_empty(i), groups * 4);
        }
        barrier_init_fence();
    }
    /* JOINED_ONES: the first 8 columns of a swizzled panel, one chunk per row. */
    for (int i = thread; i < (S::JOINED_ONES ? S::KEYS : S::ONES / 16); i += threads)
        store_shared_16(m.ones + (S::JOINED_ONES ? i * 128 + i % 8 * 16 : i * 16), element<typename S::T>::ONES);
    async_proxy_fence();
    block_sync();
}

/* Computes the rows of a short image. With 80 channels and two CTAs per SM, head_dim must be a compile-time constant, or registers
   run out. */
template <typename S>
RVIT_DEVICE void attend_short(const rvit_cu_attention_params &params, const attention_work &work, unsigned char *memory)
{
    const int STAGES = S::D == 64 ? RVIT_CU_STAGES_D64 : S::D == 80 ? RVIT_CU_STAGES_D80 : RVIT_CU_STAGES_D128;
    rvit_cu_attention_params known = params;
    if (S::D == 80 && params.head_dim == 72) {
        known.head_dim = 72;
        attend<typename S::T, S::D, 1, S::GROUPS * 4, STAGES, false>(known, work, memory);
        return;
    }
    if (S::D == 80)
        known.head_dim = 80;
    attend<typename S::T, S::D, 1, S::GROUPS * 4, STAGES, false>(known, work, memory);
}

template <typename S> RVIT_DEVICE void hopper_begin(hopper_state<S> &w)
{
#pragma unroll
    for (int i = 0; i < (int)(sizeof w.out / sizeof w.out[0]); i++)
        w.out[i] = 0.0f;
#pragma unroll
    for (int i = 0; i < 4; i++)
        w.sums[i] = 0.0f;
    w.offset[0] = w.offset[1] = FLT_MAX;
}

template <typename S> RVIT_DEVICE int hopper_groups(const attention_work &work)
{
    return min(S::GROUPS, (work.length - work.row_block * (S::GROUPS * 64) + 63) / 64);
}

/* A warpgroup's rows in a CTA with one tile, without producer warps. */
template <typename S>
RVIT_DEVICE void hopper_group(const rvit_cu_attention_hopper_params &params, const attention_work &work, const unsigned char *memory,
                              int group, int groups)
{
    const hopper_memory<S> m(memory);
    const hopper_copy<S> copy = {params, work, m};
    if (threadIdx.x == 0) {
        copy.queries(groups);
        copy.first_stages();
    }
    warp_sync();
    if (group >= groups)
        return;
    hopper_state<S> w;
    hopper_begin(w);
    barrier_wait(m.queries_full(), 0);
    hopper_stage<S> at = {0, 0};
    hopper_rows(w, m, copy, m.queries + group * S::PANELS * S::QUERY_PANEL, params.rows.scale, work.length, group, at, false);
    hopper_store(w, params.rows, work, group);
}

/* A CTA takes 64 rows of a head of an image per warpgroup. */
template <typename S> RVIT_DEVICE void attend_one(const rvit_cu_attention_hopper_params &params)
{
    RVIT_DYNAMIC_SHARED(memory);
    const attention_work work = find_work(params.rows);
    const int group = shuffle((int)(threadIdx.x / 128), 0);
    if (work.length <= work.row_block * (S::GROUPS * 64))
        return;
    const int groups = hopper_groups<S>(work);
    if (work.length >= params.min_rows) {
        hopper_init<S>(memory, groups, threadIdx.x, blockDim.x);
        hopper_group<S>(params, work, memory, group, groups);
    } else
        attend_short<S>(params.rows, find_work(params.rows), memory);
}

RVIT_DEVICE uint4 bits_of(float a, float b, float c, float d)
{
    return make_uint4(float_bits(a), float_bits(b), float_bits(c), float_bits(d));
}

/* Writes a warpgroup's sums and offsets to shared memory, for the other warpgroup. */
template <typename S> RVIT_DEVICE void hopper_send_sums(const hopper_state<S> &w, uint32_t to, int thread)
{
    const int N = S::D / 8 + 1;
#pragma unroll
    for (int i = 0; i < N; i++)
        store_shared_16(to + (i * 128 + thread) * 16, bits_of(w.out[i * 4], w.out[i * 4 + 1], w.out[i * 4 + 2], w.out[i * 4 + 3]));
    store_shared_16(to + (N * 128 + thread) * 16, bits_of(w.offset[0], w.offset[1], 0.0f, 0.0f));
}

/* Rescales both sums to the offset of the larger maximum, and adds them. */
template <typename S> RVIT_DEVICE void hopper_add_sums(hopper_state<S> &w, uint32_t from, int thread)
{
    const int N = S::D / 8 + 1;
    const float4 offsets = load_shared_4(from + (N * 128 + thread) * 16);
    const float offset[2] = {fminf(w.offset[0], offsets.x), fminf(w.offset[1], offsets.y)};
    const float mine[2] = {exp2_fast(offset[0] - w.offset[0]), exp2_fast(offset[1] - w.offset[1])};
    const float theirs[2] = {exp2_fast(offset[0] - offsets.x), exp2_fast(offset[1] - offsets.y)};
#pragma unroll
    for (int i = 0; i < N; i++) {
        const float4 add = load_shared_4(from + (i * 128 + thread) * 16);
        w.out[i * 4] = fmaf(w.out[i * 4], mine[0], add.x * theirs[0]);
        w.out[i * 4 + 1] = fmaf(w.out[i * 4 + 1], mine[0], add.y * theirs[0]);
        w.out[i * 4 + 2] = fmaf(w.out[i * 4 + 2], mine[1], add.z * theirs[1]);
        w.out[i * 4 + 3] = fmaf(w.out[i * 4 + 3], mine[1], add.w * theirs[1]);
    }
}

/* For launches with too few rows for every SM. A CTA takes 64 rows of a head of an image. Each of its two warpgroups processes half of
   the keys with its own copies, then the first adds the sums of the second. */
template <typename S> RVIT_DEVICE void attend_split_kv(const rvit_cu_attention_hopper_params &params)
{
    typedef hopper_shape<typename S::T, S::D, S::KEYS, 2, S::STAGES, false> short_shape;
    RVIT_DYNAMIC_SHARED(memory);
    attention_work work = find_work(params.rows);
    const int group = shuffle((int)(threadIdx.x / 128), 0), thread = threadIdx.x & 127;
    if (work.length <= work.row_block * 64)
        return;
    if (work.length < params.min_rows) {
        if (work.row_block % 2 == 0) {
            work.row_block /= 2;
            attend_short<short_shape>(params.rows, work, memory);
        }
        return;
    }
    const unsigned char *const mine = memory + group * RVIT_CU_SPLIT_KV_HALF(S::D, S::STAGES);
    const hopper_memory<S> m(mine);
    hopper_init<S>(mine, 1, thread, 128);
    const int half = (work.length + 2 * S::KEYS - 1) / (2 * S::KEYS) * S::KEYS; /* keys of the first warpgroup, in whole blocks */
    attention_work keys = work;
    keys.begin += group * half;
    keys.length = group == 0 ? half : work.length - half;
    const hopper_copy<S> queries = {params, work, m}, copy = {params, keys, m};
    if (thread == 0) {
        queries.queries(1);
        copy.first_stages();
    }
    warp_sync();
    hopper_state<S> w;
    hopper_begin(w);
    barrier_wait(m.queries_full(), 0);
    hopper_stage<S> at = {0, 0};
    hopper_rows(w, m, copy, m.queries, params.rows.scale, keys.length, group, at, false);
    const uint32_t sums = hopper_memory<S>(memory + RVIT_CU_SPLIT_KV_HALF(S::D, S::STAGES)).ring;
    if (group == 1) {
        group_sync(HOPPER_GROUP + group, 128); /* all warps have finished with the ring */
        hopper_send_sums(w, sums, thread);
    }
    block_sync();
    if (group == 0) {
        hopper_add_sums(w, sums, thread);
        hopper_store(w, params.rows, work, 0);
    }
}

/* Where the producer publishes the next tile: 16 bytes. */
struct tile_slot {
    uint32_t shared;

    __device__ __forceinline__ void put(const attention_work &work) const
    {
        store_shared_16(shared, make_uint4((unsigned)work.head, (unsigned)work.row_block, (unsigned)work.begin, (unsigned)work.length));
    }
    __device__ __forceinline__ attention_work work() const
    {
        const uint4 w = load_shared_16(shared);
        attention_work work;
        work.head = (int)w.x, work.row_block = (int)w.y, work.begin = (int)w.z, work.length = (int)w.w;
        return work;
    }
};

/* The producer of a persistent CTA: it copies the next tile's rows during the current tile. Returns whether shorter images were
   skipped. */
template <typename S>
RVIT_DEVICE bool hopper_produce(const rvit_cu_attention_hopper_params &params, const unsigned char *memory, int least_rows, int end_rows,
                                tile_position &at)
{
    const hopper_memory<S> m(memory);
    const tile_slot slot = {m.barriers};
    tile_walk walk(at);
    hopper_stage<S> keys_at = {0, 1}, values_at = {0, 1};
    for (int parity = 1;; parity ^= 1) {
        attention_work work;
        const bool more = walk.next(params, S::GROUPS * 64, least_rows, end_rows, work);
        const hopper_copy<S> copy = {params, work, m};
        if ((threadIdx.x & 31) == 0) {
            if (more)
                copy.next_keys(keys_at, 0);
            barrier_wait(m.queries_empty(), parity);
            if (more) {
                slot.put(work);
                copy.queries(hopper_groups<S>(work));
                copy.all(keys_at, values_at);
            } else {
                slot.put({0, 0, walk.shorter, 0});
                barrier_arrive(m.queries_full());
            }
        }
        warp_sync();
        if (!more)
            break;
    }
    at = walk.at;
    return walk.shorter;
}

template <typename S>
RVIT_DEVICE bool hopper_tiles(const rvit_cu_attention_hopper_params &params, const unsigned char *memory, int group, bool is_first)
{
    const hopper_memory<S> m(memory);
    const tile_slot slot = {m.barriers};
    hopper_stage<S> at = {0, 0};
    if (is_first && group == S::GROUPS - 1)
        turn_pass(group, S::GROUPS);
    for (int parity = 0;; parity ^= 1) {
        barrier_wait(m.queries_full(), parity);
        const attention_work work = slot.work();
        warp_sync();
        if (work.length == 0)
            return work.begin != 0;
        const int groups = hopper_groups<S>(work);
        if (group >= groups) {
            hopper_idle<S>(m, work.length, at);
            continue;
        }
        const hopper_copy<S> copy = {params, work, m};
        hopper_state<S> w;
        hopper_begin(w);
        hopper_rows(w, m, copy, m.queries + group * S::PANELS * S::QUERY_PANEL, params.rows.scale, work.length, group, at,
                    groups == S::GROUPS);
        hopper_store(w, params.rows, work, group);
    }
}

/* The producer for short images, whose rows the consumers load themselves. One barrier publishes a tile, the other confirms that all have
   read it. */
template <typename S>
RVIT_DEVICE void short_produce(const rvit_cu_attention_hopper_params &params, const unsigned char *memory, tile_position at)
{
    const tile_slot slot = {(shared_address(memory) + 1023) & ~1023u};
    tile_walk walk(at);
    for (bool more = true; more;) {
        attention_work work = {0, 0, 0, 0};
        more = walk.next(params, S::GROUPS * 64, 1, params.min_rows, work);
        if ((threadIdx.x & 31) == 0)
            slot.put(work);
        group_sync(HOPPER_PUBLISHED, S::GROUPS * 128 + 32);
        group_sync(HOPPER_READ, S::GROUPS * 128 + 32);
    }
}

template <typename S> RVIT_DEVICE void short_tiles(const rvit_cu_attention_hopper_params &params, unsigned char *memory)
{
    for (;;) {
        group_sync(HOPPER_PUBLISHED, S::GROUPS * 128 + 32);
        const tile_slot slot = {(shared_address(memory) + 1023) & ~1023u};
        const attention_work work = slot.work();
        group_sync(HOPPER_READ, S::GROUPS * 128 + 32);
        if (work.length == 0)
            return;
        attend_short<S>(params.rows, work, memory + 2048);
    }
}

/* Persistent CTAs, one per SM. LARGE_BLOCK: the shape for images of params.large_block_rows rows and more, with as many warpgroups as S;
   equals S if the kernel has none. */
template <typename S, typename LARGE_BLOCK> RVIT_DEVICE void attend_tiles(const rvit_cu_attention_hopper_params &params)
{
    RVIT_DYNAMIC_SHARED(memory);
    const bool HAS_LARGE_BLOCK = LARGE_BLOCK::KEYS != S::KEYS;
    const int THREADS = S::GROUPS * 128, end_rows = HAS_LARGE_BLOCK ? params.large_block_rows : INT_MAX;
    if (HAS_LARGE_BLOCK)
        hopper_init<LARGE_BLOCK>(memory, S::GROUPS, threadIdx.x, blockDim.x);
    hopper_init<S>(memory, S::GROUPS, threadIdx.x, blockDim.x);
    if (shuffle((int)(threadIdx.x / 128), 0) == S::GROUPS) {
        release_registers<S::PRODUCER_REGISTERS>();
        if (threadIdx.x >= THREADS + 32)
            return;
        tile_position at = {(int)blockIdx.x, 0};
        if (HAS_LARGE_BLOCK) {
            if (!hopper_produce<LARGE_BLOCK>(params, memory, params.large_block_rows, INT_MAX, at))
                return;
            group_sync(HOPPER_READ, THREADS + 32);
        }
        if (hopper_produce<S>(params, memory, params.min_rows, end_rows, at))
            short_produce<S>(params, memory, at);
        return;
    }
    take_registers<S::REGISTERS>();
    if (HAS_LARGE_BLOCK) {
        if (!hopper_tiles<LARGE_BLOCK>(params, memory, shuffle((int)(recompute(threadIdx.x) / 128), 0), true))
            return;
        group_sync(HOPPER_READ, THREADS + 32);
    }
    if (hopper_tiles<S>(params, memory, shuffle((int)(recompute(threadIdx.x) / 128), 0), !HAS_LARGE_BLOCK))
        short_tiles<S>(params, memory);
}

/* LARGE_BLOCK equals S if CTAs are not persistent. */
template <typename S, typename LARGE_BLOCK, bool PERSISTENT> struct hopper_kernel {
    static __device__ __forceinline__ void run(const rvit_cu_attention_hopper_params &params)
    {
        attend_tiles<S, LARGE_BLOCK>(params);
    }
};

template <typename S, typename LARGE_BLOCK> struct hopper_kernel<S, LARGE_BLOCK, false> {
    static __device__ __forceinline__ void run(const rvit_cu_attention_hopper_params &params)
    {
        attend_one<S>(params);
    }
};

template <typename S, typename LARGE_BLOCK> RVIT_DEVICE void attend_hopper(const rvit_cu_attention_hopper_params &params)
{
    hopper_kernel<S, LARGE_BLOCK, S::PERSISTENT>::run(params);
}

#else

template <typename S> RVIT_DEVICE void attend_split_kv(const rvit_cu_attention_hopper_params &params)
{
    (void)params;
}

/* Empty on other architectures, which run other kernels. */
template <typename S, typename LARGE_BLOCK> RVIT_DEVICE void attend_hopper(const rvit_cu_attention_hopper_params &params)
{
    (void)params;
}

#endif
#endif

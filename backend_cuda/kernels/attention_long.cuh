/* Attention of long images on sm_90a: 64 query rows a warpgroup, products of warpgroups (wgmma), copies by tensor maps (TMA).
   An image's own length decides whether it is long. The others of a launch get what attention.cuh has for them, in the same kernel: which
   images share a batch changes no bit. Each number of a row is made by the same operations in the same order wherever the row lies. */
#ifndef RVIT_ATTENTION_LONG_CUH
#define RVIT_ATTENTION_LONG_CUH

#include "attention_long_rows.cuh"
#include "attention_tiles.cuh"

#include <limits.h>

#ifdef RVIT_HOPPER

/* Barriers and the panel of ones. */
template <typename S> RVIT_DEVICE void long_prepare(const unsigned char *memory, int groups)
{
    const long_memory<S> m(memory);
    if (threadIdx.x == (S::STAYS ? S::GROUPS * 128 : 0)) {
        barrier_init(m.queries_came(), 1);
        barrier_init(m.queries_left(), groups * 4);
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

/* The rows of an image that is not long. With 80 channels and two CTAs on an SM the compiler has registers enough where it knows head_dim.
 */
template <typename S>
RVIT_DEVICE void attend_others(const rvit_cu_attention_params &params, const attention_work &work, unsigned char *memory)
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

template <typename S> RVIT_DEVICE void long_begin(long_state<S> &w)
{
#pragma unroll
    for (int i = 0; i < (int)(sizeof w.out / sizeof w.out[0]); i++)
        w.out[i] = 0.0f;
#pragma unroll
    for (int i = 0; i < 4; i++)
        w.sums[i] = 0.0f;
    w.offset[0] = w.offset[1] = FLT_MAX;
}

template <typename S> RVIT_DEVICE int long_groups(const attention_work &work)
{
    return min(S::GROUPS, (work.length - work.row_block * (S::GROUPS * 64) + 63) / 64);
}

/* A CTA with a tile of its own, and no copiers. */
template <typename S>
RVIT_DEVICE void long_group(const rvit_cu_attention_long_params &params, const attention_work &work, const unsigned char *memory, int group,
                            int groups)
{
    const long_memory<S> m(memory);
    const long_copy<S> copy = {params, work, m};
    if (threadIdx.x == 0) {
        copy.queries(groups);
        copy.first_stages();
    }
    warp_sync();
    if (group >= groups)
        return;
    long_state<S> w;
    long_begin(w);
    barrier_wait(m.queries_came(), 0);
    long_stage<S> at = {0, 0};
    long_rows(w, m, copy, m.queries + group * S::PANELS * S::QUERY_PANEL, params.rows.scale, work.length, group, at, false);
    long_store(w, params.rows, work, group);
}

/* A CTA takes 64 rows of a head of an image for each of its groups. */
template <typename S> RVIT_DEVICE void attend_one(const rvit_cu_attention_long_params &params)
{
    RVIT_DYNAMIC_SHARED(memory);
    const attention_work work = find_work(params.rows);
    const int group = shuffle((int)(threadIdx.x / 128), 0);
    if (work.length <= work.row_block * (S::GROUPS * 64))
        return;
    const int groups = long_groups<S>(work);
    if (work.length >= params.least) {
        long_prepare<S>(memory, groups);
        long_group<S>(params, work, memory, group, groups);
    } else
        attend_others<S>(params.rows, find_work(params.rows), memory);
}

/* Where copiers say which tile is next: 16 bytes. */
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

/* The copiers of a CTA that goes from tile to tile: the next one's rows come while this one's are worked on. Returns whether images of
   fewer rows were passed over. */
template <typename S>
RVIT_DEVICE bool long_copies(const rvit_cu_attention_long_params &params, const unsigned char *memory, int least, int below, tile_place &at)
{
    const long_memory<S> m(memory);
    const tile_slot slot = {m.barriers};
    tile_walk walk(at);
    long_stage<S> keys_at = {0, 1}, values_at = {0, 1};
    for (int parity = 1;; parity ^= 1) {
        attention_work work;
        const bool more = walk.next(params, S::GROUPS * 64, least, below, work);
        const long_copy<S> copy = {params, work, m};
        if ((threadIdx.x & 31) == 0) {
            if (more)
                copy.next_keys(keys_at, 0);
            barrier_wait(m.queries_left(), parity);
            if (more) {
                slot.put(work);
                copy.queries(long_groups<S>(work));
                copy.all(keys_at, values_at);
            } else {
                slot.put({0, 0, walk.shorter, 0});
                barrier_arrive(m.queries_came());
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
RVIT_DEVICE bool long_tiles(const rvit_cu_attention_long_params &params, const unsigned char *memory, int group, bool is_first)
{
    const long_memory<S> m(memory);
    const tile_slot slot = {m.barriers};
    long_stage<S> at = {0, 0};
    if (is_first && group == S::GROUPS - 1)
        turn_pass(group, S::GROUPS);
    for (int parity = 0;; parity ^= 1) {
        barrier_wait(m.queries_came(), parity);
        const attention_work work = slot.work();
        warp_sync();
        if (work.length == 0)
            return work.begin != 0;
        const int groups = long_groups<S>(work);
        if (group >= groups) {
            long_idle<S>(m, work.length, at);
            continue;
        }
        const long_copy<S> copy = {params, work, m};
        long_state<S> w;
        long_begin(w);
        long_rows(w, m, copy, m.queries + group * S::PANELS * S::QUERY_PANEL, params.rows.scale, work.length, group, at,
                  groups == S::GROUPS);
        long_store(w, params.rows, work, group);
    }
}

/* The same for images that are not long, whose rows the groups load themselves. At one barrier a tile is named, at the other all know it.
 */
template <typename S> RVIT_DEVICE void other_copies(const rvit_cu_attention_long_params &params, const unsigned char *memory, tile_place at)
{
    const tile_slot slot = {(shared_address(memory) + 1023) & ~1023u};
    tile_walk walk(at);
    for (bool more = true; more;) {
        attention_work work = {0, 0, 0, 0};
        more = walk.next(params, S::GROUPS * 64, 1, params.least, work);
        if ((threadIdx.x & 31) == 0)
            slot.put(work);
        group_sync(LONG_NAMED, S::GROUPS * 128 + 32);
        group_sync(LONG_KNOWN, S::GROUPS * 128 + 32);
    }
}

template <typename S> RVIT_DEVICE void other_tiles(const rvit_cu_attention_long_params &params, unsigned char *memory)
{
    for (;;) {
        group_sync(LONG_NAMED, S::GROUPS * 128 + 32);
        const tile_slot slot = {(shared_address(memory) + 1023) & ~1023u};
        const attention_work work = slot.work();
        group_sync(LONG_KNOWN, S::GROUPS * 128 + 32);
        if (work.length == 0)
            return;
        attend_others<S>(params.rows, work, memory + 2048);
    }
}

/* CTAs that stay, one on an SM. TALL: the shape for images of params.tall rows and more; of the same groups, and S where the kernel has
   none. */
template <typename S, typename TALL> RVIT_DEVICE void attend_tiles(const rvit_cu_attention_long_params &params)
{
    RVIT_DYNAMIC_SHARED(memory);
    const bool HAS_TALL = TALL::KEYS != S::KEYS;
    const int THREADS = S::GROUPS * 128, below = HAS_TALL ? params.tall : INT_MAX;
    if (HAS_TALL)
        long_prepare<TALL>(memory, S::GROUPS);
    long_prepare<S>(memory, S::GROUPS);
    if (shuffle((int)(threadIdx.x / 128), 0) == S::GROUPS) {
        release_registers<S::COPIER_REGISTERS>();
        if (threadIdx.x >= THREADS + 32)
            return;
        tile_place at = {(int)blockIdx.x, 0};
        if (HAS_TALL) {
            if (!long_copies<TALL>(params, memory, params.tall, INT_MAX, at))
                return;
            group_sync(LONG_KNOWN, THREADS + 32);
        }
        if (long_copies<S>(params, memory, params.least, below, at))
            other_copies<S>(params, memory, at);
        return;
    }
    take_registers<S::REGISTERS>();
    if (HAS_TALL) {
        if (!long_tiles<TALL>(params, memory, shuffle((int)(recompute(threadIdx.x) / 128), 0), true))
            return;
        group_sync(LONG_KNOWN, THREADS + 32);
    }
    if (long_tiles<S>(params, memory, shuffle((int)(recompute(threadIdx.x) / 128), 0), !HAS_TALL))
        other_tiles<S>(params, memory);
}

/* Each kernel is of one kind. TALL is S for those whose CTAs have one tile. */
template <typename S, typename TALL, bool STAYS> struct long_kernel {
    static __device__ __forceinline__ void run(const rvit_cu_attention_long_params &params)
    {
        attend_tiles<S, TALL>(params);
    }
};

template <typename S, typename TALL> struct long_kernel<S, TALL, false> {
    static __device__ __forceinline__ void run(const rvit_cu_attention_long_params &params)
    {
        attend_one<S>(params);
    }
};

template <typename S, typename TALL> RVIT_DEVICE void attend_long(const rvit_cu_attention_long_params &params)
{
    long_kernel<S, TALL, S::STAYS>::run(params);
}

#else

/* Other devices run other kernels. */
template <typename S, typename TALL> RVIT_DEVICE void attend_long(const rvit_cu_attention_long_params &params)
{
    (void)params;
}

#endif
#endif

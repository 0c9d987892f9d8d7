// Scores rows, selects them and writes the output layout in one dispatch: workgroups mark an image's kept rows, the last one lists them.
#version 450
#extension GL_GOOGLE_include_directive : require
#if TIER_SUBGROUP
#extension GL_KHR_shader_subgroup_basic : require
#extension GL_KHR_shader_subgroup_arithmetic : require
#endif
#include "common/interface_prune.h"
#include "common/group.glsl"
#include "common/group_scan.glsl"
#include "common/storage.glsl"

layout(constant_id = RVIT_SELECT_MODE) const uint MODE = RVIT_SELECT_TOP_K_MODE;
layout(constant_id = RVIT_SELECT_SCORE) const uint SCORE = RVIT_SELECT_GIVEN;
layout(constant_id = RVIT_SELECT_FLAGS) const uint FLAGS = 0;
layout(constant_id = RVIT_SELECT_LONG) const uint LONG = 1;

layout(push_constant) uniform Push { rvit_select_push push; };
#if SCORED
layout(binding = 1) coherent buffer Scores { uint scores[]; };
#else
layout(binding = 1) readonly buffer Scores { uint scores[]; };
#endif
layout(binding = 1) readonly buffer KeepIn { uint keep_in[]; };
layout(binding = 5) readonly buffer Counts { int counts[]; };

// The current image: its rows are the items of common/kth.glsl.
uint image_begin;

uint score_bits(uint item)
{
    return scores[uint(push.input_at) + image_begin + item];
}

#define far_key(item) score_key(score_bits(item))
#define KEEP_BINDING 2
#include "common/images.glsl"
#include "common/keep_marks.glsl"
#include "common/kth.glsl"
#include "common/summand.glsl"
#include "common/mass.glsl"
#include "common/sample.glsl"
#include "common/layout_after.glsl"
#if SCORED
#define SCORE_X_BINDING 8
#define SCORE_TABLE_BINDING 9
#define SCORE_BIAS_BINDING 10
#define FUSE_X_BINDING 11
#include "common/score.glsl"
#include "common/fuse.glsl"
#endif

const uint KIND_NAN = 0, KIND_PREFIX = 1, KIND_SUM = 2;

// The kept rows: among the first `n_rows` rows, all with a larger key, and the first `need` of those with this key.
struct cut {
    uint key;
    uint need;
    uint n_rows;
};

const cut KEEP_ALL = cut(NAN_KEY, 0xffffffffu, 0xffffffffu);
const cut KEEP_NONE = cut(0xffffffffu, 0, 0);

cut best_cut(uint first, uint end, uint rank, uint n_best)
{
    if (n_best == 0)
        return KEEP_NONE;
    if (n_best >= end - first)
        return KEEP_ALL;
    uint n_equal;
    const uint key = find_kth(first, end, rank, n_best, n_equal);
    return cut(key, n_best, end - first);
}

cut threshold_cut(uint first, uint end, uint rank)
{
    const uint min_rows = min(uint(push.amount), end - first);
    uint n_passing = 0;
    if (min_rows > 0) {
        uint n = 0;
        for (uint item = first + rank; item < end; item += THREADS)
            n += uint(key_at(item) >= uint(push.threshold_key));
        group_exclusive_add(n, n_passing);
    }
    if (n_passing < min_rows)
        return best_cut(first, end, rank, min_rows);
    return cut(uint(push.threshold_key) - 1, 0, end - first);
}

cut mass_cut(uint first, uint end, uint rank, key_range range)
{
    const uvec2 sum = sum_of_all(first, end, rank, range);
    const uvec2 bound = mass_bound(sum);
    if (!less64(bound, sum))
        return KEEP_ALL;
    uint need;
    const uint key = find_mass(first, end, rank, range, bound, need);
    return cut(key, need, end - first);
}

// Marks the rows of the cut and the prefix.
void mark(uint end_prefix, uint first, uint end, uint rank, cut chosen)
{
    uint equal_before = 0;
    const uint begin = image_begin;
    for (uint first_word = begin / 4; first_word < (begin + end + 3) / 4; first_word += THREADS) {
        const uint word = first_word + rank;
        uint keys[4];
        uint n_equal = 0;
        uint bytes = 0;
        for (uint i = 0; i < 4; i++) {
            const uint row = word * 4 + i;
            keys[i] = 0xffffffffu;
            if (row < begin || row >= begin + end)
                continue;
            const uint item = row - begin;
            const bool competes = item >= first && item - first < chosen.n_rows;
            keys[i] = competes ? key_at(item) : 0xffffffffu;
            if (item < end_prefix || (competes && keys[i] > chosen.key))
                bytes |= KEPT << i * 8;
            n_equal += uint(keys[i] == chosen.key);
        }
        if (chosen.need > 0) {
            uint total;
            uint equal = equal_before + group_exclusive_add(n_equal, total);
            for (uint i = 0; i < 4; i++)
                if (keys[i] == chosen.key && equal++ < chosen.need)
                    bytes |= KEPT << i * 8;
            equal_before += total;
        }
        store_marks(word, begin, begin + end, bytes);
    }
}

// Marks the rows of the caller's mask and the prefix; returns true if this thread found a prefix row that the mask drops.
bool mark_by_mask(uint end_prefix, uint end, uint rank)
{
    bool is_dropped = false;
    for (uint word = image_begin / 4 + rank; word < (image_begin + end + 3) / 4; word += THREADS) {
        const uint mask = keep_in[uint(push.input_at) + word];
        const uint in_prefix = bytes_inside(word, image_begin, image_begin + end_prefix);
        uint bytes = in_prefix & EACH_BYTE;
        for (uint i = 0; i < 4; i++) {
            const uint byte = 0xffu << i * 8;
            if ((mask & byte) != 0)
                bytes |= KEPT << i * 8;
            is_dropped = is_dropped || ((in_prefix & byte) != 0 && (mask & byte) == 0);
        }
        store_marks(word, image_begin, image_begin + end, bytes);
    }
    return is_dropped;
}

// The fused token replaces the first dropped row.
void mark_fused(uint end, uint rank)
{
    if (rank == 0)
        n_collected = NO_ROW;
    memoryBarrierBuffer();
    barrier();
    for (uint word = image_begin / 4 + rank; word < (image_begin + end + 3) / 4; word += THREADS) {
        const uint inside = bytes_inside(word, image_begin, image_begin + end) & EACH_BYTE;
        const uint dropped = inside & ~load_marks(word, image_begin, image_begin + end);
        if (dropped != 0)
            atomicMin(n_collected, word * 4 + uint(findLSB(dropped)) / 8);
    }
    barrier();
    if (rank == 0 && n_collected != NO_ROW) {
        add_mark(n_collected, FUSED);
        add_mark(image_begin + end - 1, FUSED_END);
    }
}

void select_image(uint image, uint rank)
{
    const rvit_sequence rows = image_rows(image);
    image_begin = rows.begin;
    const uint end = rows.len;
    const uint end_prefix = prefix_end(rows);
    clear_errors(image, rank);
    if (MODE == RVIT_SELECT_MASK_MODE) {
        if (mark_by_mask(end_prefix, end, rank))
            report(image, KIND_PREFIX);
        return;
    }
#if SCORED
    if (SCORE != RVIT_SELECT_GIVEN) {
        score_image(rows);
        memoryBarrierBuffer();
        barrier();
    }
#endif
    for (uint item = rank; item < min(end, NEAR_KEYS); item += THREADS)
        near_keys[item] = score_key(score_bits(item));
    const uint first = (FLAGS & RVIT_SELECT_PREFIX_COMPETES) != 0 ? 0 : end_prefix;
    const uint n = end - first;
    barrier();
    const key_range range = find_range(first, end, rank);
    if (range.has_nan && rank == 0)
        report(image, KIND_NAN);

    cut chosen = KEEP_ALL;
    if (MODE == RVIT_SELECT_TOP_K_MODE) {
        chosen = best_cut(first, end, rank, uint(clamp(counts[uint(push.counts_at) + n], 0, int(n))));
    } else if (MODE == RVIT_SELECT_THRESHOLD_MODE) {
        chosen = threshold_cut(first, end, rank);
    } else if (n > 1) {
        const bool can_add = can_be_added(range);
        if (!can_add && !range.has_nan && rank == 0)
            report(image, KIND_SUM);
        if (can_add)
            chosen = MODE == RVIT_SELECT_MASS_MODE ? mass_cut(first, end, rank, range) : KEEP_NONE;
        else if (MODE == RVIT_SELECT_SAMPLE_MODE)
            chosen.n_rows = min(uint(push.amount), n - 1); // other scores would keep no more than this
    }
    mark(end_prefix, first, end, rank, chosen);
    if (MODE == RVIT_SELECT_SAMPLE_MODE && chosen == KEEP_NONE) {
        memoryBarrierBuffer();
        barrier();
        sample_items(image_begin, first, end, rank, range);
    }
    if ((FLAGS & RVIT_SELECT_HAS_FUSE) != 0)
        mark_fused(end, rank);
#if SCORED
    if ((FLAGS & RVIT_SELECT_HAS_FUSE) != 0) {
        memoryBarrierBuffer();
        barrier();
        fuse_image(rows, rank);
    }
#endif
    barrier();
}

void main()
{
    const uint rank = group_rank();
    const uint n_groups = gl_NumWorkGroups.x * gl_NumWorkGroups.y;
    for (uint image = group_index(); image < uint(push.n_images); image += n_groups)
        select_image(image, rank);
    if (arrives_last())
        lay_out(rank);
}

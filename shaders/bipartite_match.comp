// Finds the pairs of merge groups to merge, one image at a time. The number of remaining rows depends only on the lengths of images and
// windows, so every workgroup computes its position in the output layout itself, from the lengths of the images before its own.
//
// A merge group is GROUP_SIZE rows; positions count the merge groups of an image. Items are the merge groups of A that may merge: item i is
// at position image_first_a + 2 i. The keys of the items (the similarity of the best partner; 0 if there is none) are in shared memory and,
// past a certain item, in next_rows, which is written last. The targets (the positions of the partners) are in the workspace; if there are
// more items than it holds, they are recomputed, one block of items at a time.
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

layout(constant_id = RVIT_BIPARTITE_MATCH_HEAD_DIM) const uint HEAD_DIM = 64;
layout(constant_id = RVIT_BIPARTITE_MATCH_LONG) const uint LONG = 1;
layout(constant_id = RVIT_BIPARTITE_MATCH_GROUP_SIZE) const uint GROUP_SIZE = 1;
const uint D4 = HEAD_DIM / 4;

layout(push_constant) uniform Push { rvit_bipartite_match_push push; };
layout(binding = 1) readonly buffer K { IN_VEC4 k_words[]; };
layout(binding = 3) writeonly buffer OutCuSeqlens { uint out_cu_seqlens[]; };
layout(binding = 4) writeonly buffer SrcRows { uint src_rows[]; };
#if WINDOWS // otherwise the image is one window
layout(binding = 8) readonly buffer Windows { int windows[]; };
const bool HAS_WINDOWS = true;
#else
const bool HAS_WINDOWS = false;
#endif
layout(binding = 5) coherent buffer Metric { vec4 metric[]; };
layout(binding = 6) coherent buffer NextRows { uint next_rows[]; };

// The current image.
uint image_begin;
uint image_first_a;

uint item_position(uint item)
{
    return image_first_a + 2 * item;
}

// Index of the first row of a merge group in next_rows.
uint next_at(uint position)
{
    return uint(push.next_rows_at) + image_begin + position * GROUP_SIZE;
}

#define far_key(item) next_rows[next_at(item_position(item))]
#define KEEP_BINDING 2
#define DISPATCH_SIZES_BINDING 7
#include "common/dispatch_sizes.glsl"
#include "common/images.glsl"
#include "common/keep_marks.glsl"
#include "common/kth.glsl"
#include "common/workspace.glsl"

#define LAST 0xffffffffu // the end of a list, -1

#define BLOCK WORKSPACE

uint window_row(uint window)
{
#if WINDOWS
    return clamp_rows(windows[uint(push.windows_at) + window], push.rows);
#else
    return 0;
#endif
}

// The last window that begins at or before the row.
uint window_of(uint row)
{
    uint window = 0, past = uint(push.n_windows);
    while (window + 1 < past) {
        const uint middle = (window + past) / 2;
        if (window_row(middle) <= row)
            window = middle;
        else
            past = middle;
    }
    return window;
}

// How many of the merge groups at every second position, starting at `first`, begin before the row; at most n.
uint groups_before(rvit_sequence image, uint first, uint n, uint row)
{
    const uint from = image.begin + first * GROUP_SIZE;
    return row <= from ? 0 : min((row - from + 2 * GROUP_SIZE - 1) / (2 * GROUP_SIZE), n);
}

uint every_second(uint first, uint end)
{
    return end > first ? (end - first + 1) / 2 : 0;
}

// How many merge groups of A have one of B in their window. There are no prefix tokens.
uint n_with_partner(rvit_sequence image)
{
    const uint groups = image.len / GROUP_SIZE;
    const uint n_a = every_second(0, groups), n_b = every_second(1, groups), end = image.begin + groups * GROUP_SIZE;
    uint n = 0;
    for (uint window = window_of(image.begin); window < uint(push.n_windows) && n < n_a; window++) {
        const uint from = window_row(window), to = window_row(window + 1);
        if (from >= end)
            break;
        const uint a = groups_before(image, 0, n_a, to), before = groups_before(image, 0, n_a, from);
        if (a > before && groups_before(image, 1, n_b, to) > groups_before(image, 1, n_b, from))
            n += a - before;
    }
    return min(n, n_a);
}

// How many merge groups of the image merge.
uint n_merges(rvit_sequence image)
{
    const uint max_merges = min(uint(push.merges), (image.len / GROUP_SIZE - prefix_end(image)) / 2);
    return max_merges == 0 || !HAS_WINDOWS ? max_merges : min(max_merges, n_with_partner(image));
}

#define METRIC_TEAM 8 // threads that share a row
shared float team_sums[THREADS];

// The sums of the keys over the heads, scaled to length 1.
void store_metric(rvit_sequence image)
{
    const uint lane = gl_LocalInvocationIndex % METRIC_TEAM;
    const uint team = gl_LocalInvocationIndex - lane;
    for (uint first = 0; first < image.len; first += THREADS / METRIC_TEAM) {
        const uint position = first + gl_LocalInvocationIndex / METRIC_TEAM;
        const uint row = image.begin + position;
        const bool live = position < image.len;
        vec4 sums[(128 / 4) / METRIC_TEAM];
        float squares = 0.0;
        for (uint i = 0; i * METRIC_TEAM < D4; i++) {
            const uint d4 = i * METRIC_TEAM + lane;
            sums[i] = vec4(0.0);
            const uint at = uint(push.k_at) + row * uint(push.k_stride4) + d4;
            for (uint head = 0; live && d4 < D4 && head < uint(push.n_heads); head++)
                sums[i] += in_vec4(k_words[at + head * D4]);
            squares += dot(sums[i], sums[i]);
        }
        team_sums[gl_LocalInvocationIndex] = squares;
        barrier();
        squares = 0.0;
        for (uint i = 0; i < METRIC_TEAM; i++)
            squares += team_sums[team + i];
        const float norm = sqrt(squares);
        for (uint i = 0; i * METRIC_TEAM < D4; i++) {
            const uint d4 = i * METRIC_TEAM + lane;
            if (live && d4 < D4)
                metric[uint(push.metric_at) + row * D4 + d4] = squares == 0.0 ? sums[i] : sums[i] / norm;
        }
        barrier();
    }
}

// The range of merge groups of B that an item may merge into.
uvec2 choice_of(rvit_sequence image, uint item, uint first_b, uint n_b)
{
    if (!HAS_WINDOWS)
        return uvec2(0, n_b);
    if (push.n_windows == 0)
        return uvec2(0, 0);
    const uint window = window_of(image.begin + item_position(item) * GROUP_SIZE);
    return uvec2(groups_before(image, first_b, n_b, window_row(window)), groups_before(image, first_b, n_b, window_row(window + 1)));
}

// Merge groups of B per staged tile, one row of each at a time.
#define TILE 8
shared vec4 tile[TILE * D4];

// Finds the best partners of the items block .. end - 1, at most BLOCK of them, and their similarities.
void find_partners(rvit_sequence image, uint block, uint end, uint first_b, uint n_b)
{
    for (uint first = block; first < end; first += THREADS) {
        const uint item = first + gl_LocalInvocationIndex;
        const uint own = uint(push.metric_at) + (image.begin + item_position(min(item, end - 1)) * GROUP_SIZE) * D4;
        const uvec2 choice = choice_of(image, min(item, end - 1), first_b, n_b);
        // Windows are in the same order as items.
        const uint end_b = choice_of(image, min(first + THREADS, end) - 1, first_b, n_b).y;
        uint best_key = choice.x < choice.y ? 1u : 0u, best = first_b + 2 * min(choice.x, n_b - 1); // NaN is never better
        for (uint start = choice_of(image, first, first_b, n_b).x; start < end_b; start += TILE) {
            const uint n = min(TILE, end_b - start);
            float dots[TILE];
            [[unroll]] for (uint b = 0; b < TILE; b++)
                dots[b] = 0.0;
            for (uint row = 0; row < GROUP_SIZE; row++) {
                for (uint t = gl_LocalInvocationIndex; t < n * D4; t += THREADS) {
                    const uint position = first_b + 2 * (start + t / D4);
                    tile[t] = metric[uint(push.metric_at) + (image.begin + position * GROUP_SIZE + row) * D4 + t % D4];
                }
                barrier();
                for (uint d4 = 0; d4 < D4; d4++) {
                    const vec4 a = metric[own + row * D4 + d4];
                    [[unroll]] for (uint b = 0; b < TILE; b++)
                        dots[b] += dot(a, tile[b * D4 + d4]);
                }
                barrier();
            }
            for (uint b = 0; b < n; b++) {
                const uint key = score_key(floatBitsToUint(dots[b]));
                if (key > best_key && start + b >= choice.x && start + b < choice.y) {
                    best_key = key;
                    best = first_b + 2 * (start + b);
                }
            }
        }
        if (item < end) {
            workspace[item - block] = best;
            if (LONG == 0 || item < NEAR_KEYS)
                near_keys[item] = best_key;
            else
                next_rows[next_at(item_position(item))] = best_key;
        }
    }
    memoryBarrierBuffer();
    barrier();
}

// Clears the marks of the items that merge; returns how many items remain.
uint choose(uint n_items, uint n_chosen, uint rank)
{
    if (n_chosen == 0)
        return n_items;
    uint need = n_chosen, n_equal;
    const uint key = find_kth(0, n_items, rank, need, n_equal);
    uint equal_before = 0, staying = 0;
    for (uint first = 0; first < n_items; first += THREADS) {
        const uint item = first + rank;
        const uint own = item < n_items ? key_at(item) : 0;
        const bool at_key = item < n_items && own == key;
        uint total;
        const uint equal = equal_before + group_exclusive_add(uint(at_key), total);
        equal_before += total;
        const bool merges = item < n_items && (own > key || (at_key && equal < need));
        for (uint j = 0; merges && j < GROUP_SIZE; j++)
            clear_mark(image_begin + item_position(item) * GROUP_SIZE + j, KEPT);
        group_exclusive_add(uint(item < n_items && !merges), total);
        staying += total;
    }
    memoryBarrierBuffer();
    barrier();
    return staying;
}

bool is_row_kept(uint row)
{
    return load_marks(row / 4, row, row + 1) != 0;
}

bool is_item_kept(uint item)
{
    return is_row_kept(image_begin + item_position(item) * GROUP_SIZE);
}

// Builds the lists: a merge group of B, then the items merged into it in ascending order. They are built from the end, as lists of the
// first rows of merge groups; the current list of a merge group of B begins at its next row.
void link(rvit_sequence image, uint n_items, uint n_chosen, uint first_b, uint n_b)
{
    for (uint row = gl_LocalInvocationIndex; row < image.len; row += THREADS)
        next_rows[uint(push.next_rows_at) + image_begin + row] = LAST;
    if (n_chosen == 0)
        return;
    memoryBarrierBuffer();
    barrier();
    for (uint block = (n_items - 1) / BLOCK * BLOCK; block < n_items; block -= BLOCK) {
        const uint n = min(BLOCK, n_items - block);
        if (LONG != 0 && n_items > BLOCK)
            find_partners(image, block, block + n, first_b, n_b);
        for (uint i = gl_LocalInvocationIndex; i < n; i += THREADS) {
            next_rows[next_at(item_position(block + i))] = LAST; // held the key so far
            if (is_item_kept(block + i))
                workspace[i] = NO_ROW;
        }
        memoryBarrierBuffer();
        barrier();
        for (uint b = gl_LocalInvocationIndex; b < n_b; b += THREADS) {
            const uint position = first_b + 2 * b;
            uint head = next_rows[next_at(position)];
            for (uint i = n; i-- > 0;)
                if (workspace[i] == position) {
                    next_rows[next_at(item_position(block + i))] = head;
                    head = image_begin + item_position(block + i) * GROUP_SIZE;
                }
            next_rows[next_at(position)] = head;
        }
        barrier();
    }
    if (GROUP_SIZE == 1)
        return;
    memoryBarrierBuffer();
    barrier();
    for (uint position = gl_LocalInvocationIndex; position < image.len / GROUP_SIZE; position += THREADS) {
        const uint next = next_rows[next_at(position)];
        for (uint j = 1; j < GROUP_SIZE; j++)
            next_rows[next_at(position) + j] = next == LAST ? LAST : next + j;
    }
}

void store_source(uint at, uint position)
{
    if (at < uint(push.rows))
        src_rows[uint(push.src_rows_at) + at] = image_begin + position;
}

// Lists the remaining rows, starting at row `to` of the output layout: the prefix, the rest of A, B.
void list_rows(uint to, uint end_prefix, uint n_items, uint staying, uint first_b, uint n_b, uint rank)
{
    for (uint position = rank; position < end_prefix; position += THREADS)
        store_source(to + position, position);
    uint at = to + end_prefix;
    for (uint first = 0; first < n_items; first += THREADS) {
        const bool is_kept = first + rank < n_items && is_item_kept(first + rank);
        uint total;
        const uint before = group_exclusive_add(uint(is_kept), total);
        if (is_kept)
            store_source(at + before, item_position(first + rank));
        at += total;
    }
    for (uint b = rank; b < n_b; b += THREADS)
        store_source(to + end_prefix + staying + b, first_b + 2 * b);
}

// The same for merge groups of several rows: lists the remaining rows in their original order.
void list_in_order(rvit_sequence image, uint to, uint rank)
{
    for (uint first = 0; first < image.len; first += THREADS) {
        const bool is_kept = first + rank < image.len && is_row_kept(image.begin + first + rank);
        uint total;
        const uint before = group_exclusive_add(uint(is_kept), total);
        if (is_kept)
            store_source(to + before, first + rank);
        to += total;
    }
}

// `to`: first row of the image in the output layout.
void match_image(rvit_sequence image, uint to, uint rank)
{
    image_begin = image.begin;
    const uint end_prefix = prefix_end(image);
    image_first_a = (end_prefix + 1) / 2 * 2;
    const uint first_b = end_prefix / 2 * 2 + 1;
    const uint n_items = every_second(image_first_a, image.len / GROUP_SIZE), n_b = every_second(first_b, image.len / GROUP_SIZE);
    for (uint word = image.begin / 4 + rank; word < (image.begin + image.len + 3) / 4; word += THREADS)
        store_marks(word, image.begin, image.begin + image.len, KEPT * EACH_BYTE);
    store_metric(image);
    memoryBarrierBuffer();
    barrier();
    const uint n_chosen = n_merges(image);
    for (uint block = 0; block < n_items && n_chosen > 0; block += BLOCK)
        find_partners(image, block, min(block + BLOCK, n_items), first_b, n_b);
    const uint staying = choose(n_items, n_chosen, rank);
    link(image, n_items, n_chosen, first_b, n_b);
    if (GROUP_SIZE > 1)
        list_in_order(image, to, rank);
    else
        list_rows(to, end_prefix, n_items, staying, first_b, n_b, rank);
    barrier();
}

void main()
{
    const uint rank = group_rank();
    const uint n_images = uint(push.n_images);
    const uint first = min(group_index() * uint(push.share), n_images);
    const uint end = min(first + uint(push.share), n_images);
    uint sum = 0, to;
    for (uint image = rank; image < first; image += THREADS) {
        const rvit_sequence rows = image_rows(image);
        sum += rows.len - n_merges(rows) * GROUP_SIZE;
    }
    group_exclusive_add(sum, to);
    if (group_index() == 0 && rank == 0)
        out_cu_seqlens[uint(push.out_cu_seqlens_at)] = 0;
    for (uint image = first; image < end; image++) {
        const rvit_sequence rows = image_rows(image);
        match_image(rows, to, rank);
        to = min(to + rows.len - n_merges(rows) * GROUP_SIZE, uint(push.rows));
        if (rank == 0)
            out_cu_seqlens[uint(push.out_cu_seqlens_at) + image + 1] = to;
    }
    if (end == n_images)
        store_dispatch_sizes(to, rank);
}

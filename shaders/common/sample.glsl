// RVIT_SELECT_SAMPLE: marks the rows that are nearest to some sample. Rows are visited in ascending order of score, one sorted block at a
// time. A rank is picked if its value c is above that of the previous rank and a sample is past the midpoint of the two but not past the
// midpoint to the next rank: that is, if fewer samples are before the first midpoint than before the second. Of equal values the lowest
// rank is picked. Rank 0 is never picked, because no sample is below y0.
#ifndef SAMPLE_GLSL
#define SAMPLE_GLSL

#include "workspace.glsl"

#define BLOCK WORKSPACE
const uint SORT_ITEMS = 1 + LONG * 3; // pairs per thread and step
#define COLLECT_ITEMS 32              // rows per thread and step
shared uint n_collected;
shared uvec2 lowest_value; // y0
shared uint open_item;     // last row of the previous block, and the number of samples before its midpoint
shared uint open_samples;

bool comes_before(uint a, uint b)
{
    const uint key_a = key_at(a), key_b = key_at(b);
    return key_a < key_b || (key_a == key_b && a < b);
}

void sort_pair(uint low, uint high, uint n)
{
    if (high >= n)
        return;
    const uint a = workspace[low], b = workspace[high];
    if (comes_before(b, a)) {
        workspace[low] = b;
        workspace[high] = a;
    }
}

// Sorts n items with a bitonic network whose comparisons all ascend, so that the block need not be padded.
void sort_block(uint n, uint rank)
{
    for (uint width = 2; width < 2 * n; width *= 2) {
        for (uint first = rank; first / (width / 2) * width < n; first += THREADS * SORT_ITEMS)
            [[unroll]] for (uint j = 0; j < SORT_ITEMS; j++) {
                const uint t = first + j * THREADS;
                const uint start = t / (width / 2) * width, i = t % (width / 2);
                sort_pair(start + i, start + width - 1 - i, n);
            }
        barrier();
        for (uint distance = width / 4; distance > 0; distance /= 2) {
            for (uint first = rank; first / distance * 2 * distance < n; first += THREADS * SORT_ITEMS)
                [[unroll]] for (uint j = 0; j < SORT_ITEMS; j++) {
                    const uint t = first + j * THREADS;
                    const uint low = t / distance * 2 * distance + t % distance;
                    sort_pair(low, low + distance, n);
                }
            barrier();
        }
    }
}

// A position in the ascending order: after all rows below key and the first n_equal rows with this key.
struct boundary {
    uint key;
    uint n_equal;
};

boundary find_boundary(uint first, uint end, uint rank, uint n_before)
{
    if (n_before == 0)
        return boundary(0, 0);
    uint need = end - first - n_before + 1;
    uint n_equal;
    const uint key = find_kth(first, end, rank, need, n_equal);
    return boundary(key, n_equal - need + 1);
}

// Copies the items between two boundaries into the workspace, unordered. The workspace is initialised first: with an invalid layout,
// another workgroup may write to the same scores, and fewer items may be found.
void collect(uint first, uint end, uint rank, boundary low, boundary high)
{
    if (rank == 0)
        n_collected = 0;
    for (uint i = rank; i < BLOCK; i += THREADS)
        workspace[i] = first;
    barrier();
    uint low_before = 0, high_before = 0;
    for (uint start = first; start < end; start += THREADS * COLLECT_ITEMS) {
        const uint own = start + rank * COLLECT_ITEMS;
        uint n_equal = 0; // rows equal to each boundary, in 16 bits each
        [[unroll]] for (uint i = 0; i < COLLECT_ITEMS; i++) {
            const uint key = own + i < end ? key_at(own + i) : 0;
            n_equal += uint(own + i < end && key == low.key) | uint(own + i < end && key == high.key) << 16;
        }
        uint total;
        const uint equal = group_exclusive_add(n_equal, total);
        uint low_rank = low_before + (equal & 0xffffu), high_rank = high_before + (equal >> 16);
        [[unroll]] for (uint i = 0; i < COLLECT_ITEMS; i++) {
            const uint key = own + i < end ? key_at(own + i) : 0;
            const bool past_low = key > low.key || (key == low.key && low_rank++ >= low.n_equal);
            const bool below_high = key < high.key || (key == high.key && high_rank++ < high.n_equal);
            if (own + i < end && past_low && below_high) {
                const uint at = atomicAdd(n_collected, 1);
                if (at < BLOCK)
                    workspace[at] = own + i;
            }
        }
        low_before += total & 0xffffu;
        high_before += total >> 16;
    }
    barrier();
}

// The number of samples y0 + k (last - y0) / (n_samples - 1), in ascending order, that are not nearer to c than to the previous value.
uint samples_before(uvec2 before, uvec2 c, uvec2 y0, uvec2 last)
{
    const uint n_samples = uint(push.amount);
    const uint scale = max(n_samples - 1, 1u);
    const uvec2 step = subtract64(last, y0);
    const uvec2 start = multiply64(y0, scale), from = multiply64(before, scale), to = multiply64(c, scale);
    uint low = 0, high = n_samples;
    while (low < high) {
        const uint k = low + (high - low) / 2;
        const uvec2 y = add64(start, multiply64(step, k));
        const bool past = !less64(y, to) || (less64(from, y) && less64(subtract64(to, y), subtract64(y, from)));
        if (past)
            high = k;
        else
            low = k + 1;
    }
    return low;
}

// For two or more items. All threads must call it.
void sample_items(uint image_begin, uint first, uint end, uint rank, key_range range)
{
    const uint n = end - first;
    const uvec2 last = subtract64(sum_of_all(first, end, rank, range), uvec2(summand(range.lowest, range), 0));
    uvec2 before = uvec2(0); // c of the last rank before the block
    boundary low = boundary(0, 0);
    if (rank == 0)
        open_item = NO_ROW;
    for (uint block = 0; block < n; block += BLOCK) {
        const uint n_block = min(BLOCK, n - block);
        if (LONG == 0 || n <= BLOCK) {
            for (uint i = rank; i < n; i += THREADS)
                workspace[i] = first + i;
            barrier();
        } else {
            const boundary high = find_boundary(first, end, rank, block + n_block);
            collect(first, end, rank, low, high);
            low = high;
        }
        sort_block(n_block, rank);
        const uint share = (n_block + THREADS - 1) / THREADS;
        const uint from = min(rank * share, n_block), to = min(from + share, n_block);
        uvec2 sum = uvec2(0);
        for (uint r = from; r < to; r++)
            if (block + r > 0)
                sum = add64(sum, uvec2(summand(key_at(workspace[r]), range), 0));
        uvec2 total;
        uvec2 c = add64(before, group_exclusive_add48(sum, total));
        before = add64(before, total);
        uint pending = NO_ROW, pending_samples = 0;
        if (block > 0 && from == 0 && to > 0) {
            pending = open_item;
            pending_samples = open_samples;
        }
        uvec2 running = c;
        for (uint r = from; r < to; r++) {
            const uint value = block + r > 0 ? summand(key_at(workspace[r]), range) : 0;
            if (value > 0 && running == uvec2(0))
                lowest_value = uvec2(value, 0);
            running = add64(running, uvec2(value, 0));
        }
        barrier();
        const uvec2 y0 = lowest_value;
        // Also visits the first rank past the share, to finish the last rank of the share.
        for (uint r = from; r < min(to + uint(from < to), n_block); r++) {
            const uint item = workspace[r];
            const uint value = block + r > 0 ? summand(key_at(item), range) : 0;
            if (value == 0)
                continue;
            const uvec2 next = add64(c, uvec2(value, 0));
            const uint samples = samples_before(c, next, y0, last);
            if (pending != NO_ROW && pending_samples < samples)
                add_mark(image_begin + pending, KEPT);
            pending = r < to ? item : NO_ROW;
            pending_samples = samples;
            c = next;
        }
        if (from < to && to == n_block) {
            if (block + n_block == n) {
                if (pending != NO_ROW && pending_samples < uint(push.amount))
                    add_mark(image_begin + pending, KEPT);
            } else {
                open_item = pending;
                open_samples = pending_samples;
            }
        }
        barrier();
    }
}

#endif

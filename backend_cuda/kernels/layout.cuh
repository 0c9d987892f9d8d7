/* A single-launch prefix sum over images, for ops that compute new layouts. CTAs take images in ticket order, and one CTA per image
   looks back at its predecessors for the number of rows kept before it. A CTA only waits for CTAs that have started. */
#ifndef RVIT_LAYOUT_CUH
#define RVIT_LAYOUT_CUH

#include "elements.cuh"

struct layout_memory {
    int ticket, before, is_last;
};

/* The state of an image: how many rows it keeps (AGGREGATE), or including all images before it (INCLUSIVE); any other tag: unknown. */
enum { AGGREGATE = 1, INCLUSIVE = 2 };

RVIT_DEVICE unsigned long long make_state(unsigned tag, int kind, int value)
{
    return (unsigned long long)tag << 34 | (unsigned long long)kind << 32 | (unsigned)value;
}

/* The CTA's number; its image is ticket / parts. Negative: no image. */
RVIT_DEVICE int take_ticket(const rvit_cu_layout &layout, layout_memory &memory)
{
    if (layout.n_images == 0) {
        if (threadIdx.x == 0) {
            layout.out_cu_seqlens[0] = 0;
            if (layout.error != nullptr && !layout.error_stays)
                *layout.error = 0;
        }
        return -1;
    }
    int ticket = blockIdx.x; /* CTAs of a single image need no order */
    if (layout.n_images > 1) {
        if (threadIdx.x == 0)
            memory.ticket = atomic_add(&layout.scratch->tickets, 1);
        block_sync();
        ticket = memory.ticket;
    }
    if (ticket == 0 && threadIdx.x == 0)
        layout.out_cu_seqlens[0] = 0;
    return ticket;
}

/* Ends the part of an image that its CTAs share. Returns true in the last CTA, which then sees what the others have written. */
RVIT_DEVICE bool is_last_part(const rvit_cu_layout &layout, int image, layout_memory &memory)
{
    block_sync();
    if (layout.parts == 1)
        return true;
    if (threadIdx.x == 0) {
        int32_t *arrived = &layout.records[image].arrived;
        memory.is_last = atomic_add_ordered(arrived, 1) == layout.parts - 1;
        if (memory.is_last)
            *arrived = 0;
    }
    block_sync();
    return memory.is_last != 0;
}

/* Distinguishes this op's records from those of earlier ops. */
RVIT_DEVICE unsigned layout_tag(const rvit_cu_layout &layout)
{
    return (unsigned)layout.scratch->epoch + 1u;
}

/* One warp publishes how many rows the image keeps, and returns how many the images before it keep. Sums saturate at the row capacity,
   which only an invalid layout with overlapping images exceeds. */
RVIT_DEVICE int look_back(const rvit_cu_layout &layout, int image, int kept, unsigned tag)
{
    const int lane = threadIdx.x & 31, max_rows = layout.rows;
    const bool is_awaited = image + 1 < layout.n_images;
    if (lane == 0 && image > 0 && is_awaited)
        store_relaxed(&layout.records[image].state, make_state(tag, AGGREGATE, kept));
    int before = 0;
    for (int last = image - 1; last >= 0; last -= 32) {
        const int at = last - lane;
        unsigned long long state = make_state(tag, INCLUSIVE, 0);
        if (at >= 0)
            do {
                state = load_relaxed(&layout.records[at].state);
            } while ((unsigned)(state >> 34) != tag);
        const int nearest = find_first(warp_ballot((state >> 32 & 3) == INCLUSIVE));
        int sum = nearest < 0 || lane <= nearest ? (int)(unsigned)state : 0;
        for (int mask = 16; mask > 0; mask /= 2)
            sum = saturating_add(sum, shuffle_xor(sum, mask), max_rows);
        before = saturating_add(before, sum, max_rows);
        if (nearest >= 0)
            break;
    }
    if (lane == 0) {
        const int inclusive = saturating_add(before, kept, max_rows);
        if (is_awaited)
            store_relaxed(&layout.records[image].state, make_state(tag, INCLUSIVE, inclusive));
        layout.out_cu_seqlens[image + 1] = inclusive;
    }
    return before;
}

/* Called by one thread once its image needs no more records. The last one reports the error and resets the scratch memory. kind: the
   image's error, or -1. */
RVIT_DEVICE void finish_layout(const rvit_cu_layout &layout, int image, int kind, unsigned tag)
{
    rvit_cu_layout_scratch *scratch = layout.scratch;
    if (layout.error != nullptr && layout.image_errors && (kind >= 0 || !layout.error_stays))
        layout.error[1 + image] = kind + 1;
    int last_error = kind < 0 ? 0 : INT32_MAX - (int)min(3LL * image + kind + 1, (long long)INT32_MAX - 1);
    if (layout.n_images > 1) {
        if (last_error != 0)
            (void)atomic_max(&scratch->last_error, last_error);
        if (atomic_add_ordered(&scratch->finished, 1) != layout.n_images - 1)
            return;
        last_error = atomic_max(&scratch->last_error, 0);
        scratch->tickets = 0, scratch->finished = 0, scratch->last_error = 0;
    }
    if (layout.error != nullptr && (last_error != 0 || !layout.error_stays))
        *layout.error = last_error == 0 ? 0 : INT32_MAX - last_error;
    if (tag < (1u << 30) - 1u) {
        scratch->epoch = (int)tag;
        return;
    }
    for (int i = 0; i < layout.n_records; i++)
        layout.records[i].state = 0;
    scratch->epoch = 0;
}

#endif

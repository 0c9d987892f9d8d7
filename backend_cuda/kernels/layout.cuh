/* What ops that lay images out anew share, to do so in one launch: CTAs take images in the order of a ticket, one of them learns from its
   predecessors how many rows the images before its own keep. A CTA only ever waits for CTAs that have started. */
#ifndef RVIT_LAYOUT_CUH
#define RVIT_LAYOUT_CUH

#include "elements.cuh"

/* Which image a CTA works for, and which part of it. */
struct layout_memory {
    int image, part, before, is_last;
};

/* The state of an image: how many rows it keeps (AGGREGATE), or it and all images before it (INCLUSIVE); any other tag: not known yet. */
enum { AGGREGATE = 1, INCLUSIVE = 2 };

RVIT_DEVICE unsigned long long make_state(unsigned tag, int kind, int value)
{
    return (unsigned long long)tag << 34 | (unsigned long long)kind << 32 | (unsigned)value;
}

/* Sums stop at the row capacity, which only a broken layout, whose images overlap, exceeds. */
RVIT_DEVICE int add_up_to(int a, int b, int most)
{
    return (int)min((unsigned)a + (unsigned)b, (unsigned)most);
}

/* False: there is no image. Else memory.image and part are set. */
RVIT_DEVICE bool take_ticket(const rvit_cu_layout &layout, layout_memory &memory)
{
    if (layout.n_images == 0) {
        if (threadIdx.x == 0) {
            layout.out_cu_seqlens[0] = 0;
            if (layout.error != nullptr)
                *layout.error = 0;
        }
        return false;
    }
    if (threadIdx.x == 0) {
        const int ticket = atomic_add(&layout.scratch->tickets, 1);
        memory.image = ticket / layout.parts;
        memory.part = ticket % layout.parts;
        if (ticket == 0)
            layout.out_cu_seqlens[0] = 0;
    }
    block_sync();
    return true;
}

/* Ends the part of an image that its CTAs share. True in the last CTA to come, which then sees what the others have written. */
RVIT_DEVICE bool is_last_part(const rvit_cu_layout &layout, layout_memory &memory)
{
    if (layout.parts == 1) {
        block_sync();
        return true;
    }
    memory_fence();
    block_sync();
    if (threadIdx.x == 0) {
        int32_t *arrived = &layout.records[memory.image].arrived;
        memory.is_last = atomic_add(arrived, 1) == layout.parts - 1;
        if (memory.is_last)
            *arrived = 0;
        memory_fence();
    }
    block_sync();
    return memory.is_last != 0;
}

/* Tells this op's records from those of earlier ones. */
RVIT_DEVICE unsigned layout_tag(const rvit_cu_layout &layout)
{
    return (unsigned)layout.scratch->epoch + 1u;
}

/* By one warp: publishes what the image keeps, and returns what the images before it keep. */
RVIT_DEVICE int look_back(const rvit_cu_layout &layout, int image, int kept, unsigned tag)
{
    const int lane = threadIdx.x & 31, most = layout.rows;
    if (lane == 0 && image > 0)
        store_release(&layout.records[image].state, make_state(tag, AGGREGATE, kept));
    int before = 0;
    for (int last = image - 1; last >= 0; last -= 32) {
        const int at = last - lane;
        unsigned long long state = make_state(tag, INCLUSIVE, 0);
        if (at >= 0)
            do {
                state = load_acquire(&layout.records[at].state);
            } while ((unsigned)(state >> 34) != tag);
        const int nearest = find_first(warp_ballot((state >> 32 & 3) == INCLUSIVE));
        int sum = nearest < 0 || lane <= nearest ? (int)(unsigned)state : 0;
        for (int mask = 16; mask > 0; mask /= 2)
            sum = add_up_to(sum, shuffle_xor(sum, mask), most);
        before = add_up_to(before, sum, most);
        if (nearest >= 0)
            break;
    }
    if (lane == 0) {
        const int inclusive = add_up_to(before, kept, most);
        store_release(&layout.records[image].state, make_state(tag, INCLUSIVE, inclusive));
        layout.out_cu_seqlens[image + 1] = inclusive;
    }
    return before;
}

/* By one thread, when its image no longer needs the records: the last one to come reports the error and leaves the scratch as the next op
   expects it. kind: of the image's error; below 0: none. */
RVIT_DEVICE void finish_layout(const rvit_cu_layout &layout, int image, int kind, unsigned tag)
{
    rvit_cu_layout_scratch *scratch = layout.scratch;
    if (kind >= 0)
        atomic_max(&scratch->last_error, INT32_MAX - (int)min(3LL * image + kind + 1, (long long)INT32_MAX - 1));
    memory_fence();
    if (atomic_add(&scratch->finished, 1) != layout.n_images - 1)
        return;
    memory_fence();
    const int last_error = atomic_max(&scratch->last_error, 0);
    if (layout.error != nullptr)
        *layout.error = last_error == 0 ? 0 : INT32_MAX - last_error;
    scratch->tickets = 0, scratch->finished = 0, scratch->last_error = 0;
    if (tag < (1u << 30) - 1u) {
        scratch->epoch = (int)tag;
        return;
    }
    for (int i = 0; i < layout.n_records; i++)
        layout.records[i].state = 0;
    scratch->epoch = 0;
}

#endif

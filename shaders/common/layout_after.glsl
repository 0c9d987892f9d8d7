// Writes the output layout of a selection from the keep marks. The workgroup that arrives last does it: no workgroup waits for another, so
// no forward progress guarantee is needed.
#ifndef LAYOUT_AFTER_GLSL
#define LAYOUT_AFTER_GLSL

layout(binding = 3) coherent buffer OutCuSeqlens { uint out_cu_seqlens[]; };
layout(binding = 4) writeonly buffer SrcRows { int src_rows[]; };
layout(binding = 6) coherent writeonly buffer Error { int error[]; };

#define DISPATCH_SIZES_BINDING 7
#include "dispatch_sizes.glsl"

shared uint is_last;

// Clears the error of an image before it is processed. Every thread calls it.
void clear_errors(uint image, uint rank)
{
    if ((FLAGS & RVIT_SELECT_IMAGE_ERRORS) == 0 || (FLAGS & RVIT_SELECT_ERROR_STAYS) != 0)
        return;
    if (rank == 0)
        error[uint(push.error_at) + 1 + image] = 0;
    memoryBarrierBuffer();
    barrier();
}

void report(uint image, uint kind)
{
    if ((FLAGS & RVIT_SELECT_IMAGE_ERRORS) != 0)
        error[uint(push.error_at) + 1 + image] = int(kind) + 1;
    atomicMax(smallest_error, 0xffffffffu - (1 + 3 * image + kind));
}

bool arrives_last()
{
    memoryBarrierBuffer();
    barrier();
    if (gl_LocalInvocationIndex == 0)
        is_last = uint(atomicAdd(arrived, 1) == gl_NumWorkGroups.x * gl_NumWorkGroups.y - 1);
    barrier();
    memoryBarrierBuffer();
    return is_last != 0;
}

void store_source(uint at, uint row)
{
    // Only an invalid layout, whose images overlap, keeps more rows than exist.
    if (at < uint(push.rows))
        src_rows[uint(push.src_rows_at) + at] = int(row);
}

// The threads process segments of images in order: each segment is an image, or several threads share an image.
void lay_out(uint rank)
{
    const uint n_images = uint(push.n_images);
    const uint out_at = uint(push.out_cu_seqlens_at);
    uint segments = 1;
    while (segments * 2 * n_images <= THREADS && segments < THREADS)
        segments *= 2;
    uint before = 0;
    for (uint first = 0; first < n_images * segments; first += THREADS) {
        const uint image = (first + rank) / segments;
        const uint segment = (first + rank) % segments;
        uint begin = 0, end = 0, word = 0, end_word = 0;
        if (image < n_images) {
            const rvit_sequence rows = image_rows(image);
            begin = rows.begin;
            end = begin + rows.len;
            const uint n_words = (end + 3) / 4 - begin / 4;
            const uint share = (n_words + segments - 1) / segments;
            word = begin / 4 + min(segment * share, n_words);
            end_word = begin / 4 + min(segment * share + share, n_words);
        }
        uint n = 0;
        for (uint first_word = word; first_word < end_word; first_word += 4)
            [[unroll]] for (uint i = 0; i < 4; i++) {
                const uint w = min(first_word + i, end_word - 1);
                const uint marks = load_marks(w, begin, end) & (KEPT | FUSED_END) * EACH_BYTE;
                n += first_word + i < end_word ? bitCount(marks) : 0;
            }
        uint total;
        uint at = before + group_exclusive_add(n, total);
        before = min(before + total, uint(push.rows));
        if (image < n_images && segment == segments - 1)
            out_cu_seqlens[out_at + image + 1] = min(at + n, uint(push.rows));
        memoryBarrierBuffer();
        barrier();
        for (uint w = word; w < end_word; w++) {
            const uint marks = load_marks(w, begin, end);
            for (uint i = 0; i < 4; i++) {
                const uint row = w * 4 + i;
                const uint mark = marks >> i * 8;
                if ((mark & KEPT) != 0)
                    store_source(at++, row);
                if ((FLAGS & RVIT_SELECT_HAS_FUSE) == 0 || (mark & (FUSED | FUSED_END)) == 0)
                    continue;
                if ((mark & FUSED) != 0)
                    store_source(out_cu_seqlens[out_at + image + 1] - 1, row);
                clear_mark(row, FUSED | FUSED_END);
            }
        }
    }
    store_dispatch_sizes(before, rank);
    if (rank == 0) {
        out_cu_seqlens[out_at] = 0;
        const uint found = atomicExchange(smallest_error, 0);
        atomicExchange(arrived, 0);
        if ((FLAGS & RVIT_SELECT_HAS_ERROR) != 0 && (found != 0 || (FLAGS & RVIT_SELECT_ERROR_STAYS) == 0))
            error[uint(push.error_at)] = found == 0 ? 0 : int(min(0xffffffffu - found, 0x7fffffffu));
    }
}

#endif

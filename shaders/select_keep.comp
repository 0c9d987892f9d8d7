// Marks the rows to keep, an image to a group, and counts them. The k-th best score is found digit by digit (radix 256) from the highest;
// among the rows equal to it the first ones are kept.
#version 450
#extension GL_GOOGLE_include_directive : require
#include "common/select.glsl"
#include "common/order.glsl"

layout(binding = RVIT_SELECT_COUNTS) readonly buffer Counts { int counts[]; };
layout(binding = RVIT_SELECT_INPUT) readonly buffer Input { uint inputs[]; };
layout(binding = RVIT_SELECT_KEEP) buffer Keep { uint keep_words[]; };

#define DIGITS 256
shared uint histogram[DIGITS];
shared uint found_digit;
shared uint found_need;
shared uint error_found;

uint key_of(uint row)
{
    return score_key(inputs[uint(push.input_at) + row]);
}

bool mask_of(uint row)
{
    return (inputs[uint(push.input_at) + row / 4] >> row % 4 * 8 & 0xffu) != 0;
}

// The key of the `need`-th best of the rows first..end-1, 1 <= need <= end - first; need becomes how many equal to it are among the best.
uint find_threshold(uint first, uint end, uint rank, inout uint need)
{
    uint prefix = 0;
    for (int shift = 24; shift >= 0; shift -= 8) {
        for (uint d = rank; d < DIGITS; d += THREADS)
            histogram[d] = 0;
        barrier();
        for (uint row = first + rank; row < end; row += THREADS) {
            const uint key = key_of(row);
            if (shift == 24 || key >> shift + 8 == prefix)
                atomicAdd(histogram[key >> shift & 0xffu], 1);
        }
        barrier();
        // The threads in order take the digits from the highest down, an equal share each.
        const uint share = (DIGITS + THREADS - 1) / THREADS;
        const uint from = rank * share;
        uint sum = 0;
        for (uint i = from; i < min(from + share, DIGITS); i++)
            sum += histogram[DIGITS - 1 - i];
        uint total;
        uint better = group_exclusive_add(sum, total);
        if (better < need && need <= better + sum)
            for (uint i = from; i < min(from + share, DIGITS); i++) {
                const uint n = histogram[DIGITS - 1 - i];
                if (better < need && need <= better + n) {
                    found_digit = DIGITS - 1 - i;
                    found_need = need - better;
                }
                better += n;
            }
        barrier();
        prefix = prefix << 8 | found_digit;
        need = found_need;
        barrier();
    }
    return prefix;
}

void main()
{
    const uint image = group_index();
    if (image >= uint(push.n_images))
        return;
    const rvit_sequence rows = image_rows(image);
    const uint begin = rows.begin;
    const uint end = rows.begin + rows.len;
    const uint prefix_end = begin + min(uint(push.n_prefix), rows.len);
    const uint first = MODE == RVIT_SELECT_TOP_K_MODE && push.prefix_competes != 0 ? begin : prefix_end;
    const uint rank = group_rank();
    if (rank == 0)
        error_found = 0;

    // Kept are the rows with a key above the threshold and the first `need` of those at it.
    uint threshold = 0xffffffffu;
    uint need = 0;
    if (MODE == RVIT_SELECT_THRESHOLD_MODE) {
        threshold = uint(push.threshold_key) - 1;
    } else if (MODE == RVIT_SELECT_TOP_K_MODE) {
        const uint n = end - first;
        need = uint(clamp(counts[uint(push.counts_at) + n], 0, int(n)));
        if (need == n) {
            threshold = NAN_KEY;
        } else if (need > 0) {
            threshold = find_threshold(first, end, rank, need);
        }
    }
    barrier();

    uint equal_before = 0;
    uint kept = 0;
    bool is_error = false;
    const uint end_word = (end + 3) / 4;
    for (uint first_word = begin / 4; first_word < end_word; first_word += THREADS) {
        const uint word = first_word + rank;
        uint keys[4];
        uint n_equal = 0;
        uint bytes = 0;
        for (uint i = 0; i < 4; i++) {
            const uint row = word * 4 + i;
            keys[i] = NAN_KEY;
            if (row < begin || row >= end)
                continue;
            if (MODE == RVIT_SELECT_MASK_MODE) {
                const bool given = mask_of(row);
                is_error = is_error || (row < prefix_end && !given);
                if (given || row < prefix_end)
                    bytes |= 1u << i * 8;
                continue;
            }
            keys[i] = key_of(row);
            is_error = is_error || (row >= first && keys[i] == NAN_KEY);
            if (row < prefix_end || keys[i] > threshold)
                bytes |= 1u << i * 8;
            n_equal += uint(row >= first && keys[i] == threshold);
        }
        if (MODE == RVIT_SELECT_TOP_K_MODE) {
            uint total;
            uint equal = equal_before + group_exclusive_add(n_equal, total);
            for (uint i = 0; i < 4; i++) {
                const uint row = word * 4 + i;
                if (row >= first && row < end && keys[i] == threshold) {
                    if (equal < need)
                        bytes |= 1u << i * 8;
                    equal++;
                }
            }
            equal_before += total;
        }
        kept += bitCount(bytes);
        // A word may be shared with the neighbouring images.
        const uint inside = bytes_inside(word, begin, end);
        const uint at = uint(push.keep_at) + word;
        if (inside == 0xffffffffu) {
            keep_words[at] = bytes;
        } else if (inside != 0) {
            atomicAnd(keep_words[at], ~inside);
            atomicOr(keep_words[at], bytes);
        }
    }
    if (is_error)
        atomicOr(error_found, 1);
    uint total;
    group_exclusive_add(kept, total);
    if (rank == 0)
        out_cu_seqlens[uint(push.out_cu_seqlens_at) + image + 1] = total | (error_found != 0 ? RVIT_SELECT_ERROR_FLAG : 0u);
}

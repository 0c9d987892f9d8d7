// Finds the k-th best of a set of keys, digit by digit (radix 256) from the highest. The keys of the first items are in shared memory.
// LONG: there may be more items; the shader defines far_key(item) for them.
#ifndef KTH_GLSL
#define KTH_GLSL

#include "order.glsl"

#define NEAR_KEYS RVIT_NEAR_KEYS
#define DIGITS 256
// Items per thread and step. Mesa's software devices end every loop of a shader after 65,535 iterations of all its loops together, so
// loops over long images must take long steps.
const uint ITEMS = 1 + LONG * 15;
shared uint near_keys[NEAR_KEYS];
shared uint histogram[DIGITS];
shared uint found_digit;
shared uint found_need;

uint key_at(uint item)
{
    return LONG == 0 || item < NEAR_KEYS ? near_keys[item] : far_key(item);
}

// The key of the `need`-th best of the items first..end-1, 1 <= need <= end - first. need becomes the number of items with this key among
// the best; n_equal is the number of all items with this key.
uint find_kth(uint first, uint end, uint rank, inout uint need, out uint n_equal)
{
    uint prefix = 0;
    n_equal = 0;
    for (int shift = 24; shift >= 0; shift -= 8) {
        for (uint d = rank; d < DIGITS; d += THREADS)
            histogram[d] = 0;
        barrier();
        for (uint start = first + rank; start < end; start += THREADS * ITEMS)
            [[unroll]] for (uint i = 0; i < ITEMS; i++) {
                const uint item = start + i * THREADS;
                const uint key = item < end ? key_at(item) : 0;
                if (item < end && (shift == 24 || key >> shift + 8 == prefix))
                    atomicAdd(histogram[key >> shift & 0xffu], 1);
            }
        barrier();
        // The threads, in order, take equal shares of the digits, from the highest down.
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
        n_equal = histogram[found_digit];
        barrier();
    }
    return prefix;
}

#endif

// Scores as integers that can be summed in any order: see rvit_select_args. Only for scores that are neither NaN nor negative.
#ifndef SUMMAND_GLSL
#define SUMMAND_GLSL

#include "uint64.glsl"

const uint ZERO_KEY = 0x80000000u;
const uint INFINITY_KEY = 0xff800000u;

// The range of the keys of an image's competing rows.
struct key_range {
    uint lowest, highest;
    bool has_nan;
};

shared uint lowest_key;
shared uint highest_key;

// All threads must call it.
key_range find_range(uint first, uint end, uint rank)
{
    if (rank == 0) {
        lowest_key = 0xffffffffu;
        highest_key = 0u;
    }
    barrier();
    uint lowest = 0xffffffffu, highest = 0u;
    for (uint start = first + rank; start < end; start += THREADS * ITEMS)
        [[unroll]] for (uint i = 0; i < ITEMS; i++) {
            const uint key = key_at(min(start + i * THREADS, end - 1));
            lowest = min(lowest, key);
            highest = max(highest, key);
        }
    atomicMin(lowest_key, lowest);
    atomicMax(highest_key, highest);
    barrier();
    return key_range(lowest_key, highest_key, lowest_key == NAN_KEY);
}

bool can_be_added(key_range range)
{
    return range.lowest >= ZERO_KEY && range.highest < INFINITY_KEY && range.highest > ZERO_KEY;
}

uint summand(uint key, key_range range)
{
    const uint bits = key & 0x7fffffffu;
    const uint significand = bits < 0x800000u ? bits : bits & 0x7fffffu | 0x800000u;
    const uint below = max((range.highest & 0x7fffffffu) >> 23, 1u) - max(bits >> 23, 1u);
    return below <= 8 ? significand << 8 - below : below < 32 ? significand >> below - 8 : 0u;
}

// All threads must call it.
uvec2 sum_of_all(uint first, uint end, uint rank, key_range range)
{
    uvec2 sum = uvec2(0);
    for (uint start = first + rank; start < end; start += THREADS * ITEMS)
        [[unroll]] for (uint i = 0; i < ITEMS; i++) {
            const uint item = start + i * THREADS;
            sum = add64(sum, uvec2(item < end ? summand(key_at(item), range) : 0, 0));
        }
    uvec2 total;
    group_exclusive_add48(sum, total);
    return total;
}

#endif

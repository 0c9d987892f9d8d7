// RVIT_SELECT_MASS: finds the key at which the sum of the best rows exceeds the bound, like kth.glsl but with sums instead of counts.
#ifndef MASS_GLSL
#define MASS_GLSL

// Sums of the low and of the high 16 bits, which 65,536 summands cannot overflow. The low ones use `histogram`.
shared uint histogram_high[DIGITS];
shared uvec2 found_rest;

uvec2 digit_sum(uint digit)
{
    const uint high = histogram_high[digit];
    return add64(uvec2(histogram[digit], 0), uvec2(high << 16, high >> 16));
}

uvec2 mass_bound(uvec2 sum)
{
    if ((FLAGS & RVIT_SELECT_WHOLE_MASS) != 0)
        return sum;
    uint high, low;
    umulExtended(sum.x, uint(push.amount), high, low);
    return add64(multiply64(uvec2(sum.y, 0), uint(push.amount)), uvec2(high, 0));
}

// The key of the first row, from the best on, at which the running sum exceeds the bound (which is below the total). need becomes the
// number of rows with that key that are kept. All threads must call it.
uint find_mass(uint first, uint end, uint rank, key_range range, uvec2 bound, out uint need)
{
    uvec2 rest = bound;
    uint prefix = 0;
    for (int shift = 24; shift >= 0; shift -= 8) {
        for (uint d = rank; d < DIGITS; d += THREADS) {
            histogram[d] = 0;
            histogram_high[d] = 0;
        }
        barrier();
        for (uint start = first + rank; start < end; start += THREADS * ITEMS)
            [[unroll]] for (uint i = 0; i < ITEMS; i++) {
                const uint item = start + i * THREADS;
                const uint key = item < end ? key_at(item) : 0;
                if (item < end && (shift == 24 || key >> shift + 8 == prefix)) {
                    const uint value = summand(key, range);
                    atomicAdd(histogram[key >> shift & 0xffu], value & 0xffffu);
                    atomicAdd(histogram_high[key >> shift & 0xffu], value >> 16);
                }
            }
        barrier();
        const uint share = (DIGITS + THREADS - 1) / THREADS;
        const uint from = rank * share;
        uvec2 sum = uvec2(0);
        for (uint i = from; i < min(from + share, DIGITS); i++)
            sum = add64(sum, digit_sum(DIGITS - 1 - i));
        uvec2 total;
        uvec2 better = group_exclusive_add48(sum, total);
        for (uint i = from; i < min(from + share, DIGITS); i++) {
            const uvec2 with = add64(better, digit_sum(DIGITS - 1 - i));
            if (!less64(rest, better) && less64(rest, with)) {
                found_digit = DIGITS - 1 - i;
                found_rest = subtract64(rest, better);
            }
            better = with;
        }
        barrier();
        prefix = prefix << 8 | found_digit;
        rest = found_rest;
        barrier();
    }
    // How many times the summand fits into the rest, at most 65536; the best row is always kept.
    const uint value = summand(prefix, range);
    need = 0;
    for (uint step = 0x10000u; step > 0; step /= 2)
        if (!less64(rest, multiply64(uvec2(value, 0), need + step)))
            need += step;
    if (rest == bound)
        need = max(need, 1u);
    return prefix;
}

#endif

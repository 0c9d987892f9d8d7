// Unsigned 64-bit integers as pairs of 32-bit ones, because 64-bit integers are optional: x is the low half.
#ifndef UINT64_GLSL
#define UINT64_GLSL

uvec2 add64(uvec2 a, uvec2 b)
{
    uint carry;
    const uint low = uaddCarry(a.x, b.x, carry);
    return uvec2(low, a.y + b.y + carry);
}

uvec2 subtract64(uvec2 a, uvec2 b)
{
    uint borrow;
    const uint low = usubBorrow(a.x, b.x, borrow);
    return uvec2(low, a.y - b.y - borrow);
}

bool less64(uvec2 a, uvec2 b)
{
    return a.y < b.y || (a.y == b.y && a.x < b.x);
}

uvec2 multiply64(uvec2 a, uint b)
{
    uint high, low;
    umulExtended(a.x, b, high, low);
    return uvec2(low, high + a.y * b);
}

// Like group_exclusive_add(), for values whose sum is below 2^48: adds their 24-bit halves separately.
uvec2 group_exclusive_add48(uvec2 value, out uvec2 total)
{
    uint total_low, total_high;
    const uint low = group_exclusive_add(value.x & 0xffffffu, total_low);
    const uint high = group_exclusive_add(value.x >> 24 | value.y << 8, total_high);
    total = add64(uvec2(total_low, 0), uvec2(total_high << 24, total_high >> 8));
    return add64(uvec2(low, 0), uvec2(high << 24, high >> 8));
}

#endif

// Scores as unsigned keys in ascending order: NaN (of either sign) lowest, then -infinity, -0 equal to +0.
#ifndef ORDER_GLSL
#define ORDER_GLSL

const uint NAN_KEY = 0u;

uint score_key(uint bits)
{
    if ((bits & 0x7fffffffu) > 0x7f800000u)
        return NAN_KEY;
    if (bits == 0x80000000u)
        bits = 0u;
    return (bits & 0x80000000u) != 0 ? ~bits : bits | 0x80000000u;
}

#endif

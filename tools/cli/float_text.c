#include "float_text.h"

#include <math.h>
#include <stdint.h>
#include <string.h>

/* Nine digits of a float from 1e-4 up to 1e9, where "%.9g" has no exponent. Returns them as an integer, rounded to even like printf, and
   the power of ten of the first digit. 64 bits are enough for exact rounding, because a float is a 24-bit integer times a power of two. */
static uint64_t nine_digits(float value, int *out_exponent)
{
    static const uint64_t powers[] = {1,        10,        100,        1000,        10000,        100000,       1000000,
                                      10000000, 100000000, 1000000000, 10000000000, 100000000000, 1000000000000};
    int exponent = 8, two;
    const uint64_t mantissa = (uint64_t)ldexpf(frexpf(value, &two), 24);
    two -= 24;
    while (exponent >= 0 ? value < (float)powers[exponent] : (double)value * (double)powers[-exponent] < 1)
        exponent--;
    uint64_t digits = mantissa * powers[8 - exponent];
    if (two >= 0) {
        digits <<= two;
    } else {
        const uint64_t rest = digits & (((uint64_t)1 << -two) - 1), half = (uint64_t)1 << (-two - 1);
        digits >>= -two;
        digits += rest > half || (rest == half && (digits & 1));
    }
    if (digits == powers[9]) {
        digits = powers[8];
        exponent++;
    }
    *out_exponent = exponent;
    return digits;
}

char *float_text(char *out, float value)
{
    const float size = fabsf(value);
    if (!((double)size >= 1e-4 && size < 1e9F))
        return NULL;
    int exponent;
    char text[9];
    uint64_t digits = nine_digits(size, &exponent);
    int n = 9;
    for (int i = 8; i >= 0; i--, digits /= 10)
        text[i] = (char)('0' + digits % 10);
    while (n > 1 && text[n - 1] == '0')
        n--;
    if (value < 0)
        *out++ = '-';
    if (exponent < 0) {
        memcpy(out, "0.000", 5);
        out += 1 - exponent;
        memcpy(out, text, (size_t)n);
        return out + n;
    }
    for (int i = 0; i < n || i <= exponent + 1; i++) {
        if (i == exponent + 1)
            *out++ = '.';
        *out++ = i < n ? text[i] : '0';
    }
    return out;
}

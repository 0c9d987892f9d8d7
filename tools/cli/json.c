#include "json.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli.h"
#include "printable.h"

json_t *json_text(const char *text)
{
    json_t *string = json_string(text);
    char *copy = string ? NULL : strdup(text);
    if (copy) {
        for (char *c = copy; *c; c++)
            if ((unsigned char)*c >= 0x80)
                *c = '?';
        string = json_string(copy);
        free(copy);
    }
    return string;
}

json_t *json_number(double value)
{
    return isfinite(value) ? json_real(value) : json_null();
}

json_t *json_integers(const int32_t *values, int32_t n)
{
    json_t *array = json_array();
    for (int32_t i = 0; i < n; i++)
        json_array_append_new(array, json_integer(values[i]));
    return array;
}

json_t *json_floats(const float *values, int32_t n)
{
    json_t *array = json_array();
    for (int32_t i = 0; i < n; i++)
        json_array_append_new(array, json_number((double)values[i]));
    return array;
}

/* jansson does not escape bytes above 0x7e. */
static void print_printable(const char *text)
{
    for (;;) {
        size_t length = printable_length(text);
        fwrite(text, 1, length, stdout);
        text += length;
        if (!*text)
            return;
        printf("\\u%04x", (unsigned)printable_decode(text, &length));
        text += length;
    }
}

/* Nine digits reproduce a float exactly. */
static void print_slice(json_t *value, size_t skip_begin, size_t skip_end)
{
    char *text = json_dumps(value, JSON_REAL_PRECISION(9));
    json_decref(value);
    if (!text) {
        lose_output();
        return;
    }
    text[strlen(text) - skip_end] = 0;
    print_printable(text + skip_begin);
    free(text);
}

void json_print(json_t *value)
{
    print_slice(value, 0, 0);
}

void json_print_open(json_t *object)
{
    print_slice(object, 0, 1);
}

void json_print_close(json_t *object)
{
    print_slice(object, 1, 0);
}

/* Nine digits of a float from 1e-4 up to 1e9, where "%.9g" has no exponent: returns them as an integer, rounded to even as printf does, and
   the power of ten of the first. A float is an integer of 24 bits and a power of two, so that 64 bits hold all that decides. */
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

/* Returns the end. */
static char *write_float(char *out, float value)
{
    int exponent;
    char text[9];
    uint64_t digits = nine_digits(fabsf(value), &exponent);
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

void json_print_floats(const float *values, int32_t n)
{
    enum { MOST = 24 }; /* characters of a value */
    char text[256 * MOST], *end = text;
    putchar('[');
    for (int32_t i = 0; i < n; i++) {
        const float size = fabsf(values[i]);
        if (i > 0)
            end = (char *)memcpy(end, ", ", 2) + 2;
        if ((double)size >= 1e-4 && size < 1e9F) {
            end = write_float(end, values[i]);
        } else {
            fwrite(text, 1, (size_t)(end - text), stdout);
            end = text;
            print_slice(json_floats(values + i, 1), 1, 1); /* its element alone */
        }
        if (end - text > (ptrdiff_t)sizeof text - MOST) {
            fwrite(text, 1, (size_t)(end - text), stdout);
            end = text;
        }
    }
    fwrite(text, 1, (size_t)(end - text), stdout);
    putchar(']');
}

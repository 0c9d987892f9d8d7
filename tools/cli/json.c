#include "json.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli.h"
#include "float_text.h"
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

/* Escapes unprintable characters, because jansson does not escape bytes above 0x7e. */
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
        mark_output_lost();
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

void json_print_line(json_t *value)
{
    json_print(value);
    putchar('\n');
}

void json_print_open(json_t *object)
{
    print_slice(object, 0, 1);
}

void json_print_close(json_t *object)
{
    print_slice(object, 1, 0);
}

void json_print_floats(const float *values, int32_t n)
{
    char text[256 * MAX_FLOAT_TEXT], *end = text;
    putchar('[');
    for (int32_t i = 0; i < n; i++) {
        if (i > 0)
            end = (char *)memcpy(end, ", ", 2) + 2;
        char *after = float_text(end, values[i]);
        if (after) {
            end = after;
        } else {
            fwrite(text, 1, (size_t)(end - text), stdout);
            end = text;
            print_slice(json_floats(values + i, 1), 1, 1); /* only its element */
        }
        if (end - text > (ptrdiff_t)sizeof text - MAX_FLOAT_TEXT) {
            fwrite(text, 1, (size_t)(end - text), stdout);
            end = text;
        }
    }
    fwrite(text, 1, (size_t)(end - text), stdout);
    putchar(']');
}

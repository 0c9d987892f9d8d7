#include "json.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

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

/* Nine digits give a float back exactly. */
static bool print_slice(json_t *value, size_t skip_begin, size_t skip_end)
{
    char *text = json_dumps(value, JSON_REAL_PRECISION(9));
    json_decref(value);
    if (!text)
        return false;
    fwrite(text + skip_begin, 1, strlen(text) - skip_begin - skip_end, stdout);
    free(text);
    return true;
}

bool json_print(json_t *value)
{
    return print_slice(value, 0, 0);
}

bool json_print_open(json_t *object)
{
    return print_slice(object, 0, 1);
}

bool json_print_close(json_t *object)
{
    return print_slice(object, 1, 0);
}

#include "parse.h"

#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli.h"

bool parse_integer(const char *option, const char *text, int64_t low, int64_t high, int64_t *out)
{
    char *end;
    errno = 0;
    const long long value = strtoll(text, &end, 10);
    if (end == text || *end || errno || value < low || value > high) {
        complain(NULL, "--%s: '%s' is not a whole number from %" PRId64 " to %" PRId64, option, text, low, high);
        return false;
    }
    *out = value;
    return true;
}

bool parse_real(const char *option, const char *text, double low, double high, double *out)
{
    char *end;
    const double value = strtod(text, &end);
    if (end != text && !*end && isfinite(value) && value >= low && value <= high) {
        *out = value;
        return true;
    }
    if (isinf(high))
        complain(NULL, "--%s: '%s' is not a number from %g on", option, text, low);
    else
        complain(NULL, "--%s: '%s' is not a number from %g to %g", option, text, low, high);
    return false;
}

bool parse_colours(const char *option, const char *text, double low, double high, float *out)
{
    int n = 0;
    const char *at = text;
    for (char *end;; at = end + 1) {
        const double value = strtod(at, &end);
        if (end == at || !(value >= low && value <= high) || n == 3)
            break;
        out[n++] = (float)value;
        if (!*end && n == 1)
            out[1] = out[2] = out[0];
        if (!*end && n != 2)
            return true;
        if (*end != ',')
            break;
    }
    complain(NULL, "--%s: '%s' is not one number or three, as 0.485,0.456,0.406, from %g to %g", option, text, low, high);
    return false;
}

bool parse_name(const char *option, const char *text, const char *const *names, int n_names, int *out)
{
    for (int i = 0; i < n_names; i++)
        if (names[i] && strcmp(text, names[i]) == 0) {
            *out = i;
            return true;
        }
    char list[256] = "";
    for (int i = 0; i < n_names; i++)
        if (names[i])
            snprintf(list + strlen(list), sizeof list - strlen(list), " %s", names[i]);
    complain(NULL, "--%s: '%.1000s' is none of%s", option, text, list);
    return false;
}

bool parse_list(const char *option, const char *text, int32_t capacity, int32_t *out, int32_t *out_n)
{
    *out_n = 0;
    for (const char *at = text;; at++) {
        char *end;
        const long number = strtol(at, &end, 10);
        const bool ascends = *out_n == 0 || number > out[*out_n - 1];
        if (!isdigit((unsigned char)*at) || (*end && *end != ',') || number > INT32_MAX || !ascends || *out_n == capacity) {
            complain(NULL, "--%s: '%s' is not a list of ascending numbers such as 3,6,9, at most %d of them", option, text, capacity);
            return false;
        }
        out[(*out_n)++] = (int32_t)number;
        if (!*end)
            return true;
        at = end;
    }
}

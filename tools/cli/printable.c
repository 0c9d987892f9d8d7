#include "printable.h"

#include <stdbool.h>

int32_t printable_decode(const char *text, size_t *out_length)
{
    static const int32_t min[] = {0, 0, 0x80, 0x800, 0x10000}; /* by number of bytes; smaller codes are overlong */
    const unsigned char *bytes = (const unsigned char *)text;
    const unsigned char first = bytes[0];
    const size_t length = first < 0x80 ? 1 : first >= 0xf0 ? 4 : first >= 0xe0 ? 3 : 2;
    int32_t code = length == 1 ? first : first & (0x7f >> length);
    *out_length = 1;
    if (first >= 0xf8 || (first >= 0x80 && first < 0xc0))
        return -1;
    for (size_t i = 1; i < length; i++) {
        if ((bytes[i] & 0xc0) != 0x80) /* also stops at the NUL */
            return -1;
        code = code << 6 | (bytes[i] & 0x3f);
    }
    if (code < min[length] || code > 0x10ffff || (code >= 0xd800 && code <= 0xdfff))
        return -1;
    *out_length = length;
    return code;
}

static bool is_printable(int32_t code)
{
    static const int32_t refused[][2] = {
        {-1, 0x1f},       {0x7f, 0x9f},     {0x61c, 0x61c}, {0x200e, 0x200f},
        {0x2028, 0x202e}, {0x2066, 0x2069}, /* control characters, then
                                               characters that change the text
                                               direction */
    };
    for (size_t i = 0; i < sizeof refused / sizeof refused[0]; i++)
        if (code >= refused[i][0] && code <= refused[i][1])
            return false;
    return true;
}

/* The length of the printable start of text. *out_columns: its characters. */
static size_t measure(const char *text, int *out_columns)
{
    size_t at = 0, length;
    *out_columns = 0;
    while (is_printable(printable_decode(text + at, &length))) {
        at += length;
        ++*out_columns;
    }
    return at;
}

size_t printable_length(const char *text)
{
    int columns;
    return measure(text, &columns);
}

int printable_print(FILE *out, const char *text)
{
    int columns = 0;
    for (;;) {
        int more;
        const size_t length = measure(text, &more);
        columns += more;
        fwrite(text, 1, length, out);
        text += length;
        if (!*text)
            return columns;
        size_t n;
        printable_decode(text, &n);
        for (; n > 0; n--, text++)
            columns += fprintf(out, "\\x%02x", (unsigned)(unsigned char)*text);
    }
}

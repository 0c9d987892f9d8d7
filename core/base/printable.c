#include "core/base/printable.h"

#include <stdint.h>
#include <stdio.h>
#include <string.h>

/* Control characters, line separators and characters that change the text direction. */
static int is_control(uint32_t code)
{
    return code < 0x20 || (code >= 0x7f && code < 0xa0) || code == 0x61c || code == 0x200e || code == 0x200f ||
           (code >= 0x2028 && code <= 0x202e) || (code >= 0x2066 && code <= 0x2069);
}

/* The length of the printable UTF-8 sequence at text; 0 if it is a control character or not valid. */
static size_t printable_length(const unsigned char *text)
{
    static const uint32_t min[] = {0, 0, 0x80, 0x800, 0x10000}; /* by length: smaller codes have a shorter sequence */
    const unsigned char c = text[0];
    const size_t length = c < 0x80 ? 1 : c < 0xc0 || c > 0xf4 ? 0 : c >= 0xf0 ? 4 : c >= 0xe0 ? 3 : 2;
    uint32_t code = length == 1 ? c : c & (0x7fu >> length);
    for (size_t i = 1; i < length; i++) {
        if ((text[i] & 0xc0) != 0x80)
            return 0;
        code = code << 6 | (text[i] & 0x3fu);
    }
    return code < min[length] || code > 0x10ffff || (code >= 0xd800 && code < 0xe000) || is_control(code) ? 0 : length;
}

/* Writes the next character, or its "\xNN", to piece. Returns its length in bytes. */
static size_t next_piece(const unsigned char **in, char piece[5])
{
    const size_t length = printable_length(*in);
    if (length != 0)
        memcpy(piece, *in, length);
    else
        (void)snprintf(piece, 5, "\\x%02x", **in);
    *in += length != 0 ? length : 1;
    return length != 0 ? length : 4;
}

void rvit_printable(char *out, size_t size, const char *text)
{
    const unsigned char *in = (const unsigned char *)text;
    char piece[5];
    size_t whole = 0, at = 0, passed = 0;
    while (*in != '\0')
        whole += next_piece(&in, piece);
    const size_t room = size - sizeof "...";
    const size_t head = whole < size ? whole : room / 2;
    size_t tail = whole;
    for (in = (const unsigned char *)text; *in != '\0';) {
        const size_t step = next_piece(&in, piece);
        if (tail == whole && passed + step > head) {
            tail = room - at;
            memcpy(out + at, "...", 3);
            at += 3;
        }
        if (whole - passed <= tail) {
            memcpy(out + at, piece, step);
            at += step;
        }
        passed += step;
    }
    out[at] = '\0';
}

rvit_shown_text rvit_shown(const char *text)
{
    rvit_shown_text out;
    rvit_printable(out.text, sizeof out.text, text);
    return out;
}

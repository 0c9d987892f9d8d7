/* Makes text from files and command lines safe for terminals by escaping control characters. */
#ifndef RVIT_CLI_PRINTABLE_H
#define RVIT_CLI_PRINTABLE_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

/* The number of leading printable bytes of text, up to its end, a byte that is not UTF-8, a control character, or one that changes the text
   direction. */
size_t printable_length(const char *text);
/* The first character of text, with *out_length bytes. Returns -1 with length 1 if it is not UTF-8. */
int32_t printable_decode(const char *text, size_t *out_length);

/* Prints text with unprintable bytes as \xNN. Returns the number of columns, assuming one per character. */
int printable_print(FILE *out, const char *text);

#endif

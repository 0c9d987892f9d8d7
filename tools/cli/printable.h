/* Makes text from files and command lines safe for a terminal: characters that would control it are shown as numbers. */
#ifndef RVIT_CLI_PRINTABLE_H
#define RVIT_CLI_PRINTABLE_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

/* Number of leading bytes of text that may be printed: up to its end, a byte that is not UTF-8, a control character, or one that changes
   the text direction. */
size_t printable_length(const char *text);
/* The first character of text; *out_length is its number of bytes. -1, of one byte, if it is not UTF-8. */
int32_t printable_decode(const char *text, size_t *out_length);

/* Prints text, with every byte that may not be printed as \xNN. Returns the number of columns, assuming one per character. */
int printable_print(FILE *out, const char *text);

#endif

/* Text from files and command lines, fit for a terminal: what would act on it is shown by number instead. */
#ifndef RVIT_CLI_PRINTABLE_H
#define RVIT_CLI_PRINTABLE_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

/* Bytes at the beginning of text that may be printed: up to its end, a byte that is not UTF-8, a control character, or one that changes
   the direction of writing. */
size_t printable_length(const char *text);
/* The character that text begins with, and in *out_length its bytes; -1, of one byte, if that is not UTF-8. */
int32_t printable_decode(const char *text, size_t *out_length);

/* Each such byte as \xNN. Returns the columns that it takes, if every character takes one. */
int printable_print(FILE *out, const char *text);

#endif

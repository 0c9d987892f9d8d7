/* Reading the small text files of /proc and /sys. root: a folder before them, "" but in tests. */
#ifndef RVIT_CORE_PROC_FILE_H
#define RVIT_CORE_PROC_FILE_H

#include <stdint.h>
#include <stdio.h>

/* Opens a file of /proc or /sys; NULL if it cannot be read. */
FILE *rvit_proc_open(const char *root, const char *folder, const char *name);
/* The next line without its newline, 0 at the end. Lines that do not fit are passed over. */
int rvit_proc_line(FILE *file, char *line, int size);
/* The number after `key` in a file of lines "KEY NUMBER ...", or, of key "", at the file's begin; 0 if it is not there. Numbers out of
   range are the largest. */
int rvit_proc_number(const char *root, const char *folder, const char *name, const char *key, int64_t *out_number);

#endif

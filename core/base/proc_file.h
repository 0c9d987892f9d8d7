/* Reads the small text files of /proc and /sys. root: the folder that contains them; "" except in tests. */
#ifndef RVIT_CORE_BASE_PROC_FILE_H
#define RVIT_CORE_BASE_PROC_FILE_H

#include <stdint.h>
#include <stdio.h>

/* Opens a file of /proc or /sys; NULL if it cannot be read. */
FILE *rvit_proc_open(const char *root, const char *folder, const char *name);
/* Reads the next line without its newline; 0 at the end. Skips lines that do not fit. */
int rvit_proc_line(FILE *file, char *line, int size);
/* Reads the number after `key` in a file of lines "KEY NUMBER ..."; key "": the number at the start of the file. Returns 0 if it is
   missing. Numbers out of range saturate. */
int rvit_proc_number(const char *root, const char *folder, const char *name, const char *key, int64_t *out_number);

#endif

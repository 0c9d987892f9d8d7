/* Reads whole files. */
#ifndef RVIT_CLI_FILE_H
#define RVIT_CLI_FILE_H

#include <stddef.h>

/* Reads a file of at most 1 GiB and appends a NUL. The message for a larger file is "is not KIND". Prints a message on failure; returns an
   exit code. Free the data with free(). */
int file_read(const char *path, const char *kind, char **out_data, size_t *out_size);

#endif

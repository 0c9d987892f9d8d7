/* Whole files. */
#ifndef RVIT_CLI_FILE_H
#define RVIT_CLI_FILE_H

#include <stddef.h>

/* At most 1 GiB, with a closing zero after it. kind completes "is not ", of what is too large. Complains and returns an exit code; free()
   ends what it gives. */
int file_read(const char *path, const char *kind, char **out_data, size_t *out_size);

#endif

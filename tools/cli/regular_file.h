/* Reads whole regular files. Never waits for a pipe and never reads a device. */
#ifndef RVIT_CLI_REGULAR_FILE_H
#define RVIT_CLI_REGULAR_FILE_H

#include <stddef.h>
#include <stdint.h>

enum regular_file_result { REGULAR_FILE_READ, REGULAR_FILE_BAD, REGULAR_FILE_TOO_LARGE, REGULAR_FILE_NO_MEMORY };

/* Appends a NUL. Free the data with free(). On failure, reason is a sentence without full stop and file name. */
enum regular_file_result regular_file_read(const char *path, int64_t max_size, char **out_data, size_t *out_size, char *reason,
                                           size_t reason_size);

#endif

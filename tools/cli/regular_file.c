#include "regular_file.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/os_program.h"

static bool read_all(intptr_t file, char *out, int64_t size)
{
    int64_t n = 1;
    int number;
    for (int64_t at = 0; at < size && n > 0; at += n)
        n = rvit_os_read(file, at, size - at, out + at, &number);
    return n > 0;
}

static enum regular_file_result fail(int number, char *reason, size_t reason_size)
{
    char text[160];
    snprintf(reason, reason_size, "cannot be read: %s", rvit_error_text(number, text, sizeof text));
    return REGULAR_FILE_BAD;
}

static enum regular_file_result read_open(intptr_t file, int64_t max_size, char **out_data, size_t *out_size, char *reason,
                                          size_t reason_size)
{
    rvit_os_file_info info;
    const int number = rvit_os_get_info(file, &info);
    if (number != 0)
        return fail(number, reason, reason_size);
    if (info.kind != RVIT_OS_REGULAR) {
        snprintf(reason, reason_size, "is %s", info.kind == RVIT_OS_FOLDER ? "a folder, not a file" : "not a regular file");
        return REGULAR_FILE_BAD;
    }
    if (info.size > max_size) {
        snprintf(reason, reason_size, "has %lld bytes, more than the limit of %lld", (long long)info.size, (long long)max_size);
        return REGULAR_FILE_TOO_LARGE;
    }
    const size_t size = (size_t)info.size;
    char *data = malloc(size + 1);
    if (!data) {
        snprintf(reason, reason_size, "out of memory");
        return REGULAR_FILE_NO_MEMORY;
    }
    if (!read_all(file, data, info.size)) {
        free(data);
        snprintf(reason, reason_size, "cannot be read to its end");
        return REGULAR_FILE_BAD;
    }
    data[size] = 0;
    *out_data = data;
    *out_size = size;
    return REGULAR_FILE_READ;
}

enum regular_file_result regular_file_read(const char *path, int64_t max_size, char **out_data, size_t *out_size, char *reason,
                                           size_t reason_size)
{
    /* The type is checked after opening, because the file could be replaced in between. */
    intptr_t file;
    int number;
    if (rvit_os_open(path, &file, &number) != RVIT_OS_OK)
        return fail(number, reason, reason_size);
    const enum regular_file_result result = read_open(file, max_size, out_data, out_size, reason, reason_size);
    rvit_os_close(file);
    return result;
}

#include "regular_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static bool read_all(int descriptor, char *out, size_t size)
{
    while (size > 0) {
        const ssize_t n = read(descriptor, out, size);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return false;
        out += n;
        size -= (size_t)n;
    }
    return true;
}

static enum regular_file_result read_open(int descriptor, int64_t max_size, char **out_data, size_t *out_size, char *reason,
                                          size_t reason_size)
{
    struct stat status;
    if (fstat(descriptor, &status) != 0) {
        snprintf(reason, reason_size, "cannot be read: %s", strerror(errno));
        return REGULAR_FILE_BAD;
    }
    if (!S_ISREG(status.st_mode)) {
        snprintf(reason, reason_size, "is %s", S_ISDIR(status.st_mode) ? "a folder, not a file" : "not a regular file");
        return REGULAR_FILE_BAD;
    }
    if (status.st_size > max_size) {
        snprintf(reason, reason_size, "has %lld bytes, more than the limit of %lld", (long long)status.st_size, (long long)max_size);
        return REGULAR_FILE_TOO_LARGE;
    }
    const size_t size = (size_t)status.st_size;
    char *data = malloc(size + 1);
    if (!data) {
        snprintf(reason, reason_size, "out of memory");
        return REGULAR_FILE_NO_MEMORY;
    }
    if (!read_all(descriptor, data, size)) {
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
    /* The type is checked after opening, because the file could be replaced in between. O_NONBLOCK: opening a pipe must not wait for a
       writer. */
    const int descriptor = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    if (descriptor < 0) {
        snprintf(reason, reason_size, "cannot be read: %s", strerror(errno));
        return REGULAR_FILE_BAD;
    }
    const enum regular_file_result result = read_open(descriptor, max_size, out_data, out_size, reason, reason_size);
    close(descriptor);
    return result;
}
